//! Blobs: the bytes of media and files. The engine determines their location; [`crate::media`] and
//! [`crate::file`] store their metadata.

use std::fmt;
use std::ops::Range;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tollgate_types::AccountId;

use crate::{Result, StorageError, StorageErrorKind};

/// Key of an object. Only the gateway generates keys, and never generates a key twice. A key begins
/// with the account, so that no account can read another account's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobKey {
    /// Owner of the object.
    pub account: AccountId,
    /// 128 random bits that identify the object within the account.
    pub object: u128,
}

/// Formats the key as `acct_…/`, the first two of 32 lower-case hexadecimal digits, `/`, and all 32
/// digits. Folders and buckets use this form.
impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.object >> 120;
        write!(f, "{}/{first:02x}/{:032x}", self.account, self.object)
    }
}

/// A stream of bytes, which ends after its first error.
pub type BlobContent = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Returns a stream of bytes that are in memory.
pub fn whole(bytes: impl Into<Bytes>) -> BlobContent {
    let bytes = bytes.into();
    Box::pin(stream::once(async move { Ok(bytes) }))
}

/// Reads a stream to its end and returns its bytes.
pub async fn collect(mut content: BlobContent) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(part) = content.next().await {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes)
}

/// An object or a range of its bytes.
pub struct Blob {
    /// Length of the whole object, in bytes.
    pub length: u64,
    /// Byte range that `content` delivers.
    pub range: Range<u64>,
    /// Stream of the bytes of the range.
    pub content: BlobContent,
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blob")
            .field("length", &self.length)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// Stores objects. Writes are atomic: readers see the whole object or none, even after a crash.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Returns the name of the engine: `files` or `s3`.
    fn name(&self) -> &'static str;

    /// Stores an object of at most `max_bytes` bytes and returns its length. If the write fails or
    /// the future is dropped, the partial object is removed.
    ///
    /// `Conflict` if the key exists or the content is longer; `Unavailable` if the store is full;
    /// otherwise the error of the content.
    async fn put(&self, key: BlobKey, content: BlobContent, max_bytes: u64) -> Result<u64>;

    /// Returns an object, or a range of its bytes, limited to the object's length; `None` if the
    /// object does not exist.
    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>>;

    /// Returns the length of an object in bytes; `None` if it does not exist.
    async fn length(&self, key: BlobKey) -> Result<Option<u64>>;

    /// Deletes an object. A missing object is not an error.
    async fn delete(&self, key: BlobKey) -> Result<()>;
}

/// Limits a range to an object of this length. A range that begins after the end becomes an empty
/// range at the end.
pub fn clamp(range: Option<Range<u64>>, length: u64) -> Range<u64> {
    let Some(range) = range else {
        return 0..length;
    };
    let start = range.start.min(length);
    start..range.end.clamp(start, length)
}

/// Returns the `Conflict` error for content of more than `max_bytes` bytes.
pub fn too_large(max_bytes: u64) -> StorageError {
    StorageError::new(
        StorageErrorKind::Conflict,
        format!("the object has more than {max_bytes} bytes"),
    )
}

/// Checks a store: writes a small object under this key, reads it back and deletes it.
///
/// `Corrupt` if the object is missing or the bytes read differ from those written. The object is
/// deleted even if it cannot be read back.
pub async fn probe(store: &dyn BlobStore, key: BlobKey) -> Result<()> {
    const TEXT: &[u8] = b"probe";
    store.put(key, whole(TEXT), TEXT.len() as u64).await?;
    let read = match store.get(key, None).await {
        Ok(Some(blob)) => collect(blob.content).await.map(Some),
        Ok(None) => Ok(None),
        Err(error) => Err(error),
    };
    store.delete(key).await?;
    match read?.as_deref() {
        Some(TEXT) => Ok(()),
        _ => Err(StorageError::new(
            StorageErrorKind::Corrupt,
            "the probe object is missing or differs from the written bytes",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_the_object() {
        for (range, length, expected) in [
            (None, 5, 0..5),
            (None, 0, 0..0),
            (Some(0..5), 5, 0..5),
            (Some(0..1), 5, 0..1),
            (Some(4..5), 5, 4..5),
            (Some(4..u64::MAX), 5, 4..5),
            (Some(5..6), 5, 5..5),
            (Some(9..12), 5, 5..5),
            (Some(3..3), 5, 3..3),
            (Some(Range { start: 4, end: 2 }), 5, 4..4),
        ] {
            assert_eq!(clamp(range.clone(), length), expected, "{range:?} of {length}");
        }
    }

    #[test]
    fn keys_lead_with_the_account() {
        let account = AccountId::from_u128(7);
        let key = BlobKey {
            account,
            object: 0xab << 120,
        };
        let object = format!("{:0<32}", "ab");
        assert_eq!(key.to_string(), format!("{account}/ab/{object}"));
    }
}
