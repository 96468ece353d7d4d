//! Implements [`BatchStore`] on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_storage::{BatchLine, BatchStore, ChargedLine, JobLease, LineCounts, LineState, Result};
use tollgate_types::{AccountId, Credits, HoldId, JobId, PriceVersion, Timestamp};

use super::pool::Pool;
use super::rows;
use crate::batches::{
    BEGIN, CHARGED, COUNTS, IS_LEASED, LINES, LineColumns, RESET_DEATHS, STATES, UNUSED_HOLD, bind_line_end,
    state_from,
};
use crate::jobs::{of_job, of_lease, void_lease};
use crate::rows::{quantity_from, version_column};

pub(super) struct BatchLines(pub(super) Arc<Pool>);

#[async_trait]
impl BatchStore for BatchLines {
    async fn begin(
        &self,
        lease: JobLease,
        number: u32,
        version: PriceVersion,
        at: Timestamp,
    ) -> Result<bool> {
        let statement = of_lease!(BEGIN, lease)
            .bind(i64::from(number))
            .bind(Vec::<u8>::new())
            .bind(version_column(version))
            .bind(at.as_micros());
        if self.0.execute(statement).await? > 0 {
            return Ok(true);
        }
        let leased = self.0.optional(of_lease!(IS_LEASED, lease)).await?;
        leased.map(|_| false).ok_or_else(|| void_lease(lease))
    }

    async fn end(&self, lease: JobLease, line: BatchLine, at: Timestamp) -> Result<()> {
        match self.0.execute(bind_line_end!(lease, line, at)).await? {
            0 => Err(void_lease(lease)),
            _ => Ok(()),
        }
    }

    async fn reset_deaths(&self, lease: JobLease) -> Result<()> {
        match self.0.execute(of_lease!(RESET_DEATHS, lease)).await? {
            0 => Err(void_lease(lease)),
            _ => Ok(()),
        }
    }

    async fn unused_hold(&self, account: AccountId, batch: JobId) -> Result<Credits> {
        let row = self.0.one(of_job!(UNUSED_HOLD, account, batch)).await?;
        rows::credits(&row, "freed")
    }

    async fn charged(&self, account: AccountId, hold: HoldId) -> Result<Vec<ChargedLine>> {
        let found = self.0.all(of_job!(CHARGED, account, hold)).await?;
        found.iter().map(rows::whole::<LineColumns, _>).collect()
    }

    async fn counts(&self, account: AccountId, batch: JobId) -> Result<LineCounts> {
        let mut counts = LineCounts::default();
        for row in self.0.all(of_job!(COUNTS, account, batch)).await? {
            let (_, state) = state_from(0, rows::get(&row, "state")?)?;
            counts.add(state, quantity_from(rows::get(&row, "count")?)?);
        }
        Ok(counts)
    }

    async fn states(&self, account: AccountId, batch: JobId) -> Result<Vec<(u32, LineState)>> {
        let found = self.0.all(of_job!(STATES, account, batch)).await?;
        let states = found
            .iter()
            .map(|row| state_from(rows::get(row, "number")?, rows::get(row, "state")?));
        states.collect()
    }

    async fn lines(&self, account: AccountId, batch: JobId, from: u32, limit: u32) -> Result<Vec<BatchLine>> {
        let statement = of_job!(LINES, account, batch)
            .bind(i64::from(from))
            .bind(i64::from(limit));
        let found = self.0.all(statement).await?;
        found.iter().map(rows::whole::<LineColumns, _>).collect()
    }
}
