//! Implements [`MediaStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::media::MAX_RETENTION;
use tollgate_storage::{Media, MediaStore, Result, StorageError};
use tollgate_types::{AccountId, MediaId, Timestamp};

use super::Sqlite;
use crate::rows::{MediaColumns, duration_column, id_bytes, quantity_column, storage_error, taken};

const IS_TAKEN: &str = "SELECT count(*) FROM media WHERE id = $1";
const INSERT: &str = "INSERT INTO media (account_id, id, object, sha256, bytes, mime_type, width, height, duration, \
        created_at, expires_at, source_id, deleted_at) \
    SELECT id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 FROM account WHERE id = $1";
const GET: &str = "SELECT * FROM media WHERE id = $1 LIMIT 1";
const OF_ACCOUNT: &str = "SELECT * FROM media WHERE account_id = $1 AND id = $2";
const EXTEND: &str = "UPDATE media SET expires_at = max(expires_at, min($4, created_at + $5)) \
    WHERE account_id = $1 AND id = $2 AND expires_at > $3 AND deleted_at IS NULL RETURNING expires_at";
const EXPIRED: &str = "SELECT * FROM media WHERE expires_at <= $1 AND deleted_at IS NULL \
    ORDER BY expires_at LIMIT $2";
const FORGET: &str =
    "UPDATE media SET deleted_at = $3 WHERE account_id = $1 AND id = $2 AND deleted_at IS NULL";

#[async_trait]
impl MediaStore for Sqlite {
    async fn insert(&self, media: Media) -> Result<()> {
        self.write(move |connection| Box::pin(insert(connection, media)), |()| ())
            .await
    }

    async fn get(&self, id: MediaId) -> Result<Option<Media>> {
        self.read(move |connection| Box::pin(get(connection, id))).await
    }

    async fn of_account(&self, account: AccountId, id: MediaId) -> Result<Option<Media>> {
        self.read(move |connection| Box::pin(of_account(connection, account, id)))
            .await
    }

    async fn extend(
        &self,
        account: AccountId,
        id: MediaId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Timestamp>> {
        self.write(
            move |connection| Box::pin(extend(connection, account, id, now, until)),
            |extended_until| extended_until,
        )
        .await
    }

    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Media>> {
        self.read(move |connection| Box::pin(expired(connection, now, limit)))
            .await
    }

    async fn forget(&self, account: AccountId, id: MediaId, now: Timestamp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(forget(connection, account, id, now)),
            |forgotten| forgotten,
        )
        .await
    }
}

async fn insert(connection: &mut SqliteConnection, media: Media) -> Result<()> {
    let id = id_bytes(media.id.as_u128());
    let same: i64 = sqlx::query_scalar(IS_TAKEN)
        .bind(&id)
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if same > 0 {
        return Err(taken(media.id));
    }
    let insert = sqlx::query(INSERT)
        .bind(id_bytes(media.account.as_u128()))
        .bind(id)
        .bind(id_bytes(media.object))
        .bind(media.sha256.to_vec())
        .bind(quantity_column(media.bytes))
        .bind(media.mime_type)
        .bind(media.width)
        .bind(media.height)
        .bind(duration_column(media.duration))
        .bind(media.created_at.as_micros())
        .bind(media.expires_at.as_micros())
        .bind(media.source.map(id_bytes))
        .bind(media.deleted_at.map(Timestamp::as_micros));
    let done = insert.execute(connection).await.map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(StorageError::not_found(media.account)),
        _ => Ok(()),
    }
}

async fn get(connection: &mut SqliteConnection, id: MediaId) -> Result<Option<Media>> {
    let columns: Option<MediaColumns> = sqlx::query_as(GET)
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Media::try_from).transpose()
}

async fn of_account(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: MediaId,
) -> Result<Option<Media>> {
    let columns: Option<MediaColumns> = sqlx::query_as(OF_ACCOUNT)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(id.as_u128()))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(Media::try_from).transpose()
}

async fn extend(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: MediaId,
    now: Timestamp,
    until: Timestamp,
) -> Result<Option<Timestamp>> {
    let extended_until: Option<i64> = sqlx::query_scalar(EXTEND)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(id.as_u128()))
        .bind(now.as_micros())
        .bind(until.as_micros())
        .bind(duration_column(Some(MAX_RETENTION)))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    Ok(extended_until.map(Timestamp::from_micros))
}

async fn expired(connection: &mut SqliteConnection, now: Timestamp, limit: u32) -> Result<Vec<Media>> {
    let rows: Vec<MediaColumns> = sqlx::query_as(EXPIRED)
        .bind(now.as_micros())
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Media::try_from).collect()
}

async fn forget(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: MediaId,
    now: Timestamp,
) -> Result<bool> {
    let done = sqlx::query(FORGET)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(id.as_u128()))
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected() > 0)
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[IS_TAKEN, INSERT, GET, OF_ACCOUNT, EXTEND, EXPIRED, FORGET];
