//! Rate limit counters: exact sliding windows of one minute. A single process counts in memory;
//! several nodes can use a shared store.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::AccountId;

use crate::Result;

/// Budget of requests per minute that a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// Budget of POST requests that start work: the account's requests per minute.
    Work,
    /// Separate budget of reads, deletes, cancellations and requests that only count tokens.
    Control,
}

/// Result of a rate limit check. Durations are measured from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request or the reservation fits into the window.
    pub allowed: bool,
    /// Limit of the window: requests or tokens per minute.
    pub limit: u64,
    /// Requests or tokens left in the window, never below zero.
    pub remaining: u64,
    /// Time until the window is empty if no further requests are counted.
    pub reset: Duration,
    /// Time until the same request would fit; zero if it is allowed.
    pub retry_after: Duration,
}

/// Counts requests and tokens in sliding windows of one minute.
#[async_trait]
pub trait Counters: Send + Sync {
    /// Counts one request if fewer than `limit` were admitted in the last minute. A denied request
    /// is not counted.
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision>;

    /// Reserves tokens if the total of the last minute stays within `limit`. A denied reservation
    /// is not counted.
    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision>;

    /// Replaces a reservation by the actual usage: subtracts `reserved` and adds `used`. The window
    /// may then exceed the limit; new reservations are denied until enough tokens have left the
    /// window.
    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()>;

    /// Returns the state of the request window and of the token window, without counting.
    async fn peek(
        &self,
        account: AccountId,
        budget: Budget,
        rpm: u32,
        tpm: u64,
    ) -> Result<(Decision, Decision)>;
}
