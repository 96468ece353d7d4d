//! `ledger audit`: recomputes every charge from its usage row, its price version and its hold.

pub mod arithmetic;

use std::collections::{HashMap, HashSet};
use std::fmt;

use tollgate_storage::audit::{Leg, OpenHold, OpenLease, TransferRow, TransferSubject};
use tollgate_storage::{
    AuditVisitor, Chain, ChargedLine, LedgerAccount, LedgerBalance, LedgerStore, Lot, Refund, StorageError,
    UsagePart, UsageRow,
};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, Timestamp, Unit, Usage};

use arithmetic::{PriceList, Split};

/// Maximum number of listed differences. The report counts all differences.
const MAX_LISTED: usize = 100;

/// Filter of the audited charges by account and time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    /// Account to audit; `None` for all accounts.
    pub account: Option<AccountId>,
    /// Inclusive lower bound of the end time of calls.
    pub from: Option<Timestamp>,
    /// Exclusive upper bound of the end time of calls.
    pub to: Option<Timestamp>,
}

/// A ledger figure that differs from its recomputation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Account of the call or week.
    pub account: AccountId,
    /// The audited entry, such as `call hold_…` or `week xfer_…`.
    pub subject: String,
    /// Name of the figure, such as `charge` or `overrun`.
    pub figure: &'static str,
    /// Value in the ledger.
    pub recorded: String,
    /// Value recomputed by the audit.
    pub recomputed: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference {
            account,
            subject,
            figure,
            recorded,
            recomputed,
        } = self;
        write!(
            f,
            "{account}: {subject}: {figure}: the ledger records {recorded}, recomputed: {recomputed}"
        )
    }
}

/// Counts, totals and differences of an audit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of accounts read.
    pub accounts: u64,
    /// Number of calls whose charges were recomputed.
    pub calls: u64,
    /// Number of recomputed calls whose usage the gateway estimated.
    pub estimated: u64,
    /// Number of plan weeks checked.
    pub weeks: u64,
    /// Σ of the recomputed charges, in nano-credits.
    pub charged: i128,
    /// Number of figures that differ.
    pub difference_count: u64,
    /// First differences, at most 100.
    pub differences: Vec<Difference>,
}

impl AuditReport {
    /// Whether no figure differs.
    pub fn is_clean(&self) -> bool {
        self.difference_count == 0
    }
}

/// Recomputes the charges of calls and the balances of plan weeks, and compares them with the
/// ledger.
pub async fn audit_ledger(ledger: &dyn LedgerStore, scope: Scope) -> Result<AuditReport, StorageError> {
    let mut audit = Audit {
        scope,
        ..Audit::default()
    };
    ledger.audit(scope.account, &mut audit).await?;
    Ok(audit.report)
}

#[derive(Default)]
struct Audit {
    scope: Scope,
    report: AuditReport,
    prices: HashMap<PriceVersion, PriceList>,
    ledger: AccountLedger,
}

/// State of the account whose rows are being read.
#[derive(Default)]
struct AccountLedger {
    account: Option<AccountId>,
    /// Stored allowance balance: the unused allowance of the open week.
    allowance: i128,
    weeks: HashMap<TransferId, Week>,
    /// Week and amount of each open hold that holds a part of an allowance.
    open: HashMap<HoldId, (TransferId, i128)>,
    /// Ids of all open holds.
    running: HashSet<HoldId>,
    refunds: HashMap<HoldId, Refunded>,
    /// Sums of the batch lines, by hold.
    lines: HashMap<HoldId, Lines>,
    call: Call,
}

/// Sums of the lines of a batch. The cost of each line is rounded separately.
#[derive(Clone, Copy, Default)]
struct Lines {
    cost: i128,
    charge: i128,
    usage: Usage,
}

/// Refunds of a call, in nano-credits.
#[derive(Clone, Copy, Default)]
struct Refunded {
    credits: i128,
    allowance: i128,
}

/// Movements of a plan week, in nano-credits.
#[derive(Default)]
struct Week {
    opened: Option<i128>,
    closed: i128,
    included: i128,
    broken: i128,
    held: i128,
    refunded: i128,
}

/// Transfers and parts of the call that is being read.
#[derive(Default)]
struct Call {
    id: Option<HoldId>,
    legs: Vec<TransferRow>,
    parts: Vec<UsagePart>,
}

