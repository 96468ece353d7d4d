//! Texts of the sources of a job, stored as objects that expire 30 days after the acceptance of the
//! job.

use sha2::{Digest, Sha256};
use tollgate_storage::blob::{self, whole};
use tollgate_storage::media::MAX_RETENTION;
use tollgate_storage::{BlobKey, Job, Media, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, JobId, MediaId, Timestamp};

use super::Research;

/// Media type of a stored text.
const TEXT: &str = "text/plain; charset=utf-8";
/// Maximum size of a stored text, in bytes. A text has at most 1,000,000 characters.
const MAX_TEXT_BYTES: u64 = 4_000_000;

/// Text of a source in storage, and its digest.
pub(super) struct StoredText {
    pub(super) media: MediaId,
    pub(super) text: String,
    /// SHA-256 of the text, in lower-case hexadecimal.
    pub(super) sha256: String,
}

/// Returns the id of the object with the text of a source.
pub(super) fn media_id(job: JobId, number: u32) -> MediaId {
    let digest = Sha256::new()
        .chain_update(b"research source")
        .chain_update(job.as_u128().to_be_bytes())
        .chain_update(number.to_be_bytes())
        .finalize();
    let id = digest
        .iter()
        .take(16)
        .fold(0_u128, |id, byte| id << 8 | u128::from(*byte));
    MediaId::from_u128(id)
}

/// Stores the text of a source. If another process has stored it before, returns the stored text.
pub(super) async fn store(
    research: &Research,
    job: &Job,
    number: u32,
    text: String,
    accepted_at: Timestamp,
) -> Result<StoredText> {
    let media = media_id(job.terms.id, number);
    if let Some(text) = self::text(research, job.account, media).await? {
        let digest = Sha256::digest(text.as_bytes()).into();
        return Ok(stored(media, text, digest));
    }
    let mut object = [0; 16];
    getrandom::fill(&mut object)
        .map_err(|error| StorageError::new(StorageErrorKind::Unavailable, error.to_string()))?;
    let object = BlobKey {
        account: job.account,
        object: u128::from_ne_bytes(object),
    };
    let bytes = research
        .blobs
        .put(object, whole(text.clone().into_bytes()), MAX_TEXT_BYTES)
        .await?;
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let row = Media {
        id: media,
        account: job.account,
        object: object.object,
        sha256: digest,
        bytes,
        mime_type: TEXT.to_owned(),
        width: None,
        height: None,
        duration: None,
        created_at: research.clock.now(),
        expires_at: accepted_at.plus(MAX_RETENTION),
        source: Some(job.terms.id.as_u128()),
        deleted_at: None,
    };
    research.media.insert(row).await?;
    Ok(stored(media, text, digest))
}

/// Returns a stored text; `None` if the account has no such object, or its retention has ended.
pub(super) async fn text(research: &Research, account: AccountId, id: MediaId) -> Result<Option<String>> {
    let row = research.media.of_account(account, id).await?;
    let now = research.clock.now();
    let Some(row) = row.filter(|row| row.is_available(now)) else {
        return Ok(None);
    };
    let Some(blob) = research.blobs.get(row.blob(), None).await? else {
        return Ok(None);
    };
    let bytes = blob::collect(blob.content).await?;
    let text = String::from_utf8(bytes)
        .map_err(|_| StorageError::new(StorageErrorKind::Corrupt, "the text of a source is not UTF-8"));
    text.map(Some)
}

fn stored(media: MediaId, text: String, digest: [u8; 32]) -> StoredText {
    StoredText {
        media,
        sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        text,
    }
}
