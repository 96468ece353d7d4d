//! `ledger check`: reads the books and says whether they keep their promises. It shares no code with what wrote them.

use std::collections::{HashMap, HashSet};
use std::fmt;

use tollgate_storage::audit::{Leg, OpenHold, OpenLease, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Chain, ChargedLine, LedgerAccount, LedgerBalance, LedgerStore, Lot, Refund, StorageError,
    UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::money::Discount;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Usage};

use crate::chain::ChainFollower;

/// Most faults that are listed; all are counted.
const LISTED: usize = 100;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which invariant of docs/money.md, such as `I1`.
    pub invariant: &'static str,
    /// Where and how.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// What the check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Books read.
    pub accounts: u64,
    /// Transfers read.
    pub transfers: u64,
    /// Usage rows read.
    pub usage_rows: u64,
    /// Holds that are not resolved.
    pub open_holds: u64,
    /// Σ of what callers paid.
    pub revenue: i128,
    /// Σ of what the operator bore, in nano-credits.
    pub overrun: i128,
    /// Usage rows that a crash left without a charge.
    pub crashed: u64,
    /// Chains of transfers that have an end.
    pub chain_heads: u64,
    /// Transfers that were made before there were chains.
    pub unchained: u64,
    /// How many faults there are.
    pub fault_count: u64,
    /// The first of them.
    pub faults: Vec<Fault>,
}

impl CheckReport {
    /// Whether every promise is kept.
    pub fn is_clean(&self) -> bool {
        self.fault_count == 0
    }
}

/// Checks invariants I1–I4, I6–I9, I11, I12 and I14–I16; with `reprice` also I13, which prices every row again. (That a refusal writes
/// nothing, I5, cannot be seen in the books; tests show it.)
pub async fn check_ledger(ledger: &dyn LedgerStore, reprice: bool) -> Result<CheckReport, StorageError> {
    let mut auditor = Auditor {
        reprice,
        ..Auditor::default()
    };
    ledger.audit(None, &mut auditor).await?;
    Ok(auditor.report)
}

#[derive(Default)]
struct Auditor {
    reprice: bool,
    report: CheckReport,
    prices: HashMap<PriceVersion, (String, Prices)>,
    book: Book,
}

/// One tenant's book while it is read.
#[derive(Default)]
struct Book {
    account: Option<AccountId>,
    /// What it says about its chain, and what its transfers are.
    chain: Chain,
    follower: Option<ChainFollower>,
    stored: HashMap<LedgerAccount, i128>,
    computed: HashMap<LedgerAccount, i128>,
    /// Sums of transfers by step.
    legs: HashMap<Leg, i128>,
    open: HashMap<HoldId, i128>,
    /// Open holds of nothing.
    open_for_nothing: HashSet<HoldId>,
    /// What open holds have of credits.
    held: i128,
    /// What open leases have.
    leased: i128,
    lots: Lots,
    weeks: HashMap<TransferId, Week>,
    /// What the calls of a week took of its allowance and did not give back.
    drawn: HashMap<TransferId, i128>,
    /// The week on whose allowance an open hold draws.
    draws: HashMap<HoldId, TransferId>,
    /// What is read now.
    entry: Entry,
    resolved_without_row: u64,
    refunds: Vec<Refund>,
    /// What refunds of a call say: to credits, then to an allowance.
    refunded: HashMap<HoldId, [i128; 2]>,
    /// What the transfers of refunds moved: to credits, then to an allowance.
    given_back: HashMap<TransferId, [i128; 2]>,
    revenue_of_rows: i128,
    /// What lines of batches cost, by the hold that pays for them.
    lines: HashMap<HoldId, Credits>,
}

/// The transfers, the parts and the usage row of one thing; a book has too many of them to keep.
#[derive(Default)]
struct Entry {
    id: u128,
    legs: Option<HoldLegs>,
    parts: Option<PartSums>,
    row: Option<RowSums>,
}

/// What the parts of a row make together.
#[derive(Clone, Copy, Default)]
struct PartSums {
    cost: i128,
    usage: Usage,
}

/// Lots, and what made them and left them.
#[derive(Default)]
struct Lots {
    made: HashMap<TransferId, (Leg, i128)>,
    found: HashMap<TransferId, (Leg, i128)>,
    remaining: i128,
    left: HashMap<Leg, i128>,
}

