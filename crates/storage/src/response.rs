//! Stored answers of the Responses API, which later requests can continue.

use async_trait::async_trait;
use tollgate_types::{AccountId, ResponseId, Timestamp};

use crate::Result;

/// A stored answer. The API crate seals its content, which is opaque here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// Unique id of the answer.
    pub id: ResponseId,
    /// Account that owns the answer.
    pub account: AccountId,
    /// Id of the answer that it continues.
    pub previous: Option<ResponseId>,
    /// Time when the answer was created.
    pub created_at: Timestamp,
    /// Time when it expires.
    pub expires_at: Timestamp,
    /// Request and answer, sealed.
    pub content: Vec<u8>,
}

/// An answer to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResponse {
    /// The answer to store.
    pub response: StoredResponse,
    /// Ids of its items, which later requests may reference.
    pub items: Vec<String>,
}

/// Limits for reading a chain of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLimits {
    /// Maximum number of answers.
    pub links: u32,
    /// Maximum bytes of all contents; the newest answer is read regardless of its size.
    pub bytes: u64,
}

/// Stores answers. Answers of other accounts are never found.
#[async_trait]
pub trait ResponseStore: Send + Sync {
    /// Stores the answer. `NotFound` when the account does not exist, `Conflict` when the id is
    /// taken. An item id that another answer of the account already has stays with that answer.
    async fn save(&self, new: NewResponse) -> Result<()>;

    /// Returns the answer, unless it has expired.
    async fn get(&self, account: AccountId, id: ResponseId, now: Timestamp)
    -> Result<Option<StoredResponse>>;

    /// Returns the answer that contains this item, unless it has expired.
    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>>;

    /// Returns the answer and its predecessors, newest first, within the limits. The list also ends
    /// before a deleted or expired answer; a complete list ends with an answer without `previous`.
    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>>;

    /// Deletes the answer; returns whether it existed. Answers that continue it stay.
    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool>;

    /// Deletes expired answers, oldest first, at most `limit`; returns how many.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