impl Call {
    fn moved(&self, leg: Leg) -> i128 {
        self.legs
            .iter()
            .filter(|transfer| transfer.leg == leg)
            .map(|transfer| nanos(transfer.amount))
            .sum()
    }

    /// Returns the amount that was released to credits before the hold was resolved.
    fn moved_early(&self) -> i128 {
        let early = |transfer: &&TransferRow| matches!(transfer.leg, Leg::ReleaseEarly(_));
        let early = self.legs.iter().filter(early);
        early.map(|transfer| nanos(transfer.amount)).sum()
    }
}

impl Audit {
    fn differ(
        &mut self,
        subject: impl fmt::Display,
        figure: &'static str,
        recorded: String,
        recomputed: String,
    ) {
        self.report.difference_count += 1;
        let Some(account) = self
            .ledger
            .account
            .filter(|_| self.report.differences.len() < MAX_LISTED)
        else {
            return;
        };
        self.report.differences.push(Difference {
            account,
            subject: subject.to_string(),
            figure,
            recorded,
            recomputed,
        });
    }

    fn compare(&mut self, subject: impl fmt::Display, figures: &[(&'static str, i128, i128)]) {
        for (figure, recorded, recomputed) in figures {
            if recorded != recomputed {
                self.differ(&subject, figure, recorded.to_string(), recomputed.to_string());
            }
        }
    }

    fn is_in_scope(&self, row: &UsageRow) -> bool {
        let after = self.scope.from.is_none_or(|from| row.ended_at >= from);
        after && self.scope.to.is_none_or(|to| row.ended_at < to)
    }

    /// Recomputes a call's charge and compares it with the usage row, the transfers and the
    /// refunds.
    fn recompute(&mut self, row: &UsageRow, call: &Call, refunded: Refunded) {
        let subject = format!("call {}", row.id);
        let Some(prices) = self.prices.get(&row.price_version) else {
            let version = row.price_version.to_string();
            return self.differ(subject, "price version", version, "not recorded".to_owned());
        };
        // A call with parts is charged by its parts.
        let list_cost = match call.parts.is_empty() {
            true => prices.cost(&row.usage).cost,
            false => self.recompute_parts(&subject, row, &call.parts),
        };
        // An abandoned batch does not charge its lines.
        let is_abandoned = row.outcome == Outcome::Crashed;
        let lines = self.ledger.lines.get(&row.id).copied().filter(|_| !is_abandoned);
        if let Some(lines) = lines
            && lines.usage != row.usage
        {
            let (row, lines) = (row.usage.total().to_string(), lines.usage.total().to_string());
            self.differ(&subject, "usage (sum of the batch lines)", row, lines);
        }
        let credits = call.moved(Leg::Hold) + call.moved(Leg::HoldLease);
        let allowance = call.moved(Leg::HoldAllowance);
        let split = match lines {
            None => Split::of(list_cost, credits, allowance),
            Some(lines) => Split::charging(lines.charge, lines.cost, credits, allowance),
        };
        self.report.calls += 1;
        self.report.estimated += u64::from(row.estimated);
        self.report.charged += split.charge;
        let released = call.moved(Leg::Release) + call.moved(Leg::ReleaseLease) + call.moved_early();
        let lost = call.moved(Leg::Overrun) + call.moved(Leg::CrashLoss);
        let unused = call.moved(Leg::ReleaseAllowance) + call.moved(Leg::ReleaseBreakage);
        self.compare(
            &subject,
            &[
                ("held", nanos(row.held), credits + allowance),
                ("charge", nanos(row.charge), split.charge),
                ("overrun", nanos(row.overrun), split.overrun),
                ("included in the usage row", nanos(row.included), split.included),
                ("paid by credits", call.moved(Leg::Settle), split.paid),
                (
                    "paid by the allowance",
                    call.moved(Leg::SettleIncluded),
                    split.included,
                ),
                ("released to credits", released, split.released),
                ("unused allowance", unused, split.unused),
                ("overrun in the ledger", lost, split.overrun),
                (
                    "refunded",
                    nanos(row.refunded),
                    refunded.credits + refunded.allowance,
                ),
            ],
        );
        for (figure, given, maximum) in [
            ("refunded to credits", refunded.credits, split.paid),
            ("refunded to the allowance", refunded.allowance, split.included),
        ] {
            if given > maximum {
                self.differ(&subject, figure, given.to_string(), format!("at most {maximum}"));
            }
        }
        self.check_terms(&subject, row, call, allowance);
    }

    /// Recomputes the costs of a call's parts and compares their usage with that of the call.
    /// Returns the sum of the costs.
    fn recompute_parts(&mut self, subject: &str, row: &UsageRow, parts: &[UsagePart]) -> i128 {
        let mut sum = 0;
        for part in parts {
            let subject = format!("{subject}: part {}, {}", part.number, part.name);
            match self.prices.get(&part.price_version) {
                Some(prices) => {
                    let cost = prices.cost(&part.usage).cost;
                    sum += cost;
                    self.compare(&subject, &[("cost", nanos(part.cost), cost)]);
                }
                None => {
                    let version = part.price_version.to_string();
                    self.differ(&subject, "price version", version, "not recorded".to_owned());
                }
            }
        }
        for unit in Unit::ALL.into_iter().filter(|_| !parts.is_empty()) {
            let consumed = parts.iter().map(|part| i128::from(part.usage.get(unit))).sum();
            let recorded = i128::from(row.usage.get(unit));
            self.compare(
                format!("{subject}: {}", unit.as_str()),
                &[("quantity (sum of the parts)", recorded, consumed)],
            );
        }
        sum
    }

    /// Returns the call with this id. For a new id, first clears the transfers and parts of the
    /// previous call: parts of a call without a usage row are a difference, unless its hold is
    /// open.
    fn call_of(&mut self, id: HoldId) -> &mut Call {
        if self.ledger.call.id != Some(id) {
            self.check_rowless();
            self.ledger.call.id = Some(id);
        }
        &mut self.ledger.call
    }

    fn check_rowless(&mut self) {
        let call = &mut self.ledger.call;
        call.legs.clear();
        let parts = call.parts.len();
        call.parts.clear();
        let Some(id) = call.id.take() else { return };
        if parts > 0 && !self.ledger.running.contains(&id) {
            self.differ(
                format!("call {id}"),
                "parts",
                parts.to_string(),
                "0: the call has no usage row".to_owned(),
            );
        }
    }

    /// Compares the price version, the plan and the `estimated` flag of a usage row with the call's
    /// transfers.
    fn check_terms(&mut self, subject: &str, row: &UsageRow, call: &Call, allowance: i128) {
        let version = row.price_version;
        if let Some(other) = call.legs.iter().find(|leg| leg.price_version != Some(version)) {
            let recorded = other
                .price_version
                .map_or("none".to_owned(), |version| version.to_string());
            self.differ(
                subject,
                "price version of the transfers",
                recorded,
                version.to_string(),
            );
        }
        if allowance > 0 && row.plan.is_none() {
            self.differ(
                subject,
                "plan",
                "none".to_owned(),
                "a plan with an allowance".to_owned(),
            );
        }
        // Usage is estimated only if the response was delivered or the caller disconnected; calls
        // with any other outcome are not estimated.
        let is_counted = matches!(row.outcome, Outcome::Ok | Outcome::ClientGone);
        if row.estimated && !is_counted {
            let outcome = row.outcome.as_str().to_owned();
            self.differ(
                subject,
                "estimated",
                format!("yes, for {outcome}"),
                "no".to_owned(),
            );
        }
        if row.outcome == Outcome::Crashed && !row.usage.is_zero() {
            let total = row.usage.total().to_string();
            self.differ(
                subject,
                "usage of a call that a crash interrupted",
                total,
                "0".to_owned(),
            );
        }
    }

    /// Adds the call to the sums of its week.
    fn count_week(&mut self, row: &UsageRow, call: &Call, refunded: Refunded) {
        if let Some(plan) = &row.plan {
            let week = self.ledger.weeks.entry(plan.window).or_default();
            week.included += call.moved(Leg::SettleIncluded);
            week.broken += call.moved(Leg::ReleaseBreakage);
            week.refunded += refunded.allowance;
        }
    }

    /// Checks that no week paid more than its allowance, and that at most one week is open.
    fn check_weeks(&mut self) {
        for (window, held) in std::mem::take(&mut self.ledger.open).into_values() {
            self.ledger.weeks.entry(window).or_default().held += held;
        }
        let mut open = Vec::new();
        for (id, week) in std::mem::take(&mut self.ledger.weeks) {
            self.report.weeks += 1;
            let subject = format!("week {id}");
            let used = week.included + week.broken + week.held - week.refunded;
            if week.opened.is_none() && (used != 0 || week.closed != 0) {
                self.differ(&subject, "opened", "never".to_owned(), "once".to_owned());
            }
            let opened = week.opened.unwrap_or(0);
            let left = opened - used;
            if left < 0 {
                self.differ(&subject, "used", used.to_string(), format!("at most {opened}"));
            }
            if week.closed > 0 {
                self.compare(&subject, &[("unused at the end of the week", week.closed, left)]);
            } else if left > 0 {
                open.push((subject, left));
            }
        }
        let left: i128 = open.iter().map(|(_, left)| left).sum();
        let ledger = self.ledger.allowance;
        match open.as_slice() {
            [] => self.compare("the open week", &[("left", ledger, 0)]),
            [(subject, _)] => self.compare(subject.clone(), &[("left", ledger, left)]),
            several => {
                let recorded = format!("{} that are not closed", several.len());
                self.differ("the open week", "weeks", recorded, "1".to_owned());
            }
        }
    }
}

fn nanos(credits: Credits) -> i128 {
    i128::from(credits.nanos())
}

impl AuditVisitor for Audit {
    fn price(&mut self, version: PriceVersion, _: &str, prices: &Prices) {
        self.prices.insert(version, PriceList::of(prices));
    }

    fn account(&mut self, account: AccountId) {
        self.report.accounts += 1;
        self.ledger = AccountLedger {
            account: Some(account),
            ..AccountLedger::default()
        };
    }

    fn balance(&mut self, balance: LedgerBalance) {
        if balance.account == LedgerAccount::Allowance {
            self.ledger.allowance = nanos(balance.balance);
        }
    }

    fn chain(&mut self, _: Chain) {}

    fn lot(&mut self, _: &Lot) {}

    fn lease(&mut self, _: OpenLease) {}

    fn hold(&mut self, hold: OpenHold) {
        self.ledger.running.insert(hold.id);
        if let Some(plan) = hold.plan {
            self.ledger
                .open
                .insert(hold.id, (plan.window, nanos(hold.allowance)));
        }
    }

    fn refund(&mut self, refund: &Refund) {
        let sum = self.ledger.refunds.entry(refund.hold).or_default();
        sum.credits += nanos(refund.credits);
        sum.allowance += nanos(refund.allowance);
    }

    fn line(&mut self, line: &ChargedLine) {
        let subject = format!("a batch line of {}", line.hold);
        let Some(prices) = self.prices.get(&line.price_version) else {
            let version = line.price_version.to_string();
            return self.differ(subject, "price version", version, "not recorded".to_owned());
        };
        let cost = prices.batch_cost(&line.usage);
        let charge = nanos(line.charge);
        let sum = self.ledger.lines.entry(line.hold).or_default();
        sum.cost += cost;
        sum.charge += charge;
        sum.usage = sum.usage.plus(&line.usage);
        self.compare(&subject, &[("cost", charge + nanos(line.overrun), cost)]);
    }

    fn transfer(&mut self, transfer: TransferRow) {
        match transfer.subject {
            TransferSubject::Hold(id) => {
                self.call_of(id).legs.push(transfer);
            }
            TransferSubject::Window(id) => {
                let week = self.ledger.weeks.entry(id).or_default();
                match transfer.leg {
                    Leg::OpenWindow => *week.opened.get_or_insert(0) += nanos(transfer.amount),
                    _ => week.closed += nanos(transfer.amount),
                }
            }
            _ => {}
        }
    }

    fn part(&mut self, row: HoldId, part: &UsagePart) {
        self.call_of(row).parts.push(part.clone());
    }

    fn usage(&mut self, row: &UsageRow) {
        self.call_of(row.id);
        let mut call = std::mem::take(&mut self.ledger.call);
        let refunded = self.ledger.refunds.get(&row.id).copied().unwrap_or_default();
        self.count_week(row, &call, refunded);
        if self.is_in_scope(row) {
            self.recompute(row, &call, refunded);
        }
        // The memory is reused for the next call.
        call.id = None;
        call.legs.clear();
        call.parts.clear();
        self.ledger.call = call;
    }

    fn account_end(&mut self) {
        self.check_rowless();
        self.check_weeks();
    }

    fn unreadable(&mut self, what: String) {
        self.differ("a row", "content", what, "readable".to_owned());
    }
}
