//! Implements [`KeyStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{
    Compat, Key, KeyChange, KeyOwner, KeyRotation, KeyState, KeyStore, NewKey, Result, StorageError,
};
use tollgate_types::{AccountId, KeyId, Timestamp};

use super::Sqlite;
use super::account::{self, conflict};
use crate::rows::{
    KeyColumns, corrupt, id_bytes, models_column, rights_columns, scopes_column, storage_error,
};

const COUNT: &str =
    "SELECT COUNT(*) FROM api_key WHERE account_id = $1 AND state = 'active' AND replaced_by IS NULL";
const CREATE: &str = "INSERT INTO api_key (id, account_id, name, digest, digest_prefix, last4, mode, compat, sync, \
    state, created_at, expires_at, revoked_at, created_by, replaced_by, models, scopes) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
const FIND: &str = "SELECT * FROM api_key WHERE digest_prefix = $1";
const GET: &str = "SELECT * FROM api_key WHERE id = $1";
const LIST: &str = "SELECT * FROM api_key WHERE account_id = $1 ORDER BY id";
const REVOKE: &str = "UPDATE api_key SET state = 'revoked', revoked_at = coalesce(revoked_at, $2) WHERE id = $1 \
    RETURNING *";
const CHANGE: &str = "UPDATE api_key SET compat = coalesce($2, compat), sync = coalesce($3, sync), \
    name = coalesce($4, name), models = CASE $5 WHEN 1 THEN $6 ELSE models END, \
    scopes = CASE $7 WHEN 1 THEN $8 ELSE scopes END WHERE id = $1 RETURNING *";
const REPLACE: &str = "UPDATE api_key SET replaced_by = $2, expires_at = min(coalesce(expires_at, $3), $3) \
    WHERE id = $1 RETURNING *";
const REVOKE_REPLACED: &str = "UPDATE api_key SET state = 'revoked', revoked_at = $3 \
    WHERE account_id = $1 AND replaced_by = $2 AND state = 'active'";

#[async_trait]
impl KeyStore for Sqlite {
    async fn create(&self, new: NewKey) -> Result<()> {
        self.write(move |connection| Box::pin(create(connection, new)), |()| ())
            .await
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>> {
        self.read(move |connection| Box::pin(find(connection, FIND, digest_prefix)))
            .await
    }

    async fn get(&self, id: KeyId) -> Result<Option<KeyOwner>> {
        let id = id.as_u128().to_be_bytes();
        self.read(move |connection| Box::pin(find(connection, GET, id)))
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

    async fn rotate(&self, rotation: KeyRotation) -> Result<Key> {
        self.write(
            move |connection| Box::pin(rotate(connection, rotation)),
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
    let active: i64 = sqlx::query_scalar(COUNT)
        .bind(id_bytes(key.account.as_u128()))
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    if key.state == KeyState::Active && active >= i64::from(quota) {
        return Err(conflict("the account has reached its maximum number of keys"));
    }
    insert(connection, key).await
}

async fn insert(connection: &mut SqliteConnection, key: Key) -> Result<()> {
    let (models, scopes) = rights_columns(&key.rights);
    let insert = sqlx::query(CREATE)
        .bind(id_bytes(key.id.as_u128()))
        .bind(id_bytes(key.account.as_u128()))
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
        .bind(key.revoked_at.map(Timestamp::as_micros))
        .bind(key.created_by.map(|id| id_bytes(id.as_u128())))
        .bind(key.replaced_by.map(|id| id_bytes(id.as_u128())))
        .bind(models)
        .bind(scopes);
    insert.execute(connection).await.map_err(storage_error)?;
    Ok(())
}

/// Returns the key that a statement selects by 16 bytes, with its account.
async fn find(
    connection: &mut SqliteConnection,
    statement: &'static str,
    by: [u8; 16],
) -> Result<Option<KeyOwner>> {
    let columns: Option<KeyColumns> = sqlx::query_as(statement)
        .bind(by.to_vec())
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
        .bind(change.name)
        .bind(i64::from(change.models.is_some()))
        .bind(change.models.flatten().as_ref().map(models_column))
        .bind(i64::from(change.scopes.is_some()))
        .bind(change.scopes.flatten().map(scopes_column))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.ok_or_else(|| StorageError::not_found(id))?.try_into()
}

async fn rotate(connection: &mut SqliteConnection, rotation: KeyRotation) -> Result<Key> {
    let KeyRotation {
        old,
        new,
        overlap_end,
    } = rotation;
    let keys = list(connection, new.account).await?;
    let found = keys.iter().find(|key| key.id == old);
    let found = found.ok_or_else(|| StorageError::not_found(old))?;
    if !found.can_be_replaced(new.created_at) {
        return Err(conflict("the key is revoked, expired or replaced"));
    }
    let revoke = sqlx::query(REVOKE_REPLACED)
        .bind(id_bytes(new.account.as_u128()))
        .bind(id_bytes(old.as_u128()))
        .bind(new.created_at.as_micros());
    revoke.execute(&mut *connection).await.map_err(storage_error)?;
    let replaced: KeyColumns = sqlx::query_as(REPLACE)
        .bind(id_bytes(old.as_u128()))
        .bind(id_bytes(new.id.as_u128()))
        .bind(overlap_end.as_micros())
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    insert(connection, new).await?;
    replaced.try_into()
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
pub(super) const STATEMENTS: &[&str] = &[
    COUNT,
    CREATE,
    FIND,
    GET,
    LIST,
    REVOKE,
    CHANGE,
    REPLACE,
    REVOKE_REPLACED,
];