/// The legs of a hold: out of credits or a lease of them, then out of an allowance.
#[derive(Default)]
struct HoldLegs {
    credits: Option<i128>,
    paid: Option<i128>,
    released: Option<i128>,
    overrun: Option<i128>,
    allowance: Option<i128>,
    included: Option<i128>,
    returned: Option<i128>,
    broken: Option<i128>,
    /// What went back to credits before it was resolved.
    early: Option<i128>,
}

impl HoldLegs {
    fn held(&self) -> Option<i128> {
        sum([self.credits, self.allowance])
    }

    fn settled(&self) -> Option<i128> {
        sum([self.paid, self.included])
    }

    fn released(&self) -> Option<i128> {
        sum([self.released, self.returned, self.broken])
    }
}

/// The sum of what there is; nothing of nothing.
fn sum<const N: usize>(parts: [Option<i128>; N]) -> Option<i128> {
    parts.into_iter().flatten().reduce(|sum, part| sum + part)
}

/// The legs of a week of a plan.
#[derive(Default)]
struct Week {
    opened: Option<i128>,
    closed: Option<i128>,
}

struct RowSums {
    week: Option<TransferId>,
    held: i128,
    charge: i128,
    overrun: i128,
    included: i128,
    refunded: i128,
}

impl Auditor {
    fn fault(&mut self, invariant: &'static str, detail: impl fmt::Display) {
        self.report.fault_count += 1;
        if self.report.faults.len() < LISTED {
            let place = self.book.account.map(|id| format!("{id}: ")).unwrap_or_default();
            self.report.faults.push(Fault {
                invariant,
                detail: format!("{place}{detail}"),
            });
        }
    }

    fn check_balances(&mut self) {
        let sum: i128 = self.book.stored.values().sum();
        if sum != 0 {
            self.fault(
                "I1",
                format!("the balances of the book sum to {sum} nano-credits, not to zero"),
            );
        }
        for account in LedgerAccount::ALL {
            let stored = self.book.stored.get(&account).copied().unwrap_or(0);
            let computed = self.book.computed.get(&account).copied().unwrap_or(0);
            if stored != computed {
                let name = account.as_str();
                self.fault(
                    "I1",
                    format!("{name} stands at {stored} nano-credits; its transfers make {computed}"),
                );
            }
            if account.is_constrained() && stored < 0 {
                self.fault(
                    "I2",
                    format!("{} is below zero: {stored} nano-credits", account.as_str()),
                );
            }
        }
        let held = self.book.stored.get(&LedgerAccount::Hold).copied().unwrap_or(0);
        let open: i128 = self.book.open.values().sum();
        if held != open {
            self.fault(
                "I4",
                format!("{held} nano-credits are held, the open holds make {open}"),
            );
        }
        let (leased, open) = (
            self.book.stored.get(&LedgerAccount::Lease).copied().unwrap_or(0),
            self.book.leased,
        );
        if leased != open {
            self.fault(
                "I4",
                format!("{leased} nano-credits are leased, the open leases make {open}"),
            );
        }
    }

    /// Goes on to the transfers, the parts and the usage row of another thing; what was read of the one before is judged.
    fn turn_to(&mut self, id: u128) {
        if self.book.entry.id == id {
            return;
        }
        let next = Entry {
            id,
            ..Entry::default()
        };
        let entry = std::mem::replace(&mut self.book.entry, next);
        let id = HoldId::from_u128(entry.id);
        if let Some(legs) = &entry.legs {
            self.check_hold(id, legs);
        }
        if entry.parts.is_some() && entry.row.is_none() {
            self.check_parts_without_row(id);
        }
        match (&entry.legs, &entry.row) {
            (Some(legs), Some(row)) => self.check_row(id, legs, row),
            (Some(legs), None) => {
                let is_resolved =
                    legs.settled().is_some() || legs.released().is_some() || legs.overrun.is_some();
                self.book.resolved_without_row += u64::from(is_resolved);
            }
            (None, Some(row)) => self.check_row_without_hold(id, row),
            (None, None) => return,
        }
        if entry.row.is_some() && self.book.open.contains_key(&id) {
            self.fault("I3", format!("hold {id} is open and has a usage row"));
        }
        if let Some(row) = &entry.row {
            self.check_refunds_of(id, row);
        }
        self.draw(id, entry.legs.as_ref(), entry.row.as_ref());
    }

