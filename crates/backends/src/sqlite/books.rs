//! What every account can spend, in memory. The database follows it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tollgate_storage::Balance;
use tollgate_types::{AccountId, Credits};

use super::ids::{IdMap, shard_of};

const SHARDS: usize = 32;

/// One tenant's book.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Its sums. Whoever changes them writes the journal before letting go of them, so that the journal tells the
    /// steps of a book in the order in which they were taken.
    pub(super) sums: Mutex<Sums>,
}

/// Balances in nano-credits. None is ever below zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// What can be spent.
    pub(super) credits: i64,
    /// What is held.
    pub(super) held: i64,
    /// What calls have cost, the overrun included.
    pub(super) revenue: i64,
}

impl Sums {
    /// As the port says it.
    pub(super) fn balance(&self) -> Balance {
        Balance {
            credits: Credits::from_nanos(self.credits),
            held: Credits::from_nanos(self.held),
        }
    }
}

/// Every book.
#[derive(Default)]
pub(super) struct Books {
    shards: [RwLock<IdMap<AccountId, Arc<Book>>>; SHARDS],
}

impl Books {
    /// The account's book.
    pub(super) fn get(&self, account: AccountId) -> Option<Arc<Book>> {
        let shard = self.shard(account).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&account).cloned()
    }

    /// Opens the account's book, if it has none.
    pub(super) fn open(&self, account: AccountId, sums: Sums) {
        let mut shard = self
            .shard(account)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        shard.entry(account).or_insert_with(|| {
            Arc::new(Book {
                sums: Mutex::new(sums),
            })
        });
    }

    fn shard(&self, account: AccountId) -> &RwLock<IdMap<AccountId, Arc<Book>>> {
        &self.shards[shard_of(account.as_u128(), SHARDS)]
    }
}
