//! Generated media: a row for each image, video or recording, whose bytes are in a
//! [`crate::BlobStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, MediaId, Timestamp};

use crate::{BlobKey, Result};

/// Maximum retention of an object, from its creation.
pub const MAX_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Metadata of a generated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Unique id, impossible to guess.
    pub id: MediaId,
    /// Account that owns the object.
    pub account: AccountId,
    /// Object number in the `BlobKey` of its bytes.
    pub object: u128,
    /// SHA-256 of the bytes.
    pub sha256: [u8; 32],
    /// Size in bytes.
    pub bytes: u64,
    /// Media type detected from the first bytes, such as `image/png`.
    pub mime_type: String,
    /// Width in pixels, if known.
    pub width: Option<u32>,
    /// Height in pixels, if known.
    pub height: Option<u32>,
    /// Playing time of a video or recording, in whole microseconds.
    pub duration: Option<Duration>,
    /// Time when the object was generated.
    pub created_at: Timestamp,
    /// Time from which it is not served.
    pub expires_at: Timestamp,
    /// The request or job that made it.
    pub source: Option<u128>,
    /// Time when its bytes were found to be deleted. The row stays as a record of the object.
    pub deleted_at: Option<Timestamp>,
}

impl Media {
    /// Returns the key of its bytes.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }

    /// Whether it is served at this time.
    pub fn is_available(&self, now: Timestamp) -> bool {
        self.deleted_at.is_none() && now < self.expires_at
    }
}

/// Stores metadata of media. The bytes are in a [`crate::BlobStore`].
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// Records an object whose bytes are already stored. `NotFound` when the account does not
    /// exist, `Conflict` when the id is taken.
    async fn insert(&self, media: Media) -> Result<()>;

    /// Returns the object with this id of any account, also if expired or deleted. For signed
    /// addresses: check the signature with the object's account before any use.
    async fn get(&self, id: MediaId) -> Result<Option<Media>>;

    /// Returns the account's object with this id, also if expired or deleted; `None` for other
    /// accounts' objects.
    async fn of_account(&self, account: AccountId, id: MediaId) -> Result<Option<Media>>;

    /// Extends the retention of an unexpired object to `until`, at most to [`MAX_RETENTION`]; never
    /// shortens it. Returns the resulting expiry. `None` when the object does not exist or has
    /// expired: its bytes may be in deletion.
    async fn extend(
        &self,
        account: AccountId,
        id: MediaId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Timestamp>>;

    /// Lists expired objects whose bytes may still exist, oldest first, at most `limit`.
    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Media>>;

    /// Records that the bytes of an object were deleted; returns whether that is new. The row
    /// stays.
    async fn forget(&self, account: AccountId, id: MediaId, now: Timestamp) -> Result<bool>;
}
