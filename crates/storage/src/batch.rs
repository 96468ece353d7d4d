//! Lines of batches, with the result and the cost of each line. A batch is a job, and its charge is
//! the sum of the charges of its lines; so the lines remain when their content is deleted.

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, HoldId, JobId, PriceVersion, Timestamp, Usage};

use crate::{JobLease, Result};

/// State of a line that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// The line may have been executed, and is never started again.
    Started,
    /// The request of the line succeeded.
    Done,
    /// The request of the line failed.
    Failed,
}

impl LineState {
    /// Returns the name used in storage.
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

/// A started line of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// Index of the line among the requests of the batch, from 0.
    pub number: u32,
    /// State of the line.
    pub state: LineState,
    /// Encrypted result of the line; empty after the result was deleted.
    pub content: Vec<u8>,
    /// Price version of the line.
    pub price_version: PriceVersion,
    /// Usage of the line, such as its tokens.
    pub usage: Usage,
    /// Amount that the caller pays.
    pub charge: Credits,
    /// Cost beyond the charge, borne by the operator.
    pub overrun: Credits,
    /// Part of the batch's hold that belongs to the line; zero if unknown.
    pub held: Credits,
}

/// Number of lines by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Number of lines that were started and have not ended.
    pub started: u64,
    /// Number of lines that succeeded.
    pub done: u64,
    /// Number of lines that failed.
    pub failed: u64,
}

impl LineCounts {
    /// Adds `count` lines in this state.
    pub fn add(&mut self, state: LineState, count: u64) {
        match state {
            LineState::Started => self.started += count,
            LineState::Done => self.done += count,
            LineState::Failed => self.failed += count,
        }
    }
}

/// Part of the charge of a batch's hold that belongs to one line.
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
    /// Cost beyond the charge, borne by the operator.
    pub overrun: Credits,
}

/// Stores batch lines. A write with an expired or lost lease is a `Conflict`.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Records that a line is about to be executed; returns `false` if the line was started before.
    async fn begin(&self, lease: JobLease, number: u32, version: PriceVersion, at: Timestamp)
    -> Result<bool>;

    /// Records the result of a started line. `Conflict` if the line was not started or has ended.
    async fn end(&self, lease: JobLease, line: BatchLine, at: Timestamp) -> Result<()>;

    /// Records that a batch has made progress: resets its number of process deaths to zero.
    async fn reset_deaths(&self, lease: JobLease) -> Result<()>;

    /// Returns the part of a batch's hold that its ended lines did not use.
    async fn unused_hold(&self, account: AccountId, batch: JobId) -> Result<Credits>;

    /// Returns the usage and costs of the lines that a hold pays for. For operators: the call may
    /// read all lines of the account.
    async fn charged(&self, account: AccountId, hold: HoldId) -> Result<Vec<ChargedLine>>;

    /// Returns the number of lines of a batch in each state.
    async fn counts(&self, account: AccountId, batch: JobId) -> Result<LineCounts>;

    /// Returns the number and the state of each started line, sorted by number.
    async fn states(&self, account: AccountId, batch: JobId) -> Result<Vec<(u32, LineState)>>;

    /// Lists up to `limit` started lines with a number of at least `from`, sorted by number.
    async fn lines(&self, account: AccountId, batch: JobId, from: u32, limit: u32) -> Result<Vec<BatchLine>>;
}
