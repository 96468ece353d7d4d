//! Storage of the inputs and outputs of jobs: bytes in blob storage, metadata in the database, and
//! signed URLs.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tollgate_accounts::{Disposition, MediaAddresses};
use tollgate_storage::blob::{self, BlobContent};
use tollgate_storage::{BlobKey, BlobStore, Media, MediaStore, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, Clock, MediaId, Timestamp};

/// Retention of an output, one day longer than [`ADDRESS_LIFETIME`]. Each new URL extends the
/// retention to at least the lifetime of the URL.
pub const RETENTION: Duration = Duration::from_secs(8 * 24 * 3600);
/// Retention of a job's inputs, which is longer than the duration of any job.
pub const INPUT_RETENTION: Duration = Duration::from_secs(3 * 24 * 3600);
/// Lifetime of a signed URL.
const ADDRESS_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);
/// Maximum size of a stored object, in bytes: 2 GiB.
pub const MAX_OBJECT_BYTES: u64 = 2 << 30;

/// Stores media objects and signs their URLs.
pub struct MediaStorage {
    /// Bytes of the objects.
    pub blobs: Arc<dyn BlobStore>,
    /// Metadata of the objects.
    pub media: Arc<dyn MediaStore>,
    /// Signs and verifies URLs.
    pub addresses: MediaAddresses,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Media type, dimensions and duration of a media object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Media type such as `image/png`, detected from the bytes.
    pub mime_type: String,
    /// Width in pixels.
    pub width: Option<u32>,
    /// Height in pixels.
    pub height: Option<u32>,
    /// Duration of a video or a recording.
    pub duration: Option<Duration>,
}

/// Signed URL of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The complete URL.
    pub url: String,
    /// Time at which the URL expires.
    pub expires_at: Timestamp,
}

impl MediaStorage {
    /// Stores an object. `source` is the id of the job or request to which the object belongs.
    pub async fn store(
        &self,
        account: AccountId,
        content: BlobContent,
        facts: Facts,
        source: u128,
        retention: Duration,
    ) -> Result<Media> {
        let object = BlobKey {
            account,
            object: random()?,
        };
        let (content, digest) = hashed(content);
        let bytes = self.blobs.put(object, content, MAX_OBJECT_BYTES).await?;
        let sha256 = digest
            .await
            .map_err(|_| StorageError::new(StorageErrorKind::Corrupt, "an object was stored incompletely"))?;
        let now = self.clock.now();
        let media = Media {
            id: MediaId::from_u128(random()?),
            account,
            object: object.object,
            sha256,
            bytes,
            mime_type: facts.mime_type,
            width: facts.width,
            height: facts.height,
            duration: facts.duration,
            created_at: now,
            expires_at: now.plus(retention),
            source: Some(source),
            deleted_at: None,
        };
        self.media.insert(media.clone()).await?;
        Ok(media)
    }

    /// Reads an object; returns `None` if the object does not exist in the account or its retention
    /// has ended.
    pub async fn read(&self, account: AccountId, id: MediaId) -> Result<Option<(Media, Bytes)>> {
        let Some(media) = self.find_available(account, id).await? else {
            return Ok(None);
        };
        let Some(found) = self.blobs.get(media.blob(), None).await? else {
            return Ok(None);
        };
        let bytes = blob::collect(found.content).await?;
        Ok(Some((media, bytes.into())))
    }

    /// Returns the metadata of an object; `None` if the object does not exist in the account or its
    /// retention has ended.
    pub async fn find_available(&self, account: AccountId, id: MediaId) -> Result<Option<Media>> {
        let media = self.media.of_account(account, id).await?;
        let now = self.clock.now();
        Ok(media.filter(|media| media.is_available(now)))
    }

    /// Signs a new URL of an object, and extends the object's retention to the lifetime of the URL.
    /// The URL of an object past its retention has already expired and returns status 410. Returns
    /// `None` only if the account has no record of the object.
    pub async fn address(
        &self,
        origin: &str,
        account: AccountId,
        id: MediaId,
        disposition: Disposition,
    ) -> Result<Option<Address>> {
        let now = self.clock.now();
        let stored_until = match self
            .media
            .extend(account, id, now, now.plus(ADDRESS_LIFETIME))
            .await?
        {
            Some(stored_until) => stored_until,
            None => match self.media.of_account(account, id).await? {
                Some(gone) => gone.expires_at.min(now),
                None => return Ok(None),
            },
        };
        let signed = self.addresses.sign(account, id, stored_until, disposition, now);
        Ok(Some(Address {
            url: format!("{origin}{}", signed.path),
            expires_at: signed.expires_at,
        }))
    }

    /// Deletes objects that are no longer needed, for example inputs of a rejected job. Objects
    /// that cannot be deleted now are deleted after their retention.
    pub async fn discard(&self, media: &[Media]) {
        for media in media {
            let gone = async {
                self.blobs.delete(media.blob()).await?;
                self.media.forget(media.account, media.id, self.clock.now()).await
            };
            if let Err(error) = gone.await {
                tracing::warn!(media.id = %media.id, %error, "cannot delete an unneeded object now");
            }
        }
    }
}

fn random() -> Result<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error.to_string()))?;
    Ok(u128::from_ne_bytes(bytes))
}

/// Returns the same stream, and a receiver of the SHA-256 digest of all chunks. The receiver fails
/// if the stream is not read to its end or returns an error.
fn hashed(content: BlobContent) -> (BlobContent, oneshot::Receiver<[u8; 32]>) {
    let (sender, receiver) = oneshot::channel();
    let state = Some((content, Sha256::new(), sender));
    let content = futures_util::stream::unfold(state, async |state| {
        let (mut content, mut digest, sender) = state?;
        match content.next().await {
            Some(Ok(part)) => {
                digest.update(&part);
                Some((Ok(part), Some((content, digest, sender))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                // If the receiver was dropped, the digest is not needed.
                let _ = sender.send(digest.finalize().into());
                None
            }
        }
    });
    (Box::pin(content), receiver)
}
