//! Cases for [`BlobStore`]. Each takes a [`Blobs`], which can open the same store repeatedly.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use tollgate_types::AccountId;

use super::samples::kind;
use crate::blob::{collect, probe, whole};
use crate::{BlobContent, BlobKey, BlobStore, StorageError, StorageErrorKind};

/// Opener of the store under test.
#[derive(Clone)]
pub struct Blobs {
    open: Arc<dyn Fn() -> Arc<dyn BlobStore> + Send + Sync>,
}

impl Blobs {
    /// Creates the value from a function that opens the store: empty at first, with its objects
    /// later.
    pub fn new(open: impl Fn() -> Arc<dyn BlobStore> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open) }
    }

    /// Opens the store of this case.
    pub fn open(&self) -> Arc<dyn BlobStore> {
        (self.open)()
    }
}

/// Limit above the size of every object here.
const MAX_BYTES: u64 = 64 << 20;

fn key(account: u128, object: u128) -> BlobKey {
    BlobKey {
        account: AccountId::from_u128(account),
        object,
    }
}

/// Makes bytes that differ by position.
fn text(length: usize) -> Vec<u8> {
    let byte = |place: usize| (place ^ (place >> 8) ^ (place >> 16)).to_le_bytes()[0];
    (0..length).map(byte).collect()
}

/// Returns the bytes of [`text`] in chunks that do not match the part size of any engine.
fn chunked(length: usize) -> BlobContent {
    let text = Bytes::from(text(length));
    let chunked: Vec<Bytes> = (0..length)
        .step_by(70_001)
        .map(|start| text.slice(start..length.min(start + 70_001)))
        .collect();
    Box::pin(stream::iter(chunked).map(Ok))
}

async fn read(store: &dyn BlobStore, key: BlobKey, range: Option<Range<u64>>) -> Option<Vec<u8>> {
    let blob = store.get(key, range).await.unwrap()?;
    let (length, range) = (blob.length, blob.range.clone());
    let bytes = collect(blob.content).await.unwrap();
    assert_eq!(bytes.len() as u64, range.end - range.start);
    assert_eq!(store.length(key).await.unwrap(), Some(length));
    Some(bytes)
}

async fn is_absent(store: &dyn BlobStore, key: BlobKey) -> bool {
    store.length(key).await.unwrap().is_none() && store.get(key, None).await.unwrap().is_none()
}

/// Checks that an object is read back verbatim, even after the store is reopened.
pub async fn put_then_read(blobs: Blobs) {
    let (key, text) = (key(1, u128::MAX), text(70_000));
    let put = blobs.open().put(key, whole(text.clone()), 70_000).await;
    assert_eq!(put.unwrap(), 70_000);
    assert_eq!(read(&*blobs.open(), key, None).await, Some(text));
}

/// Checks that a missing object cannot be read, in whole or by range.
pub async fn unknown_key_is_not_found(blobs: Blobs) {
    let store = blobs.open();
    store.put(key(1, 1), whole("text"), MAX_BYTES).await.unwrap();
    for unknown in [key(1, 2), key(3, 1)] {
        assert!(is_absent(&*store, unknown).await);
        assert!(store.get(unknown, Some(0..1)).await.unwrap().is_none());
    }
}

/// Checks that ranges at and beyond both edges are limited to the object, and that the full range
/// equals no range.
pub async fn ranges_are_cut_to_the_object(blobs: Blobs) {
    let store = blobs.open();
    let (key, text) = (key(1, 1), text(1000));
    store.put(key, whole(text.clone()), MAX_BYTES).await.unwrap();
    for (range, there) in [
        (0..1, 0..1),
        (0..1000, 0..1000),
        (0..u64::MAX, 0..1000),
        (1..999, 1..999),
        (999..1000, 999..1000),
        (999..5000, 999..1000),
        (1000..1001, 1000..1000),
        (5000..6000, 1000..1000),
        (7..7, 7..7),
    ] {
        let blob = store.get(key, Some(range.clone())).await.unwrap().unwrap();
        assert_eq!((blob.length, blob.range), (1000, there.clone()), "{range:?}");
        let there = usize::try_from(there.start).unwrap()..usize::try_from(there.end).unwrap();
        assert_eq!(collect(blob.content).await.unwrap(), &text[there], "{range:?}");
    }
}

/// Checks that an object may be empty, from no chunk or from empty chunks.
pub async fn empty_object(blobs: Blobs) {
    let store = blobs.open();
    let nothing: [BlobContent; 2] = [Box::pin(stream::empty()), whole("")];
    for (number, content) in nothing.into_iter().enumerate() {
        let key = key(1, number as u128);
        assert_eq!(store.put(key, content, 0).await.unwrap(), 0);
        for range in [None, Some(0..1), Some(5..9)] {
            assert_eq!(read(&*store, key, range).await.unwrap(), b"");
        }
    }
}

/// Checks that a large object is written and read in chunks.
pub async fn large_object_is_streamed(blobs: Blobs) {
    const LENGTH: usize = 20_000_000;
    let store = blobs.open();
    let key = key(1, 1);
    assert_eq!(
        store.put(key, chunked(LENGTH), LENGTH as u64).await.unwrap(),
        LENGTH as u64
    );
    let text = text(LENGTH);
    let blob = store.get(key, None).await.unwrap().unwrap();
    let (mut content, mut place, mut max_bytes) = (blob.content, 0, 0);
    while let Some(chunk) = content.next().await {
        let chunk = chunk.unwrap();
        assert!(chunk == text[place..place + chunk.len()]);
        (place, max_bytes) = (place + chunk.len(), max_bytes.max(chunk.len()));
    }
    assert_eq!(place, LENGTH);
    assert!(max_bytes < LENGTH, "it came in one piece");
    let middle = read(&*store, key, Some(8_388_600..8_388_620)).await;
    assert_eq!(middle.as_deref(), Some(&text[8_388_600..8_388_620]));
}

