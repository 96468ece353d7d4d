//! [`Counters`] in one process: exact for a single node, lost when the process ends.
//!
//! Up to a limit of 10,000 requests a minute, the time of each request is stored; above it,
//! requests are counted by the second. Tokens are always counted by the second. A second leaves the
//! window when all of it is at least a minute old. Such a window is up to one second longer than a
//! minute and never admits more than the limit in any minute.

mod requests;
mod seconds;
mod tokens;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_storage::{Budget, Counters, Decision, Result};
use tollgate_types::{AccountId, Clock};

use requests::Requests;
use tokens::Tokens;

/// Length of every window, in microseconds.
pub(crate) const WINDOW: u64 = 60_000_000;

/// Number of shards. Calls for accounts in different shards never wait for each other.
pub(crate) const SHARDS: usize = 64;

/// Sliding windows of one minute in the memory of this process. A call acquires one lock, usually
/// uncontended, and lasts well under a microsecond. Accounts with empty windows are removed.
pub struct MemoryCounters {
    clock: Arc<dyn Clock>,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Default)]
struct Shard {
    accounts: HashMap<AccountId, Windows>,
    next_cleaning: u64,
}

/// The windows of one account. `tokens` is allocated with the first reservation.
#[derive(Default)]
struct Windows {
    work: Requests,
    control: Requests,
    tokens: Option<Box<Tokens>>,
}

impl MemoryCounters {
    /// Creates empty windows, timed by the monotonic time of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { clock, shards }
    }

    /// Returns the number of accounts with a window in memory.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).accounts.len()).sum()
    }

    /// Whether no account has a window in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with<T>(&self, account: AccountId, call: impl FnOnce(&mut Windows, u64) -> T) -> T {
        let mut shard = lock(&self.shards[shard_of(account)]);
        // The clock is read under the lock, so that the times of one account never decrease.
        let now = self.clock.monotonic_micros();
        shard.clean(now);
        call(shard.accounts.entry(account).or_default(), now)
    }
}

impl Shard {
    /// Removes accounts with empty windows, at most once a minute.
    fn clean(&mut self, now: u64) {
        if now < self.next_cleaning {
            return;
        }
        self.next_cleaning = now.saturating_add(WINDOW);
        self.accounts.retain(|_, windows| !windows.is_idle(now));
        self.accounts.shrink_to(self.accounts.len() * 2);
    }
}

impl Windows {
    fn requests(&mut self, budget: Budget) -> &mut Requests {
        match budget {
            Budget::Work => &mut self.work,
            Budget::Control => &mut self.control,
        }
    }

    fn is_idle(&mut self, now: u64) -> bool {
        let tokens_idle = self.tokens.as_mut().is_none_or(|tokens| tokens.is_idle(now));
        tokens_idle && self.work.is_idle(now) && self.control.is_idle(now)
    }
}

#[async_trait]
impl Counters for MemoryCounters {
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision> {
        Ok(self.with(account, |windows, now| {
            windows.requests(budget).admit(limit.into(), now)
        }))
    }

    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision> {
        Ok(self.with(account, |windows, now| {
            windows.tokens.get_or_insert_default().reserve(tokens, limit, now)
        }))
    }

    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()> {
        self.with(account, |windows, now| {
            windows
                .tokens
                .get_or_insert_default()
                .correct(reserved, used, now);
        });
        Ok(())
    }

    async fn peek(
        &self,
        account: AccountId,
        budget: Budget,
        rpm: u32,
        tpm: u64,
    ) -> Result<(Decision, Decision)> {
        let mut shard = lock(&self.shards[shard_of(account)]);
        let now = self.clock.monotonic_micros();
        let mut unknown = Windows::default();
        let windows = shard.accounts.get_mut(&account).unwrap_or(&mut unknown);
        let requests = windows.requests(budget).peek(rpm.into(), now);
        let tokens = match &mut windows.tokens {
            Some(tokens) => tokens.peek(tpm, now),
            None => Tokens::default().peek(tpm, now),
        };
        Ok((requests, tokens))
    }
}

impl fmt::Debug for MemoryCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCounters")
            .field("accounts", &self.len())
            .finish()
    }
}

/// Locks a shard and ignores poisoning: a panic under the lock leaves valid counts.
pub(crate) fn lock<T>(shard: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the shard of an account. Folding distributes ids that share bits.
pub(crate) fn shard_of(account: AccountId) -> usize {
    let id = account.as_u128();
    let folded = (id as u64) ^ ((id >> 64) as u64);
    let mixed = folded.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 58) as usize % SHARDS
}

/// A sliding window, whose amounts expire with time. Times are in microseconds.
pub(crate) trait Window {
    /// Returns the amount in the window.
    fn total(&self) -> u64;
    /// Returns the time until this amount has left the window. The amount must be at least 1 and at
    /// most the total.
    fn until_left(&self, amount: u64, now: u64) -> Duration;
    /// Returns the time until the window is empty.
    fn until_empty(&self, now: u64) -> Duration;
}

/// Returns the decision for a further amount of `wanted` under the limit. An amount above the limit
/// is never allowed; its `retry_after` is a minute.
pub(crate) fn decide(window: &impl Window, wanted: u64, limit: u64, now: u64) -> Decision {
    let total = window.total();
    let excess = match limit.checked_sub(total) {
        Some(free) => wanted.saturating_sub(free),
        None => wanted.saturating_add(total - limit),
    };
    let retry_after = match excess {
        0 => Duration::ZERO,
        _ if wanted > limit => Duration::from_micros(WINDOW),
        _ => window.until_left(excess, now),
    };
    Decision {
        allowed: excess == 0,
        limit,
        remaining: limit.saturating_sub(total),
        reset: window.until_empty(now),
        retry_after,
    }
}