    fn check_row_without_hold(&mut self, id: HoldId, row: &RowSums) {
        if row.overrun != 0 {
            self.fault(
                "I9",
                format!("usage row {id} says {} of overrun, the ledger none", row.overrun),
            );
        }
        if row.held != 0 {
            self.fault(
                "I7",
                format!("usage row {id} has no hold: it was served without permission to spend"),
            );
        }
    }

    /// The parts of a job's call are there with the end of the job, which is before its hold is resolved.
    fn check_parts_without_row(&mut self, id: HoldId) {
        let is_open = self.book.open.contains_key(&id) || self.book.open_for_nothing.contains(&id);
        if self.reprice && !is_open {
            self.fault("I13", format!("hold {id} has parts and no usage row"));
        }
    }

    /// Notes what a call took of the allowance of its week.
    fn draw(&mut self, id: HoldId, legs: Option<&HoldLegs>, row: Option<&RowSums>) {
        let drawn = legs.map_or(0, |legs| legs.allowance.unwrap_or(0) - legs.returned.unwrap_or(0));
        let given_back = self
            .book
            .refunded
            .remove(&id)
            .map_or(0, |[_, allowance]| allowance);
        let open = self.book.draws.get(&id).copied();
        match row.map_or(open, |row| row.week.or(open)) {
            Some(week) => *self.book.drawn.entry(week).or_default() += drawn - given_back,
            None => {
                if drawn != 0 {
                    self.fault("I12", format!("hold {id} draws on an allowance of no week"));
                }
                if given_back != 0 {
                    self.fault(
                        "I16",
                        format!("a refund of {id} gives back an allowance of no week"),
                    );
                }
            }
        }
    }

    fn check_resolved(&mut self) {
        let resolved_without_row = std::mem::take(&mut self.book.resolved_without_row);
        if resolved_without_row > 0 {
            self.fault(
                "I11",
                format!("{resolved_without_row} resolved holds have no usage row"),
            );
        }
    }

    fn check_hold(&mut self, id: HoldId, legs: &HoldLegs) {
        let Some(held) = legs.held() else {
            // A hold of zero moves nothing; what its call cost all the same is the operator's, and its usage row says so.
            let only_lost = legs.overrun.is_some() && legs.settled().is_none() && legs.released().is_none();
            if !only_lost {
                self.fault("I3", format!("hold {id} was resolved but never taken"));
            }
            return;
        };
        let (settled, released) = (legs.settled().unwrap_or(0), legs.released().unwrap_or(0));
        let resolved = legs.settled().is_some() || legs.released().is_some();
        let early = legs.early.unwrap_or(0);
        let open = self.book.open.get(&id).copied();
        match open {
            Some(_) if resolved => self.fault("I3", format!("hold {id} is resolved and still open")),
            Some(amount) if amount != held - early => {
                self.fault(
                    "I4",
                    format!("hold {id} stands at {amount}, {held} were moved into it and {early} out of it"),
                );
            }
            None if !resolved && early != held => {
                self.fault("I3", format!("hold {id} is neither open nor resolved"))
            }
            None if settled + released + early != held => {
                self.fault(
                    "I4",
                    format!("hold {id}: {settled} settled, {released} released and {early} released early do not make {held}"),
                );
            }
            _ => {}
        }
    }

    /// The allowance pays first: what it paid is what the row says, and credits paid nothing that it could have paid.
    fn check_coverage(&mut self, id: HoldId, legs: &HoldLegs, row: &RowSums) {
        let (allowance, included) = (legs.allowance.unwrap_or(0), legs.included.unwrap_or(0));
        let (credits, paid) = (legs.credits.unwrap_or(0), legs.paid.unwrap_or(0));
        if included != row.included {
            let told = row.included;
            self.fault(
                "I6",
                format!("usage row {id} says that an allowance paid {told}, the ledger says {included}"),
            );
        }
        if included != row.charge.min(allowance) || paid > credits {
            let detail = format!(
                "hold {id}: an allowance of {allowance} paid {included} and credits paid {paid} of {}",
                row.charge
            );
            self.fault("I6", detail);
        }
    }

