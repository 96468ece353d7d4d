//! Hash maps keyed by ids, and the shards of ids.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_types::{AccountId, HoldId};

/// Key of a hold. Hold ids are unique only within their account.
pub(crate) type HoldKey = (AccountId, HoldId);

/// A hash map keyed by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hasher that folds ids. The gateway generates all ids, so that no client can choose colliding
/// ones.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write_u128(&mut self, id: u128) {
        let folded = (id >> 64) as u64 ^ (id as u64).rotate_left(32);
        self.0 = (self.0.rotate_left(5) ^ folded).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        // The map derives the bucket from the low bits and the tag from the high bits.
        self.0 ^ (self.0 >> 32)
    }
}

/// Returns the shard of an id: a number below `shards`, which must be a power of two.
pub(crate) fn shard_of(id: u128, shards: usize) -> usize {
    let mut hasher = IdHasher::default();
    hasher.write_u128(id);
    (hasher.finish() >> 20) as usize & (shards - 1)
}

/// Locks a mutex and ignores poisoning: each change under these locks is a single step that cannot
/// panic halfway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
