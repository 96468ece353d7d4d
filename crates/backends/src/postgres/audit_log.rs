//! Implements [`AuditLog`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{AuditEntry, AuditFilter, AuditLog, Result};
use tollgate_types::{AuditId, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::rows::admin::AuditColumns;

pub(super) struct AuditRows(pub(super) Arc<Pool>);

#[async_trait]
impl AuditLog for AuditRows {
    async fn append(&self, entry: AuditEntry) -> Result<()> {
        let statement = sqlx::query(
            "INSERT INTO audit_log (id, at, actor, actor_id, role, action, account_id, object, before, after,
                request_id, outcome, member_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        );
        let statement = statement
            .bind(entry.id.as_u128().to_be_bytes())
            .bind(entry.at.as_micros())
            .bind(entry.actor)
            .bind(entry.actor_id.map(|id| id.as_u128().to_be_bytes()))
            .bind(entry.role)
            .bind(entry.action)
            .bind(entry.account.map(|id| id.as_u128().to_be_bytes()))
            .bind(entry.object)
            .bind(entry.before)
            .bind(entry.after)
            .bind(entry.request.map(|id| id.as_u128().to_be_bytes()))
            .bind(entry.outcome)
            .bind(entry.member.map(|id| id.as_u128().to_be_bytes()));
        self.0.execute(statement).await.map(drop)
    }

    async fn list(
        &self,
        filter: AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        let statement = sqlx::query(
            "SELECT * FROM audit_log
            WHERE ($1::bytea IS NULL OR account_id = $1) AND ($2::text IS NULL OR actor = $2)
                AND ($3::text IS NULL OR action = $3) AND ($4::bigint IS NULL OR at >= $4)
                AND ($5::bytea IS NULL OR id < $5)
            ORDER BY id DESC LIMIT $6",
        );
        let statement = statement
            .bind(filter.account.map(|id| id.as_u128().to_be_bytes()))
            .bind(filter.actor)
            .bind(filter.action)
            .bind(filter.since.map(Timestamp::as_micros))
            .bind(before.map(|id| id.as_u128().to_be_bytes()))
            .bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<AuditColumns, _>).collect()
    }
}
