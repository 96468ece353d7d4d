//! Implements [`IdempotencyStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::Result;
use tollgate_storage::idempotency::{Claim, ClaimOutcome, IdempotencyKeyHash, IdempotencyStore};
use tollgate_types::{AccountId, RequestId, Timestamp};

use super::Sqlite;
use crate::rows::{ClaimColumns, id_bytes, storage_error};

const CLAIM: &str = "INSERT INTO idempotency (account_id, key, fingerprint, request_id, abandoned_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, $6) \
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, request_id = excluded.request_id, \
    abandoned_at = excluded.abandoned_at, expires_at = excluded.expires_at, content = NULL \
    WHERE expires_at <= $7 OR (content IS NULL AND abandoned_at <= $7)";
const CLAIMED: &str =
    "SELECT fingerprint, request_id, content FROM idempotency WHERE account_id = $1 AND key = $2";
const ANSWER: &str = "UPDATE idempotency SET content = $4 \
    WHERE account_id = $1 AND key = $2 AND request_id = $3 AND content IS NULL";
const RELEASE: &str = "DELETE FROM idempotency \
    WHERE account_id = $1 AND key = $2 AND request_id = $3 AND content IS NULL";
const SWEEP: &str = "DELETE FROM idempotency WHERE rowid IN \
    (SELECT rowid FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";
const ABANDON: &str = "DELETE FROM idempotency WHERE content IS NULL";

#[async_trait]
impl IdempotencyStore for Sqlite {
    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome> {
        self.write(
            move |connection| Box::pin(take(connection, claim)),
            |claimed| claimed,
        )
        .await
    }

    async fn answer(
        &self,
        account: AccountId,
        key: IdempotencyKeyHash,
        request: RequestId,
        content: Vec<u8>,
    ) -> Result<bool> {
        self.write(
            move |connection| Box::pin(answer(connection, account, key, request, content)),
            |is_stored| is_stored,
        )
        .await
    }

    async fn release(&self, account: AccountId, key: IdempotencyKeyHash, request: RequestId) -> Result<()> {
        self.write(
            move |connection| Box::pin(release(connection, account, key, request)),
            |()| (),
        )
        .await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        self.write(
            move |connection| Box::pin(sweep(connection, now, limit)),
            |swept| swept,
        )
        .await
    }
}

/// Deletes all keys without a stored response, because the process that handled their requests has
/// ended.
pub(super) async fn abandon(connection: &mut SqliteConnection) -> Result<()> {
    let done = sqlx::query(ABANDON).execute(connection).await;
    done.map(|_| ()).map_err(storage_error)
}

async fn take(connection: &mut SqliteConnection, claim: Claim) -> Result<ClaimOutcome> {
    let taken = sqlx::query(CLAIM)
        .bind(id_bytes(claim.account.as_u128()))
        .bind(claim.key.to_vec())
        .bind(claim.fingerprint.to_vec())
        .bind(id_bytes(claim.request.as_u128()))
        .bind(claim.abandoned_at.as_micros())
        .bind(claim.expires_at.as_micros())
        .bind(claim.now.as_micros())
        .execute(&mut *connection)
        .await
        .map_err(storage_error)?;
    if taken.rows_affected() > 0 {
        return Ok(ClaimOutcome::First);
    }
    let columns: ClaimColumns = sqlx::query_as(CLAIMED)
        .bind(id_bytes(claim.account.as_u128()))
        .bind(claim.key.to_vec())
        .fetch_one(connection)
        .await
        .map_err(storage_error)?;
    columns.claimed(&claim)
}

async fn answer(
    connection: &mut SqliteConnection,
    account: AccountId,
    key: IdempotencyKeyHash,
    request: RequestId,
    content: Vec<u8>,
) -> Result<bool> {
    let done = sqlx::query(ANSWER)
        .bind(id_bytes(account.as_u128()))
        .bind(key.to_vec())
        .bind(id_bytes(request.as_u128()))
        .bind(content)
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected() > 0)
}

async fn release(
    connection: &mut SqliteConnection,
    account: AccountId,
    key: IdempotencyKeyHash,
    request: RequestId,
) -> Result<()> {
    let done = sqlx::query(RELEASE)
        .bind(id_bytes(account.as_u128()))
        .bind(key.to_vec())
        .bind(id_bytes(request.as_u128()))
        .execute(connection)
        .await;
    done.map(|_| ()).map_err(storage_error)
}

async fn sweep(connection: &mut SqliteConnection, now: Timestamp, limit: u32) -> Result<u64> {
    let done = sqlx::query(SWEEP)
        .bind(now.as_micros())
        .bind(limit)
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected())
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[CLAIM, CLAIMED, ANSWER, RELEASE, SWEEP, ABANDON];
