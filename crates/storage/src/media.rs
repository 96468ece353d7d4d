//! What was made for accounts: a row for each image, video or recording, whose bytes are in a [`crate::BlobStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, MediaId, Timestamp};

use crate::{BlobKey, Result};

/// The longest that an object is kept, from when it was made.
pub const LONGEST_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Id. Nobody can guess it.
    pub id: MediaId,
    /// Owner.
    pub account: AccountId,
    /// Its bytes are under the key of the account and this.
    pub object: u128,
    /// Of its bytes.
    pub sha256: [u8; 32],
    /// How many there are.
    pub bytes: u64,
    /// What it is, such as `image/png`, as its bytes begin.
    pub mime_type: String,
    /// In pixels.
    pub width: Option<u32>,
    /// In pixels.
    pub height: Option<u32>,
    /// How long it plays, to the microsecond.
    pub duration: Option<Duration>,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is not handed out.
    pub expires_at: Timestamp,
    /// The request or job that made it.
    pub source: Option<u128>,
    /// When its bytes were found to be gone. What is left is the knowledge that there was something.
    pub deleted_at: Option<Timestamp>,
}

impl Media {
    /// Where its bytes are.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }

    /// Whether it is handed out at this moment.
    pub fn is_there(&self, now: Timestamp) -> bool {
        self.deleted_at.is_none() && now < self.expires_at
    }
}

/// Stores what is known of media.
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// Writes down an object whose bytes are kept already. `NotFound` when the account does not exist, `Conflict` when
    /// the id is taken.
    async fn insert(&self, media: Media) -> Result<()>;

    /// The object with this id, whosever it is, its time being over or its bytes deleted included. For addresses that
    /// are signed; they say nothing until the signature has been checked with the account.
    async fn get(&self, id: MediaId) -> Result<Option<Media>>;

    /// The same, if it is this account's. Another account's is not there.
    async fn of_account(&self, account: AccountId, id: MediaId) -> Result<Option<Media>>;

    /// Keeps an object whose time is not over until then, if that is later, and no longer than [`LONGEST_KEPT`]; answers
    /// until when it is kept. `None` when it is not there or its time is over: its bytes may be on their way out.
    async fn extend(
        &self,
        account: AccountId,
        id: MediaId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Timestamp>>;

    /// Objects whose time is over and whose bytes are not known to be gone, the oldest first and at most so many.
    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Media>>;

    /// Notes that the bytes of an object are gone; whether that is new. The row stays.
    async fn forget(&self, account: AccountId, id: MediaId, now: Timestamp) -> Result<bool>;
}
