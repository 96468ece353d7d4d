//! Rate limit counters: exact sliding windows of one minute. One process counts in memory; several
//! nodes can use a shared store.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::AccountId;

use crate::Result;

/// Request budget that a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// POSTs that start work: the account's requests per minute.
    Work,
    /// Reads, deletes, cancels and count-only calls, which have a separate budget.
    Control,
}

/// Result of a counter. Durations are measured from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request fits into the window.
    pub allowed: bool,
    /// Limit of the window: requests or tokens per minute.
    pub limit: u64,
    /// Requests or tokens left in the window, never below zero.
    pub remaining: u64,
    /// Time until the window is empty if nothing else is counted.
    pub reset: Duration,
    /// Time until the same request would fit; zero when it is allowed.
    pub retry_after: Duration,
}

/// Sliding windows of one minute.
#[async_trait]
pub trait Counters: Send + Sync {
    /// Counts one request if fewer than `limit` were admitted in the last minute. A refused one is
    /// not counted.
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision>;

    /// Reserves tokens if they fit into the last minute's `limit`. A refused reservation is not
    /// counted.
    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision>;

    /// Replaces a reservation by the actual usage: returns `reserved`, adds `used`. The window may
    /// then exceed the limit; new reservations wait until it recovers.
    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()>;

    /// Returns the state of the request window and the token window, without counting.
    async fn peek(
        &self,
        account: AccountId,
        budget: Budget,
        rpm: u32,
        tpm: u64,
    ) -> Result<(Decision, Decision)>;
}