    /// A week gives no more than it had, only one of them has anything left, and that is what the book says.
    fn check_weeks(&mut self) {
        let mut left: HashMap<TransferId, i128> = HashMap::new();
        for (id, week) in std::mem::take(&mut self.book.weeks) {
            if week.opened.is_none() {
                self.fault("I12", format!("week {id} was closed and never opened"));
            }
            let rest = week.opened.unwrap_or(0) - week.closed.unwrap_or(0);
            left.insert(id, rest);
        }
        for (week, drawn) in std::mem::take(&mut self.book.drawn) {
            match left.get_mut(&week) {
                Some(left) => *left -= drawn,
                None if drawn == 0 => {}
                None => self.fault(
                    "I12",
                    format!("calls draw {drawn} on week {week}, which was never opened"),
                ),
            }
        }
        let book = self
            .book
            .stored
            .get(&LedgerAccount::Allowance)
            .copied()
            .unwrap_or(0);
        left.retain(|_, left| *left != 0);
        for (week, left) in left.iter().filter(|(_, left)| **left < 0) {
            self.fault("I12", format!("week {week} gave {} more than it had", -left));
        }
        let open: i128 = left.values().sum();
        if left.len() > 1 || open != book {
            let weeks = left.len();
            self.fault(
                "I12",
                format!("{weeks} weeks have {open} nano-credits left, the book has {book}"),
            );
        }
    }

    /// Each grant and refund has its lot, what left lots was moved, and lots have left what the account has and what it
    /// spent since spending was assigned to them.
    fn check_lots(&mut self) {
        let lots = std::mem::take(&mut self.book.lots);
        for (id, (leg, amount)) in &lots.made {
            if lots.found.get(id) != Some(&(*leg, *amount)) {
                let detail = format!("{leg:?} {id} of {amount} nano-credits has no lot of this amount");
                self.fault("I15", detail);
            }
        }
        for id in lots.found.keys().filter(|id| !lots.made.contains_key(id)) {
            self.fault("I15", format!("lot {id} was never granted"));
        }
        for leg in [Leg::Expire, Leg::Withdraw] {
            let moved = self.book.legs.get(&leg).copied().unwrap_or(0);
            let said = lots.left.get(&leg).copied().unwrap_or(0);
            if moved != said {
                let detail = format!("{leg:?} moved {moved} nano-credits, the lots say {said}");
                self.fault("I15", detail);
            }
        }
        let credits = self
            .book
            .stored
            .get(&LedgerAccount::Credits)
            .copied()
            .unwrap_or(0);
        let funds = credits + self.book.held + self.book.leased;
        if lots.remaining < funds {
            let left = lots.remaining;
            self.fault(
                "I15",
                format!("lots have {left} nano-credits left, the account has {funds}"),
            );
        }
    }

    /// Each refund has its transfers, and its call.
    fn check_refunds(&mut self) {
        let mut moved = std::mem::take(&mut self.book.given_back);
        for refund in std::mem::take(&mut self.book.refunds) {
            let parts = [nanos(refund.credits), nanos(refund.allowance)];
            let given = moved.remove(&refund.id).unwrap_or_default();
            if given != parts {
                let (id, [credits, allowance]) = (refund.id, given);
                let [told, included] = parts;
                let detail =
                    format!("refund {id} says {told} and {included}, the ledger {credits} and {allowance}");
                self.fault("I16", detail);
            }
        }
        for id in moved.keys() {
            self.fault("I16", format!("refund {id} is not written down"));
        }
        for id in std::mem::take(&mut self.book.refunded).keys() {
            self.fault("I16", format!("a refund is of {id}, which has no usage row"));
        }
    }

    /// No more of a call is given back than was charged, and to where it came from.
    fn check_refunds_of(&mut self, id: HoldId, row: &RowSums) {
        let [credits, allowance] = self.book.refunded.get(&id).copied().unwrap_or_default();
        let (paid, included, told) = (row.charge - row.included, row.included, row.refunded);
        if [credits, allowance, told] == [0; 3] {
            return;
        }
        if credits > paid || allowance > included || credits + allowance != told {
            let detail = format!(
                "usage row {id}: {credits} of {paid} paid and {allowance} of {included} included were given back, \
                it says {told}"
            );
            self.fault("I16", detail);
        }
    }

