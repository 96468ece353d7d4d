//! Implements [`AdminStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{Admin, AdminStore, Result, StorageError};
use tollgate_types::{AdminId, Timestamp};

use super::Sqlite;
use crate::rows::admin::AdminColumns;
use crate::rows::{id_bytes, storage_error};

const CREATE: &str = "INSERT INTO admin (id, name, role, digest, digest_prefix, last4, created_at, revoked_at) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const FIND: &str = "SELECT * FROM admin WHERE digest_prefix = $1";
const LIST: &str = "SELECT * FROM admin ORDER BY id";
const REVOKE: &str = "UPDATE admin SET revoked_at = coalesce(revoked_at, $2) WHERE id = $1 RETURNING *";

#[async_trait]
impl AdminStore for Sqlite {
    async fn create(&self, admin: Admin) -> Result<()> {
        self.write(move |connection| Box::pin(create(connection, admin)), |()| ())
            .await
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Admin>> {
        self.read(move |connection| Box::pin(find(connection, digest_prefix)))
            .await
    }

    async fn list(&self) -> Result<Vec<Admin>> {
        self.read(|connection| Box::pin(list(connection))).await
    }

    async fn revoke(&self, id: AdminId, at: Timestamp) -> Result<Admin> {
        self.write(
            move |connection| Box::pin(revoke(connection, id, at)),
            |admin| admin,
        )
        .await
    }
}

async fn create(connection: &mut SqliteConnection, admin: Admin) -> Result<()> {
    let insert = sqlx::query(CREATE)
        .bind(id_bytes(admin.id.as_u128()))
        .bind(admin.name)
        .bind(admin.role.as_str())
        .bind(admin.digest.to_vec())
        .bind(admin.digest[..16].to_vec())
        .bind(admin.last4)
        .bind(admin.created_at.as_micros())
        .bind(admin.revoked_at.map(Timestamp::as_micros));
    insert.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

async fn find(connection: &mut SqliteConnection, digest_prefix: [u8; 16]) -> Result<Option<Admin>> {
    let columns: Option<AdminColumns> = sqlx::query_as(FIND)
        .bind(digest_prefix.to_vec())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Admin::try_from).transpose()
}

async fn list(connection: &mut SqliteConnection) -> Result<Vec<Admin>> {
    let rows: Vec<AdminColumns> = sqlx::query_as(LIST)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Admin::try_from).collect()
}

async fn revoke(connection: &mut SqliteConnection, id: AdminId, at: Timestamp) -> Result<Admin> {
    let columns: Option<AdminColumns> = sqlx::query_as(REVOKE)
        .bind(id_bytes(id.as_u128()))
        .bind(at.as_micros())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.ok_or_else(|| StorageError::not_found(id))?.try_into()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CREATE, FIND, LIST, REVOKE];
