//! What has changed, counted: what was read before a change is not believed after it.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_storage::News;
use tollgate_types::AccountId;

/// Accounts share so many places. Those that share one are read again when any of them changes.
const PLACES: usize = 1024;

/// The changes that are known. Each has a number; what is kept is the last of each kind.
#[derive(Debug)]
pub(super) struct Changes {
    count: AtomicU64,
    everything: AtomicU64,
    keys: AtomicU64,
    accounts: [AtomicU64; PLACES],
}

/// When something was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// On the clock that never goes back, in microseconds.
    pub(super) at: u64,
    /// How many changes were known then.
    changes: u64,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            everything: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            accounts: [const { AtomicU64::new(0) }; PLACES],
        }
    }
}

impl Changes {
    /// Now, at this time of the clock. To be asked before the look.
    pub(super) fn seen(&self, at: u64) -> Seen {
        Seen {
            at,
            changes: self.count.load(Ordering::Acquire),
        }
    }

    /// Counts a change, which has been made already.
    pub(super) fn note(&self, news: News) {
        let last = match news {
            News::Keys => &self.keys,
            News::Account(id) => self.place(id),
            News::Everything => &self.everything,
            News::Lease(_) => return,
        };
        let number = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        last.fetch_max(number, Ordering::Release);
    }

    /// Whether what was read of this account and its keys is what they are, as far as is known.
    pub(super) fn has_none_since(&self, seen: Seen, account: AccountId) -> bool {
        is_before(self.place(account), seen) && is_before(&self.everything, seen)
    }

    /// Whether a key that was not there is not there, as far as is known.
    pub(super) fn has_no_new_keys_since(&self, seen: Seen) -> bool {
        is_before(&self.keys, seen) && is_before(&self.everything, seen)
    }

    fn place(&self, account: AccountId) -> &AtomicU64 {
        // The low bits of an id are random.
        let place = account.as_u128() % PLACES as u128;
        &self.accounts[usize::try_from(place).unwrap_or_default()]
    }
}

fn is_before(last: &AtomicU64, seen: Seen) -> bool {
    last.load(Ordering::Acquire) <= seen.changes
}