    fn check_chain(&mut self) {
        let chain = std::mem::take(&mut self.book.chain);
        self.report.chain_heads += u64::from(chain.head.is_some());
        self.report.unchained += chain.unchained;
        let mut broken = Vec::new();
        if let Some(follower) = self.book.follower.take() {
            follower.finish(&chain, |fault| broken.push(fault));
        }
        broken.into_iter().for_each(|fault| self.fault("I14", fault));
    }

    fn week_leg(&mut self, id: TransferId, leg: Leg, amount: i128) {
        let week = self.book.weeks.entry(id).or_default();
        let place = match leg {
            Leg::OpenWindow => &mut week.opened,
            Leg::CloseWindow => &mut week.closed,
            _ => return self.fault("I12", format!("week {id} has {leg:?}")),
        };
        if place.replace(amount).is_some() {
            self.fault("I12", format!("week {id} has {leg:?} twice"));
        }
    }

    fn hold_leg(&mut self, id: HoldId, leg: Leg, amount: i128) {
        let legs = self.book.entry.legs.get_or_insert_default();
        let place = match leg {
            Leg::Hold | Leg::HoldLease => &mut legs.credits,
            Leg::Settle => &mut legs.paid,
            Leg::Release | Leg::ReleaseLease => &mut legs.released,
            Leg::Overrun | Leg::CrashLoss => &mut legs.overrun,
            Leg::ReleaseEarly(_) => {
                *legs.early.get_or_insert(0) += amount;
                return;
            }
            Leg::HoldAllowance => &mut legs.allowance,
            Leg::SettleIncluded => &mut legs.included,
            Leg::ReleaseAllowance => &mut legs.returned,
            Leg::ReleaseBreakage => &mut legs.broken,
            Leg::Grant
            | Leg::OpenWindow
            | Leg::CloseWindow
            | Leg::PlanFee
            | Leg::Promotion
            | Leg::Expire
            | Leg::Withdraw
            | Leg::Refund
            | Leg::RefundAllowance
            | Leg::Lease
            | Leg::ReturnLease => {
                return self.fault("I1", format!("hold {id} has {leg:?}"));
            }
        };
        if place.replace(amount).is_some() {
            self.fault("I3", format!("hold {id} has {leg:?} twice"));
        }
    }

    fn check_row(&mut self, id: HoldId, legs: &HoldLegs, row: &RowSums) {
        self.check_coverage(id, legs, row);
        let settled = legs.settled().unwrap_or(0);
        if settled != row.charge || row.held != legs.held().unwrap_or(0) {
            let detail = format!(
                "usage row {id} says {} of {} held, the ledger says {settled}",
                row.charge, row.held
            );
            self.fault("I11", detail);
        }
        if legs.overrun.unwrap_or(0) != row.overrun {
            self.fault(
                "I9",
                format!(
                    "usage row {id} says {} of overrun, the ledger another sum",
                    row.overrun
                ),
            );
        }
    }

    fn check_revenue(&mut self) {
        let computed = |account| self.book.computed.get(&account).copied().unwrap_or(0);
        let legs = computed(LedgerAccount::RevenueUsage) + computed(LedgerAccount::RevenueIncluded);
        let loss = -computed(LedgerAccount::ExpenseOverrun) - computed(LedgerAccount::ExpenseCrashLoss);
        let rows = self.book.revenue_of_rows;
        if legs != rows + loss {
            self.fault(
                "I8",
                format!("revenue is {legs} nano-credits; usage rows make {rows} and losses {loss}"),
            );
        }
    }

    fn reprice(&mut self, row: &UsageRow) {
        let Some((model, prices)) = self.prices.get(&row.price_version) else {
            return self.fault(
                "I13",
                format!(
                    "usage row {} names {}, which is not recorded",
                    row.id, row.price_version
                ),
            );
        };
        let parts = self.book.entry.parts;
        // Lines of a batch are rounded one by one. Nobody pays for those of one that was given up.
        let is_given_up = row.outcome == Outcome::Crashed;
        let lines = self.book.lines.get(&row.id).copied().filter(|_| !is_given_up);
        let own = nanos(lines.unwrap_or_else(|| prices.cost(&row.usage)));
        let cost = own + parts.map_or(0, |parts| parts.cost);
        let paid = nanos(row.charge) + nanos(row.overrun);
        if paid != cost {
            let detail = format!(
                "usage row {} ({model}): {paid} nano-credits paid, {cost} by its prices",
                row.id
            );
            self.fault("I13", detail);
        }
        if parts.is_some_and(|parts| parts.usage != row.usage) {
            let detail = format!("usage row {}: its parts consumed something else", row.id);
            self.fault("I13", detail);
        }
    }

