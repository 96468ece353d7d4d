//! The state of one lease on its node, and the decisions about it. It uses no clock, database or
//! lock; callers pass in everything.
//!
//! `reserved` is the part of the lease in open holds and unreported charges. It never exceeds
//! `ceiling`, which never exceeds the lease in the database. So the database can write every
//! report, even if earlier replies were lost.

use std::sync::Arc;

use tollgate_storage::Settlement;
use tollgate_types::id::TransferId;
use tollgate_types::{Credits, HoldId, Timestamp};

use super::round::{Call, Reply, Report};
use crate::ids::IdMap;
use crate::journal::record::Hold;

/// Size of a new lease, in holds of typical size.
const INITIAL_HOLDS: i64 = 8;
/// An account with credits for fewer than this many such holds takes the exact path.
const MIN_HOLDS: i64 = 50;
/// Renewals without a call after which a lease is released.
const MAX_IDLE_RENEWALS: u32 = 2;

/// Whether a hold can be taken from a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capacity {
    /// The lease covers the hold.
    Enough,
    /// The lease is too small; the next round requests more.
    Short,
    /// The lease allows no holds now.
    Closed,
}

/// An open hold and its sequence number in the journal.
struct LeasedHold {
    seq: u64,
    hold: Arc<Hold>,
}

/// The state of one lease.
pub(super) struct State {
    lease: TransferId,
    /// Number of the last round.
    round: i64,
    ceiling: i64,
    reserved: i64,
    /// Credits of the account outside the lease, from the last reply.
    account_credits: i64,
    /// End of the time in which holds may be taken, by the monotonic clock.
    usable_until: u64,
    open: IdMap<HoldId, LeasedHold>,
    /// Number of ended calls, and of those that are in the database.
    settled: u64,
    reported: u64,
    /// Number of holds taken; of those that the database knows as running; and of those in the
    /// report in flight.
    taken: u64,
    taken_reported: u64,
    taken_sent: u64,
    /// Unreported ended calls, oldest first.
    ended: Vec<Call>,
    /// Ended calls not confirmed by the database: their sequence numbers and charges.
    unreported: IdMap<HoldId, (u64, Credits)>,
    /// The largest hold, halved with each renewal; the largest since the last renewal; and the peak
    /// of `reserved`.
    max_hold: i64,
    recent_max_hold: i64,
    peak: i64,
    /// The requested amount that the lease did not cover.
    shortfall: i64,
    calls_since_renewal: u64,
    idle: u32,
    /// Whether the lease is released as calls end.
    is_closing: bool,
    /// Whether a round succeeded; before, it is unknown whether the lease exists.
    was_opened: bool,
    /// Whether the database reported that the lease does not exist.
    is_gone: bool,
}

impl State {
    /// A lease that is not opened yet, for holds of `typical_hold` nano-credits.
    pub(super) fn new(lease: TransferId, typical_hold: i64) -> State {
        State {
            lease,
            round: 0,
            ceiling: 0,
            reserved: 0,
            account_credits: 0,
            usable_until: 0,
            open: IdMap::default(),
            settled: 0,
            reported: 0,
            taken: 0,
            taken_reported: 0,
            taken_sent: 0,
            ended: Vec::new(),
            unreported: IdMap::default(),
            max_hold: typical_hold.max(1),
            recent_max_hold: 0,
            peak: 0,
            shortfall: 0,
            calls_since_renewal: 1,
            idle: 0,
            is_closing: false,
            was_opened: false,
            is_gone: false,
        }
    }

    pub(super) fn lease(&self) -> TransferId {
        self.lease
    }

    /// Whether a hold of `amount` nano-credits can be taken now.
    pub(super) fn capacity(&mut self, now: u64, amount: i64) -> Capacity {
        if self.is_closing || self.is_gone || now >= self.usable_until {
            return Capacity::Closed;
        }
        // Near zero all credits must be in the account, where every node finds them.
        if amount > self.account_credits.saturating_add(self.ceiling) / MIN_HOLDS {
            return Capacity::Closed;
        }
        self.calls_since_renewal += 1;
        self.recent_max_hold = self.recent_max_hold.max(amount);
        self.max_hold = self.max_hold.max(amount);
        if amount > self.ceiling - self.reserved {
            self.shortfall = self.shortfall.saturating_add(amount);
            return Capacity::Short;
        }
        Capacity::Enough
    }

    /// Whether a hold with this id was taken and is not reported yet.
    pub(super) fn contains(&self, id: HoldId) -> bool {
        self.open.contains_key(&id) || self.unreported.contains_key(&id)
    }

    /// Takes a hold that the lease covers; returns the credits left to spend.
    pub(super) fn hold(&mut self, seq: u64, hold: Arc<Hold>) -> Credits {
        self.taken += 1;
        self.reserved += hold.amount.nanos();
        self.peak = self.peak.max(self.reserved);
        self.open.insert(hold.id, LeasedHold { seq, hold });
        self.available()
    }

    /// An open hold and its sequence number in the journal.
    pub(super) fn open(&self, id: HoldId) -> Option<(u64, Arc<Hold>)> {
        self.open.get(&id).map(|open| (open.seq, open.hold.clone()))
    }

