//! [`BlobStore`]. A case is handed a [`Blobs`], which opens the same store as often as it wants.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, future, stream};
use tollgate_types::AccountId;

use super::samples::kind;
use crate::blob::{collect, probe, whole};
use crate::{BlobContent, BlobKey, BlobStore, StorageError, StorageErrorKind};

/// Opens the store under test.
#[derive(Clone)]
pub struct Blobs {
    open: Arc<dyn Fn() -> Arc<dyn BlobStore> + Send + Sync>,
}

impl Blobs {
    /// What opens by this function: an empty store at first, and the same one again.
    pub fn new(open: impl Fn() -> Arc<dyn BlobStore> + Send + Sync + 'static) -> Self {
        Self { open: Arc::new(open) }
    }

    /// Opens the store.
    pub fn open(&self) -> Arc<dyn BlobStore> {
        (self.open)()
    }
}

/// More than any object here has.
const MOST: u64 = 64 << 20;

fn key(account: u128, object: u128) -> BlobKey {
    BlobKey {
        account: AccountId::from_u128(account),
        object,
    }
}

/// Bytes that differ from place to place.
fn text(length: usize) -> Vec<u8> {
    let byte = |place: usize| (place ^ (place >> 8) ^ (place >> 16)).to_le_bytes()[0];
    (0..length).map(byte).collect()
}

/// The same in pieces, which do not fit the parts of any engine.
fn pieces(length: usize) -> BlobContent {
    let text = Bytes::from(text(length));
    let pieces: Vec<Bytes> = (0..length)
        .step_by(70_001)
        .map(|start| text.slice(start..length.min(start + 70_001)))
        .collect();
    Box::pin(stream::iter(pieces).map(Ok))
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

/// An object is read back as it was written, also by a store that is opened later.
pub async fn put_then_read(blobs: Blobs) {
    let (key, text) = (key(1, u128::MAX), text(70_000));
    let put = blobs.open().put(key, whole(text.clone()), 70_000).await;
    assert_eq!(put.unwrap(), 70_000);
    assert_eq!(read(&*blobs.open(), key, None).await, Some(text));
}

/// What was never there is not there, and is nothing of which a range could be read.
pub async fn unknown_key_is_not_there(blobs: Blobs) {
    let store = blobs.open();
    store.put(key(1, 1), whole("text"), MOST).await.unwrap();
    for unknown in [key(1, 2), key(3, 1)] {
        assert!(is_absent(&*store, unknown).await);
        assert!(store.get(unknown, Some(0..1)).await.unwrap().is_none());
    }
}

/// Ranges at both edges and beyond; a whole one has no other bytes than no range.
pub async fn ranges_are_cut_to_the_object(blobs: Blobs) {
    let store = blobs.open();
    let (key, text) = (key(1, 1), text(1000));
    store.put(key, whole(text.clone()), MOST).await.unwrap();
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

/// An object may have no bytes, from no piece or from empty ones.
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

/// A large object comes and goes in pieces.
pub async fn large_object_is_streamed(blobs: Blobs) {
    const LENGTH: usize = 20_000_000;
    let store = blobs.open();
    let key = key(1, 1);
    assert_eq!(
        store.put(key, pieces(LENGTH), LENGTH as u64).await.unwrap(),
        LENGTH as u64
    );
    let text = text(LENGTH);
    let blob = store.get(key, None).await.unwrap().unwrap();
    let (mut content, mut place, mut most) = (blob.content, 0, 0);
    while let Some(piece) = content.next().await {
        let piece = piece.unwrap();
        assert!(piece == text[place..place + piece.len()]);
        (place, most) = (place + piece.len(), most.max(piece.len()));
    }
    assert_eq!(place, LENGTH);
    assert!(most < LENGTH, "it came in one piece");
    let middle = read(&*store, key, Some(8_388_600..8_388_620)).await;
    assert_eq!(middle.as_deref(), Some(&text[8_388_600..8_388_620]));
}

/// A key that is taken stays with its object, however small or large the other one is.
pub async fn overwriting_is_refused(blobs: Blobs) {
    let store = blobs.open();
    let key = key(1, 1);
    store.put(key, whole("first"), MOST).await.unwrap();
    for other in [whole("other"), whole(""), pieces(20_000_000)] {
        assert_eq!(
            kind(store.put(key, other, MOST).await),
            StorageErrorKind::Conflict
        );
        assert_eq!(read(&*store, key, None).await.unwrap(), b"first");
    }
}

/// What has more bytes than are allowed is not kept, however it comes.
pub async fn more_than_allowed_is_refused(blobs: Blobs) {
    let store = blobs.open();
    let key = key(1, 1);
    for (content, most) in [
        (whole("12345"), 4),
        (whole("1"), 0),
        (pieces(200_000), 199_999),
        (pieces(20_000_000), 19_999_999),
    ] {
        assert_eq!(
            kind(store.put(key, content, most).await),
            StorageErrorKind::Conflict
        );
        assert!(is_absent(&*store, key).await);
    }
    assert_eq!(store.put(key, whole("12345"), 5).await.unwrap(), 5);
}

/// Content that fails in the middle leaves nothing, and its own failure is what is told.
pub async fn failing_content_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for length in [0, 100_000, 20_000_000] {
        let error = StorageError::new(StorageErrorKind::Timeout, "the sender is gone");
        let content = pieces(length).chain(stream::once(async { Err(error) }));
        let put = store.put(key(1, 1), Box::pin(content), MOST).await;
        assert_eq!(kind(put), StorageErrorKind::Timeout);
        assert!(is_absent(&*store, key(1, 1)).await);
    }
    store.put(key(1, 1), whole("text"), MOST).await.unwrap();
}

/// A put that nobody waits for any more leaves nothing, and the key can be used.
pub async fn dropped_put_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for length in [0, 100_000, 20_000_000] {
        let (taken, all_taken) = tokio::sync::oneshot::channel();
        let end = stream::once(async move {
            let _ = taken.send(());
            future::pending().await
        });
        let mut put = store.put(key(1, 1), Box::pin(pieces(length).chain(end)), MOST);
        tokio::select! {
            put = &mut put => panic!("its content has not ended: {put:?}"),
            taken = all_taken => taken.unwrap(),
        }
        assert!(is_absent(&*store, key(1, 1)).await);
        drop(put);
        assert!(is_absent(&*store, key(1, 1)).await);
    }
    store.put(key(1, 1), whole("text"), MOST).await.unwrap();
}

