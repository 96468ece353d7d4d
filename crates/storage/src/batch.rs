//! Lines of batches: what each has made and what it costs. A batch is a job, and these are what its charge is the sum of; so they stay
//! when what they made is forgotten.

use async_trait::async_trait;
use tollgate_types::{AccountId, Credits, HoldId, JobId, PriceVersion, Timestamp, Usage};

use crate::{JobLease, Result};

/// What has become of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineState {
    /// It may have been carried out. It is never begun again.
    Begun,
    /// It was answered.
    Done,
    /// It has failed.
    Failed,
}

impl LineState {
    /// The name in storage.
    pub const fn as_str(self) -> &'static str {
        match self {
            LineState::Begun => "begun",
            LineState::Done => "done",
            LineState::Failed => "failed",
        }
    }

    /// The state with this name.
    pub fn parse(name: &str) -> Option<Self> {
        [LineState::Begun, LineState::Done, LineState::Failed]
            .into_iter()
            .find(|state| state.as_str() == name)
    }
}

/// A line that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchLine {
    /// Its place among the requests of the batch, from 0.
    pub number: u32,
    /// What has become of it.
    pub state: LineState,
    /// What is told of it. It is sealed, and empty when it was forgotten.
    pub content: Vec<u8>,
    /// The list that it is priced by.
    pub price_version: PriceVersion,
    /// What it consumed.
    pub usage: Usage,
    /// What it costs the caller.
    pub charge: Credits,
    /// What it costs beyond that; the operator bears it.
    pub overrun: Credits,
    /// What the hold of the batch has for it; zero where that is not known.
    pub held: Credits,
}

/// How many lines have become what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Under way.
    pub begun: u64,
    /// Answered.
    pub done: u64,
    /// Failed.
    pub failed: u64,
}

impl LineCounts {
    /// So many more of this state.
    pub fn add(&mut self, state: LineState, count: u64) {
        match state {
            LineState::Begun => self.begun += count,
            LineState::Done => self.done += count,
            LineState::Failed => self.failed += count,
        }
    }
}

/// A line, as far as the books go: its part of the charge of its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedLine {
    /// The hold of the batch.
    pub hold: HoldId,
    /// The list that it is priced by.
    pub price_version: PriceVersion,
    /// What it consumed.
    pub usage: Usage,
    /// What it costs the caller.
    pub charge: Credits,
    /// What it costs beyond that.
    pub overrun: Credits,
}

/// Keeps lines. What is written under a lease that is void is `Conflict`.
#[async_trait]
pub trait BatchStore: Send + Sync {
    /// Writes down that a line is carried out next; false when it was begun before.
    async fn begin(&self, lease: JobLease, number: u32, version: PriceVersion, at: Timestamp)
    -> Result<bool>;

    /// Writes down what has become of a line that was begun. `Conflict` when it was not, or has ended.
    async fn end(&self, lease: JobLease, line: BatchLine, at: Timestamp) -> Result<()>;

    /// Writes down that a batch goes on: processes that have died with it do not count any more.
    async fn goes_on(&self, lease: JobLease) -> Result<()>;

    /// What the hold of a batch had for its lines that have ended beyond what they cost.
    async fn freed(&self, account: AccountId, batch: JobId) -> Result<Credits>;

    /// The lines that a hold pays for, as far as the books go. It is for operators: it may read all lines of the account.
    async fn charged(&self, account: AccountId, hold: HoldId) -> Result<Vec<ChargedLine>>;

    /// How many lines of a batch have become what.
    async fn counts(&self, account: AccountId, batch: JobId) -> Result<LineCounts>;

    /// What has become of each line that was begun, in their order.
    async fn states(&self, account: AccountId, batch: JobId) -> Result<Vec<(u32, LineState)>>;

    /// Lines that were begun, in their order, from this one on and at most so many.
    async fn lines(&self, account: AccountId, batch: JobId, from: u32, limit: u32) -> Result<Vec<BatchLine>>;
}
