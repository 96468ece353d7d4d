//! Price versions.

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{PriceRecord, PriceStore, Result};
use tollgate_types::PriceVersion;

use super::Sqlite;
use crate::rows::{PriceColumns, prices_column, storage_error, version_column};

const RECORD: &str = "INSERT INTO price_version (version, model, prices, created_at) VALUES ($1, $2, $3, $4) \
    ON CONFLICT (version) DO NOTHING";
const GET: &str = "SELECT version, model, prices, created_at FROM price_version WHERE version = $1";

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

/// Every statement of this file.
#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[RECORD, GET];
