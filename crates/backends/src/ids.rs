//! Maps keyed by ids.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_types::{AccountId, HoldId};

/// What names a hold: ids are unique within their account.
pub(crate) type HoldKey = (AccountId, HoldId);

/// A map keyed by ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Folds ids. They come from the gateway, so that nobody chooses them to collide.
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
        // The map takes its place from the low bits and its tag from the high ones.
        self.0 ^ (self.0 >> 32)
    }
}

/// Which of `shards` an id belongs to; `shards` is a power of two.
pub(crate) fn shard_of(id: u128, shards: usize) -> usize {
    let mut hasher = IdHasher::default();
    hasher.write_u128(id);
    (hasher.finish() >> 20) as usize & (shards - 1)
}

/// Locks. A panic of another holder does not spread: what the locks guard is changed in single steps that cannot
/// panic half way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
