//! What a node knows of one lease, and what it decides by itself. No clock, no database, no lock: all of it is said to it.
//!
//! `spoken_for` is what open holds and unreported charges have of the lease, and never exceeds `ceiling`, which never exceeds
//! what the database has for this lease. So the database can write every report, whatever became of the answers to earlier ones.

use std::sync::Arc;

use tollgate_storage::Settlement;
use tollgate_types::id::TransferId;
use tollgate_types::{Credits, HoldId, Timestamp};

use super::round::{Call, Reply, Report};
use crate::ids::IdMap;
use crate::journal::record::Hold;

/// Holds of the usual size that a lease has room for when it is opened.
const ROOM_AT_FIRST: i64 = 8;
/// An account that has less than this many holds of the usual size takes the exact path.
const NEAR_ZERO: i64 = 50;
/// Renewals without a call after which a lease is given back.
const IDLE_RENEWALS: u32 = 2;

/// Whether a hold can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// It can.
    Enough,
    /// The lease is too small for it, and asks for more.
    Short,
    /// The lease gives out no holds now.
    Closed,
}

/// A hold that is open.
struct Open {
    seq: u64,
    hold: Arc<Hold>,
}

/// One lease.
pub(super) struct State {
    lease: TransferId,
    /// The number of the last round.
    round: i64,
    ceiling: i64,
    spoken_for: i64,
    /// The credits beside the lease, as the database said last.
    beside: i64,
    /// Until when holds may be taken, by the monotonic clock.
    usable_until: u64,
    open: IdMap<HoldId, Open>,
    /// How many calls have ended, and how many of them are in the database.
    settled: u64,
    reported: u64,
    /// How many holds were taken; of how many the database knows that they are in flight, or was just being told.
    taken: u64,
    told: u64,
    telling: u64,
    /// Those that are to be reported, oldest first.
    ended: Vec<Call>,
    /// These and those that are being reported: their places in the journal and their charges.
    unreported: IdMap<HoldId, (u64, Credits)>,
    /// The largest hold, which counts half as much with each renewal; that since the last one; and the most that was spoken for.
    largest: i64,
    largest_lately: i64,
    peak: i64,
    /// What was asked for and not there.
    short: i64,
    calls_since_renewal: u64,
    idle: u32,
    /// The lease is given back as calls end.
    closes: bool,
    /// There was a round; before that nobody knows whether there is a lease.
    was_opened: bool,
    /// The database has no such lease.
    is_gone: bool,
}

impl State {
    /// A lease that is to be opened, for holds of this size.
    pub(super) fn new(lease: TransferId, usual: i64) -> State {
        State {
            lease,
            round: 0,
            ceiling: 0,
            spoken_for: 0,
            beside: 0,
            usable_until: 0,
            open: IdMap::default(),
            settled: 0,
            reported: 0,
            taken: 0,
            told: 0,
            telling: 0,
            ended: Vec::new(),
            unreported: IdMap::default(),
            largest: usual.max(1),
            largest_lately: 0,
            peak: 0,
            short: 0,
            calls_since_renewal: 1,
            idle: 0,
            closes: false,
            was_opened: false,
            is_gone: false,
        }
    }

    /// Its id.
    pub(super) fn lease(&self) -> TransferId {
        self.lease
    }

    /// Whether a hold of this amount can be taken now.
    pub(super) fn room(&mut self, now: u64, amount: i64) -> Room {
        if self.closes || self.is_gone || now >= self.usable_until {
            return Room::Closed;
        }
        // Near zero every credit has to be where everybody finds it.
        if amount > self.beside.saturating_add(self.ceiling) / NEAR_ZERO {
            return Room::Closed;
        }
        self.calls_since_renewal += 1;
        self.largest_lately = self.largest_lately.max(amount);
        self.largest = self.largest.max(amount);
        if amount > self.ceiling - self.spoken_for {
            self.short = self.short.saturating_add(amount);
            return Room::Short;
        }
        Room::Enough
    }

    /// Whether a hold of this id was taken and not reported yet.
    pub(super) fn knows(&self, id: HoldId) -> bool {
        self.open.contains_key(&id) || self.unreported.contains_key(&id)
    }

    /// Takes a hold for which there is room; answers what is left to spend.
    pub(super) fn hold(&mut self, seq: u64, hold: Arc<Hold>) -> Credits {
        self.taken += 1;
        self.spoken_for += hold.amount.nanos();
        self.peak = self.peak.max(self.spoken_for);
        self.open.insert(hold.id, Open { seq, hold });
        self.available()
    }

    /// An open hold and its place in the journal.
    pub(super) fn open(&self, id: HoldId) -> Option<(u64, Arc<Hold>)> {
        self.open.get(&id).map(|open| (open.seq, open.hold.clone()))
    }

