//! Implements [`KeyStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Connection, PgConnection, Postgres, Row};
use tollgate_storage::{
    Compat, Key, KeyChange, KeyOwner, KeyRotation, KeyState, KeyStore, NewKey, Result, StorageError,
    StorageErrorKind,
};
use tollgate_types::{AccountId, KeyId, Timestamp};

use super::error::while_running;
use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use crate::rows::{KeyColumns, models_column, rights_columns, scopes_column};

pub(super) struct Keys(pub(super) Arc<Pool>);

/// Selects a key with its account.
macro_rules! select_owned {
    ($condition:literal) => {
        concat!(
            "SELECT api_key.*, account.id AS owner_id, account.name AS owner_name, account.state AS owner_state,
                account.rpm AS owner_rpm, account.tpm AS owner_tpm, account.keys AS owner_keys,
                account.gpus AS owner_gpus, account.agents AS owner_agents, account.chats AS owner_chats,
                account.files AS owner_files, account.files_gib AS owner_files_gib,
                account.batch_tokens AS owner_batch_tokens,
                account.test_clock AS owner_test_clock, account.created_at AS owner_created_at
            FROM api_key JOIN account ON account.id = api_key.account_id
            WHERE ",
            $condition
        )
    };
}

const FIND: &str = select_owned!("api_key.digest_prefix = $1");
const GET: &str = select_owned!("api_key.id = $1");
/// Columns of the account in [`FIND`] and [`GET`].
const OWNER: [&str; 14] = [
    "owner_id",
    "owner_name",
    "owner_state",
    "owner_rpm",
    "owner_tpm",
    "owner_keys",
    "owner_gpus",
    "owner_agents",
    "owner_chats",
    "owner_files",
    "owner_files_gib",
    "owner_batch_tokens",
    "owner_test_clock",
    "owner_created_at",
];

impl Keys {
    /// Returns the key that a statement selects, with its account.
    async fn owned(&self, statement: Statement) -> Result<Option<KeyOwner>> {
        let Some(row) = self.0.optional(statement).await? else {
            return Ok(None);
        };
        Ok(Some(KeyOwner {
            key: rows::whole::<KeyColumns, _>(&row)?,
            account: rows::account(&row, OWNER)?,
        }))
    }
}

enum Creation {
    Done,
    NoAccount,
    QuotaUsed,
}

#[async_trait]
impl KeyStore for Keys {
    async fn create(&self, new: NewKey) -> Result<()> {
        let account = new.key.account;
        match self
            .0
            .call(move |connection| Box::pin(create(connection, new)))
            .await?
        {
            Creation::Done => Ok(()),
            Creation::NoAccount => Err(StorageError::not_found(account)),
            Creation::QuotaUsed => {
                let message = format!("{account} has reached its maximum number of keys");
                Err(StorageError::new(StorageErrorKind::Conflict, message))
            }
        }
    }

    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<KeyOwner>> {
        self.owned(sqlx::query(FIND).bind(digest_prefix)).await
    }

    async fn get(&self, id: KeyId) -> Result<Option<KeyOwner>> {
        let statement = sqlx::query(GET).bind(id.as_u128().to_be_bytes());
        self.owned(statement).await
    }

    async fn list(&self, account: AccountId) -> Result<Vec<Key>> {
        let statement = sqlx::query("SELECT * FROM api_key WHERE account_id = $1 ORDER BY id")
            .bind(account.as_u128().to_be_bytes());
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<KeyColumns, _>).collect()
    }

    async fn change(&self, id: KeyId, change: KeyChange) -> Result<Key> {
        let statement = sqlx::query(
            "UPDATE api_key SET compat = COALESCE($2, compat), sync = COALESCE($3, sync), name = COALESCE($4, name),
                models = CASE WHEN $5 THEN $6 ELSE models END, scopes = CASE WHEN $7 THEN $8 ELSE scopes END
            WHERE id = $1 RETURNING *",
        );
        let statement = statement
            .bind(id.as_u128().to_be_bytes())
            .bind(change.compat.map(Compat::as_str))
            .bind(change.sync.map(i64::from))
            .bind(change.name)
            .bind(change.models.is_some())
            .bind(change.models.flatten().as_ref().map(models_column))
            .bind(change.scopes.is_some())
            .bind(change.scopes.flatten().map(scopes_column));
        let row = self.0.optional(statement).await?;
        rows::whole::<KeyColumns, _>(&row.ok_or_else(|| StorageError::not_found(id))?)
    }

    async fn rotate(&self, rotation: KeyRotation) -> Result<Key> {
        transact(&self.0, move |connection| Box::pin(rotate(connection, rotation))).await
    }

    async fn revoke(&self, id: KeyId, at: Timestamp) -> Result<Key> {
        let statement = sqlx::query(
            "UPDATE api_key SET state = $2, revoked_at = COALESCE(revoked_at, $3) WHERE id = $1 RETURNING *",
        );
        let statement = statement
            .bind(id.as_u128().to_be_bytes())
            .bind(KeyState::Revoked.as_str())
            .bind(at.as_micros());
        let row = self.0.optional(statement).await?;
        rows::whole::<KeyColumns, _>(&row.ok_or_else(|| StorageError::not_found(id))?)
    }
}