    fn reprice_part(&mut self, row: HoldId, part: &UsagePart) {
        let (name, version) = (&part.name, part.price_version);
        let Some((model, prices)) = self.prices.get(&version) else {
            let detail = format!("part '{name}' of {row} names {version}, which is not recorded");
            return self.fault("I13", detail);
        };
        let cost = prices.cost(&part.usage);
        if cost != part.cost {
            let detail = format!(
                "part '{name}' of {row} ({model}): it says {}, {cost} by its prices",
                part.cost
            );
            self.fault("I13", detail);
        }
    }
}

fn nanos(credits: Credits) -> i128 {
    i128::from(credits.nanos())
}

impl AuditVisitor for Auditor {
    fn price(&mut self, version: PriceVersion, model: &str, prices: &Prices) {
        self.prices.insert(version, (model.to_owned(), *prices));
    }

    fn account(&mut self, account: AccountId) {
        self.report.accounts += 1;
        self.book = Book {
            account: Some(account),
            follower: Some(ChainFollower::new(account)),
            ..Book::default()
        };
    }

    fn balance(&mut self, balance: LedgerBalance) {
        self.book.stored.insert(balance.account, nanos(balance.balance));
    }

    fn chain(&mut self, chain: Chain) {
        self.book.chain = chain;
    }

    fn lot(&mut self, lot: &Lot) {
        let parts = [lot.remaining, lot.expired, lot.withdrawn].map(nanos);
        let amount = nanos(lot.amount);
        if parts.iter().any(|part| *part < 0) || parts.iter().sum::<i128>() > amount {
            let [remaining, expired, withdrawn] = parts;
            self.fault(
                "I15",
                format!(
                    "lot {} of {amount}: {remaining} left, {expired} expired and {withdrawn} taken back",
                    lot.id
                ),
            );
        }
        let lots = &mut self.book.lots;
        lots.found.insert(lot.id, (lot.terms.kind.leg(), amount));
        let [remaining, expired, withdrawn] = parts;
        lots.remaining += remaining;
        *lots.left.entry(Leg::Expire).or_default() += expired;
        *lots.left.entry(Leg::Withdraw).or_default() += withdrawn;
    }

    fn lease(&mut self, lease: OpenLease) {
        self.book.leased += nanos(lease.balance);
    }

    fn hold(&mut self, hold: OpenHold) {
        self.report.open_holds += 1;
        self.book.held += nanos(hold.amount) - nanos(hold.allowance);
        if let Some(plan) = &hold.plan {
            self.book.draws.insert(hold.id, plan.window);
        }
        // A hold of zero moves nothing and has no transfers.
        if hold.amount.is_zero() {
            self.book.open_for_nothing.insert(hold.id);
        } else {
            self.book.open.insert(hold.id, nanos(hold.amount));
        }
    }

