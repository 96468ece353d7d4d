//! What was made and what goes into it: kept with a row that says what it is, found again, and given an address.

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

/// How long an object is kept of which nobody asks for an address: a day longer than one can be opened.
pub const KEPT: Duration = Duration::from_secs(8 * 24 * 3600);
/// How long what goes into a job is kept: longer than any job lasts.
pub const INPUT_KEPT: Duration = Duration::from_secs(3 * 24 * 3600);
/// How long an address can be opened.
const OPEN: Duration = Duration::from_secs(7 * 24 * 3600);
/// The most bytes of one object.
pub const MOST_BYTES: u64 = 2 << 30;

/// Keeps media.
pub struct Shelf {
    /// Their bytes.
    pub blobs: Arc<dyn BlobStore>,
    /// What is known of them.
    pub media: Arc<dyn MediaStore>,
    /// Signs their addresses.
    pub addresses: MediaAddresses,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What an object is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Such as `image/png`, as its bytes begin.
    pub mime_type: String,
    /// In pixels.
    pub width: Option<u32>,
    /// In pixels.
    pub height: Option<u32>,
    /// How long it plays.
    pub duration: Option<Duration>,
}

/// An address of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// All of it.
    pub url: String,
    /// Until when it can be opened.
    pub expires_at: Timestamp,
}

impl Shelf {
    /// Keeps an object that was made by or goes into the job or request `source`.
    pub async fn keep(
        &self,
        account: AccountId,
        content: BlobContent,
        facts: Facts,
        source: u128,
        kept: Duration,
    ) -> Result<Media> {
        let object = BlobKey {
            account,
            object: random()?,
        };
        let (content, digest) = hashed(content);
        let bytes = self.blobs.put(object, content, MOST_BYTES).await?;
        let sha256 = digest.await.map_err(|_| {
            StorageError::new(StorageErrorKind::Corrupt, "an object was kept without its end")
        })?;
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
            expires_at: now.plus(kept),
            source: Some(source),
            deleted_at: None,
        };
        self.media.insert(media.clone()).await?;
        Ok(media)
    }

    /// All bytes of an object; nothing when it is not there any more.
    pub async fn read(&self, account: AccountId, id: MediaId) -> Result<Option<(Media, Bytes)>> {
        let Some(media) = self.there(account, id).await? else {
            return Ok(None);
        };
        let Some(found) = self.blobs.get(media.blob(), None).await? else {
            return Ok(None);
        };
        let bytes = blob::collect(found.content).await?;
        Ok(Some((media, bytes.into())))
    }

    /// An object that can be handed out.
    pub async fn there(&self, account: AccountId, id: MediaId) -> Result<Option<Media>> {
        let media = self.media.of_account(account, id).await?;
        let now = self.clock.now();
        Ok(media.filter(|media| media.is_there(now)))
    }

    /// A new address of an object, which is kept for as long as that can be opened. Nothing when it is not there any more.
    pub async fn address(
        &self,
        origin: &str,
        account: AccountId,
        id: MediaId,
        disposition: Disposition,
    ) -> Result<Option<Address>> {
        let now = self.clock.now();
        let Some(kept_until) = self.media.extend(account, id, now, now.plus(OPEN)).await? else {
            return Ok(None);
        };
        let signed = self.addresses.sign(account, id, kept_until, disposition, now);
        Ok(signed.map(|signed| Address {
            url: format!("{origin}{}", signed.path),
            expires_at: signed.expires_at,
        }))
    }

    /// Deletes what goes into a job that was not accepted. What cannot be deleted now goes when its time is over.
    pub async fn discard(&self, media: &[Media]) {
        for media in media {
            let gone = async {
                self.blobs.delete(media.blob()).await?;
                self.media.forget(media.account, media.id, self.clock.now()).await
            };
            if let Err(error) = gone.await {
                tracing::warn!(media.id = %media.id, %error, "an object that is not needed is deleted later");
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

/// The same content, and the digest of all of it once it has ended.
fn hashed(content: BlobContent) -> (BlobContent, oneshot::Receiver<[u8; 32]>) {
    let (tell, told) = oneshot::channel();
    let state = Some((content, Sha256::new(), tell));
    let content = futures_util::stream::unfold(state, async |state| {
        let (mut content, mut digest, tell) = state?;
        match content.next().await {
            Some(Ok(part)) => {
                digest.update(&part);
                Some((Ok(part), Some((content, digest, tell))))
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => {
                // Whoever has stopped listening has no use for it.
                let _ = tell.send(digest.finalize().into());
                None
            }
        }
    });
    (Box::pin(content), told)
}
