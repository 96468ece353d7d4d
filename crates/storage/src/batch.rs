//! Lines of batches: the result and the cost of each. A batch is a job, and its charge is the sum
//! of its lines; so the lines stay when their content is deleted.

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, HoldId, JobId, PriceVersion, Timestamp, Usage};

use crate::{JobLease, Result};

/// State of a line that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// The line may have been executed. It is never started again.
    Started,
    /// The request of the line succeeded.
    Done,
    /// The request of the line failed.
    Failed,
}

impl LineState {
    /// Name used in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            LineState::Started => "begun",
            LineState::Done => "done",
            LineState::Failed => "failed",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        [LineState::Started, LineState::Done, LineState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A line of a batch that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// Its place among the requests of the batch, from 0.
    pub number: u32,
    /// State of the line.
    pub state: LineState,
    /// Result of the line, sealed; empty after it was deleted.
    pub content: Vec<u8>,
    /// Price version of the line.
    pub price_version: PriceVersion,
    /// Usage of the line, such as its tokens.
    pub usage: Usage,
    /// Amount that the caller pays.
    pub charge: Credits,
    /// Cost beyond the charge; the operator bears it.
    pub overrun: Credits,
    /// Part of the batch's hold that belongs to the line; zero if not known.
    pub held: Credits,
}

/// Number of lines by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines that are running.
    pub started: u64,
    /// Lines that succeeded.
    pub done: u64,
    /// Lines that failed.
    pub failed: u64,
}

impl LineCounts {
    /// Adds `count` lines of a state.
    pub fn add(&mut self, state: LineState, count: u64) {
        match state {
            LineState::Started => self.started += count,
            LineState::Done => self.done += count,
            LineState::Failed => self.failed += count,
        }
    }
}

/// The ledger's view of a line: its part of the charge of the batch's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedLine {
    /// The hold of the batch.
    pub hold: HoldId,
    /// Price version of the line.
    pub price_version: PriceVersion,
    /// Usage of the line, such as its tokens.
    pub usage: Usage,
    /// Amount that the caller pays.
    pub charge: Credits,
    /// Cost beyond the charge; the operator bears it.
    pub overrun: Credits,
}

/// Stores lines. A write with an expired or lost lease is a `Conflict`.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Records that a line is about to be executed; returns false if it was started before.
    async fn begin(&self, lease: JobLease, number: u32, version: PriceVersion, at: Timestamp)
    -> Result<bool>;

    /// Records the result of a started line. `Conflict` when the line was not started, or has
    /// ended.
    async fn end(&self, lease: JobLease, line: BatchLine, at: Timestamp) -> Result<()>;

    /// Records progress of a batch: resets its count of process deaths.
    async fn reset_deaths(&self, lease: JobLease) -> Result<()>;

    /// Returns the part of a batch's hold that its ended lines did not use.
    async fn unused_hold(&self, account: AccountId, batch: JobId) -> Result<Credits>;

    /// Returns the ledger's view of the lines that a hold pays for. For operators: it may read all
    /// lines of the account.
    async fn charged(&self, account: AccountId, hold: HoldId) -> Result<Vec<ChargedLine>>;

    /// Returns the number of lines of a batch by state.
    async fn counts(&self, account: AccountId, batch: JobId) -> Result<LineCounts>;

    /// Returns the state of each started line, in order of number.
    async fn states(&self, account: AccountId, batch: JobId) -> Result<Vec<(u32, LineState)>>;

    /// Returns started lines in order of number, beginning at `from`, at most `limit`.
    async fn lines(&self, account: AccountId, batch: JobId, from: u32, limit: u32) -> Result<Vec<BatchLine>>;
}
