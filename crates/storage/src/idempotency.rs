//! Idempotency keys: requests that callers may repeat without repeating their effect
//! (`Idempotency-Key`).

use async_trait::async_trait;
use tollgate_types::{AccountId, RequestId, Timestamp};

use crate::Result;

/// Hash of a caller's key and the path of the request.
pub type IdempotencyKeyHash = [u8; 32];

/// Claim of a request to be executed under its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Account of the caller.
    pub account: AccountId,
    /// Hash of the key and path.
    pub key: IdempotencyKeyHash,
    /// Hash of the request content; all requests with one key must have the same.
    pub fingerprint: [u8; 32],
    /// Request that makes the claim.
    pub request: RequestId,
    /// Time of the claim.
    pub now: Timestamp,
    /// Time when a claim without answer or release becomes void, because its process died.
    pub abandoned_at: Timestamp,
    /// Time when the key may be reused.
    pub expires_at: Timestamp,
}

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The caller executes the request.
    First,
    /// Another request with the key is running.
    Running,
    /// Another request with the key was answered.
    Answered {
        /// Id of the answered request.
        request: RequestId,
        /// Stored answer of that request.
        content: Vec<u8>,
    },
    /// The key was used for a request with other content.
    Reused,
}

/// Stores claims and their answers. Of all concurrent requests with one key, exactly one is first.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims the key, durably when it returns: the key stays taken until it is released, abandoned
    /// or expired.
    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome>;

    /// Stores the answer of the first request for later ones; returns whether the request still had
    /// the claim.
    async fn answer(
        &self,
        account: AccountId,
        key: IdempotencyKeyHash,
        request: RequestId,
        content: Vec<u8>,
    ) -> Result<bool>;

    /// Releases the key of a request that had no effect, so that it can be repeated. An answered
    /// claim stays.
    async fn release(&self, account: AccountId, key: IdempotencyKeyHash, request: RequestId) -> Result<()>;

    /// Deletes expired claims, oldest first, at most `limit`; returns how many.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
