//! `ledger check`: verifies the invariants of the ledger. It shares no code with the ledger's
//! writers.

use std::collections::{HashMap, HashSet};
use std::fmt;

use tollgate_storage::audit::{Leg, OpenHold, OpenLease, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Chain, ChargedLine, HourDifference, LedgerAccount, LedgerBalance, LedgerStore, Lot, Refund,
    StorageError, UsageHourStore, UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::money::Discount;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Usage};

use crate::chain::ChainFollower;

/// Maximum number of listed faults. The report counts all faults.
const MAX_LISTED: usize = 100;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the invariant in docs/money.md, such as `I1`.
    pub invariant: &'static str,
    /// Account, entry and values of the fault.
    pub detail: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// Counts, totals and faults of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Number of accounts read.
    pub accounts: u64,
    /// Number of transfers read.
    pub transfers: u64,
    /// Number of usage rows read.
    pub usage_rows: u64,
    /// Number of unresolved holds.
    pub open_holds: u64,
    /// Σ of the charges of all usage rows, in nano-credits.
    pub revenue: i128,
    /// Σ of the overruns that the operator bore, in nano-credits.
    pub overrun: i128,
    /// Number of usage rows with outcome `crashed`, which have no charge.
    pub crashed: u64,
    /// Number of hash chains with a head.
    pub chain_heads: u64,
    /// Number of transfers older than the hash chains.
    pub unchained: u64,
    /// Number of faults found.
    pub fault_count: u64,
    /// First faults, at most 100.
    pub faults: Vec<Fault>,
}

impl CheckReport {
    /// Whether no invariant is violated.
    pub fn is_clean(&self) -> bool {
        self.fault_count == 0
    }

    fn add_fault(&mut self, invariant: &'static str, detail: String) {
        self.fault_count += 1;
        if self.faults.len() < MAX_LISTED {
            self.faults.push(Fault { invariant, detail });
        }
    }
}

/// Checks invariants I1–I4, I6–I9, I11, I12 and I14–I16; with `reprice` also I13, which recomputes
/// the cost of every row. (Tests cover I5: the ledger contains no trace of a refused call.)
pub async fn check_ledger(ledger: &dyn LedgerStore, reprice: bool) -> Result<CheckReport, StorageError> {
    let mut auditor = Auditor {
        reprice,
        ..Auditor::default()
    };
    ledger.audit(None, &mut auditor).await?;
    Ok(auditor.report)
}

/// Checks invariant I17: the sums of usage rows by hour equal the rows. Adds the faults to the
/// report of [`check_ledger`].
pub async fn check_usage_hours(
    hours: &dyn UsageHourStore,
    report: &mut CheckReport,
) -> Result<(), StorageError> {
    for HourDifference { account, hours, rows } in hours.differences().await? {
        let detail = format!(
            "{account}: the usage hours have {} calls and {} nano-credits; the usage rows have {} and {}",
            hours.requests,
            hours.charge.nanos(),
            rows.requests,
            rows.charge.nanos()
        );
        report.add_fault("I17", detail);
    }
    Ok(())
}

#[derive(Default)]
struct Auditor {
    reprice: bool,
    report: CheckReport,
    prices: HashMap<PriceVersion, (String, Prices)>,
    ledger: AccountLedger,
}