    fn transfer(&mut self, transfer: TransferRow) {
        self.report.transfers += 1;
        let mut broken = Vec::new();
        if let Some(follower) = &mut self.book.follower {
            follower.see(&transfer, |fault| broken.push(fault));
        }
        broken.into_iter().for_each(|fault| self.fault("I14", fault));
        let amount = nanos(transfer.amount);
        if amount <= 0 {
            self.fault(
                "I1",
                format!("a transfer of {:?} moves {amount}", transfer.subject),
            );
        }
        if (transfer.debit, transfer.credit) != transfer.leg.sides() {
            let sides = format!("{} → {}", transfer.debit.as_str(), transfer.credit.as_str());
            self.fault(
                "I1",
                format!("{:?} of {:?} moves {sides}", transfer.leg, transfer.subject),
            );
        }
        *self.book.computed.entry(transfer.debit).or_default() -= amount;
        *self.book.computed.entry(transfer.credit).or_default() += amount;
        *self.book.legs.entry(transfer.leg).or_default() += amount;
        self.turn_to(transfer.subject.entry());
        match transfer.subject {
            TransferSubject::Grant(id) if matches!(transfer.leg, Leg::Grant | Leg::Promotion) => {
                self.book.lots.made.insert(id, (transfer.leg, amount));
            }
            TransferSubject::Refund(id) if matches!(transfer.leg, Leg::Refund | Leg::RefundAllowance) => {
                let part = usize::from(transfer.leg == Leg::RefundAllowance);
                self.book.given_back.entry(id).or_default()[part] += amount;
                if transfer.leg == Leg::Refund {
                    self.book.lots.made.insert(id, (Leg::Refund, amount));
                }
            }
            TransferSubject::Lot(_) if matches!(transfer.leg, Leg::Expire | Leg::Withdraw) => {}
            TransferSubject::Lease(_) if matches!(transfer.leg, Leg::Lease | Leg::ReturnLease) => {}
            TransferSubject::Hold(id) => self.hold_leg(id, transfer.leg, amount),
            TransferSubject::Window(id) => self.week_leg(id, transfer.leg, amount),
            TransferSubject::Period(_) if transfer.leg == Leg::PlanFee => {}
            subject => self.fault("I1", format!("{subject:?} has {:?}", transfer.leg)),
        }
    }

    fn part(&mut self, row: HoldId, part: &UsagePart) {
        self.turn_to(row.as_u128());
        let sums = self.book.entry.parts.get_or_insert_default();
        sums.cost += nanos(part.cost);
        sums.usage = sums.usage.plus(&part.usage);
        if self.reprice {
            self.reprice_part(row, part);
        }
    }

    fn usage(&mut self, row: &UsageRow) {
        self.report.usage_rows += 1;
        let (held, charge, overrun) = (nanos(row.held), nanos(row.charge), nanos(row.overrun));
        self.turn_to(row.id.as_u128());
        self.report.revenue += charge;
        self.report.overrun += overrun;
        self.book.revenue_of_rows += charge;
        if charge > held || charge < 0 {
            self.fault(
                "I4",
                format!("usage row {} charges {charge} of {held} held", row.id),
            );
        }
        if !(0..=charge).contains(&nanos(row.included)) {
            let included = nanos(row.included);
            self.fault(
                "I6",
                format!(
                    "usage row {} says that an allowance paid {included} of {charge}",
                    row.id
                ),
            );
        }
        if row.outcome == Outcome::Crashed {
            self.report.crashed += 1;
            if charge != 0 {
                self.fault(
                    "I9",
                    format!("usage row {} charges for a call that a crash cut off", row.id),
                );
            }
        }
        let sums = RowSums {
            week: row.plan.as_ref().map(|plan| plan.window),
            held,
            charge,
            overrun,
            included: nanos(row.included),
            refunded: nanos(row.refunded),
        };
        if self.book.entry.row.replace(sums).is_some() {
            self.fault("I3", format!("hold {} has two usage rows", row.id));
        }
        if self.reprice {
            self.reprice(row);
        }
    }

    fn line(&mut self, line: &ChargedLine) {
        let Some((_, prices)) = self.prices.get(&line.price_version) else {
            let (hold, version) = (line.hold, line.price_version);
            return self.fault(
                "I13",
                format!("a line of {hold} names {version}, which is not recorded"),
            );
        };
        let cost = prices.at(Discount::BATCH).cost(&line.usage);
        let sum = self.book.lines.entry(line.hold).or_default();
        *sum = sum.checked_add(cost).unwrap_or(Credits::MAX);
    }

    fn refund(&mut self, refund: &Refund) {
        let sum = self.book.refunded.entry(refund.hold).or_default();
        sum[0] += nanos(refund.credits);
        sum[1] += nanos(refund.allowance);
        self.book.refunds.push(refund.clone());
    }

    fn account_end(&mut self) {
        // Nothing has this id: it judges what was read last.
        self.turn_to(u128::MAX);
        self.check_resolved();
        self.check_chain();
        self.check_refunds();
        self.check_revenue();
        self.check_balances();
        self.check_lots();
        self.check_weeks();
    }

    fn unreadable(&mut self, what: String) {
        self.fault("I1", format!("a row cannot be read: {what}"));
    }
}