    /// Resolves an open hold; the charge is at most its amount.
    pub(super) fn settle(&mut self, settlement: Settlement) {
        if let Some(Open { seq, hold }) = self.open.remove(&settlement.hold) {
            self.spoken_for -= hold.amount.nanos() - settlement.charge.nanos();
            self.settled += 1;
            self.unreported.insert(hold.id, (seq, settlement.charge));
            self.ended.push(Call {
                seq,
                hold,
                settlement,
            });
        }
    }

    /// What a call was charged that has ended and is not known to be in the database.
    pub(super) fn charge_of(&self, id: HoldId) -> Option<Credits> {
        self.unreported.get(&id).map(|(_, charge)| *charge)
    }

    /// What the account can spend, as far as is known here.
    pub(super) fn available(&self) -> Credits {
        let free = self.ceiling - self.spoken_for;
        Credits::from_nanos(self.beside.saturating_add(free.max(0)))
    }

    /// Gives out no more holds, and gives the rest back.
    pub(super) fn close(&mut self) {
        self.closes = true;
    }

    /// What to say to the database now: at most `most` calls that have ended, and how large the lease is to be.
    pub(super) fn begin(&mut self, renews: bool, most: usize) -> Report {
        let calls: Vec<Call> = self.ended.drain(..self.ended.len().min(most)).collect();
        let charged: i64 = calls.iter().map(|call| call.settlement.charge.nanos()).sum();
        if renews {
            self.idle = if self.calls_since_renewal == 0 {
                self.idle + 1
            } else {
                0
            };
            self.closes |= self.idle >= IDLE_RENEWALS;
        }
        let kept = self.spoken_for - charged;
        let wanted = self
            .peak
            .saturating_mul(2)
            .max(self.largest.saturating_mul(ROOM_AT_FIRST))
            .saturating_add(self.short)
            .max(kept);
        let after = self.ceiling - charged;
        let target = if self.closes {
            Some(kept)
        } else if self.short > 0 || after < wanted / 2 || (renews && after / 4 > wanted) {
            Some(wanted)
        } else {
            None
        };
        // What is given back is not given out meanwhile, even if the answer is lost.
        if let Some(target) = target {
            self.ceiling = self.ceiling.min(target + charged);
        }
        self.short = 0;
        if renews {
            self.calls_since_renewal = 0;
            self.peak = self.spoken_for;
            self.largest = self.largest_lately.max(self.largest / 2).max(1);
            self.largest_lately = 0;
        }
        self.round += 1;
        self.telling = self.taken;
        Report {
            lease: self.lease,
            round: self.round,
            opens: !self.was_opened,
            target,
            least: self.largest.saturating_mul(NEAR_ZERO),
            in_flight: self.open.values().map(|open| open.hold.amount.nanos()).sum(),
            calls,
        }
    }

    /// The database has answered; holds may be taken until then.
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
        self.told = self.telling;
        self.spoken_for -= charged;
        self.ceiling = reply.leased;
        self.beside = reply.available;
        self.usable_until = usable_until;
        self.was_opened = true;
        self.closes |= !reply.may_hold;
        self.is_gone = !reply.is_open;
    }

    /// The database has not answered: whether it has written the report is not known, and it is made again.
    pub(super) fn fail(&mut self, report: Report) {
        let later = std::mem::replace(&mut self.ended, report.calls);
        self.ended.extend(later);
        self.short = self.short.max(1);
    }

    /// How many calls wait for the next round.
    pub(super) fn waiting(&self) -> usize {
        self.ended.len()
    }

    /// Whether something waits for the next round.
    pub(super) fn has_more(&self) -> bool {
        !self.ended.is_empty() || self.short > 0 || (self.closes && self.ceiling > self.spoken_for)
    }

    /// How many holds were taken here, and how many calls have ended.
    pub(super) fn seen(&self) -> (u64, u64) {
        (self.taken, self.settled)
    }

    /// Whether the database knows of the first so many of them.
    pub(super) fn is_told(&self, (taken, settled): (u64, u64)) -> bool {
        self.told >= taken && self.reported >= settled
    }

    /// Whether every call that has ended is in the database.
    fn is_reported(&self) -> bool {
        self.reported == self.settled
    }

    /// Whether nothing is left of it but calls that run.
    pub(super) fn has_calls_only(&self) -> bool {
        self.is_reported() && !self.open.is_empty() && self.closes && self.ceiling <= self.spoken_for
    }

    /// Whether it is gone, with every call reported.
    pub(super) fn is_over(&self) -> bool {
        self.was_opened && self.is_gone && self.open.is_empty() && self.is_reported()
    }

    /// Holds whose time is over.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<HoldId> {
        let over = self.open.values().filter(|open| open.hold.expires_at <= now);
        over.map(|open| open.hold.id).collect()
    }

    /// The first place in the journal that is still needed.
    pub(super) fn oldest(&self) -> Option<u64> {
        let open = self.open.values().map(|open| open.seq);
        let unreported = self.unreported.values().map(|(seq, _)| *seq);
        open.chain(unreported).min()
    }
}

#[cfg(test)]
mod tests;
