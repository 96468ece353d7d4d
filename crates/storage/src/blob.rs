//! The bytes of media. Where they are is up to the engine; what is known of them is in [`crate::media`].

use std::fmt;
use std::ops::Range;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use tollgate_types::AccountId;

use crate::{Result, StorageError, StorageErrorKind};

/// The name of an object. Only the gateway makes one, and never twice; it leads with the account, so that what is one
/// account's is never found by another's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobKey {
    /// Whose it is.
    pub account: AccountId,
    /// 128 random bits.
    pub object: u128,
}

/// `acct_…/`, the first two of 32 lower-case hexadecimal digits, `/`, and all of them: the same in a folder and in a bucket.
impl fmt::Display for BlobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.object >> 120;
        write!(f, "{}/{first:02x}/{:032x}", self.account, self.object)
    }
}

/// Bytes as they come. It ends after its first error.
pub type BlobContent = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Bytes that are there already, as content.
pub fn whole(bytes: impl Into<Bytes>) -> BlobContent {
    let bytes = bytes.into();
    Box::pin(stream::once(async move { Ok(bytes) }))
}

/// Content to its end.
pub async fn collect(mut content: BlobContent) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(part) = content.next().await {
        bytes.extend_from_slice(&part?);
    }
    Ok(bytes)
}

/// An object, or a part of one.
pub struct Blob {
    /// Bytes of the whole object.
    pub length: u64,
    /// Which of them come.
    pub range: Range<u64>,
    /// They.
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

/// Keeps objects. An object is there as a whole or not at all, whenever somebody looks and wherever the process dies.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// `files` or `s3`.
    fn name(&self) -> &'static str;

    /// Keeps an object of at most `most` bytes; answers how many it has. What was begun is taken back when it fails or
    /// when nobody waits for it any more.
    ///
    /// `Conflict` when the key is taken or there is more content; `Unavailable` when there is no room; what the content
    /// fails with.
    async fn put(&self, key: BlobKey, content: BlobContent, most: u64) -> Result<u64>;

    /// An object, or what of this range of its bytes there is; `None` when it is not there.
    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>>;

    /// Bytes of an object; `None` when it is not there.
    async fn length(&self, key: BlobKey) -> Result<Option<u64>>;

    /// Deletes an object. One that is not there is deleted already.
    async fn delete(&self, key: BlobKey) -> Result<()>;
}

/// What of a range there is in an object of this length. A range that begins behind the end is empty, and at the end.
pub fn clamp(range: Option<Range<u64>>, length: u64) -> Range<u64> {
    let Some(range) = range else {
        return 0..length;
    };
    let start = range.start.min(length);
    start..range.end.clamp(start, length)
}

/// More content than was allowed.
pub fn too_large(most: u64) -> StorageError {
    StorageError::new(
        StorageErrorKind::Conflict,
        format!("the object has more than {most} bytes"),
    )
}

/// Tries whether a store can be used: keeps a small object under this key, reads it back and deletes it.
///
/// `Corrupt` when something else is read back.
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
            "what was read back is not what was written",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_to_what_there_is() {
        for (range, length, there) in [
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
            assert_eq!(clamp(range.clone(), length), there, "{range:?} of {length}");
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
