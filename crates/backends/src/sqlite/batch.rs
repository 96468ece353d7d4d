//! Batch of journal records for one transaction: the rows to write and the changes of balances.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_storage::{Refund, Settlement};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, PriceVersion, Unit};

use crate::ids::{HoldKey, IdMap};
use crate::journal::record::{Hold, Shrink, Week, Window};

/// Journal records to write, in the order of the journal.
#[derive(Default)]
pub(super) struct Batch {
    stored: Vec<Arc<Hold>>,
    resolved: Vec<ResolvedCall>,
    windows: Vec<Window>,
    refunds: Vec<Refund>,
    shrunk: Vec<Shrunk>,
    /// For each step, the list that contains the step, in the order of the journal.
    order: Vec<StepKind>,
    moves: IdMap<AccountId, Moves>,
    last: u64,
}

/// List of a [`Batch`] that contains a step.
#[derive(Clone, Copy)]
enum StepKind {
    Stored,
    Resolved,
    Window,
    Refund,
    Shrunk,
}

/// One change of an account's balances in a batch.
pub(super) enum Step<'a> {
    /// Insertion of an open hold's row.
    Stored(&'a Hold),
    /// End of a call.
    Resolved(&'a ResolvedCall),
    /// Opening of a week.
    Window(&'a Window),
    /// Refund of a charge.
    Refund(&'a Refund),
    /// Early release of a part of a hold.
    Shrunk(&'a Shrunk),
}

impl Step<'_> {
    /// Returns the account whose balances change.
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

/// A call that has ended.
pub(super) struct ResolvedCall {
    /// Terms of the call's hold.
    pub(super) hold: Arc<Hold>,
    /// Settlement that ends the hold.
    pub(super) settlement: Settlement,
    /// Whether this batch or an earlier one inserts a row for the hold.
    pub(super) is_stored: bool,
    /// Whether the week of the hold's plan was still open at the settlement.
    pub(super) week: Week,
}

/// Early release of a part of a hold.
pub(super) struct Shrunk {
    /// Terms of the hold before the release.
    pub(super) hold: Arc<Hold>,
    pub(super) shrink: Shrink,
}

/// Changes of an account's balances, in nano-credits.
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

/// Column values that many calls share. A statement binds them once for all its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind<'a> {
    pub(super) endpoint: &'a str,
    pub(super) model: &'a str,
    pub(super) provider: &'a str,
    pub(super) price_version: PriceVersion,
    pub(super) outcome: Outcome,
    pub(super) estimated: bool,
    /// Result of [`ResolvedCall::is_plain`].
    pub(super) is_plain: bool,
}

/// A call with the key of its hold and its index in the list of resolved calls.
pub(super) type Placed<'a> = (HoldKey, usize, &'a ResolvedCall);

impl Batch {
    /// Returns the open holds to insert.
    pub(super) fn stored(&self) -> &[Arc<Hold>] {
        &self.stored
    }

    /// Returns the weeks that calls opened in this batch.
    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Returns the refunds to insert.
    pub(super) fn refunds(&self) -> &[Refund] {
        &self.refunds
    }

    /// Returns the early releases of holds that have rows.
    pub(super) fn shrunk(&self) -> &[Shrunk] {
        &self.shrunk
    }

    /// Returns all steps in the order of the journal.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let (mut stored, mut resolved) = (self.stored.iter(), self.resolved.iter());
        let (mut windows, mut refunds) = (self.windows.iter(), self.refunds.iter());
        let mut shrunk = self.shrunk.iter();
        self.order.iter().filter_map(move |place| match place {
            StepKind::Stored => stored.next().map(|hold| Step::Stored(hold)),
            StepKind::Resolved => resolved.next().map(Step::Resolved),
            StepKind::Window => windows.next().map(Step::Window),
            StepKind::Refund => refunds.next().map(Step::Refund),
            StepKind::Shrunk => shrunk.next().map(Step::Shrunk),
        })
    }

    /// Returns the changed accounts, in table order.
    pub(super) fn accounts(&self) -> Vec<AccountId> {
        let mut accounts: Vec<AccountId> = self.moves.keys().copied().collect();
        accounts.sort_unstable();
        accounts
    }

    /// Returns the keys of the resolved holds whose rows are deleted.
    pub(super) fn gone(&self) -> Vec<HoldKey> {
        let gone = self.resolved.iter().filter(|call| call.is_stored);
        gone.map(|call| (call.hold.account, call.hold.id)).collect()
    }

    /// Whether the batch contains no records.
    pub(super) fn is_empty(&self) -> bool {
        let has_no_calls = self.stored.is_empty() && self.resolved.is_empty();
        let has_no_others = self.windows.is_empty() && self.refunds.is_empty() && self.shrunk.is_empty();
        has_no_calls && has_no_others && self.last == 0
    }

    /// Returns the number of inserted holds and resolved calls.
    pub(super) fn len(&self) -> usize {
        self.stored.len() + self.resolved.len()
    }

    /// Returns the sequence number of the last record in the batch; zero if there is none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Records that the batch contains the journal up to this sequence number.
    pub(super) fn reach(&mut self, seq: u64) {
        self.last = self.last.max(seq);
    }

    /// Adds the row of an open hold.
    pub(super) fn store(&mut self, hold: Arc<Hold>) {
        let moves = self.moves.entry(hold.account).or_default();
        moves.credits -= hold.credits();
        moves.allowance -= hold.allowance();
        moves.held += hold.amount.nanos();
        self.stored.push(hold);
        self.order.push(StepKind::Stored);
    }

    /// Adds a resolved call.
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
        moves.breakage += split.breakage;
        moves.included += split.included;
        moves.revenue += split.paid + overrun;
        moves.overrun -= overrun;
        self.resolved.push(call);
        self.order.push(StepKind::Resolved);
    }

    /// Adds an opened week, which closes the previous one.
    pub(super) fn open_window(&mut self, window: Window) {
        let closed = window.closed.map_or(0, |(_, left)| left.nanos());
        let opened = window.opened.1.nanos();
        let moves = self.moves.entry(window.account).or_default();
        moves.allowance += opened - closed;
        moves.breakage += closed;
        moves.granted -= opened;
        self.windows.push(window);
        self.order.push(StepKind::Window);
    }

    /// Adds an early release of a hold that has a row, from this batch or an earlier one.
    pub(super) fn shrink(&mut self, hold: Arc<Hold>, shrink: Shrink) {
        let amount = shrink.amount.nanos();
        let moves = self.moves.entry(hold.account).or_default();
        moves.credits += amount;
        moves.held -= amount;
        self.shrunk.push(Shrunk { hold, shrink });
        self.order.push(StepKind::Shrunk);
    }

    /// Adds a refund to credits and to the allowance.
    pub(super) fn add_refund(&mut self, refund: Refund) {
        let (credits, allowance) = (refund.credits.nanos(), refund.allowance.nanos());
        let moves = self.moves.entry(refund.account).or_default();
        moves.credits += credits;
        moves.allowance += allowance;
        moves.refunded -= credits + allowance;
        self.refunds.push(refund);
        self.order.push(StepKind::Refund);
    }

    /// Returns the resolved calls by kind, each kind in table order, so that adjacent rows are
    /// written together.
    pub(super) fn by_kind(&self) -> Vec<(Kind<'_>, Vec<Placed<'_>>)> {
        let mut kinds: Vec<(Kind<'_>, Vec<Placed<'_>>)> = Vec::new();
        let mut places: HashMap<Kind<'_>, usize> = HashMap::new();
        let mut place = 0;
        for (index, call) in self.resolved.iter().enumerate() {
            let kind = Kind::of(call);
            // Most calls have the kind of the previous call.
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

    /// Returns the change of an account's credits, in nano-credits.
    pub(super) fn credits_of(&self, account: AccountId) -> i64 {
        self.moves.get(&account).map_or(0, |moves| moves.credits)
    }

    /// Returns the nonzero changes of one ledger account, in nano-credits and in table order.
    pub(super) fn moves(&self, of: impl Fn(&Moves) -> i64) -> Vec<(AccountId, i64)> {
        let moves = self.moves.iter().map(|(account, moves)| (*account, of(moves)));
        let mut moves: Vec<_> = moves.filter(|(_, by)| *by != 0).collect();
        moves.sort_unstable();
        moves
    }
}

impl ResolvedCall {
    /// Whether the call is plain: its hold has no row, no plan and no member, and the call has no
    /// overrun and no rare units.
    pub(super) fn is_plain(&self) -> bool {
        !self.is_stored
            && self.hold.plan.is_none()
            && self.hold.member().is_none()
            && self.settlement.overrun.is_zero()
            && RARE_UNITS
                .iter()
                .all(|unit| self.settlement.usage.get(*unit) == 0)
    }
}

impl Kind<'_> {
    fn of(call: &ResolvedCall) -> Kind<'_> {
        Kind {
            endpoint: &call.hold.endpoint,
            model: &call.hold.model,
            provider: &call.settlement.target,
            price_version: call.hold.price_version,
            outcome: call.settlement.outcome,
            estimated: call.settlement.estimated,
            is_plain: call.is_plain(),
        }
    }
}

/// Units that most calls do not use.
pub(super) const RARE_UNITS: [Unit; 11] = [
    Unit::CacheWrite,
    Unit::InputAudio,
    Unit::OutputAudio,
    Unit::CacheWriteHour,
    Unit::Image,
    Unit::Video,
    Unit::Audio,
    Unit::Character,
    Unit::Search,
    Unit::InputImage,
    Unit::CacheReadAudio,
];
/// All other units, in the column order of the statements.
pub(super) const USUAL: [Unit; 4] = [Unit::Input, Unit::CacheRead, Unit::Output, Unit::Reasoning];
