//! Answers that callers asked to keep, so that later requests can go on from them.

use async_trait::async_trait;
use tollgate_types::{AccountId, ResponseId, Timestamp};

use crate::Result;

/// A kept answer. What was said in it is opaque here: the room that keeps it seals it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// Id.
    pub id: ResponseId,
    /// Owner.
    pub account: AccountId,
    /// The answer that it went on from.
    pub previous: Option<ResponseId>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is swept.
    pub expires_at: Timestamp,
    /// Request and answer.
    pub content: Vec<u8>,
}

/// An answer to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResponse {
    /// The answer.
    pub response: StoredResponse,
    /// Ids of the items in it, by which later requests may name it.
    pub items: Vec<String>,
}

/// How much of a chain is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLimits {
    /// Answers.
    pub links: u32,
    /// Bytes of their contents together; the newest answer is read whatever its size.
    pub bytes: u64,
}

/// Stores answers. Another account's answer is not there.
#[async_trait]
pub trait ResponseStore: Send + Sync {
    /// Keeps the answer. `NotFound` when the account does not exist, `Conflict` when the id is taken. An item that the
    /// account has in another answer already stays with that one.
    async fn save(&self, new: NewResponse) -> Result<()>;

    /// The answer, unless its time is over.
    async fn get(&self, account: AccountId, id: ResponseId, now: Timestamp)
    -> Result<Option<StoredResponse>>;

    /// The answer that has this item, unless its time is over.
    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>>;

    /// The answer and those that it goes back to, newest first, within the limits. The list also ends before one that
    /// is not there any more; the last of a whole list has no `previous`.
    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>>;

    /// Deletes the answer; whether it was there. Answers that go on from it stay.
    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool>;

    /// Deletes answers whose time is over, the oldest first and at most so many; how many there were.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