/// Creates a key if the account is below its quota. The account's lock, which covers the count and
/// the insertion, prevents concurrent creations from exceeding the quota.
async fn create(connection: &mut PgConnection, new: NewKey) -> sqlx::Result<Creation> {
    let account = new.key.account.as_u128().to_be_bytes();
    let mut transaction = connection.begin().await?;
    let lock = sqlx::query("SELECT keys FROM account WHERE id = $1 FOR NO KEY UPDATE").bind(account);
    let Some(owner) = lock.fetch_optional(&mut *transaction).await? else {
        return Ok(Creation::NoAccount);
    };
    let own: Option<i64> = owner.try_get(0)?;
    let count = sqlx::query(
        "SELECT count(*) FROM api_key WHERE account_id = $1 AND state <> $2 AND replaced_by IS NULL",
    )
    .bind(account)
    .bind(KeyState::Revoked.as_str());
    let used: i64 = count.fetch_one(&mut *transaction).await?.try_get(0)?;
    if used >= own.unwrap_or(i64::from(new.quota)) {
        return Ok(Creation::QuotaUsed);
    }
    insert(&new.key).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(Creation::Done)
}

fn insert(key: &Key) -> Query<'static, Postgres, PgArguments> {
    let (models, scopes) = rights_columns(&key.rights);
    let insert = sqlx::query(
        "INSERT INTO api_key (id, account_id, name, digest, digest_prefix, last4, mode, compat, sync, state,
            created_at, expires_at, revoked_at, created_by, replaced_by, models, scopes)
        VALUES ($1, $2, $3, $4, substr($4, 1, 16), $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
    );
    insert
        .bind(key.id.as_u128().to_be_bytes())
        .bind(key.account.as_u128().to_be_bytes())
        .bind(key.name.clone())
        .bind(key.digest)
        .bind(key.last4.clone())
        .bind(key.mode.as_str())
        .bind(key.compat.as_str())
        .bind(i64::from(key.sync))
        .bind(key.state.as_str())
        .bind(key.created_at.as_micros())
        .bind(key.expires_at.map(Timestamp::as_micros))
        .bind(key.revoked_at.map(Timestamp::as_micros))
        .bind(key.created_by.map(|id| id.as_u128().to_be_bytes()))
        .bind(key.replaced_by.map(|id| id.as_u128().to_be_bytes()))
        .bind(models)
        .bind(scopes)
}

/// Replaces a key. The account's lock prevents concurrent rotations and creations, the key's lock
/// concurrent revocations.
async fn rotate(connection: &mut PgConnection, rotation: KeyRotation) -> Result<Key> {
    let KeyRotation {
        old,
        new,
        overlap_end,
    } = rotation;
    let account = new.account.as_u128().to_be_bytes();
    let lock = sqlx::query("SELECT id FROM account WHERE id = $1 FOR NO KEY UPDATE").bind(account);
    execute(connection, lock).await?;
    let found = sqlx::query("SELECT * FROM api_key WHERE account_id = $1 AND id = $2 FOR NO KEY UPDATE")
        .bind(account)
        .bind(old.as_u128().to_be_bytes())
        .fetch_optional(&mut *connection)
        .await
        .map_err(while_running)?;
    let found: Key = rows::whole::<KeyColumns, _>(&found.ok_or_else(|| StorageError::not_found(old))?)?;
    if !found.can_be_replaced(new.created_at) {
        let message = format!("{old} is revoked, expired or replaced");
        return Err(StorageError::new(StorageErrorKind::Conflict, message));
    }
    let revoke = sqlx::query(
        "UPDATE api_key SET state = 'revoked', revoked_at = $3
        WHERE account_id = $1 AND replaced_by = $2 AND state = 'active'",
    );
    let revoke = revoke
        .bind(account)
        .bind(old.as_u128().to_be_bytes())
        .bind(new.created_at.as_micros());
    execute(connection, revoke).await?;
    let replace = sqlx::query(
        "UPDATE api_key SET replaced_by = $2, expires_at = LEAST(expires_at, $3) WHERE id = $1 RETURNING *",
    );
    let replaced = replace
        .bind(old.as_u128().to_be_bytes())
        .bind(new.id.as_u128().to_be_bytes())
        .bind(overlap_end.as_micros())
        .fetch_one(&mut *connection)
        .await
        .map_err(while_running)?;
    execute(connection, insert(&new)).await?;
    rows::whole::<KeyColumns, _>(&replaced)
}