    /// Resolves an open hold; the charge is at most its amount.
    pub(super) fn settle(&mut self, settlement: Settlement) {
        if let Some(LeasedHold { seq, hold }) = self.open.remove(&settlement.hold) {
            self.reserved -= hold.amount.nanos() - settlement.charge.nanos();
            self.settled += 1;
            self.unreported.insert(hold.id, (seq, settlement.charge));
            self.ended.push(Call {
                seq,
                hold,
                settlement,
            });
        }
    }

    /// The charge of an ended call that the database has not confirmed.
    pub(super) fn charge_of(&self, id: HoldId) -> Option<Credits> {
        self.unreported.get(&id).map(|(_, charge)| *charge)
    }

    /// The known credits that the account can spend.
    pub(super) fn available(&self) -> Credits {
        let free = self.ceiling - self.reserved;
        Credits::from_nanos(self.account_credits.saturating_add(free.max(0)))
    }

    /// Takes no more holds and releases the unused part.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Creates the next report: up to `max_calls` ended calls and the new size of the lease.
    pub(super) fn begin(&mut self, renews: bool, max_calls: usize) -> Report {
        let calls: Vec<Call> = self.ended.drain(..self.ended.len().min(max_calls)).collect();
        let charged: i64 = calls.iter().map(|call| call.settlement.charge.nanos()).sum();
        if renews {
            self.idle = if self.calls_since_renewal == 0 {
                self.idle + 1
            } else {
                0
            };
            self.is_closing |= self.idle >= MAX_IDLE_RENEWALS;
        }
        let still_reserved = self.reserved - charged;
        let wanted = self
            .peak
            .saturating_mul(2)
            .max(self.max_hold.saturating_mul(INITIAL_HOLDS))
            .saturating_add(self.shortfall)
            .max(still_reserved);
        let after = self.ceiling - charged;
        let target = if self.is_closing {
            Some(still_reserved)
        } else if self.shortfall > 0 || after < wanted / 2 || (renews && after / 4 > wanted) {
            Some(wanted)
        } else {
            None
        };
        // Released credits are not lent meanwhile, even if the reply is lost.
        if let Some(target) = target {
            self.ceiling = self.ceiling.min(target + charged);
        }
        self.shortfall = 0;
        if renews {
            self.calls_since_renewal = 0;
            self.peak = self.reserved;
            self.max_hold = self.recent_max_hold.max(self.max_hold / 2).max(1);
            self.recent_max_hold = 0;
        }
        self.round += 1;
        self.taken_sent = self.taken;
        Report {
            lease: self.lease,
            round: self.round,
            opens: !self.was_opened,
            target,
            min_balance: self.max_hold.saturating_mul(MIN_HOLDS),
            in_flight: self.open.values().map(|open| open.hold.amount.nanos()).sum(),
            calls,
        }
    }

    /// Applies the reply; holds may be taken until `usable_until`.
    pub(super) fn finish(&mut self, report: Report, reply: Reply, usable_until: u64) {
        let charged: i64 = report
            .calls
            .iter()
            .map(|call| call.settlement.charge.nanos())
            .sum();
        for call in &report.calls {
            self.unreported.remove(&call.hold.id);
        }
        self.reported += report.calls.len() as u64;
        self.taken_reported = self.taken_sent;
        self.reserved -= charged;
        self.ceiling = reply.leased;
        self.account_credits = reply.available;
        self.usable_until = usable_until;
        self.was_opened = true;
        self.is_closing |= !reply.may_hold;
        self.is_gone = !reply.is_open;
    }

    /// Restores a report that got no reply, so that it is sent again: the database may or may not
    /// have written it.
    pub(super) fn fail(&mut self, report: Report) {
        let later = std::mem::replace(&mut self.ended, report.calls);
        self.ended.extend(later);
        self.shortfall = self.shortfall.max(1);
    }

    /// Number of calls that wait for the next round.
    pub(super) fn waiting(&self) -> usize {
        self.ended.len()
    }

    /// Whether the next round has something to report.
    pub(super) fn has_more(&self) -> bool {
        !self.ended.is_empty() || self.shortfall > 0 || (self.is_closing && self.ceiling > self.reserved)
    }

    /// Number of holds taken and number of calls ended, since the lease was opened.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.taken, self.settled)
    }

    /// Whether the database has this many holds and ended calls.
    pub(super) fn has_reported(&self, (taken, settled): (u64, u64)) -> bool {
        self.taken_reported >= taken && self.reported >= settled
    }

    /// Whether every ended call is in the database.
    fn is_reported(&self) -> bool {
        self.reported == self.settled
    }

    /// Whether the lease is closing and has nothing but running calls.
    pub(super) fn has_calls_only(&self) -> bool {
        self.is_reported() && !self.open.is_empty() && self.is_closing && self.ceiling <= self.reserved
    }

    /// Whether the lease is closed and every call reported.
    pub(super) fn is_over(&self) -> bool {
        self.was_opened && self.is_gone && self.open.is_empty() && self.is_reported()
    }

    /// Expired open holds.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<HoldId> {
        let over = self.open.values().filter(|open| open.hold.expires_at <= now);
        over.map(|open| open.hold.id).collect()
    }

    /// The first sequence number of the journal that is still needed.
    pub(super) fn oldest(&self) -> Option<u64> {
        let open = self.open.values().map(|open| open.seq);
        let unreported = self.unreported.values().map(|(seq, _)| *seq);
        open.chain(unreported).min()
    }
}

#[cfg(test)]
mod tests;
