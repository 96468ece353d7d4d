use std::collections::HashMap;
use std::sync::Mutex;

use proptest::prelude::*;
use tollgate_storage::blob::{collect, whole};
use tollgate_storage::conformance::{Blobs, BoxFuture};
use tollgate_types::AccountId;

use super::*;

/// Objects in memory.
#[derive(Default)]
struct Memory(Mutex<HashMap<BlobKey, Bytes>>);

#[async_trait]
impl BlobStore for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn put(&self, key: BlobKey, content: BlobContent, max_bytes: u64) -> Result<u64> {
        let bytes = collect(content).await?;
        let length = bytes.len() as u64;
        if length > max_bytes {
            return Err(too_large(max_bytes));
        }
        let mut objects = self.0.lock().unwrap();
        if objects.contains_key(&key) {
            return Err(StorageError::new(StorageErrorKind::Conflict, "taken"));
        }
        objects.insert(key, bytes.into());
        Ok(length)
    }

    async fn get(&self, key: BlobKey, range: Option<Range<u64>>) -> Result<Option<Blob>> {
        let Some(bytes) = self.0.lock().unwrap().get(&key).cloned() else {
            return Ok(None);
        };
        let (length, range) = (bytes.len() as u64, clamp(range, bytes.len() as u64));
        // The segment boundaries differ from the chunk boundaries.
        let part = bytes.slice(range.start as usize..range.end as usize);
        let segments: Vec<Result<Bytes>> = part
            .chunks(1_000)
            .map(|segment| Ok(Bytes::copy_from_slice(segment)))
            .collect();
        let content = Box::pin(stream::iter(segments));
        Ok(Some(Blob {
            length,
            range,
            content,
        }))
    }

    async fn length(&self, key: BlobKey) -> Result<Option<u64>> {
        Ok(self.0.lock().unwrap().get(&key).map(|bytes| bytes.len() as u64))
    }

    async fn delete(&self, key: BlobKey) -> Result<()> {
        self.0.lock().unwrap().remove(&key);
        Ok(())
    }
}

const MAX_BYTES: u64 = 1 << 20;

fn key(account: u128, object: u128) -> BlobKey {
    BlobKey {
        account: AccountId::from_u128(account),
        object,
    }
}

fn sealed(inner: &Arc<Memory>, secret: u8) -> SealedBlobs {
    SealedBlobs::new(inner.clone(), Pepper::new(&[secret; 32]).unwrap())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(future)
}

async fn read(store: &SealedBlobs, key: BlobKey, range: Option<Range<u64>>) -> Result<Vec<u8>> {
    let blob = store.get(key, range).await?.unwrap();
    let expected = blob.range.end - blob.range.start;
    let bytes = collect(blob.content).await?;
    assert_eq!(bytes.len() as u64, expected);
    Ok(bytes)
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

/// The suite that every store passes.
mod conformance {
    tollgate_storage::blob_conformance_tests!(super::run);
}

fn run(case: impl FnOnce(Blobs) -> BoxFuture<()>) {
    let inner = Arc::new(Memory::default());
    let open = move || Arc::new(sealed(&inner, 1)) as Arc<dyn BlobStore>;
    block_on(case(Blobs::new(open)));
}

#[test]
fn stored_bytes_reveal_nothing_of_the_object() {
    block_on(async {
        let inner = Arc::new(Memory::default());
        let store = sealed(&inner, 1);
        let canary = b"text that must be encrypted".repeat(5_000);
        for object in [1, 2] {
            store
                .put(key(7, object), whole(canary.clone()), MAX_BYTES)
                .await
                .unwrap();
        }
        let objects = inner.0.lock().unwrap();
        let [one, other] = [1, 2].map(|object| &objects[&key(7, object)]);
        assert!(!one.windows(8).any(|part| part == b"a canary"));
        assert_ne!(one[HEADER..], other[HEADER..]);
    });
}

#[test]
fn modified_moved_or_truncated_objects_do_not_open() {
    block_on(async {
        let inner = Arc::new(Memory::default());
        let store = sealed(&inner, 1);
        let length = 2 * CHUNK + 5;
        store
            .put(key(7, 1), whole(text(length)), MAX_BYTES)
            .await
            .unwrap();
        let written = inner.0.lock().unwrap()[&key(7, 1)].clone();
        let chunk = |number: usize| HEADER + number * SEALED_CHUNK as usize;
        let mut cases: Vec<Vec<u8>> = Vec::new();
        for place in [
            MAGIC.len(),
            HEADER - 1,
            HEADER,
            chunk(1) - 1,
            chunk(1),
            chunk(2),
            written.len() - 1,
        ] {
            let mut changed = written.to_vec();
            changed[place] ^= 1;
            cases.push(changed);
        }
        for end in [HEADER, chunk(1), chunk(2), written.len() - 1] {
            cases.push(written[..end].to_vec());
        }
        let exchanged = [
            &written[..HEADER],
            &written[chunk(1)..chunk(2)],
            &written[HEADER..chunk(1)],
            &written[chunk(2)..],
        ];
        cases.push(exchanged.concat());
        for (number, changed) in cases.into_iter().enumerate() {
            inner.0.lock().unwrap().insert(key(7, 1), changed.into());
            let refused = read(&store, key(7, 1), None).await;
            assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Corrupt, "{number}");
        }
        // The same bytes as another object, for another account, or at another installation.
        for (place, secret) in [(key(7, 2), 1), (key(8, 1), 1), (key(7, 1), 2)] {
            inner.0.lock().unwrap().insert(place, written.clone());
            let refused = read(&sealed(&inner, secret), place, None).await;
            assert_eq!(refused.unwrap_err().kind, StorageErrorKind::Corrupt);
        }
    });
}

