//! Holds in memory: all open holds, and resolved holds for a limited time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use super::balances::AccountBalances;
use crate::ids::{HoldKey, IdMap, lock, shard_of};
use crate::journal::record::Hold;

const SHARDS: usize = 64;
/// Retention of a resolved hold in memory, in microseconds.
const REMEMBERED_MICROS: u64 = 10_000_000;
/// Maximum number of resolved holds in a shard. Holds that are not in the database yet can exceed
/// this number.
const MAX_REMEMBERED: usize = 256;

/// A hold in memory.
pub(super) enum HoldState {
    /// A hold without a settlement.
    Open {
        /// Terms of the hold after its last change.
        hold: Arc<Hold>,
        /// Sequence number in the journal; zero if the hold was read from the database.
        seq: u64,
        /// Balances of the account, cached so that a settlement needs no lookup.
        account_balances: Arc<AccountBalances>,
    },
    /// A resolved hold, with its charge.
    Resolved(Credits),
}

/// One shard of the holds.
#[derive(Default)]
pub(super) struct Shard {
    known: IdMap<HoldKey, HoldState>,
    resolved: VecDeque<Resolved>,
    /// Largest id of a hold that was removed from memory or was in the database at the start. A
    /// larger id that is not in memory was never used.
    forgotten: Option<HoldId>,
    /// Number of removed holds.
    pub(super) times_forgotten: u64,
}

struct Resolved {
    key: HoldKey,
    seq: u64,
    at_micros: u64,
}

impl Shard {
    /// Returns a hold if it is in memory.
    pub(super) fn get(&self, key: HoldKey) -> Option<&HoldState> {
        self.known.get(&key)
    }

    /// Whether the database may contain a hold with this id that is not in memory.
    pub(super) fn may_be_forgotten(&self, id: HoldId) -> bool {
        self.forgotten.is_some_and(|max_id| id <= max_id)
    }

    /// Adds an open hold, or replaces its terms.
    pub(super) fn open(&mut self, hold: Arc<Hold>, seq: u64, account_balances: Arc<AccountBalances>) {
        self.known.insert(
            (hold.account, hold.id),
            HoldState::Open {
                hold,
                seq,
                account_balances,
            },
        );
    }

    /// Marks a hold as resolved by the journal record `seq`.
    pub(super) fn resolve(&mut self, key: HoldKey, charge: Credits, seq: u64, at_micros: u64) {
        self.known.insert(key, HoldState::Resolved(charge));
        self.resolved.push_back(Resolved { key, seq, at_micros });
    }

    /// Removes resolved holds that are in the database (up to the record `committed`) and exceed
    /// the retention or `MAX_REMEMBERED`.
    pub(super) fn forget(&mut self, committed: u64, now_micros: u64) {
        while let Some(oldest) = self.resolved.front() {
            let young = now_micros.saturating_sub(oldest.at_micros) < REMEMBERED_MICROS;
            if oldest.seq > committed || (young && self.resolved.len() <= MAX_REMEMBERED) {
                return;
            }
            self.known.remove(&oldest.key);
            self.forgotten = self.forgotten.max(Some(oldest.key.1));
            self.times_forgotten += 1;
            self.resolved.pop_front();
        }
    }
}

/// All holds of the engine, in shards.
pub(super) struct Holds {
    shards: Box<[Mutex<Shard>]>,
}

impl Holds {
    /// Creates an empty store; ids up to `max_id` may be in the database.
    pub(super) fn new(max_id: Option<HoldId>) -> Holds {
        let shard = || {
            Mutex::new(Shard {
                forgotten: max_id,
                ..Shard::default()
            })
        };
        Holds {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    /// Locks the shard of a hold.
    pub(super) fn shard(&self, id: HoldId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(id.as_u128(), SHARDS)])
    }

    /// Returns the keys of expired open holds, at most `limit`.
    pub(super) fn expired(&self, now: Timestamp, limit: usize) -> Vec<HoldKey> {
        let mut expired = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let keys = shard.known.iter().filter_map(|(key, known)| match known {
                HoldState::Open { hold, .. } if hold.expires_at <= now => Some(*key),
                _ => None,
            });
            expired.extend(keys.take(limit.saturating_sub(expired.len())));
        }
        expired
    }

    /// Returns the creation time and the held credits (in nano-credits, without allowance) of the
    /// account's open holds.
    pub(super) fn of(&self, account: AccountId) -> Vec<(Timestamp, i64)> {
        let mut open = Vec::new();
        for shard in &self.shards {
            open.extend(lock(shard).known.values().filter_map(|known| match known {
                HoldState::Open { hold, .. } if hold.account == account => {
                    Some((hold.created_at, hold.held() - hold.allowance()))
                }
                _ => None,
            }));
        }
        open
    }

    /// Applies [`Shard::forget`] to all shards.
    pub(super) fn forget(&self, committed: u64, now_micros: u64) {
        for shard in &self.shards {
            lock(shard).forget(committed, now_micros);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u128) -> HoldKey {
        (AccountId::from_u128(1), HoldId::from_u128(id))
    }

    #[test]
    fn forgotten_holds_are_stored_and_old_or_surplus() {
        let mut shard = Shard::default();
        for id in 1..=3 {
            shard.resolve(key(id), Credits::ZERO, id as u64, 0);
        }
        shard.forget(3, REMEMBERED_MICROS - 1);
        assert_eq!(shard.times_forgotten, 0, "young");
        shard.forget(2, REMEMBERED_MICROS);
        assert_eq!(shard.times_forgotten, 2, "the third hold is not in the database");
        assert!(shard.may_be_forgotten(HoldId::from_u128(2)));
        assert!(!shard.may_be_forgotten(HoldId::from_u128(3)));
        for id in 4..=2000 {
            shard.resolve(key(id), Credits::ZERO, id as u64, REMEMBERED_MICROS);
        }
        shard.forget(2000, REMEMBERED_MICROS);
        assert_eq!(shard.resolved.len(), MAX_REMEMBERED);
        assert!(shard.get(key(2000)).is_some() && shard.get(key(900)).is_none());
    }
}
