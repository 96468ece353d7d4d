//! Counters of key and account changes. They invalidate cache entries that were read before a
//! change.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_storage::Notification;
use tollgate_types::AccountId;

/// Number of account counters. Accounts that share one are invalidated together.
const SLOTS: usize = 1024;

/// Counters of the known changes. Changes are numbered; each counter has the number of the last
/// change of its kind.
#[derive(Debug)]
pub(super) struct Changes {
    count: AtomicU64,
    everything: AtomicU64,
    keys: AtomicU64,
    accounts: [AtomicU64; SLOTS],
}

/// Time and change number of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Monotonic time, in microseconds.
    pub(super) at: u64,
    /// Number of changes known at that time.
    changes: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            everything: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            accounts: [const { AtomicU64::new(0) }; SLOTS],
        }
    }
}

impl Changes {
    /// Returns the version of a read that starts at this monotonic time. Call it before the read.
    pub(super) fn version(&self, at: u64) -> Version {
        Version {
            at,
            changes: self.count.load(Ordering::Acquire),
        }
    }

    /// Counts a change that is already stored.
    pub(super) fn note(&self, notification: Notification) {
        let last = match notification {
            Notification::Keys => &self.keys,
            Notification::Account(id) => self.slot(id),
            Notification::Everything => &self.everything,
            Notification::Lease(_) => return,
        };
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        last.fetch_max(number, Ordering::Release);
    }

    /// Whether no change noted after `version` affects a read of this account and its keys.
    pub(super) fn has_none_since(&self, version: Version, account: AccountId) -> bool {
        is_before(self.slot(account), version) && is_before(&self.everything, version)
    }

    /// Whether a key that was not found at `version` still does not exist, as far as changes are
    /// known.
    pub(super) fn has_no_new_keys_since(&self, version: Version) -> bool {
        is_before(&self.keys, version) && is_before(&self.everything, version)
    }

    fn slot(&self, account: AccountId) -> &AtomicU64 {
        // The low bits of an id are random.
        let slot = account.as_u128() % SLOTS as u128;
        &self.accounts[usize::try_from(slot).unwrap_or_default()]
    }
}

fn is_before(last: &AtomicU64, version: Version) -> bool {
    last.load(Ordering::Acquire) <= version.changes
}