/// Checks that an existing key keeps its object, regardless of the size of the new content.
pub async fn overwriting_is_refused(blobs: Blobs) {
    let store = blobs.open();
    let key = key(1, 1);
    store.put(key, whole("first"), MAX_BYTES).await.unwrap();
    for other in [whole("other"), whole(""), chunked(20_000_000)] {
        assert_eq!(
            kind(store.put(key, other, MAX_BYTES).await),
            StorageErrorKind::Conflict
        );
        assert_eq!(read(&*store, key, None).await.unwrap(), b"first");
    }
}

/// Checks that content longer than the limit is not stored, in any chunking.
pub async fn oversized_content_is_refused(blobs: Blobs) {
    let store = blobs.open();
    let key = key(1, 1);
    for (content, max_bytes) in [
        (whole("12345"), 4),
        (whole("1"), 0),
        (chunked(200_000), 199_999),
        (chunked(20_000_000), 19_999_999),
    ] {
        assert_eq!(
            kind(store.put(key, content, max_bytes).await),
            StorageErrorKind::Conflict
        );
        assert!(is_absent(&*store, key).await);
    }
    assert_eq!(store.put(key, whole("12345"), 5).await.unwrap(), 5);
}

/// Checks that content that fails midway stores nothing; `put` returns the error of the content.
pub async fn failing_content_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for length in [0, 100_000, 20_000_000] {
        let error = StorageError::new(StorageErrorKind::Timeout, "the sender is gone");
        let content = chunked(length).chain(stream::once(async { Err(error) }));
        let put = store.put(key(1, 1), Box::pin(content), MAX_BYTES).await;
        assert_eq!(kind(put), StorageErrorKind::Timeout);
        assert!(is_absent(&*store, key(1, 1)).await);
    }
    store.put(key(1, 1), whole("text"), MAX_BYTES).await.unwrap();
}

/// Checks that a dropped `put` stores nothing, and its key can be used.
pub async fn dropped_put_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for length in [0, 100_000, 20_000_000] {
        let (taken, all_taken) = tokio::sync::oneshot::channel();
        let end = stream::once(async move {
            let _ = taken.send(());
            future::pending().await
        });
        let mut put = store.put(key(1, 1), Box::pin(chunked(length).chain(end)), MAX_BYTES);
        tokio::select! {
            put = &mut put => panic!("its content has not ended: {put:?}"),
            taken = all_taken => taken.unwrap(),
        }
        assert!(is_absent(&*store, key(1, 1)).await);
        drop(put);
        assert!(is_absent(&*store, key(1, 1)).await);
    }
    store.put(key(1, 1), whole("text"), MAX_BYTES).await.unwrap();
}

/// Checks that a deleted object no longer exists and can be deleted again. Its key can be reused.
pub async fn deleted_twice(blobs: Blobs) {
    let store = blobs.open();
    for text in ["first", "second"] {
        store.put(key(1, 1), whole(text), MAX_BYTES).await.unwrap();
        for _ in 0..2 {
            store.delete(key(1, 1)).await.unwrap();
            assert!(is_absent(&*store, key(1, 1)).await);
        }
    }
    store.delete(key(9, 9)).await.unwrap();
}

/// Checks that, of many concurrent puts with one key, one is stored whole; puts with other keys
/// succeed.
pub async fn concurrent_puts_store_one(blobs: Blobs) {
    let store = blobs.open();
    let same = future::join_all((1..=8_usize).map(|number| {
        let store = store.clone();
        async move { store.put(key(1, 1), whole(text(number * 1000)), MAX_BYTES).await }
    }));
    let others = future::join_all((1..=8_usize).map(|number| {
        let store = store.clone();
        async move {
            let key = key(2, number as u128);
            store
                .put(key, chunked(number * 100_000), MAX_BYTES)
                .await
                .unwrap();
            assert_eq!(read(&*store, key, None).await, Some(text(number * 100_000)));
        }
    }));
    let (same, _) = future::join(same, others).await;
    let stored: Vec<u64> = same.into_iter().flatten().collect();
    assert_eq!(stored.len(), 1, "{stored:?}");
    let length = usize::try_from(stored[0]).unwrap();
    assert_eq!(read(&*store, key(1, 1), None).await, Some(text(length)));
}

/// Checks that two accounts may use the same object number; neither reads or deletes the other's
/// object.
pub async fn accounts_are_separate(blobs: Blobs) {
    let store = blobs.open();
    for (account, text) in [(1, "one"), (2, "two")] {
        store.put(key(account, 7), whole(text), MAX_BYTES).await.unwrap();
    }
    store.delete(key(1, 7)).await.unwrap();
    assert!(is_absent(&*store, key(1, 7)).await);
    assert_eq!(read(&*store, key(2, 7), None).await.unwrap(), b"two");
}

/// Checks that a working store passes its probe repeatedly, and the probe leaves nothing.
pub async fn probe_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for _ in 0..2 {
        probe(&*store, key(0, 1)).await.unwrap();
        assert!(is_absent(&*store, key(0, 1)).await);
    }
}
