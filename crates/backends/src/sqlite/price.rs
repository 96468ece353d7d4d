//! Implements [`PriceStore`] on SQLite.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{PriceChange, PriceRecord, PriceStore, Result};
use tollgate_types::PriceVersion;

use super::Sqlite;
use crate::rows::admin::PriceChangeColumns;
use crate::rows::{PriceColumns, id_bytes, prices_column, storage_error, version_column};

const RECORD: &str = "INSERT INTO price_version (version, model, prices, created_at) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (version) DO NOTHING";
const GET: &str = "SELECT version, model, prices, created_at FROM price_version WHERE version = $1";
const ACTIVATE: &str = "INSERT INTO price_change (id, model, version, at, actor) SELECT $1, $2, $3, $4, $5 \
    WHERE $3 IS NOT (SELECT version FROM price_change WHERE model = $2 ORDER BY id DESC LIMIT 1)";
const ACTIVE: &str = "SELECT version, model, prices, created_at FROM (SELECT version FROM price_change WHERE id IN \
    (SELECT max(id) FROM price_change GROUP BY model)) JOIN price_version USING (version) ORDER BY model";
const HISTORY: &str = "SELECT id, price_change.model, version, at, actor, prices, created_at \
    FROM price_change JOIN price_version USING (version) WHERE price_change.model = $1 ORDER BY id DESC LIMIT $2";

#[async_trait]
impl PriceStore for Sqlite {
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()> {
        self.write(move |connection| Box::pin(record(connection, records)), |()| ())
            .await
    }

    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>> {
        self.read(move |connection| Box::pin(get(connection, version)))
            .await
    }

    async fn activate(&self, records: Vec<PriceRecord>, changes: Vec<PriceChange>) -> Result<()> {
        self.write(
            move |connection| Box::pin(activate(connection, records, changes)),
            |()| (),
        )
        .await
    }

    async fn active(&self) -> Result<Vec<PriceRecord>> {
        self.read(|connection| Box::pin(active(connection))).await
    }

    async fn history(&self, model: &str, limit: u32) -> Result<Vec<(PriceChange, PriceRecord)>> {
        let model = model.to_owned();
        self.read(move |connection| Box::pin(history(connection, model, limit)))
            .await
    }
}

async fn activate(
    connection: &mut SqliteConnection,
    records: Vec<PriceRecord>,
    changes: Vec<PriceChange>,
) -> Result<()> {
    record(connection, records).await?;
    for change in changes {
        let insert = sqlx::query(ACTIVATE)
            .bind(id_bytes(change.id.as_u128()))
            .bind(change.model)
            .bind(version_column(change.version))
            .bind(change.at.as_micros())
            .bind(change.actor);
        insert.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

async fn active(connection: &mut SqliteConnection) -> Result<Vec<PriceRecord>> {
    let rows: Vec<PriceColumns> = sqlx::query_as(ACTIVE)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(PriceRecord::try_from).collect()
}

async fn history(
    connection: &mut SqliteConnection,
    model: String,
    limit: u32,
) -> Result<Vec<(PriceChange, PriceRecord)>> {
    let rows: Vec<PriceChangeColumns> = sqlx::query_as(HISTORY)
        .bind(model)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(TryInto::try_into).collect()
}

async fn record(connection: &mut SqliteConnection, records: Vec<PriceRecord>) -> Result<()> {
    for record in records {
        let insert = sqlx::query(RECORD)
            .bind(version_column(record.version))
            .bind(record.model)
            .bind(prices_column(&record.prices))
            .bind(record.created_at.as_micros());
        insert.execute(&mut *connection).await.map_err(storage_error)?;
    }
    Ok(())
}

async fn get(connection: &mut SqliteConnection, version: PriceVersion) -> Result<Option<PriceRecord>> {
    let columns: Option<PriceColumns> = sqlx::query_as(GET)
        .bind(version_column(version))
        .fetch_optional(connection)
        .await
        .map_err(storage_error)?;
    columns.map(PriceRecord::try_from).transpose()
}

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RECORD, GET, ACTIVATE, ACTIVE, HISTORY];
