//! Implements [`PriceStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{PriceChange, PriceRecord, PriceStore, Result};
use tollgate_types::PriceVersion;

use super::lot::transact;
use super::pool::{Pool, Statement};
use super::rows;
use super::subscription::execute;
use crate::rows::admin::PriceChangeColumns;
use crate::rows::{PriceColumns, prices_column, version_column};

pub(super) struct PriceVersions(pub(super) Arc<Pool>);

#[async_trait]
impl PriceStore for PriceVersions {
    async fn record(&self, records: Vec<PriceRecord>) -> Result<()> {
        self.0.execute(record_statement(records)).await.map(drop)
    }

    async fn get(&self, version: PriceVersion) -> Result<Option<PriceRecord>> {
        let statement = sqlx::query("SELECT * FROM price_version WHERE version = $1");
        let row = self.0.optional(statement.bind(version_column(version))).await?;
        row.map(|row| rows::whole::<PriceColumns, _>(&row)).transpose()
    }

    async fn activate(&self, records: Vec<PriceRecord>, changes: Vec<PriceChange>) -> Result<()> {
        transact(&self.0, move |connection| {
            Box::pin(async move {
                // Serializes nodes that start concurrently, so that each reads the rows of the
                // others.
                execute(
                    connection,
                    sqlx::query("LOCK TABLE price_change IN EXCLUSIVE MODE"),
                )
                .await?;
                execute(connection, record_statement(records)).await?;
                for change in changes {
                    execute(connection, activate_statement(change)).await?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn active(&self) -> Result<Vec<PriceRecord>> {
        let statement = sqlx::query(
            "SELECT price_version.* FROM (SELECT DISTINCT ON (model) model, version FROM price_change
                ORDER BY model, id DESC) AS newest
            JOIN price_version USING (version) ORDER BY newest.model COLLATE \"C\"",
        );
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<PriceColumns, _>).collect()
    }

    async fn history(&self, model: &str, limit: u32) -> Result<Vec<(PriceChange, PriceRecord)>> {
        let statement = sqlx::query(
            "SELECT price_change.*, price_version.prices, price_version.created_at
            FROM price_change JOIN price_version USING (version)
            WHERE price_change.model = $1 ORDER BY id DESC LIMIT $2",
        );
        let statement = statement.bind(model.to_owned()).bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<PriceChangeColumns, _>).collect()
    }
}

/// Builds the statement that inserts the missing versions. It inserts in the order of versions, so
/// that two nodes that record the same versions do not deadlock.
fn record_statement(records: Vec<PriceRecord>) -> Statement {
    let (mut versions, mut models) = (Vec::new(), Vec::new());
    let (mut prices, mut times) = (Vec::new(), Vec::new());
    for record in records {
        versions.push(version_column(record.version));
        models.push(record.model);
        prices.push(prices_column(&record.prices));
        times.push(record.created_at.as_micros());
    }
    let statement = sqlx::query(
        "INSERT INTO price_version (version, model, prices, created_at)
        SELECT version, model, prices, created_at
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY
            AS given (version, model, prices, created_at, place)
        ORDER BY version, place
        ON CONFLICT (version) DO NOTHING",
    );
    statement.bind(versions).bind(models).bind(prices).bind(times)
}

fn activate_statement(change: PriceChange) -> Statement {
    let statement = sqlx::query(
        "INSERT INTO price_change (id, model, version, at, actor)
        SELECT $1, $2, $3, $4, $5 WHERE $3 IS DISTINCT FROM
            (SELECT version FROM price_change WHERE model = $2 ORDER BY id DESC LIMIT 1)",
    );
    statement
        .bind(change.id.as_u128().to_be_bytes())
        .bind(change.model)
        .bind(version_column(change.version))
        .bind(change.at.as_micros())
        .bind(change.actor)
}
