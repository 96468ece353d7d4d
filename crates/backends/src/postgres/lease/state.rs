//! State of one lease on its node, and the decisions about it. The state uses no clock, database or
//! lock; callers pass in all inputs.
//!
//! `reserved` is the part of the lease in open holds and unreported charges. It never exceeds
//! `ceiling`, which never exceeds the lease in the database. Therefore the lease covers every
//! report, even if earlier replies were lost.

use std::sync::Arc;

use tollgate_storage::Settlement;
use tollgate_types::id::TransferId;
use tollgate_types::{Credits, HoldId, Timestamp};

use super::round::{Call, Reply, Report};
use crate::ids::IdMap;
use crate::journal::record::Hold;

/// Size of a new lease, as a number of holds of typical size.
const INITIAL_HOLDS: i64 = 8;
/// Minimum number of such holds that the account's credits must cover. Below it, calls take the
/// exact path.
const MIN_HOLDS: i64 = 50;
/// Number of renewals without a call after which a lease is released.
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

/// State of one lease. All amounts are in nano-credits.
pub(super) struct State {
    lease: TransferId,
    /// Number of the last round.
    round: i64,
    ceiling: i64,
    reserved: i64,
    /// Credits of the account outside the lease, from the last reply.
    account_credits: i64,
    /// End of the time in which holds may be taken, in microseconds of the monotonic clock.
    usable_until: u64,
    open: IdMap<HoldId, LeasedHold>,
    /// Number of ended calls.
    settled: u64,
    /// Number of ended calls that the database has confirmed.
    reported: u64,
    /// Number of holds taken.
    taken: u64,
    /// Number of holds taken before the last confirmed report.
    taken_reported: u64,
    /// Number of holds taken before the report in flight.
    taken_sent: u64,
    /// Unreported ended calls, oldest first.
    ended: Vec<Call>,
    /// Ended calls not confirmed by the database: their sequence numbers and charges.
    unreported: IdMap<HoldId, (u64, Credits)>,
    /// Largest hold, halved with each renewal.
    max_hold: i64,
    /// Largest hold since the last renewal.
    recent_max_hold: i64,
    /// Peak of `reserved` since the last renewal.
    peak: i64,
    /// Requested amount that the lease did not cover.
    shortfall: i64,
    calls_since_renewal: u64,
    idle: u32,
    /// Whether the lease is released as calls end.
    is_closing: bool,
    /// Whether a round succeeded. Before the first success it is unknown whether the lease exists.
    was_opened: bool,
    /// Whether the database reported that the lease does not exist.
    is_gone: bool,
}

impl State {
    /// Creates the state of a lease that is not opened yet, for holds of `typical_hold`
    /// nano-credits.
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

    /// Checks whether a hold of `amount` nano-credits can be taken now, and records the demand.
    /// `now` is in microseconds of the monotonic clock.
    pub(super) fn capacity(&mut self, now: u64, amount: i64) -> Capacity {
        if self.is_closing || self.is_gone || now >= self.usable_until {
            return Capacity::Closed;
        }
        // Near zero, all credits stay in the account, so that every node can use them.
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

    /// Takes a hold that the lease covers; returns the credits that the account can still spend.
    pub(super) fn hold(&mut self, seq: u64, hold: Arc<Hold>) -> Credits {
        self.taken += 1;
        self.reserved += hold.amount.nanos();
        self.peak = self.peak.max(self.reserved);
        self.open.insert(hold.id, LeasedHold { seq, hold });
        self.available()
    }

    /// Returns an open hold and its sequence number in the journal.
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

    /// Returns the charge of an ended call that the database has not confirmed.
    pub(super) fn charge_of(&self, id: HoldId) -> Option<Credits> {
        self.unreported.get(&id).map(|(_, charge)| *charge)
    }

    /// Returns the credits that the account can spend, as far as this node can determine.
    pub(super) fn available(&self) -> Credits {
        let free = self.ceiling - self.reserved;
        Credits::from_nanos(self.account_credits.saturating_add(free.max(0)))
    }

    /// Closes the lease: it grants no more holds and releases the unused part.
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
        // Released credits are not used for new holds, even if the reply is lost.
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

    /// Applies the reply; holds may be taken until `usable_until`, in microseconds of the monotonic
    /// clock.
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

    /// Restores a report that got no reply, so that it is sent again. The database may or may not
    /// have written it.
    pub(super) fn fail(&mut self, report: Report) {
        let later = std::mem::replace(&mut self.ended, report.calls);
        self.ended.extend(later);
        self.shortfall = self.shortfall.max(1);
    }

    /// Returns the number of ended calls that wait for a report.
    pub(super) fn waiting(&self) -> usize {
        self.ended.len()
    }

    /// Whether another round is needed: for ended calls, for a shortfall, or to release the unused
    /// part of a closing lease.
    pub(super) fn has_more(&self) -> bool {
        !self.ended.is_empty() || self.shortfall > 0 || (self.is_closing && self.ceiling > self.reserved)
    }

    /// Returns the number of holds taken and the number of ended calls since the lease was created.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.taken, self.settled)
    }

    /// Whether the database has confirmed these numbers of holds and ended calls.
    pub(super) fn has_reported(&self, (taken, settled): (u64, u64)) -> bool {
        self.taken_reported >= taken && self.reported >= settled
    }

    /// Whether the database has confirmed every ended call.
    fn is_reported(&self) -> bool {
        self.reported == self.settled
    }

    /// Whether the lease is closing and only running calls use it: every ended call is reported,
    /// and no unused credits are left.
    pub(super) fn has_calls_only(&self) -> bool {
        self.is_reported() && !self.open.is_empty() && self.is_closing && self.ceiling <= self.reserved
    }

    /// Whether the lease is closed and every call is reported.
    pub(super) fn is_over(&self) -> bool {
        self.was_opened && self.is_gone && self.open.is_empty() && self.is_reported()
    }

    /// Returns the ids of the open holds that have expired.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<HoldId> {
        let over = self.open.values().filter(|open| open.hold.expires_at <= now);
        over.map(|open| open.hold.id).collect()
    }

    /// Returns the first sequence number of the journal that an open hold or an unreported call
    /// needs.
    pub(super) fn oldest(&self) -> Option<u64> {
        let open = self.open.values().map(|open| open.seq);
        let unreported = self.unreported.values().map(|(seq, _)| *seq);
        open.chain(unreported).min()
    }
}

#[cfg(test)]
mod tests;
