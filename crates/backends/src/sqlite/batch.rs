//! What one transaction takes over from the journal: rows, and by how much balances move.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_storage::{Refund, Settlement};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, PriceVersion, Unit};

use crate::ids::{HoldKey, IdMap};
use crate::journal::record::{Hold, Shrink, Week, Window};

/// Calls to be taken over, in the order of the journal.
#[derive(Default)]
pub(super) struct Batch {
    stored: Vec<Arc<Hold>>,
    resolved: Vec<ResolvedCall>,
    windows: Vec<Window>,
    refunds: Vec<Refund>,
    shrunk: Vec<Shrunk>,
    /// In which of the lists each thing is, in the order in which they happened.
    order: Vec<Place>,
    moves: IdMap<AccountId, Moves>,
    last: u64,
}

/// One of the lists of a batch.
#[derive(Clone, Copy)]
enum Place {
    Stored,
    Resolved,
    Window,
    Refund,
    Shrunk,
}

/// What moves something.
pub(super) enum Step<'a> {
    /// A hold gets a row.
    Stored(&'a Hold),
    /// A call ended.
    Resolved(&'a ResolvedCall),
    /// A week was opened.
    Window(&'a Window),
    /// A charge was given back.
    Refund(&'a Refund),
    /// A hold has given something back.
    Shrunk(&'a Shrunk),
}

impl Step<'_> {
    /// In whose book.
    pub(super) fn account(&self) -> AccountId {
        match self {
            Step::Stored(hold) => hold.account,
            Step::Resolved(call) => call.hold.account,
            Step::Window(window) => window.account,
            Step::Refund(refund) => refund.account,
            Step::Shrunk(shrunk) => shrunk.hold.account,
        }
    }
}

/// A call that ended.
pub(super) struct ResolvedCall {
    /// Its terms.
    pub(super) hold: Arc<Hold>,
    /// How it ended.
    pub(super) settlement: Settlement,
    /// Whether the hold has its row, from this batch or an earlier one.
    pub(super) is_stored: bool,
    /// What has become of the hold's week.
    pub(super) week: Week,
}

/// A hold that has given something back.
pub(super) struct Shrunk {
    /// Its terms.
    pub(super) hold: Arc<Hold>,
    /// What it has given back.
    pub(super) shrink: Shrink,
}

/// By how much an account's balances move.
#[derive(Clone, Copy, Default)]
pub(super) struct Moves {
    pub(super) credits: i64,
    pub(super) held: i64,
    pub(super) revenue: i64,
    pub(super) overrun: i64,
    pub(super) allowance: i64,
    pub(super) included: i64,
    pub(super) breakage: i64,
    pub(super) granted: i64,
    pub(super) refunded: i64,
}

/// What many calls have in common; it is given once for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind<'a> {
    pub(super) endpoint: &'a str,
    pub(super) model: &'a str,
    pub(super) provider: &'a str,
    pub(super) price_version: PriceVersion,
    pub(super) outcome: Outcome,
    pub(super) estimated: bool,
    /// [`ResolvedCall::is_plain`].
    pub(super) is_plain: bool,
}

/// A call with its place in the tables and among the resolved.
pub(super) type Placed<'a> = (HoldKey, usize, &'a ResolvedCall);

impl Batch {
    /// Holds that get a row.
    pub(super) fn stored(&self) -> &[Arc<Hold>] {
        &self.stored
    }

    /// Weeks that were opened.
    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Charges that were given back.
    pub(super) fn refunds(&self) -> &[Refund] {
        &self.refunds
    }

    /// Holds that have given something back. They have rows.
    pub(super) fn shrunk(&self) -> &[Shrunk] {
        &self.shrunk
    }

    /// Everything in the order in which it happened.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let (mut stored, mut resolved) = (self.stored.iter(), self.resolved.iter());
        let (mut windows, mut refunds) = (self.windows.iter(), self.refunds.iter());
        let mut shrunk = self.shrunk.iter();
        self.order.iter().filter_map(move |place| match place {
            Place::Stored => stored.next().map(|hold| Step::Stored(hold)),
            Place::Resolved => resolved.next().map(Step::Resolved),
            Place::Window => windows.next().map(Step::Window),
            Place::Refund => refunds.next().map(Step::Refund),
            Place::Shrunk => shrunk.next().map(Step::Shrunk),
        })
    }

    /// Whose books it touches, in the order of the tables.
    pub(super) fn accounts(&self) -> Vec<AccountId> {
        let mut accounts: Vec<AccountId> = self.moves.keys().copied().collect();
        accounts.sort_unstable();
        accounts
    }

    /// Resolved holds whose row goes.
    pub(super) fn gone(&self) -> Vec<HoldKey> {
        let gone = self.resolved.iter().filter(|call| call.is_stored);
        gone.map(|call| (call.hold.account, call.hold.id)).collect()
    }

    /// Whether nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        let has_no_calls = self.stored.is_empty() && self.resolved.is_empty();
        let has_no_others = self.windows.is_empty() && self.refunds.is_empty() && self.shrunk.is_empty();
        has_no_calls && has_no_others && self.last == 0
    }

    /// How many calls there are.
    pub(super) fn len(&self) -> usize {
        self.stored.len() + self.resolved.len()
    }

    /// The number of the last record that the batch takes over; zero when it takes over none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Takes over everything up to this record.
    pub(super) fn reach(&mut self, seq: u64) {
        self.last = self.last.max(seq);
    }

    /// Stores a hold that is open.
    pub(super) fn store(&mut self, hold: Arc<Hold>) {
        let moves = self.moves.entry(hold.account).or_default();
        moves.credits -= hold.credits();
        moves.allowance -= hold.allowance();
        moves.held += hold.amount.nanos();
        self.stored.push(hold);
        self.order.push(Place::Stored);
    }

    /// Stores a call that ended.
    pub(super) fn resolve(&mut self, call: ResolvedCall) {
        let (hold, settlement) = (&call.hold, &call.settlement);
        let (split, overrun) = (
            hold.split(settlement.charge, call.week),
            settlement.overrun.nanos(),
        );
        let moves = self.moves.entry(hold.account).or_default();
        if call.is_stored {
            moves.held -= hold.held();
        } else {
            moves.credits -= hold.credits();
            moves.allowance -= hold.allowance();
        }
        moves.credits += split.released;
        moves.allowance += split.returned;
        moves.breakage += split.broken;
        moves.included += split.included;
        moves.revenue += split.paid + overrun;
        moves.overrun -= overrun;
        self.resolved.push(call);
        self.order.push(Place::Resolved);
    }

    /// Stores a week that was opened, and with it that the one before is over.
    pub(super) fn open_window(&mut self, window: Window) {
        let closed = window.closed.map_or(0, |(_, left)| left.nanos());
        let opened = window.opened.1.nanos();
        let moves = self.moves.entry(window.account).or_default();
        moves.allowance += opened - closed;
        moves.breakage += closed;
        moves.granted -= opened;
        self.windows.push(window);
        self.order.push(Place::Window);
    }

    /// Stores what a hold has given back that has its row, from this batch or an earlier one.
    pub(super) fn shrink(&mut self, hold: Arc<Hold>, shrink: Shrink) {
        let amount = shrink.amount.nanos();
        let moves = self.moves.entry(hold.account).or_default();
        moves.credits += amount;
        moves.held -= amount;
        self.shrunk.push(Shrunk { hold, shrink });
        self.order.push(Place::Shrunk);
    }

    /// Stores a charge that was given back.
    pub(super) fn give_back(&mut self, refund: Refund) {
        let (credits, allowance) = (refund.credits.nanos(), refund.allowance.nanos());
        let moves = self.moves.entry(refund.account).or_default();
        moves.credits += credits;
        moves.allowance += allowance;
        moves.refunded -= credits + allowance;
        self.refunds.push(refund);
        self.order.push(Place::Refund);
    }

    /// Calls by kind, each kind in the order of the tables, so that neighbours are written one after another.
    pub(super) fn by_kind(&self) -> Vec<(Kind<'_>, Vec<Placed<'_>>)> {
        let mut kinds: Vec<(Kind<'_>, Vec<Placed<'_>>)> = Vec::new();
        let mut places: HashMap<Kind<'_>, usize> = HashMap::new();
        let mut place = 0;
        for (index, call) in self.resolved.iter().enumerate() {
            let kind = Kind::of(call);
            // Mostly a call is of the kind of the one before.
            if kinds.get(place).is_none_or(|(known, _)| *known != kind) {
                place = *places.entry(kind).or_insert(kinds.len());
                if place == kinds.len() {
                    kinds.push((kind, Vec::new()));
                }
            }
            let key = (call.hold.account, call.hold.id);
            kinds[place].1.push((key, index, call));
        }
        for (_, calls) in &mut kinds {
            calls.sort_unstable_by_key(|(key, ..)| *key);
        }
        kinds
    }

    /// By how much an account's credits move.
    pub(super) fn credits_of(&self, account: AccountId) -> i64 {
        self.moves.get(&account).map_or(0, |moves| moves.credits)
    }

    /// By how much the balances of one ledger account move, in the order of the table.
    pub(super) fn moves(&self, of: impl Fn(&Moves) -> i64) -> Vec<(AccountId, i64)> {
        let moves = self.moves.iter().map(|(account, moves)| (*account, of(moves)));
        let mut moves: Vec<_> = moves.filter(|(_, by)| *by != 0).collect();
        moves.sort_unstable();
        moves
    }
}

impl ResolvedCall {
    /// Whether its hold has no row and no plan, and it has no overrun and no tokens of the rare classes.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_stored
            && self.hold.plan.is_none()
            && self.settlement.overrun.is_zero()
            && RARE.iter().all(|unit| self.settlement.usage.get(*unit) == 0)
    }
}

impl Kind<'_> {
    fn of(call: &ResolvedCall) -> Kind<'_> {
        Kind {
            endpoint: &call.hold.endpoint,
            model: &call.hold.model,
            provider: &call.settlement.provider,
            price_version: call.hold.price_version,
            outcome: call.settlement.outcome,
            estimated: call.settlement.estimated,
            is_plain: call.is_plain(),
        }
    }
}

/// Classes that most calls have nothing of.
pub(super) const RARE: [Unit; 8] = [
    Unit::CacheWrite,
    Unit::InputAudio,
    Unit::OutputAudio,
    Unit::CacheWriteHour,
    Unit::Image,
    Unit::Video,
    Unit::Audio,
    Unit::Character,
];
/// The others, in the order of the columns of the statements.
pub(super) const USUAL: [Unit; 4] = [Unit::Input, Unit::CacheRead, Unit::Output, Unit::Reasoning];
