//! Implements [`ResponseStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{ChainLimits, NewResponse, ResponseStore, Result, StorageError, StoredResponse};
use tollgate_types::{AccountId, ResponseId, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::rows::{ResponseColumns, quantity_column};

pub(super) struct Responses(pub(super) Arc<Pool>);

#[async_trait]
impl ResponseStore for Responses {
    async fn save(&self, NewResponse { response, items }: NewResponse) -> Result<()> {
        let statement = sqlx::query(
            "WITH saved AS (
                INSERT INTO response (id, account_id, previous_id, created_at, expires_at, content)
                SELECT $1, id, $3, $4, $5, $6 FROM account WHERE id = $2
                RETURNING id, account_id
            ), named AS (
                INSERT INTO response_item (account_id, item_id, response_id)
                SELECT account_id, item, id FROM saved, unnest($7::text[]) AS item
                ON CONFLICT (account_id, item_id) DO NOTHING
            )
            SELECT count(*) FROM saved",
        );
        let statement = statement
            .bind(response.id.as_u128().to_be_bytes())
            .bind(response.account.as_u128().to_be_bytes())
            .bind(response.previous.map(|previous| previous.as_u128().to_be_bytes()))
            .bind(response.created_at.as_micros())
            .bind(response.expires_at.as_micros())
            .bind(response.content)
            .bind(items);
        match rows::get::<i64>(&self.0.one(statement).await?, "count")? {
            0 => Err(StorageError::not_found(response.account)),
            _ => Ok(()),
        }
    }

    async fn get(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        let statement =
            sqlx::query("SELECT * FROM response WHERE id = $1 AND account_id = $2 AND expires_at > $3");
        let statement = statement
            .bind(id.as_u128().to_be_bytes())
            .bind(account.as_u128().to_be_bytes())
            .bind(now.as_micros());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<ResponseColumns, _>(&row)).transpose()
    }

    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        let statement = sqlx::query(
            "SELECT response.* FROM response_item JOIN response ON response.id = response_id
            WHERE response_item.account_id = $1 AND item_id = $2 AND expires_at > $3",
        );
        let statement = statement
            .bind(account.as_u128().to_be_bytes())
            .bind(item.to_owned())
            .bind(now.as_micros());
        let row = self.0.optional(statement).await?;
        row.map(|row| rows::whole::<ResponseColumns, _>(&row)).transpose()
    }

    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>> {
        let statement = sqlx::query(
            "WITH RECURSIVE chain (id, previous_id, depth, bytes) AS (
                SELECT id, previous_id, 1::bigint, length(content)::bigint FROM response
                WHERE id = $1 AND account_id = $2 AND expires_at > $3 AND $4 > 0
                UNION ALL
                SELECT response.id, response.previous_id, chain.depth + 1, chain.bytes + length(response.content)
                FROM chain JOIN response ON response.id = chain.previous_id
                WHERE response.account_id = $2 AND response.expires_at > $3
                    AND chain.depth < $4 AND chain.bytes + length(response.content) <= $5
            )
            SELECT response.* FROM chain JOIN response ON response.id = chain.id ORDER BY chain.depth",
        );
        let statement = statement
            .bind(id.as_u128().to_be_bytes())
            .bind(account.as_u128().to_be_bytes())
            .bind(now.as_micros())
            .bind(i64::from(limits.links))
            .bind(quantity_column(limits.bytes));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<ResponseColumns, _>).collect()
    }

    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool> {
        let statement =
            sqlx::query("DELETE FROM response WHERE id = $1 AND account_id = $2 AND expires_at > $3");
        let statement = statement
            .bind(id.as_u128().to_be_bytes())
            .bind(account.as_u128().to_be_bytes())
            .bind(now.as_micros());
        Ok(self.0.execute(statement).await? > 0)
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        // Several nodes sweep concurrently; none waits for rows that another one deletes.
        let statement = sqlx::query(
            "DELETE FROM response WHERE id IN (
                SELECT id FROM response WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED
            )",
        );
        let statement = statement.bind(now.as_micros()).bind(i64::from(limit));
        self.0.execute(statement).await
    }
}
