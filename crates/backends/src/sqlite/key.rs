//! Implements [`KeyStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{Compat, Key, KeyChange, KeyOwner, KeyState, KeyStore, NewKey, Result, StorageError};
use tollgate_types::{AccountId, KeyId, Timestamp};

use super::Sqlite;
use super::account::{self, conflict};
use crate::rows::{KeyColumns, corrupt, id_bytes, storage_error};

const COUNT: &str = "SELECT COUNT(*) FROM api_key WHERE account_id = $1 AND state = 'active'";
const CREATE: &str = "INSERT INTO api_key (id, account_id, name, digest, digest_prefix, last4, mode, compat, sync, \
    state, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const FIND: &str = "SELECT id, account_id, name, digest, last4, mode, compat, sync, state, created_at, expires_at, revoked_at \
    FROM api_key WHERE digest_prefix = $1";
const LIST: &str = "SELECT id, account_id, name, digest, last4, mode, compat, sync, state, created_at, expires_at, revoked_at \
    FROM api_key WHERE account_id = $1 ORDER BY id";
const REVOKE: &str = "UPDATE api_key SET state = 'revoked', revoked_at = coalesce(revoked_at, $2) WHERE id = $1 \
    RETURNING id, account_id, name, digest, last4, mode, compat, sync, state, created_at, expires_at, revoked_at";
const CHANGE: &str = "UPDATE api_key SET compat = coalesce($2, compat), sync = coalesce($3, sync) WHERE id = $1 \
    RETURNING id, account_id, name, digest, last4, mode, compat, sync, state, created_at, expires_at, revoked_at";

#[async_trait]
impl KeyStore for Sqlite {
    async fn create(&self, new: NewKey) -> Result<()> {
        self.write(move |connection| Box::pin(create(connection, new)), |()| ())
            .await
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>> {
        self.read(move |connection| Box::pin(find(connection, digest_prefix)))
            .await
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Key>> {
        self.read(move |connection| Box::pin(list(connection, account)))
            .await
    }

    async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key> {
        self.write(
            move |connection| Box::pin(self::change(connection, id, change)),
            |key| key,
        )
        .await
    }

    async fn revoke(&self, id: KeyId, at: Timestamp) -> Result<Key> {
        self.write(move |connection| Box::pin(revoke(connection, id, at)), |key| key)
            .await
    }
}

async fn create(connection: &mut SqliteConnection, NewKey { key, quota }: NewKey) -> Result<()> {
    let owner = account::get(connection, key.account).await?;
    let owner = owner.ok_or_else(|| StorageError::not_found(key.account))?;
    let quota = owner.limits.keys.unwrap_or(quota);
    let account = id_bytes(key.account.as_u128());
    let active: i64 = sqlx::query_scalar(COUNT)
        .bind(account.clone())
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if key.state == KeyState::Active && active >= i64::from(quota) {
        return Err(conflict("the account has reached its maximum number of keys"));
    }
    let insert = sqlx::query(CREATE)
        .bind(id_bytes(key.id.as_u128()))
        .bind(account)
        .bind(key.name)
        .bind(key.digest.to_vec())
        .bind(key.digest[..16].to_vec())
        .bind(key.last4)
        .bind(key.mode.as_str())
        .bind(key.compat.as_str())
        .bind(i64::from(key.sync))
        .bind(key.state.as_str())
        .bind(key.created_at.as_micros())
        .bind(key.expires_at.map(Timestamp::as_micros))
        .bind(key.revoked_at.map(Timestamp::as_micros));
    insert.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

async fn find(connection: &mut SqliteConnection, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>> {
    let columns: Option<KeyColumns> = sqlx::query_as(FIND)
        .bind(digest_prefix.to_vec())
        .fetch_optional(&mut *connection)
        .await
        .map_err(storage_error)?;
    let Some(key) = columns.map(Key::try_from).transpose()? else {
        return Ok(None);
    };
    let account = account::get(connection, key.account).await?;
    let account = account.ok_or_else(|| corrupt(format!("{} has no account", key.id)))?;
    Ok(Some(KeyOwner { key, account }))
}

async fn list(connection: &mut SqliteConnection, account: AccountId) -> Result<Vec<Key>> {
    let rows: Vec<KeyColumns> = sqlx::query_as(LIST)
        .bind(id_bytes(account.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(Key::try_from).collect()
}

async fn change(connection: &mut SqliteConnection, id: KeyId, change: KeyChange) -> Result<Key> {
    let columns: Option<KeyColumns> = sqlx::query_as(CHANGE)
        .bind(id_bytes(id.as_u128()))
        .bind(change.compat.map(Compat::as_str))
        .bind(change.sync.map(i64::from))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.ok_or_else(|| StorageError::not_found(id))?.try_into()
}

async fn revoke(connection: &mut SqliteConnection, id: KeyId, at: Timestamp) -> Result<Key> {
    let columns: Option<KeyColumns> = sqlx::query_as(REVOKE)
        .bind(id_bytes(id.as_u128()))
        .bind(at.as_micros())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.ok_or_else(|| StorageError::not_found(id))?.try_into()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[COUNT, CREATE, FIND, LIST, REVOKE, CHANGE];
