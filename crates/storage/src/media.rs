//! Generated media: a row for each image, video or recording, whose bytes are in a
//! [`crate::BlobStore`].

use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{AccountId, MediaId, Timestamp};

use crate::{BlobKey, Result};

/// Maximum time between the creation of an object and its expiry.
pub const MAX_RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

/// Metadata of a generated object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// Unique id, which cannot be guessed.
    pub id: MediaId,
    /// Account that owns the object.
    pub account: AccountId,
    /// Object number in the [`BlobKey`] of the object's bytes.
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
    /// Time from which the object is not served.
    pub expires_at: Timestamp,
    /// Id of the request or job that generated the object, if known.
    pub source: Option<u128>,
    /// Time when the bytes were recorded as deleted. The row remains as a record of the object.
    pub deleted_at: Option<Timestamp>,
}

impl Media {
    /// Returns the key of the object's bytes.
    pub fn blob(&self) -> BlobKey {
        BlobKey {
            account: self.account,
            object: self.object,
        }
    }

    /// Whether the object is served at this time.
    pub fn is_available(&self, now: Timestamp) -> bool {
        self.deleted_at.is_none() && now < self.expires_at
    }
}

/// Stores the metadata of generated media.
#[async_trait]
pub trait MediaStore: Send + Sync {
    /// Records an object whose bytes are already stored. `NotFound` if the account does not exist,
    /// `Conflict` if the id exists.
    async fn insert(&self, media: Media) -> Result<()>;

    /// Returns the object with this id of any account, even if it has expired or is deleted. For
    /// signed URLs: the caller must verify the signature with the object's account before any use.
    async fn get(&self, id: MediaId) -> Result<Option<Media>>;

    /// Returns the account's object with this id, even if it has expired or is deleted; `None` for
    /// objects of other accounts.
    async fn of_account(&self, account: AccountId, id: MediaId) -> Result<Option<Media>>;

    /// Extends the retention of an unexpired object to `until`, at most to [`MAX_RETENTION`]; never
    /// shortens it. Returns the resulting expiry. `None` if the object does not exist or has
    /// expired, because its bytes may be in deletion.
    async fn extend(
        &self,
        account: AccountId,
        id: MediaId,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Option<Timestamp>>;

    /// Lists up to `limit` expired objects whose bytes may still exist, oldest first.
    async fn expired(&self, now: Timestamp, limit: u32) -> Result<Vec<Media>>;

    /// Records that the bytes of an object were deleted; returns `false` if this was recorded
    /// before. The row remains.
    async fn forget(&self, account: AccountId, id: MediaId, now: Timestamp) -> Result<bool>;
}
