//! Implements [`ResponseStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{ChainLimits, NewResponse, ResponseStore, Result, StorageError, StoredResponse};
use tollgate_types::{AccountId, ResponseId, Timestamp};

use super::Sqlite;
use crate::rows::{ResponseColumns, id_bytes, quantity_column, storage_error};

const SAVE: &str = "INSERT INTO response (id, account_id, previous_id, created_at, expires_at, content) \
    SELECT $1, id, $3, $4, $5, $6 FROM account WHERE id = $2";
const SAVE_ITEM: &str = "INSERT INTO response_item (account_id, item_id, response_id) VALUES ($1, $2, $3) \
    ON CONFLICT (account_id, item_id) DO NOTHING";
const WITH_ITEM: &str = "SELECT id, response.account_id, previous_id, created_at, expires_at, content \
    FROM response_item JOIN response ON response.id = response_id \
    WHERE response_item.account_id = $1 AND item_id = $2 AND expires_at > $3";
const GET: &str = "SELECT id, account_id, previous_id, created_at, expires_at, content FROM response \
    WHERE id = $1 AND account_id = $2 AND expires_at > $3";
const CHAIN: &str = "WITH RECURSIVE chain (id, previous_id, depth, bytes) AS ( \
        SELECT id, previous_id, 1, length(content) FROM response \
        WHERE id = $1 AND account_id = $2 AND expires_at > $3 AND $4 > 0 \
        UNION ALL \
        SELECT response.id, response.previous_id, chain.depth + 1, chain.bytes + length(response.content) \
        FROM chain JOIN response ON response.id = chain.previous_id \
        WHERE response.account_id = $2 AND response.expires_at > $3 \
            AND chain.depth < $4 AND chain.bytes + length(response.content) <= $5 \
    ) \
    SELECT response.id, account_id, response.previous_id, created_at, expires_at, content \
    FROM chain JOIN response ON response.id = chain.id ORDER BY depth";
const DELETE: &str = "DELETE FROM response WHERE id = $1 AND account_id = $2 AND expires_at > $3";
const SWEEP: &str = "DELETE FROM response WHERE id IN \
    (SELECT id FROM response WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2)";

#[async_trait]
impl ResponseStore for Sqlite {
    async fn save(&self, new: NewResponse) -> Result<()> {
        self.write(move |connection| Box::pin(save(connection, new)), |()| ())
            .await
    }

    async fn get(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        self.read(move |connection| Box::pin(get(connection, account, id, now)))
            .await
    }

    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        let item = item.to_owned();
        self.read(move |connection| Box::pin(with_item(connection, account, item, now)))
            .await
    }

    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>> {
        self.read(move |connection| Box::pin(chain(connection, account, id, now, limits)))
            .await
    }

    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool> {
        self.write(
            move |connection| Box::pin(delete(connection, account, id, now)),
            |deleted| deleted,
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

async fn save(connection: &mut SqliteConnection, NewResponse { response, items }: NewResponse) -> Result<()> {
    let insert = sqlx::query(SAVE)
        .bind(id_bytes(response.id.as_u128()))
        .bind(id_bytes(response.account.as_u128()))
        .bind(response.previous.map(|previous| id_bytes(previous.as_u128())))
        .bind(response.created_at.as_micros())
        .bind(response.expires_at.as_micros())
        .bind(response.content);
    let done = insert.execute(&mut *connection).await.map_err(storage_error)?;
    if done.rows_affected() == 0 {
        return Err(StorageError::not_found(response.account));
    }
    for item in items {
        let insert = sqlx::query(SAVE_ITEM)
            .bind(id_bytes(response.account.as_u128()))
            .bind(item)
            .bind(id_bytes(response.id.as_u128()));
        insert.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

async fn with_item(
    connection: &mut SqliteConnection,
    account: AccountId,
    item: String,
    now: Timestamp,
) -> Result<Option<StoredResponse>> {
    let columns: Option<ResponseColumns> = sqlx::query_as(WITH_ITEM)
        .bind(id_bytes(account.as_u128()))
        .bind(item)
        .bind(now.as_micros())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(StoredResponse::try_from).transpose()
}

async fn get(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: ResponseId,
    now: Timestamp,
) -> Result<Option<StoredResponse>> {
    let columns: Option<ResponseColumns> = sqlx::query_as(GET)
        .bind(id_bytes(id.as_u128()))
        .bind(id_bytes(account.as_u128()))
        .bind(now.as_micros())
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(StoredResponse::try_from).transpose()
}

async fn chain(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: ResponseId,
    now: Timestamp,
    limits: ChainLimits,
) -> Result<Vec<StoredResponse>> {
    let rows: Vec<ResponseColumns> = sqlx::query_as(CHAIN)
        .bind(id_bytes(id.as_u128()))
        .bind(id_bytes(account.as_u128()))
        .bind(now.as_micros())
        .bind(limits.links)
        .bind(quantity_column(limits.bytes))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(StoredResponse::try_from).collect()
}

async fn delete(
    connection: &mut SqliteConnection,
    account: AccountId,
    id: ResponseId,
    now: Timestamp,
) -> Result<bool> {
    let done = sqlx::query(DELETE)
        .bind(id_bytes(id.as_u128()))
        .bind(id_bytes(account.as_u128()))
        .bind(now.as_micros())
        .execute(connection)
        .await
        .map_err(storage_error)?;
    Ok(done.rows_affected() > 0)
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
pub(super) const STATEMENTS: &[&str] = &[SAVE, SAVE_ITEM, WITH_ITEM, GET, CHAIN, DELETE, SWEEP];
