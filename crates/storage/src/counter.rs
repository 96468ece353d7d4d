//! Counters behind the limits: exact sliding windows of one minute. One process keeps them in memory; several nodes
//! can keep them in a shared store.

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::AccountId;

use crate::Result;

/// Which budget of requests a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// POSTs that start work: the account's requests per minute.
    Work,
    /// Reads, deletes, cancels and count-only calls: a budget of their own.
    Control,
}

/// What a counter says. Durations are measured from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it fits.
    pub allowed: bool,
    /// The limit.
    pub limit: u64,
    /// What is left in the window, never below zero.
    pub remaining: u64,
    /// Until the window is empty again if nothing more comes.
    pub reset: Duration,
    /// Until the same request would fit; zero when it is allowed.
    pub retry_after: Duration,
}

/// Sliding windows of one minute.
#[async_trait]
pub trait Counters: Send + Sync {
    /// Counts one request if fewer than `limit` were admitted in the last minute. A refused one is not counted.
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision>;

    /// Reserves tokens if they fit into the last minute's `limit`. A refused reservation is not counted.
    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision>;

    /// Corrects a reservation by what was used in the end: `reserved` back, `used` in. The window may end up above
    /// the limit; new reservations then wait until it recovers.
    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()>;

    /// What the windows hold now, counting nothing: requests, tokens.
    async fn peek(
        &self,
        account: AccountId,
        budget: Budget,
        rpm: u32,
        tpm: u64,
    ) -> Result<(Decision, Decision)>;
}
