//! Stored responses of the Responses API, which later requests can continue.

use async_trait::async_trait;
use tollgate_types::{AccountId, ResponseId, Timestamp};

use crate::Result;

/// A stored response. The API crate encrypts the content, so that storage cannot read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// Unique id of the response.
    pub id: ResponseId,
    /// Account that owns the response.
    pub account: AccountId,
    /// Id of the response that this one continues.
    pub previous: Option<ResponseId>,
    /// Time when the response was created.
    pub created_at: Timestamp,
    /// Time when the response expires.
    pub expires_at: Timestamp,
    /// Request and response, encrypted.
    pub content: Vec<u8>,
}

/// A response to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResponse {
    /// The response with its encrypted content.
    pub response: StoredResponse,
    /// Ids of the response's items, which later requests may reference.
    pub items: Vec<String>,
}

/// Limits for reading a chain of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainLimits {
    /// Maximum number of responses.
    pub links: u32,
    /// Maximum total size of all contents in bytes. The newest response is read regardless of its
    /// size.
    pub bytes: u64,
}

/// Stores responses. Responses of other accounts are never found.
#[async_trait]
pub trait ResponseStore: Send + Sync {
    /// Stores the response. `NotFound` if the account does not exist, `Conflict` if the id exists.
    /// An item id that another response of the account already has continues to refer to that
    /// response.
    async fn save(&self, new: NewResponse) -> Result<()>;

    /// Returns the response; `None` if it does not exist or has expired.
    async fn get(&self, account: AccountId, id: ResponseId, now: Timestamp)
    -> Result<Option<StoredResponse>>;

    /// Returns the account's response that contains this item; `None` if no such response exists or
    /// the response has expired.
    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>>;

    /// Returns the response and its predecessors, newest first, within the limits. The list also
    /// ends before a deleted or expired response. A complete list ends with a response without
    /// `previous`.
    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>>;

    /// Deletes the response; returns whether it existed. Responses that continue it remain.
    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool>;

    /// Deletes up to `limit` expired responses, oldest first, and returns their number.
    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64>;
}
