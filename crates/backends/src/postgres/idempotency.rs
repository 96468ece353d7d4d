//! Implements [`IdempotencyStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::Result;
use tollgate_storage::idempotency::{Claim, ClaimOutcome, IdempotencyKeyHash, IdempotencyStore};
use tollgate_types::{AccountId, RequestId, Timestamp};

use super::error::corrupt;
use super::pool::Pool;
use crate::rows::ClaimColumns;

pub(super) struct Idempotency(pub(super) Arc<Pool>);

#[async_trait]
impl IdempotencyStore for Idempotency {
    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome> {
        loop {
            if self.take(&claim).await? {
                return Ok(ClaimOutcome::First);
            }
            let statement = sqlx::query(
                "SELECT fingerprint, request_id, content FROM idempotency WHERE account_id = $1 AND key = $2",
            );
            let statement = statement
                .bind(claim.account.as_u128().to_be_bytes())
                .bind(claim.key);
            // The owner may have released the key meanwhile; then the next attempt takes it.
            if let Some(row) = self.0.optional(statement).await? {
                let columns: ClaimColumns = sqlx::FromRow::from_row(&row).map_err(corrupt)?;
                return columns.claimed(&claim);
            }
        }
    }

    async fn answer(
        &self,
        account: AccountId,
        key: IdempotencyKeyHash,
        request: RequestId,
        content: Vec<u8>,
    ) -> Result<bool> {
        let statement = sqlx::query(
            "UPDATE idempotency SET content = $4
            WHERE account_id = $1 AND key = $2 AND request_id = $3 AND content IS NULL",
        );
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(key)
            .bind(request.as_u128().to_be_bytes())
            .bind(content);
        Ok(self.0.execute(statement).await? > 0)
    }

    async fn release(&self, account: AccountId, key: IdempotencyKeyHash, request: RequestId) -> Result<()> {
        let statement = sqlx::query(
            "DELETE FROM idempotency WHERE account_id = $1 AND key = $2 AND request_id = $3 AND content IS NULL",
        );
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(key)
            .bind(request.as_u128().to_be_bytes());
        self.0.execute(statement).await.map(|_| ())
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        // Several nodes sweep concurrently; none waits for rows that another one deletes.
        let statement = sqlx::query(
            "DELETE FROM idempotency WHERE (account_id, key) IN (
                SELECT account_id, key FROM idempotency WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2
                FOR UPDATE SKIP LOCKED
            )",
        );
        let statement = statement.bind(now.as_micros()).bind(i64::from(limit));
        self.0.execute(statement).await
    }
}

impl Idempotency {
    async fn take(&self, claim: &Claim) -> Result<bool> {
        let statement = sqlx::query(
            "INSERT INTO idempotency AS taken (account_id, key, fingerprint, request_id, abandoned_at, expires_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = excluded.fingerprint,
                request_id = excluded.request_id, abandoned_at = excluded.abandoned_at,
                expires_at = excluded.expires_at, content = NULL
            WHERE taken.expires_at <= $7 OR (taken.content IS NULL AND taken.abandoned_at <= $7)",
        );
        let statement = statement
            .bind(claim.account.as_u128().to_be_bytes())
            .bind(claim.key)
            .bind(claim.fingerprint)
            .bind(claim.request.as_u128().to_be_bytes())
            .bind(claim.abandoned_at.as_micros())
            .bind(claim.expires_at.as_micros())
            .bind(claim.now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }
}
