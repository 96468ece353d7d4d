//! What every account can spend, in memory. The database follows it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tollgate_storage::lot::Funds;
use tollgate_storage::subscription::{Draw, window_entry};
use tollgate_storage::{Balance, PlanUse, Subscription};
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::ids::{IdMap, shard_of};

const SHARDS: usize = 32;

/// One tenant's book.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// Its sums. Whoever changes them writes the journal before letting go of them, so that the journal tells the
    /// steps of a book in the order in which they were taken.
    pub(super) sums: Mutex<Sums>,
}

/// Balances in nano-credits. None is ever below zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// What can be spent.
    pub(super) credits: i64,
    /// What is held.
    pub(super) held: i64,
    /// How much of that is of an allowance.
    pub(super) drawn: i64,
    /// What calls have cost, the overrun and what allowances paid included.
    pub(super) revenue: i64,
    /// What is left of the open week of the plan.
    pub(super) allowance: i64,
    /// The plan that is active or past due.
    pub(super) plan: Option<Box<Subscription>>,
}

/// What a call may draw on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The number of the week.
    pub(super) week: i64,
    /// What is left of it.
    pub(super) left: i64,
    /// Whether it has to be opened first.
    pub(super) is_next: bool,
}

impl Sums {
    /// What a call may draw on, if a plan covers it.
    pub(super) fn share(&self, at: Timestamp, not_covered_by: &[Arc<str>]) -> Option<Share> {
        let plan = self.plan.as_deref()?;
        let (week, left, is_next) = match plan.draw(at) {
            _ if not_covered_by.contains(&plan.terms.subject) => return None,
            Draw::Open(week) => (week, self.allowance, false),
            Draw::Next(week) => (week, plan.terms.allowance.nanos(), true),
            Draw::Nothing => return None,
        };
        Some(Share { week, left, is_next })
    }

    /// Whether the week is the one that is open.
    pub(super) fn is_open(&self, used: &PlanUse) -> bool {
        let open = self
            .plan
            .as_ref()
            .and_then(|plan| Some((plan.terms.id, plan.window?)));
        open.is_some_and(|(subscription, number)| window_entry(subscription, number) == used.window)
    }

    /// What of the book is credits.
    pub(super) fn funds(&self) -> Funds {
        Funds {
            available: Credits::from_nanos(self.credits),
            held: Credits::from_nanos(self.held - self.drawn),
        }
    }

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