/// State of the account whose rows are being read.
#[derive(Default)]
struct AccountLedger {
    account: Option<AccountId>,
    /// Stored chain head and number of unchained transfers, to compare with the transfers.
    chain: Chain,
    follower: Option<ChainFollower>,
    stored: HashMap<LedgerAccount, i128>,
    computed: HashMap<LedgerAccount, i128>,
    /// Sums of the transfers, by leg.
    legs: HashMap<Leg, i128>,
    open: HashMap<HoldId, i128>,
    /// Open holds of zero credits.
    open_zero_holds: HashSet<HoldId>,
    /// Credits held by open holds, without allowances.
    held: i128,
    /// Total balance of open leases.
    leased: i128,
    lots: Lots,
    weeks: HashMap<TransferId, Week>,
    /// Allowance that the calls of a week used, less refunds.
    drawn: HashMap<TransferId, i128>,
    /// Week whose allowance an open hold uses.
    draws: HashMap<HoldId, TransferId>,
    /// Entry whose transfers, parts and usage row are being read.
    entry: Entry,
    resolved_without_row: u64,
    refunds: Vec<Refund>,
    /// Sums of the recorded refunds of a call: to credits, then to an allowance.
    refunded: HashMap<HoldId, [i128; 2]>,
    /// Sums of the transfers of a refund: to credits, then to an allowance.
    refund_sums: HashMap<TransferId, [i128; 2]>,
    revenue_of_rows: i128,
    /// Costs of batch lines, by the hold that pays for them.
    lines: HashMap<HoldId, Credits>,
}

/// Transfers, parts and usage row of one entry. An account has too many entries to store all of
/// them in memory.
#[derive(Default)]
struct Entry {
    id: u128,
    legs: Option<HoldLegs>,
    parts: Option<PartSums>,
    row: Option<RowSums>,
}

/// Sums of the parts of a usage row.
#[derive(Clone, Copy, Default)]
struct PartSums {
    cost: i128,
    usage: Usage,
}

/// Sums of the lots, and of the transfers into and out of them.
#[derive(Default)]
struct Lots {
    made: HashMap<TransferId, (Leg, i128)>,
    found: HashMap<TransferId, (Leg, i128)>,
    remaining: i128,
    left: HashMap<Leg, i128>,
}

/// Sums of a hold's transfers: first those from credits or a lease, then those from an allowance.
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
    /// Amount released to credits before the hold was resolved.
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

/// Returns the sum of the present values; `None` if no value is present.
fn sum<const N: usize>(parts: [Option<i128>; N]) -> Option<i128> {
    parts.into_iter().flatten().reduce(|sum, part| sum + part)
}

