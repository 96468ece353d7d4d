//! Holds in memory: those that are open, and for a while those that were resolved.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate_types::{AccountId, Credits, HoldId, Timestamp};

use super::books::Book;
use crate::ids::{HoldKey, IdMap, lock, shard_of};
use crate::journal::record::Hold;

const SHARDS: usize = 64;
/// How long a resolved hold is remembered.
const REMEMBERED_MICROS: u64 = 10_000_000;
/// How many resolved holds a shard remembers.
const REMEMBERED: usize = 256;

/// What is known of a hold.
pub(super) enum Known {
    /// It is open.
    Open {
        /// Its terms.
        hold: Arc<Hold>,
        /// Its place in the journal; zero when it was read from the database.
        seq: u64,
        /// The book it is in.
        book: Arc<Book>,
    },
    /// It was resolved, at this charge.
    Resolved(Credits),
}

/// A part of all holds.
#[derive(Default)]
pub(super) struct Shard {
    known: IdMap<HoldKey, Known>,
    resolved: VecDeque<Resolved>,
    /// The largest id that was forgotten. A larger one was never used: its hold would be known.
    forgotten: Option<HoldId>,
    /// How many were forgotten.
    pub(super) times_forgotten: u64,
}

struct Resolved {
    key: HoldKey,
    seq: u64,
    at_micros: u64,
}

impl Shard {
    /// What is known of the hold.
    pub(super) fn get(&self, key: HoldKey) -> Option<&Known> {
        self.known.get(&key)
    }

    /// Whether the hold may be in the database though it is not known.
    pub(super) fn may_be_forgotten(&self, id: HoldId) -> bool {
        self.forgotten.is_some_and(|largest| id <= largest)
    }

    /// Remembers an open hold.
    pub(super) fn open(&mut self, hold: Arc<Hold>, seq: u64, book: Arc<Book>) {
        self.known
            .insert((hold.account, hold.id), Known::Open { hold, seq, book });
    }

    /// Remembers that the hold was resolved by the record `seq`.
    pub(super) fn resolve(&mut self, key: HoldKey, charge: Credits, seq: u64, at_micros: u64) {
        self.known.insert(key, Known::Resolved(charge));
        self.resolved.push_back(Resolved { key, seq, at_micros });
    }

    /// Forgets resolved holds that are in the database, that is up to the record `committed`, and that are old or
    /// too many.
    pub(super) fn forget(&mut self, committed: u64, now_micros: u64) {
        while let Some(oldest) = self.resolved.front() {
            let young = now_micros.saturating_sub(oldest.at_micros) < REMEMBERED_MICROS;
            if oldest.seq > committed || (young && self.resolved.len() <= REMEMBERED) {
                return;
            }
            self.known.remove(&oldest.key);
            self.forgotten = self.forgotten.max(Some(oldest.key.1));
            self.times_forgotten += 1;
            self.resolved.pop_front();
        }
    }
}

/// All holds.
pub(super) struct Holds {
    shards: Box<[Mutex<Shard>]>,
}

impl Holds {
    /// No holds; ids up to `largest` may be in the database.
    pub(super) fn new(largest: Option<HoldId>) -> Holds {
        let shard = || {
            Mutex::new(Shard {
                forgotten: largest,
                ..Shard::default()
            })
        };
        Holds {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }

    /// The part that the hold belongs to.
    pub(super) fn shard(&self, id: HoldId) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(id.as_u128(), SHARDS)])
    }

    /// Open holds whose time is over, at most `limit`.
    pub(super) fn expired(&self, now: Timestamp, limit: usize) -> Vec<HoldKey> {
        let mut expired = Vec::new();
        for shard in &self.shards {
            let shard = lock(shard);
            let keys = shard.known.iter().filter_map(|(key, known)| match known {
                Known::Open { hold, .. } if hold.expires_at <= now => Some(*key),
                _ => None,
            });
            expired.extend(keys.take(limit.saturating_sub(expired.len())));
        }
        expired
    }

    /// Open holds of an account: when each was accepted, and how much of credits it holds.
    pub(super) fn of(&self, account: AccountId) -> Vec<(Timestamp, i64)> {
        let mut open = Vec::new();
        for shard in &self.shards {
            open.extend(lock(shard).known.values().filter_map(|known| match known {
                Known::Open { hold, .. } if hold.account == account => {
                    Some((hold.created_at, hold.held() - hold.allowance()))
                }
                _ => None,
            }));
        }
        open
    }

    /// Forgets everywhere what need not be remembered.
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
    fn what_is_forgotten_is_in_the_database_and_old_or_too_much() {
        let mut shard = Shard::default();
        for id in 1..=3 {
            shard.resolve(key(id), Credits::ZERO, id as u64, 0);
        }
        shard.forget(3, REMEMBERED_MICROS - 1);
        assert_eq!(shard.times_forgotten, 0, "young");
        shard.forget(2, REMEMBERED_MICROS);
        assert_eq!(shard.times_forgotten, 2, "the third is not in the database");
        assert!(shard.may_be_forgotten(HoldId::from_u128(2)));
        assert!(!shard.may_be_forgotten(HoldId::from_u128(3)));
        for id in 4..=2000 {
            shard.resolve(key(id), Credits::ZERO, id as u64, REMEMBERED_MICROS);
        }
        shard.forget(2000, REMEMBERED_MICROS);
        assert_eq!(shard.resolved.len(), REMEMBERED);
        assert!(shard.get(key(2000)).is_some() && shard.get(key(900)).is_none());
    }
}
