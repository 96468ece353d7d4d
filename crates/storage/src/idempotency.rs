//! Requests that their callers may repeat without repeating their effect (`Idempotency-Key`).

use async_trait::async_trait;
use tollgate_types::{AccountId, RequestId, Timestamp};

use crate::Result;

/// A caller's key together with the path that it was sent to, digested.
pub type RepeatKey = [u8; 32];

/// A request that wants to be the one that is carried out under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose.
    pub account: AccountId,
    /// The key.
    pub key: RepeatKey,
    /// Digest of what is asked for: under one key it is always the same.
    pub fingerprint: [u8; 32],
    /// The request.
    pub request: RequestId,
    /// Now.
    pub now: Timestamp,
    /// When a claim that was neither answered nor released is void: its process died.
    pub abandoned_at: Timestamp,
    /// When the key may be used anew.
    pub expires_at: Timestamp,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The request is the one to be carried out.
    First,
    /// Another one is being carried out.
    Running,
    /// Another one was carried out.
    Answered {
        /// Which.
        request: RequestId,
        /// Its answer, as it was kept.
        content: Vec<u8>,
    },
    /// The key was used for something else.
    Reused,
}

/// Stores claims and the answers to them. Of all requests with one key, one is first.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims the key, durably when it returns: to all others it is taken until it is released, abandoned or expired.
    async fn claim(&self, claim: Claim) -> Result<Claimed>;

    /// Keeps the answer of the request that was first, for those that come later; whether the claim was still its own.
    async fn answer(
        &self,
        account: AccountId,
        key: RepeatKey,
        request: RequestId,
        content: Vec<u8>,
    ) -> Result<bool>;

    /// Gives the key back: the request came to nothing and may be made again. A claim that was answered stays.
    async fn release(&self, account: AccountId, key: RepeatKey, request: RequestId) -> Result<()>;

    /// Deletes claims that have expired, the oldest first and at most so many; how many there were.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