#[test]
fn unencrypted_objects_are_read_unchanged() {
    block_on(async {
        let inner = Arc::new(Memory::default());
        let store = sealed(&inner, 1);
        for (object, length) in (1..).zip([0, 5, HEADER, CHUNK + 9]) {
            let plain = text(length);
            inner
                .put(key(7, object), whole(plain.clone()), MAX_BYTES)
                .await
                .unwrap();
            assert_eq!(read(&store, key(7, object), None).await.unwrap(), plain);
            let part = read(&store, key(7, object), Some(2..7)).await.unwrap();
            assert_eq!(part, plain[2.min(length)..7.min(length)]);
            assert_eq!(store.length(key(7, object)).await.unwrap(), Some(length as u64));
        }
    });
}

#[test]
fn plain_length_follows_from_the_sealed_length() {
    let chunk = CHUNK as u64;
    for plain in [0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk, 3 * chunk + 1] {
        assert_eq!(plain_length(sealed_length(plain)).unwrap(), plain);
    }
    for sealed in [
        0,
        1,
        HEADER as u64,
        sealed_length(0) - 1,
        sealed_length(chunk) + 1,
        sealed_length(chunk) + 16,
    ] {
        assert!(plain_length(sealed).is_err(), "{sealed}");
    }
    assert_eq!(sealed_length(u64::MAX), u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_range_matches_the_plain_object(
        length in prop_oneof![0..3_usize, CHUNK - 2..CHUNK + 3, 2 * CHUNK - 2..2 * CHUNK + 3, 0..3 * CHUNK],
        start in 0..3 * CHUNK as u64, size in prop_oneof![0..3_u64, 0..3 * CHUNK as u64],
        segment in 1..2 * CHUNK,
    ) {
        block_on(async {
            let inner = Arc::new(Memory::default());
            let store = sealed(&inner, 1);
            let plain = text(length);
            let segments: Vec<Result<Bytes>> = plain.chunks(segment).map(|segment| Ok(Bytes::copy_from_slice(segment))).collect();
            let content = Box::pin(stream::iter(segments));
            let put = store.put(key(7, 1), content, length as u64).await;
            prop_assert_eq!(put.unwrap(), length as u64);
            prop_assert_eq!(&read(&store, key(7, 1), None).await.unwrap(), &plain);
            prop_assert_eq!(store.length(key(7, 1)).await.unwrap(), Some(length as u64));
            let there = clamp(Some(start..start + size), length as u64);
            let part = read(&store, key(7, 1), Some(start..start + size)).await.unwrap();
            prop_assert_eq!(&part[..], &plain[there.start as usize..there.end as usize]);
            Ok(())
        })?;
    }
}
