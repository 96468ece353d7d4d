//! Idempotency keys (`Idempotency-Key`): callers can repeat a request without repeating its effect.

use async_trait::async_trait;
use tollgate_types::{AccountId, RequestId, Timestamp};

use crate::Result;

/// Hash of a caller's idempotency key and the path of the request.
pub type IdempotencyKeyHash = [u8; 32];

/// Claim of a request to be executed under its idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Account of the caller.
    pub account: AccountId,
    /// Hash of the key and path.
    pub key: IdempotencyKeyHash,
    /// Hash of the request content, which must be the same for all requests with one key.
    pub fingerprint: [u8; 32],
    /// Request that makes the claim.
    pub request: RequestId,
    /// Time of the claim.
    pub now: Timestamp,
    /// Time when a claim without a response becomes void, because its process has died.
    pub abandoned_at: Timestamp,
    /// Time from which the key can be used for another request.
    pub expires_at: Timestamp,
}

/// Result of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The caller is the first and executes the request.
    First,
    /// Another request with the key is still running.
    Running,
    /// Another request with the key has completed.
    Answered {
        /// Id of the completed request.
        request: RequestId,
        /// Stored response of that request.
        content: Vec<u8>,
    },
    /// The key was used for a request with different content.
    Reused,
}

/// Stores claims and responses by idempotency key. Of all concurrent requests with one key, exactly
/// one is the first.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Claims the key. The claim is durable when the call returns, and lasts until it is released,
    /// abandoned or expired.
    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome>;

    /// Stores the response of the first request for later requests; returns whether the request
    /// still had the claim.
    async fn answer(
        &self,
        account: AccountId,
        key: IdempotencyKeyHash,
        request: RequestId,
        content: Vec<u8>,
    ) -> Result<bool>;

    /// Releases the key of a request that had no effect, so that the request can be repeated. A
    /// claim with a response remains.
    async fn release(&self, account: AccountId, key: IdempotencyKeyHash, request: RequestId) -> Result<()>;

    /// Deletes up to `limit` expired claims, oldest first, and returns their number.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
