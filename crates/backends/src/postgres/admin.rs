//! Implements [`AdminStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{Admin, AdminStore, Result, StorageError};
use tollgate_types::{AdminId, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::rows::admin::AdminColumns;

pub(super) struct Admins(pub(super) Arc<Pool>);

#[async_trait]
impl AdminStore for Admins {
    async fn create(&self, admin: Admin) -> Result<()> {
        let statement = sqlx::query(
            "INSERT INTO admin (id, name, role, digest, digest_prefix, last4, created_at, revoked_at)
            VALUES ($1, $2, $3, $4, substr($4, 1, 16), $5, $6, $7)",
        );
        let statement = statement
            .bind(admin.id.as_u128().to_be_bytes())
            .bind(admin.name)
            .bind(admin.role.as_str())
            .bind(admin.digest)
            .bind(admin.last4)
            .bind(admin.created_at.as_micros())
            .bind(admin.revoked_at.map(Timestamp::as_micros));
        self.0.execute(statement).await.map(drop)
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Admin>> {
        let statement = sqlx::query("SELECT * FROM admin WHERE digest_prefix = $1").bind(digest_prefix);
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<AdminColumns, _>(&row)).transpose()
    }

    async fn list(&self) -> Result<Vec<Admin>> {
        let found = self.0.all(sqlx::query("SELECT * FROM admin ORDER BY id")).await?;
        found.iter().map(rows::whole::<AdminColumns, _>).collect()
    }

    async fn revoke(&self, id: AdminId, at: Timestamp) -> Result<Admin> {
        let statement =
            sqlx::query("UPDATE admin SET revoked_at = COALESCE(revoked_at, $2) WHERE id = $1 RETURNING *");
        let statement = statement.bind(id.as_u128().to_be_bytes()).bind(at.as_micros());
        let row = self.0.optional(statement).await?;
        rows::whole::<AdminColumns, _>(&row.ok_or_else(|| StorageError::not_found(id))?)
    }
}