/// Sums of the transfers of a plan week.
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
        let place = self
            .ledger
            .account
            .map(|id| format!("{id}: "))
            .unwrap_or_default();
        self.report.add_fault(invariant, format!("{place}{detail}"));
    }

    fn check_balances(&mut self) {
        let sum: i128 = self.ledger.stored.values().sum();
        if sum != 0 {
            self.fault(
                "I1",
                format!("the balances of the ledger sum to {sum} nano-credits, not to zero"),
            );
        }
        for account in LedgerAccount::ALL {
            let stored = self.ledger.stored.get(&account).copied().unwrap_or(0);
            let computed = self.ledger.computed.get(&account).copied().unwrap_or(0);
            if stored != computed {
                let name = account.as_str();
                self.fault(
                    "I1",
                    format!("{name} has {stored} nano-credits; its transfers sum to {computed}"),
                );
            }
            if account.is_constrained() && stored < 0 {
                self.fault(
                    "I2",
                    format!("{} is below zero: {stored} nano-credits", account.as_str()),
                );
            }
        }
        let held = self.ledger.stored.get(&LedgerAccount::Hold).copied().unwrap_or(0);
        let open: i128 = self.ledger.open.values().sum();
        if held != open {
            self.fault(
                "I4",
                format!("{held} nano-credits are held; the open holds sum to {open}"),
            );
        }
        let (leased, open) = (
            self.ledger
                .stored
                .get(&LedgerAccount::Lease)
                .copied()
                .unwrap_or(0),
            self.ledger.leased,
        );
        if leased != open {
            self.fault(
                "I4",
                format!("{leased} nano-credits are leased; the open leases sum to {open}"),
            );
        }
    }

    /// Checks the entry that was read, and starts the entry with this id.
    fn switch_to(&mut self, id: u128) {
        if self.ledger.entry.id == id {
            return;
        }
        let next = Entry {
            id,
            ..Entry::default()
        };
        let entry = std::mem::replace(&mut self.ledger.entry, next);
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
                self.ledger.resolved_without_row += u64::from(is_resolved);
            }
            (None, Some(row)) => self.check_row_without_hold(id, row),
            (None, None) => return,
        }
        if entry.row.is_some() && self.ledger.open.contains_key(&id) {
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
                format!(
                    "usage row {id} records an overrun of {}; the ledger records none",
                    row.overrun
                ),
            );
        }
        if row.held != 0 {
            self.fault(
                "I7",
                format!("usage row {id} has no hold: the call was served without permission to spend"),
            );
        }
    }

    /// Checks the parts of a call without a usage row. They are valid while the hold is open: the
    /// end of a job stores its parts before its hold is resolved.
    fn check_parts_without_row(&mut self, id: HoldId) {
        let is_open = self.ledger.open.contains_key(&id) || self.ledger.open_zero_holds.contains(&id);
        if self.reprice && !is_open {
            self.fault("I13", format!("hold {id} has parts and no usage row"));
        }
    }

    /// Adds the allowance that a call used to the sum of its week.
    fn draw(&mut self, id: HoldId, legs: Option<&HoldLegs>, row: Option<&RowSums>) {
        let drawn = legs.map_or(0, |legs| legs.allowance.unwrap_or(0) - legs.returned.unwrap_or(0));
        let refund_sums = self
            .ledger
            .refunded
            .remove(&id)
            .map_or(0, |[_, allowance]| allowance);
        let open = self.ledger.draws.get(&id).copied();
        match row.map_or(open, |row| row.week.or(open)) {
            Some(week) => *self.ledger.drawn.entry(week).or_default() += drawn - refund_sums,
            None => {
                if drawn != 0 {
                    self.fault(
                        "I12",
                        format!("hold {id} draws on an allowance but names no week"),
                    );
                }
                if refund_sums != 0 {
                    self.fault(
                        "I16",
                        format!("a refund of {id} returns an allowance, but the call names no week"),
                    );
                }
            }
        }
    }

    fn check_resolved(&mut self) {
        let resolved_without_row = std::mem::take(&mut self.ledger.resolved_without_row);
        if resolved_without_row > 0 {
            self.fault(
                "I11",
                format!("{resolved_without_row} resolved holds have no usage row"),
            );
        }
    }

    fn check_hold(&mut self, id: HoldId, legs: &HoldLegs) {
        let Some(held) = legs.held() else {
            // A hold of zero moves no credits. The operator bears the cost of its call, which the
            // usage row shows as an overrun.
            let has_only_loss =
                legs.overrun.is_some() && legs.settled().is_none() && legs.released().is_none();
            if !has_only_loss {
                self.fault("I3", format!("hold {id} was resolved but never taken"));
            }
            return;
        };
        let (settled, released) = (legs.settled().unwrap_or(0), legs.released().unwrap_or(0));
        let resolved = legs.settled().is_some() || legs.released().is_some();
        let early = legs.early.unwrap_or(0);
        let open = self.ledger.open.get(&id).copied();
        match open {
            Some(_) if resolved => self.fault("I3", format!("hold {id} is resolved and still open")),
            Some(amount) if amount != held - early => {
                self.fault(
                    "I4",
                    format!("hold {id} has a balance of {amount}; {held} were moved in and {early} out"),
                );
            }
            None if !resolved && early != held => {
                self.fault("I3", format!("hold {id} is neither open nor resolved"))
            }
            None if settled + released + early != held => {
                self.fault(
                    "I4",
                    format!("hold {id}: {settled} settled, {released} released and {early} released early do not sum to {held}"),
                );
            }
            _ => {}
        }
    }

    /// Checks that the allowance pays first: its part equals that of the usage row, and credits
    /// paid only the rest.
    fn check_coverage(&mut self, id: HoldId, legs: &HoldLegs, row: &RowSums) {
        let (allowance, included) = (legs.allowance.unwrap_or(0), legs.included.unwrap_or(0));
        let (credits, paid) = (legs.credits.unwrap_or(0), legs.paid.unwrap_or(0));
        if included != row.included {
            let recorded = row.included;
            self.fault(
                "I6",
                format!("usage row {id}: the allowance paid {recorded}; the ledger records {included}"),
            );
        }
        if included != row.charge.min(allowance) || paid > credits {
            let detail = format!(
                "hold {id}: an allowance of {allowance} paid {included} and credits paid {paid} of a charge of {}",
                row.charge
            );
            self.fault("I6", detail);
        }
    }

    /// Checks that no week paid more than its allowance, that at most one week has a rest, and that
    /// this rest is the stored allowance balance.
    fn check_weeks(&mut self) {
        let mut left: HashMap<TransferId, i128> = HashMap::new();
        for (id, week) in std::mem::take(&mut self.ledger.weeks) {
            if week.opened.is_none() {
                self.fault("I12", format!("week {id} was closed but never opened"));
            }
            let rest = week.opened.unwrap_or(0) - week.closed.unwrap_or(0);
            left.insert(id, rest);
        }
        for (week, drawn) in std::mem::take(&mut self.ledger.drawn) {
            match left.get_mut(&week) {
                Some(left) => *left -= drawn,
                None if drawn == 0 => {}
                None => self.fault(
                    "I12",
                    format!("calls draw {drawn} on week {week}, which was never opened"),
                ),
            }
        }
        let ledger = self
            .ledger
            .stored
            .get(&LedgerAccount::Allowance)
            .copied()
            .unwrap_or(0);
        left.retain(|_, left| *left != 0);
        for (week, left) in left.iter().filter(|(_, left)| **left < 0) {
            self.fault(
                "I12",
                format!("week {week} paid {} nano-credits more than its allowance", -left),
            );
        }
        let open: i128 = left.values().sum();
        if left.len() > 1 || open != ledger {
            let weeks = left.len();
            self.fault(
                "I12",
                format!("{weeks} weeks have {open} nano-credits left; the ledger has {ledger}"),
            );
        }
    }

    /// Checks that each grant and refund has its lot, that the removals of the lots equal their
    /// transfers, and that the lots cover the account's credits, holds and leases.
    fn check_lots(&mut self) {
        let lots = std::mem::take(&mut self.ledger.lots);
        for (id, (leg, amount)) in &lots.made {
            if lots.found.get(id) != Some(&(*leg, *amount)) {
                let detail = format!("{leg} {id} of {amount} nano-credits has no lot of this amount");
                self.fault("I15", detail);
            }
        }
        for id in lots.found.keys().filter(|id| !lots.made.contains_key(id)) {
            self.fault("I15", format!("lot {id} was never granted"));
        }
        for leg in [Leg::Expire, Leg::Withdraw, Leg::RevokePromotion] {
            let moved = self.ledger.legs.get(&leg).copied().unwrap_or(0);
            let recorded = lots.left.get(&leg).copied().unwrap_or(0);
            if moved != recorded {
                let detail = format!("legs {leg} moved {moved} nano-credits; the lots record {recorded}");
                self.fault("I15", detail);
            }
        }
        let credits = self
            .ledger
            .stored
            .get(&LedgerAccount::Credits)
            .copied()
            .unwrap_or(0);
        let funds = credits + self.ledger.held + self.ledger.leased;
        if lots.remaining < funds {
            let left = lots.remaining;
            self.fault(
                "I15",
                format!("lots have {left} nano-credits left; the account has {funds}"),
            );
        }
    }

    /// Checks that each refund record equals its transfers, and that its call has a usage row.
    fn check_refunds(&mut self) {
        let mut moved = std::mem::take(&mut self.ledger.refund_sums);
        for refund in std::mem::take(&mut self.ledger.refunds) {
            let parts = [nanos(refund.credits), nanos(refund.allowance)];
            let given = moved.remove(&refund.id).unwrap_or_default();
            if given != parts {
                let (id, [credits, allowance]) = (refund.id, given);
                let [recorded, included] = parts;
                let detail = format!(
                    "refund {id} records {recorded} to credits and {included} to the allowance; the ledger has {credits} and {allowance}"
                );
                self.fault("I16", detail);
            }
        }
        for id in moved.keys() {
            self.fault("I16", format!("refund {id} has transfers but no refund record"));
        }
        for id in std::mem::take(&mut self.ledger.refunded).keys() {
            self.fault("I16", format!("a refund names {id}, which has no usage row"));
        }
    }

    /// Checks that the refunds of a call do not exceed its charge and return to their source.
    fn check_refunds_of(&mut self, id: HoldId, row: &RowSums) {
        let [credits, allowance] = self.ledger.refunded.get(&id).copied().unwrap_or_default();
        let (paid, included, recorded) = (row.charge - row.included, row.included, row.refunded);
        if [credits, allowance, recorded] == [0; 3] {
            return;
        }
        if credits > paid || allowance > included || credits + allowance != recorded {
            let detail = format!(
                "usage row {id}: {credits} of {paid} paid by credits and {allowance} of {included} paid by \
                the allowance were refunded; the row records {recorded}"
            );
            self.fault("I16", detail);
        }
    }

    fn check_chain(&mut self) {
        let chain = std::mem::take(&mut self.ledger.chain);
        self.report.chain_heads += u64::from(chain.head.is_some());
        self.report.unchained += chain.unchained;
        let mut broken = Vec::new();
        if let Some(follower) = self.ledger.follower.take() {
            follower.finish(&chain, |fault| broken.push(fault));
        }
        broken.into_iter().for_each(|fault| self.fault("I14", fault));
    }

    fn week_leg(&mut self, id: TransferId, leg: Leg, amount: i128) {
        let week = self.ledger.weeks.entry(id).or_default();
        let place = match leg {
            Leg::OpenWindow => &mut week.opened,
            Leg::CloseWindow => &mut week.closed,
            _ => return self.fault("I12", format!("week {id} has the wrong leg {leg}")),
        };
        if place.replace(amount).is_some() {
            self.fault("I12", format!("week {id} has leg {leg} twice"));
        }
    }

    fn hold_leg(&mut self, id: HoldId, leg: Leg, amount: i128) {
        let legs = self.ledger.entry.legs.get_or_insert_default();
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
            | Leg::RevokePromotion
            | Leg::Refund
            | Leg::RefundAllowance
            | Leg::Lease
            | Leg::ReturnLease => {
                return self.fault("I1", format!("hold {id} has the wrong leg {leg}"));
            }
        };
        if place.replace(amount).is_some() {
            self.fault("I3", format!("hold {id} has leg {leg} twice"));
        }
    }

    fn check_row(&mut self, id: HoldId, legs: &HoldLegs, row: &RowSums) {
        self.check_coverage(id, legs, row);
        let settled = legs.settled().unwrap_or(0);
        if settled != row.charge || row.held != legs.held().unwrap_or(0) {
            let detail = format!(
                "usage row {id} records a charge of {} and a hold of {}; the ledger settled {settled}",
                row.charge, row.held
            );
            self.fault("I11", detail);
        }
        if legs.overrun.unwrap_or(0) != row.overrun {
            self.fault(
                "I9",
                format!(
                    "usage row {id} records an overrun of {}, which differs from the ledger",
                    row.overrun
                ),
            );
        }
    }

    fn check_revenue(&mut self) {
        let computed = |account| self.ledger.computed.get(&account).copied().unwrap_or(0);
        let legs = computed(LedgerAccount::RevenueUsage) + computed(LedgerAccount::RevenueIncluded);
        let loss = -computed(LedgerAccount::ExpenseOverrun) - computed(LedgerAccount::ExpenseCrashLoss);
        let rows = self.ledger.revenue_of_rows;
        if legs != rows + loss {
            self.fault(
                "I8",
                format!("revenue is {legs} nano-credits; usage rows sum to {rows} and losses to {loss}"),
            );
        }
    }

    fn reprice(&mut self, row: &UsageRow) {
        let Some((model, prices)) = self.prices.get(&row.price_version) else {
            return self.fault(
                "I13",
                format!(
                    "usage row {} names price version {}, which is not recorded",
                    row.id, row.price_version
                ),
            );
        };
        let parts = self.ledger.entry.parts;
        // Lines of a batch are rounded separately. An abandoned batch does not charge its lines.
        let is_abandoned = row.outcome == Outcome::Crashed;
        let lines = self.ledger.lines.get(&row.id).copied().filter(|_| !is_abandoned);
        let own = || nanos(lines.unwrap_or_else(|| prices.cost(&row.usage)));
        // A call with parts is charged by its parts.
        let cost = parts.map_or_else(own, |parts| parts.cost);
        let paid = nanos(row.charge) + nanos(row.overrun);
        if paid != cost {
            let detail = format!(
                "usage row {} ({model}): charge and overrun are {paid} nano-credits; its prices give {cost}",
                row.id
            );
            self.fault("I13", detail);
        }
        if parts.is_some_and(|parts| parts.usage != row.usage) {
            let detail = format!("usage row {} and its parts have different usage", row.id);
            self.fault("I13", detail);
        }
    }

    fn reprice_part(&mut self, row: HoldId, part: &UsagePart) {
        let (name, version) = (&part.name, part.price_version);
        let Some((model, prices)) = self.prices.get(&version) else {
            let detail = format!("part '{name}' of {row} has price version {version}, which is not recorded");
            return self.fault("I13", detail);
        };
        let cost = prices.cost(&part.usage);
        if cost != part.cost {
            let detail = format!(
                "part '{name}' of {row} ({model}) records a cost of {}; its prices give {cost}",
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
        self.ledger = AccountLedger {
            account: Some(account),
            follower: Some(ChainFollower::new(account)),
            ..AccountLedger::default()
        };
    }

    fn balance(&mut self, balance: LedgerBalance) {
        self.ledger.stored.insert(balance.account, nanos(balance.balance));
    }

    fn chain(&mut self, chain: Chain) {
        self.ledger.chain = chain;
    }

    fn lot(&mut self, lot: &Lot) {
        let parts = [lot.remaining, lot.expired, lot.withdrawn].map(nanos);
        let amount = nanos(lot.amount);
        if parts.iter().any(|part| *part < 0) || parts.iter().sum::<i128>() > amount {
            let [remaining, expired, withdrawn] = parts;
            self.fault(
                "I15",
                format!(
                    "lot {} of {amount} cannot have {remaining} left, {expired} expired and {withdrawn} withdrawn",
                    lot.id
                ),
            );
        }
        let lots = &mut self.ledger.lots;
        lots.found.insert(lot.id, (lot.terms.kind.leg(), amount));
        let [remaining, expired, withdrawn] = parts;
        lots.remaining += remaining;
        *lots.left.entry(Leg::Expire).or_default() += expired;
        // A refund has no withdrawal leg: for a withdrawn refund, the check finds no transfer.
        let leg = lot.terms.kind.withdrawal().unwrap_or(Leg::Withdraw);
        *lots.left.entry(leg).or_default() += withdrawn;
    }

    fn lease(&mut self, lease: OpenLease) {
        self.ledger.leased += nanos(lease.balance);
    }

    fn hold(&mut self, hold: OpenHold) {
        self.report.open_holds += 1;
        self.ledger.held += nanos(hold.amount) - nanos(hold.allowance);
        if let Some(plan) = &hold.plan {
            self.ledger.draws.insert(hold.id, plan.window);
        }
        // A hold of zero moves no credits and has no transfers.
        if hold.amount.is_zero() {
            self.ledger.open_zero_holds.insert(hold.id);
        } else {
            self.ledger.open.insert(hold.id, nanos(hold.amount));
        }
    }

    fn transfer(&mut self, transfer: TransferRow) {
        self.report.transfers += 1;
        let mut broken = Vec::new();
        if let Some(follower) = &mut self.ledger.follower {
            follower.see(&transfer, |fault| broken.push(fault));
        }
        broken.into_iter().for_each(|fault| self.fault("I14", fault));
        let amount = nanos(transfer.amount);
        if amount <= 0 {
            self.fault(
                "I1",
                format!(
                    "a transfer of {} moves {amount} nano-credits, which is not above zero",
                    transfer.subject
                ),
            );
        }
        if (transfer.debit, transfer.credit) != transfer.leg.sides() {
            let sides = format!("{} → {}", transfer.debit.as_str(), transfer.credit.as_str());
            self.fault(
                "I1",
                format!("leg {} of {} moves {sides}", transfer.leg, transfer.subject),
            );
        }
        *self.ledger.computed.entry(transfer.debit).or_default() -= amount;
        *self.ledger.computed.entry(transfer.credit).or_default() += amount;
        *self.ledger.legs.entry(transfer.leg).or_default() += amount;
        self.switch_to(transfer.subject.entry());
        match transfer.subject {
            TransferSubject::Grant(id) if matches!(transfer.leg, Leg::Grant | Leg::Promotion) => {
                self.ledger.lots.made.insert(id, (transfer.leg, amount));
            }
            TransferSubject::Refund(id) if matches!(transfer.leg, Leg::Refund | Leg::RefundAllowance) => {
                let part = usize::from(transfer.leg == Leg::RefundAllowance);
                self.ledger.refund_sums.entry(id).or_default()[part] += amount;
                if transfer.leg == Leg::Refund {
                    self.ledger.lots.made.insert(id, (Leg::Refund, amount));
                }
            }
            TransferSubject::Lot(_)
                if matches!(transfer.leg, Leg::Expire | Leg::Withdraw | Leg::RevokePromotion) => {}
            TransferSubject::Lease(_) if matches!(transfer.leg, Leg::Lease | Leg::ReturnLease) => {}
            TransferSubject::Hold(id) => self.hold_leg(id, transfer.leg, amount),
            TransferSubject::Window(id) => self.week_leg(id, transfer.leg, amount),
            TransferSubject::Period(_) if transfer.leg == Leg::PlanFee => {}
            subject => self.fault("I1", format!("{subject} has the wrong leg {}", transfer.leg)),
        }
    }

    fn part(&mut self, row: HoldId, part: &UsagePart) {
        self.switch_to(row.as_u128());
        let sums = self.ledger.entry.parts.get_or_insert_default();
        sums.cost += nanos(part.cost);
        sums.usage = sums.usage.plus(&part.usage);
        if self.reprice {
            self.reprice_part(row, part);
        }
    }

    fn usage(&mut self, row: &UsageRow) {
        self.report.usage_rows += 1;
        let (held, charge, overrun) = (nanos(row.held), nanos(row.charge), nanos(row.overrun));
        self.switch_to(row.id.as_u128());
        self.report.revenue += charge;
        self.report.overrun += overrun;
        self.ledger.revenue_of_rows += charge;
        if charge > held || charge < 0 {
            self.fault(
                "I4",
                format!("usage row {} charges {charge}, but {held} were held", row.id),
            );
        }
        if !(0..=charge).contains(&nanos(row.included)) {
            let included = nanos(row.included);
            self.fault(
                "I6",
                format!(
                    "usage row {}: the allowance paid {included} of a charge of {charge}",
                    row.id
                ),
            );
        }
        if row.outcome == Outcome::Crashed {
            self.report.crashed += 1;
            if charge != 0 {
                self.fault(
                    "I9",
                    format!("usage row {} charges for a call that a crash interrupted", row.id),
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
        if self.ledger.entry.row.replace(sums).is_some() {
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
                format!("a batch line of {hold} names price version {version}, which is not recorded"),
            );
        };
        let cost = prices.at(Discount::BATCH).cost(&line.usage);
        let sum = self.ledger.lines.entry(line.hold).or_default();
        *sum = sum.checked_add(cost).unwrap_or(Credits::MAX);
    }

    fn refund(&mut self, refund: &Refund) {
        let sum = self.ledger.refunded.entry(refund.hold).or_default();
        sum[0] += nanos(refund.credits);
        sum[1] += nanos(refund.allowance);
        self.ledger.refunds.push(refund.clone());
    }

    fn account_end(&mut self) {
        // No entry has this id: the call only checks the last entry.
        self.switch_to(u128::MAX);
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
