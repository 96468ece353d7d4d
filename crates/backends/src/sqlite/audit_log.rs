//! Implements [`AuditLog`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{AuditEntry, AuditFilter, AuditLog, Result};
use tollgate_types::{AuditId, Timestamp};

use super::Sqlite;
use crate::rows::admin::AuditColumns;
use crate::rows::{id_bytes, storage_error};

const APPEND: &str = "INSERT INTO audit_log (id, at, actor, actor_id, role, action, account_id, object, before, after, \
    request_id, outcome, member_id) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const LIST: &str = "SELECT * FROM audit_log WHERE ($1 IS NULL OR account_id = $1) AND ($2 IS NULL OR actor = $2) \
    AND ($3 IS NULL OR action = $3) AND ($4 IS NULL OR at >= $4) AND ($5 IS NULL OR id < $5) ORDER BY id DESC LIMIT $6";

#[async_trait]
impl AuditLog for Sqlite {
    async fn append(&self, entry: AuditEntry) -> Result<()> {
        self.write(move |connection| Box::pin(append(connection, entry)), |()| ())
            .await
    }

    async fn list(
        &self,
        filter: AuditFilter,
        before: Option<AuditId>,
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        self.read(move |connection| Box::pin(list(connection, filter, before, limit)))
            .await
    }
}

async fn append(connection: &mut SqliteConnection, entry: AuditEntry) -> Result<()> {
    let insert = sqlx::query(APPEND)
        .bind(id_bytes(entry.id.as_u128()))
        .bind(entry.at.as_micros())
        .bind(entry.actor)
        .bind(entry.actor_id.map(|id| id_bytes(id.as_u128())))
        .bind(entry.role)
        .bind(entry.action)
        .bind(entry.account.map(|id| id_bytes(id.as_u128())))
        .bind(entry.object)
        .bind(entry.before)
        .bind(entry.after)
        .bind(entry.request.map(|id| id_bytes(id.as_u128())))
        .bind(entry.outcome)
        .bind(entry.member.map(|id| id_bytes(id.as_u128())));
    insert.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

async fn list(
    connection: &mut SqliteConnection,
    filter: AuditFilter,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Vec<AuditEntry>> {
    let rows: Vec<AuditColumns> = sqlx::query_as(LIST)
        .bind(filter.account.map(|id| id_bytes(id.as_u128())))
        .bind(filter.actor)
        .bind(filter.action)
        .bind(filter.since.map(Timestamp::as_micros))
        .bind(before.map(|id| id_bytes(id.as_u128())))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(AuditEntry::try_from).collect()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[APPEND, LIST];