/// A deleted object is gone, and may be deleted again. Its key can be used again.
pub async fn deleted_twice(blobs: Blobs) {
    let store = blobs.open();
    for text in ["first", "second"] {
        store.put(key(1, 1), whole(text), MOST).await.unwrap();
        for _ in 0..2 {
            store.delete(key(1, 1)).await.unwrap();
            assert!(is_absent(&*store, key(1, 1)).await);
        }
    }
    store.delete(key(9, 9)).await.unwrap();
}

/// Of many puts of one key at once one is kept, as a whole; puts of other keys are not hindered.
pub async fn puts_at_once(blobs: Blobs) {
    let store = blobs.open();
    let same = future::join_all((1..=8_usize).map(|number| {
        let store = store.clone();
        async move { store.put(key(1, 1), whole(text(number * 1000)), MOST).await }
    }));
    let others = future::join_all((1..=8_usize).map(|number| {
        let store = store.clone();
        async move {
            let key = key(2, number as u128);
            store.put(key, pieces(number * 100_000), MOST).await.unwrap();
            assert_eq!(read(&*store, key, None).await, Some(text(number * 100_000)));
        }
    }));
    let (same, _) = future::join(same, others).await;
    let kept: Vec<u64> = same.into_iter().flatten().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let length = usize::try_from(kept[0]).unwrap();
    assert_eq!(read(&*store, key(1, 1), None).await, Some(text(length)));
}

/// Two accounts may have the same object's name, and neither sees or deletes what is the other's.
pub async fn accounts_are_apart(blobs: Blobs) {
    let store = blobs.open();
    for (account, text) in [(1, "one"), (2, "two")] {
        store.put(key(account, 7), whole(text), MOST).await.unwrap();
    }
    store.delete(key(1, 7)).await.unwrap();
    assert!(is_absent(&*store, key(1, 7)).await);
    assert_eq!(read(&*store, key(2, 7), None).await.unwrap(), b"two");
}

/// A store that works passes its probe, again and again, and keeps nothing of it.
pub async fn probe_leaves_nothing(blobs: Blobs) {
    let store = blobs.open();
    for _ in 0..2 {
        probe(&*store, key(0, 1)).await.unwrap();
        assert!(is_absent(&*store, key(0, 1)).await);
    }
}
