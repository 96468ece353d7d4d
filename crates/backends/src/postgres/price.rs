//! Price versions.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{PriceRecord, PriceStore, Result};
use tollgate_types::PriceVersion;

use super::pool::Pool;
use super::rows;
use crate::rows::{PriceColumns, prices_column, version_column};

pub(super) struct PriceVersions(pub(super) Arc<Pool>);

#[async_trait]
impl PriceStore for PriceVersions {
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()> {
        let (mut versions, mut models) = (Vec::new(), Vec::new());
        let (mut prices, mut times) = (Vec::new(), Vec::new());
        for record in records {
            versions.push(version_column(record.version));
            models.push(record.model);
            prices.push(prices_column(&record.prices));
            times.push(record.created_at.as_micros());
        }
        // In order of version, so that two nodes that record the same versions do not wait for each other.
        let statement = sqlx::query(
            "INSERT INTO price_version (version, model, prices, created_at)
            SELECT version, model, prices, created_at
            FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY
                AS given (version, model, prices, created_at, place)
            ORDER BY version, place
            ON CONFLICT (version) DO NOTHING",
        );
        let statement = statement.bind(versions).bind(models).bind(prices).bind(times);
        self.0.execute(statement).await.map(drop)
    }

    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>> {
        let statement = sqlx::query("SELECT * FROM price_version WHERE version = $1");
        let row = self.0.optional(statement.bind(version_column(version))).await?;
        row.map(|row| rows::whole::<PriceColumns, _>(&row)).transpose()
    }
}
