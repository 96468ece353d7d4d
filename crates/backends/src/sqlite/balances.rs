//! Balances of all accounts, in memory. The writer task updates the database later.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tollgate_storage::lot::Funds;
use tollgate_storage::subscription::{Draw, window_entry};
use tollgate_storage::{Balance, PlanUse, Subscription};
use tollgate_types::{AccountId, Credits, Timestamp};

use crate::ids::{IdMap, shard_of};

const SHARDS: usize = 32;

/// Balances of one account.
#[derive(Debug, Default)]
pub(super) struct AccountBalances {
    /// Current balances. Changes are written to the journal under this lock, so that the journal
    /// contains the changes of an account in order.
    pub(super) sums: Mutex<Sums>,
}

/// Balances in nano-credits, never negative.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Available credits, without the allowance.
    pub(super) credits: i64,
    /// Held amount, including held allowance.
    pub(super) held: i64,
    /// Part of `held` that comes from an allowance.
    pub(super) drawn: i64,
    /// Total charged for calls, including overruns and the part that allowances paid.
    pub(super) revenue: i64,
    /// Unused allowance of the plan's open week.
    pub(super) allowance: i64,
    /// Plan subscription in the state `active` or `past_due`, if any.
    pub(super) plan: Option<Box<Subscription>>,
}

/// Allowance that a call may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Number of the week.
    pub(super) week: i64,
    /// Unused allowance of the week, in nano-credits.
    pub(super) left: i64,
    /// Whether the week must be opened first.
    pub(super) is_next: bool,
}

impl Sums {
    /// Returns the allowance that a call at this time may use; `None` if no plan covers the call.
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

    /// Whether `used` refers to the open week of the plan.
    pub(super) fn is_open(&self, used: &PlanUse) -> bool {
        let open = self
            .plan
            .as_ref()
            .and_then(|plan| Some((plan.terms.id, plan.window?)));
        open.is_some_and(|(subscription, number)| window_entry(subscription, number) == used.window)
    }

    /// Returns the credits of the account, without its allowance.
    pub(super) fn funds(&self) -> Funds {
        Funds {
            available: Credits::from_nanos(self.credits),
            held: Credits::from_nanos(self.held - self.drawn),
        }
    }

    /// Converts the balances to the type of the storage port.
    pub(super) fn balance(&self) -> Balance {
        Balance {
            credits: Credits::from_nanos(self.credits),
            held: Credits::from_nanos(self.held),
        }
    }
}

/// Balances of all accounts, in shards.
#[derive(Default)]
pub(super) struct Balances {
    shards: [RwLock<IdMap<AccountId, Arc<AccountBalances>>>; SHARDS],
}

impl Balances {
    /// Returns the balances of an account; `None` if the account does not exist.
    pub(super) fn get(&self, account: AccountId) -> Option<Arc<AccountBalances>> {
        let shard = self.shard(account).read().unwrap_or_else(PoisonError::into_inner);
        shard.get(&account).cloned()
    }

    /// Adds the balances of a new account. Changes nothing if the account already has balances.
    pub(super) fn open(&self, account: AccountId, sums: Sums) {
        let mut shard = self
            .shard(account)
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        shard.entry(account).or_insert_with(|| {
            Arc::new(AccountBalances {
                sums: Mutex::new(sums),
            })
        });
    }

    fn shard(&self, account: AccountId) -> &RwLock<IdMap<AccountId, Arc<AccountBalances>>> {
        &self.shards[shard_of(account.as_u128(), SHARDS)]
    }
}
