//! Implements [`BatchStore`] on SQLite.

use async_trait::async_trait;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use tollgate_storage::{BatchLine, BatchStore, ChargedLine, JobLease, LineCounts, LineState, Result};
use tollgate_types::{AccountId, Credits, HoldId, JobId, PriceVersion, Timestamp};

use super::Sqlite;
use crate::batches::{
    BEGIN, CHARGED, COUNTS, IS_LEASED, LINES, LineColumns, RESET_DEATHS, STATES, UNUSED_HOLD, bind_line_end,
    state_from,
};
use crate::jobs::{of_job, of_lease, void_lease};
use crate::rows::{id_bytes, quantity_from, storage_error, version_column};

#[async_trait]
impl BatchStore for Sqlite {
    async fn begin(
        &self,
        lease: JobLease,
        number: u32,
        version: PriceVersion,
        at: Timestamp,
    ) -> Result<bool> {
        self.write_one(move |connection| Box::pin(begin(connection, lease, number, version, at)))
            .await
    }

    async fn end(&self, lease: JobLease, line: BatchLine, at: Timestamp) -> Result<()> {
        self.write_one(move |connection| Box::pin(end(connection, lease, line, at)))
            .await
    }

    async fn reset_deaths(&self, lease: JobLease) -> Result<()> {
        self.write(
            move |connection| Box::pin(reset_deaths(connection, lease)),
            |()| (),
        )
        .await
    }

    async fn unused_hold(&self, account: AccountId, batch: JobId) -> Result<Credits> {
        self.read(move |connection| Box::pin(unused_hold(connection, account, batch)))
            .await
    }

    async fn charged(&self, account: AccountId, hold: HoldId) -> Result<Vec<ChargedLine>> {
        self.read(move |connection| Box::pin(charged(connection, account, hold)))
            .await
    }

    async fn counts(&self, account: AccountId, batch: JobId) -> Result<LineCounts> {
        self.read(move |connection| Box::pin(counts(connection, account, batch)))
            .await
    }

    async fn states(&self, account: AccountId, batch: JobId) -> Result<Vec<(u32, LineState)>> {
        self.read(move |connection| Box::pin(states(connection, account, batch)))
            .await
    }

    async fn lines(&self, account: AccountId, batch: JobId, from: u32, limit: u32) -> Result<Vec<BatchLine>> {
        self.read(move |connection| Box::pin(lines(connection, account, batch, from, limit)))
            .await
    }
}

async fn begin(
    connection: &mut SqliteConnection,
    lease: JobLease,
    number: u32,
    version: PriceVersion,
    at: Timestamp,
) -> Result<bool> {
    let statement = of_lease!(BEGIN, lease)
        .bind(number)
        .bind(Vec::<u8>::new())
        .bind(version_column(version))
        .bind(at.as_micros());
    let done = statement.execute(&mut *connection).await.map_err(storage_error)?;
    if done.rows_affected() > 0 {
        return Ok(true);
    }
    let leased = of_lease!(IS_LEASED, lease).fetch_optional(connection).await;
    leased
        .map_err(storage_error)?
        .map(|_| false)
        .ok_or_else(|| void_lease(lease))
}

async fn end(
    connection: &mut SqliteConnection,
    lease: JobLease,
    line: BatchLine,
    at: Timestamp,
) -> Result<()> {
    let statement = bind_line_end!(lease, line, at);
    let done = statement.execute(connection).await.map_err(storage_error)?;
    match done.rows_affected() {
        0 => Err(void_lease(lease)),
        _ => Ok(()),
    }
}

async fn reset_deaths(connection: &mut SqliteConnection, lease: JobLease) -> Result<()> {
    let done = of_lease!(RESET_DEATHS, lease).execute(connection).await;
    match done.map_err(storage_error)?.rows_affected() {
        0 => Err(void_lease(lease)),
        _ => Ok(()),
    }
}

async fn unused_hold(connection: &mut SqliteConnection, account: AccountId, batch: JobId) -> Result<Credits> {
    let row = of_job!(UNUSED_HOLD, account, batch).fetch_one(connection).await;
    let unused_hold = row.and_then(|row| row.try_get("freed")).map_err(storage_error)?;
    Ok(Credits::from_nanos(unused_hold))
}

async fn charged(
    connection: &mut SqliteConnection,
    account: AccountId,
    hold: HoldId,
) -> Result<Vec<ChargedLine>> {
    let rows: Vec<LineColumns> = sqlx::query_as(CHARGED)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(hold.as_u128()))
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(ChargedLine::try_from).collect()
}

async fn counts(connection: &mut SqliteConnection, account: AccountId, batch: JobId) -> Result<LineCounts> {
    let rows = of_job!(COUNTS, account, batch).fetch_all(connection).await;
    let mut counts = LineCounts::default();
    for row in rows.map_err(storage_error)? {
        let (_, state) = state_from(0, row.try_get("state").map_err(storage_error)?)?;
        let count = quantity_from(row.try_get("count").map_err(storage_error)?)?;
        counts.add(state, count);
    }
    Ok(counts)
}

async fn states(
    connection: &mut SqliteConnection,
    account: AccountId,
    batch: JobId,
) -> Result<Vec<(u32, LineState)>> {
    let rows = of_job!(STATES, account, batch).fetch_all(connection).await;
    let rows = rows.map_err(storage_error)?;
    let states = rows.iter().map(|row| {
        let number = row.try_get("number").map_err(storage_error)?;
        state_from(number, row.try_get("state").map_err(storage_error)?)
    });
    states.collect()
}

async fn lines(
    connection: &mut SqliteConnection,
    account: AccountId,
    batch: JobId,
    from: u32,
    limit: u32,
) -> Result<Vec<BatchLine>> {
    let rows: Vec<LineColumns> = sqlx::query_as(LINES)
        .bind(id_bytes(account.as_u128()))
        .bind(id_bytes(batch.as_u128()))
        .bind(from)
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    rows.into_iter().map(BatchLine::try_from).collect()
}
