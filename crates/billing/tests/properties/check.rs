//! The ledger check finds each kind of falsification.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tollgate_billing::usage_hours::sum_usage_hours;
use tollgate_billing::{AuditReport, CheckReport, Scope, audit_ledger, check_ledger, check_usage_hours};
use tollgate_storage::audit::{Leg, TransferRow, TransferSubject};
use tollgate_storage::{
    Grant, HourDifference, HourSums, LedgerAccount, LedgerStore, LotTerms, NewHold, Refund, Settlement,
    StorageError, UsageHourStore, UsagePart, UsageRow,
};
use tollgate_types::clock::{Clock, ManualClock};
use tollgate_types::id::TransferId;
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Credits, HoldId, PriceVersion, Prices, RequestId, Timestamp, Unit, Usage};

use crate::ledger::{Pages, TestLedger, WEEK_MICROS, week};
use crate::ready;

const ACCOUNT: AccountId = AccountId::from_u128(1);
const VERSION: PriceVersion = PriceVersion::from_u64(7);
/// Call that was charged 30 of 100 held.
const SETTLED: HoldId = HoldId::from_u128(1);
/// Call that was charged its hold of 50, with an overrun of 20.
const OVERRUN: HoldId = HoldId::from_u128(2);
/// Crashed call whose hold of 40 was voided.
const CRASHED: HoldId = HoldId::from_u128(3);
/// Call whose hold of 60 is not resolved.
const OPEN: HoldId = HoldId::from_u128(4);

fn hold(id: HoldId, amount: i64, expires_at: i64) -> NewHold {
    NewHold {
        id,
        account: ACCOUNT,
        principal: None,
        request: RequestId::from_u128(id.as_u128()),
        amount: Credits::from_nanos(amount),
        price_version: VERSION,
        model: "maker/model".into(),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: Timestamp::from_micros(0),
        expires_at: Timestamp::from_micros(expires_at),
    }
}

fn settlement(hold: HoldId, charge: i64, overrun: i64) -> Settlement {
    Settlement {
        hold,
        account: ACCOUNT,
        charge: Credits::from_nanos(charge),
        overrun: Credits::from_nanos(overrun),
        usage: Usage::tokens(u64::try_from(charge + overrun).unwrap(), 0),
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("upstream"),
        first_at: None,
        ended_at: Timestamp::from_micros(1),
    }
}

/// Returns a valid ledger with one call of each kind. A token costs one nano-credit.
fn valid() -> Pages {
    let prices = Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000));
    let ledger = TestLedger::of(&[ACCOUNT], &[(VERSION, prices)]);
    let grant = Grant {
        id: TransferId::from_u128(1),
        account: ACCOUNT,
        amount: Credits::from_nanos(1_000),
        at: Timestamp::from_micros(0),
        terms: LotTerms::default(),
    };
    ready(ledger.grant(grant)).unwrap();
    for (id, amount, expires_at) in [
        (SETTLED, 100, 99),
        (OVERRUN, 50, 99),
        (CRASHED, 40, 10),
        (OPEN, 60, 99),
    ] {
        ready(ledger.hold(hold(id, amount, expires_at))).unwrap();
    }
    ready(ledger.settle(settlement(SETTLED, 30, 0))).unwrap();
    ready(ledger.settle(settlement(OVERRUN, 50, 20))).unwrap();
    assert_eq!(ready(ledger.sweep(Timestamp::from_micros(20), 10)).unwrap(), 1);
    ledger.pages()
}

fn check(pages: &Pages, reprice: bool) -> CheckReport {
    ready(check_ledger(&TestLedger::from(pages.clone()), reprice)).unwrap()
}

/// Usage hours of two accounts. The second account is two steps behind.
#[derive(Default)]
struct Hours {
    differences: Vec<HourDifference>,
    steps: Mutex<Vec<(AccountId, Timestamp)>>,
}

#[async_trait]
impl UsageHourStore for Hours {
    async fn accounts_behind(
        &self,
        _: Timestamp,
        after: Option<AccountId>,
        _: u32,
    ) -> Result<Vec<AccountId>, StorageError> {
        let accounts = [1, 2].map(AccountId::from_u128).into_iter();
        let next = accounts.filter(|account| Some(*account) > after).take(1);
        Ok(next.collect())
    }

    async fn advance(&self, account: AccountId, now: Timestamp) -> Result<bool, StorageError> {
        let mut steps = self.steps.lock().unwrap();
        steps.push((account, now));
        Ok(steps.len() == 2)
    }

    async fn differences(&self) -> Result<Vec<HourDifference>, StorageError> {
        Ok(self.differences.clone())
    }
}

/// A difference between usage hours and rows is a fault, in addition to those of the ledger.
#[test]
fn usage_hours_equal_their_rows() {
    let mut report = check(&valid(), true);
    ready(check_usage_hours(&Hours::default(), &mut report)).unwrap();
    assert!(report.is_clean());
    let sums = |requests, nanos| HourSums {
        requests,
        charge: Credits::from_nanos(nanos),
    };
    let hours = Hours {
        differences: vec![HourDifference {
            account: ACCOUNT,
            hours: sums(2, 80),
            rows: sums(3, 81),
        }],
        ..Hours::default()
    };
    ready(check_usage_hours(&hours, &mut report)).unwrap();
    assert_eq!(report.fault_count, 1);
    let text = report.faults[0].to_string();
    let expected = "the usage hours have 2 calls and 80 nano-credits; the usage rows have 3 and 81";
    assert_eq!(text, format!("I17: {ACCOUNT}: {expected}"));
}

/// Every account is summed until no step is left, also if lists are short.
#[test]
fn usage_is_summed_in_steps() {
    let hours = Hours::default();
    let clock = ManualClock::at(Timestamp::from_micros(5));
    assert_eq!(ready(sum_usage_hours(&hours, &clock)), 2);
    let steps = hours.steps.lock().unwrap().clone();
    let expected = [1, 2, 2].map(|account| (AccountId::from_u128(account), clock.now()));
    assert_eq!(steps, expected);
}

fn row(pages: &mut Pages, id: HoldId) -> &mut UsageRow {
    pages.rows.iter_mut().find(|row| row.id == id).unwrap()
}

fn balance(pages: &mut Pages, ledger: LedgerAccount) -> &mut i64 {
    pages.balances.get_mut(&(ACCOUNT, ledger)).unwrap()
}

fn drop_leg(pages: &mut Pages, id: HoldId, leg: Leg) {
    let subject = TransferSubject::Hold(id);
    let before = pages.transfers.len();
    pages
        .transfers
        .retain(|(_, row)| (row.subject, row.leg) != (subject, leg));
    assert_eq!(pages.transfers.len() + 1, before);
}

/// Asserts that the falsified ledger breaks these invariants and no other.
#[track_caller]
fn breaks(invariants: &[&str], falsify: impl FnOnce(&mut Pages)) {
    let mut pages = valid();
    falsify(&mut pages);
    assert_ne!(pages, valid());
    let report = check(&pages, true);
    let named: BTreeSet<&str> = report.faults.iter().map(|fault| fault.invariant).collect();
    assert_eq!(named, invariants.iter().copied().collect(), "{:?}", report.faults);
    assert_eq!(report.fault_count, report.faults.len() as u64);
    assert!(
        report
            .faults
            .iter()
            .all(|fault| fault.detail.starts_with(&ACCOUNT.to_string()))
    );
}

#[test]
fn valid_ledger_has_no_fault() {
    let report = check(&valid(), true);
    let expected = CheckReport {
        accounts: 1,
        transfers: 10,
        usage_rows: 3,
        open_holds: 1,
        revenue: 80,
        overrun: 20,
        crashed: 1,
        chain_heads: 1,
        ..CheckReport::default()
    };
    assert_eq!(report, expected);
    assert!(report.is_clean());
}

#[test]
fn cost_beyond_a_zero_hold_is_an_operator_loss() {
    let prices = Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000));
    let ledger = TestLedger::of(&[ACCOUNT], &[(VERSION, prices)]);
    ready(ledger.hold(hold(OPEN, 0, 100))).unwrap();
    ready(ledger.settle(settlement(OPEN, 0, 20))).unwrap();
    let report = ready(check_ledger(&ledger, true)).unwrap();
    assert!(report.is_clean(), "{:?}", report.faults);
    assert_eq!((report.usage_rows, report.revenue, report.overrun), (1, 0, 20));
    // Without its usage row the charge has no explanation.
    let mut pages = ledger.pages();
    pages.rows.clear();
    let faults = check(&pages, true).faults;
    assert!(faults.iter().any(|fault| fault.invariant == "I11"), "{faults:?}");
}

#[test]
fn i1_ledger_sums_to_zero_and_balances_match_transfers() {
    breaks(&["I1"], |pages| *balance(pages, LedgerAccount::Cash) += 1);
    breaks(&["I1"], |pages| *balance(pages, LedgerAccount::Credits) -= 1);
    breaks(&["I1"], |pages| {
        *balance(pages, LedgerAccount::Cash) -= 5;
        *balance(pages, LedgerAccount::Credits) += 5;
    });
    breaks(&["I1", "I15"], |pages| {
        pages.transfers[0].1.amount = Credits::from_nanos(999)
    });
    breaks(&["I1", "I15"], |pages| {
        let other = TransferSubject::Grant(TransferId::from_u128(2));
        pages.transfer(ACCOUNT, other, Leg::Grant, -10);
    });
    breaks(&["I1"], |pages| {
        let grant = &mut pages.transfers[0].1;
        (grant.debit, grant.credit) = (grant.credit, grant.debit);
    });
    breaks(&["I1", "I3"], |pages| {
        let subject = TransferSubject::Hold(HoldId::from_u128(9));
        pages.transfer(ACCOUNT, subject, Leg::Grant, 10);
    });
}

#[test]
fn i2_credits_are_never_below_zero() {
    breaks(&["I2"], |pages| {
        pages.transfer(
            ACCOUNT,
            TransferSubject::Hold(HoldId::from_u128(9)),
            Leg::Hold,
            10_000,
        );
        pages
            .open
            .insert(HoldId::from_u128(9), hold(HoldId::from_u128(9), 10_000, 99));
    });
}

#[test]
fn i3_a_hold_is_resolved_exactly_once() {
    // The hold was resolved twice.
    breaks(&["I3", "I8", "I4"], |pages| {
        pages.transfer(ACCOUNT, TransferSubject::Hold(SETTLED), Leg::Settle, 30);
    });
    // The hold is resolved and still open.
    breaks(&["I3", "I4", "I15"], |pages| {
        pages.open.insert(SETTLED, hold(SETTLED, 100, 99));
    });
    // The hold is neither open nor resolved.
    breaks(&["I3", "I4"], |pages| {
        pages.open.remove(&OPEN);
    });
    // The hold is open and has a usage row.
    breaks(&["I3", "I11"], |pages| {
        let row = UsageRow {
            id: OPEN,
            ..pages.rows[2].clone()
        };
        pages.rows.push(row);
    });
    // The call has two usage rows.
    breaks(&["I3"], |pages| pages.rows.push(pages.rows[2].clone()));
    // The hold was resolved without having been taken.
    breaks(&["I3", "I4", "I11"], |pages| {
        let subject = TransferSubject::Hold(HoldId::from_u128(9));
        pages.transfer(ACCOUNT, subject, Leg::Release, 10);
    });
}

#[test]
fn i4_held_credits_are_charged_or_released() {
    breaks(&["I4"], |pages| {
        // The rest of a resolved hold is not returned.
        pages.transfer(ACCOUNT, TransferSubject::Hold(SETTLED), Leg::Release, -70);
        pages.transfers.pop();
        drop_leg(pages, SETTLED, Leg::Release);
    });
    breaks(&["I4"], |pages| {
        pages.open.get_mut(&OPEN).unwrap().amount = Credits::from_nanos(61)
    });
    breaks(&["I4", "I8", "I11", "I13"], |pages| {
        row(pages, SETTLED).charge = Credits::from_nanos(101);
    });
}

#[test]
fn i4_early_releases_are_not_released_again() {
    let early = |pages: &mut Pages, id, number| {
        pages.transfer(ACCOUNT, TransferSubject::Hold(id), Leg::ReleaseEarly(number), 10);
    };
    let shrunk = |pages: &mut Pages| {
        early(pages, OPEN, 0);
        early(pages, OPEN, 1);
        pages.open.get_mut(&OPEN).unwrap().amount = Credits::from_nanos(40);
    };
    let mut pages = valid();
    shrunk(&mut pages);
    let report = check(&pages, true);
    assert!(report.is_clean(), "{:?}", report.faults);
    // The hold row still has the full amount.
    breaks(&["I4"], |pages| {
        shrunk(pages);
        pages.open.get_mut(&OPEN).unwrap().amount = Credits::from_nanos(50);
    });
    // The early release is also released at the end.
    breaks(&["I4"], |pages| early(pages, SETTLED, 0));
}

#[test]
fn i7_nothing_is_used_without_a_hold() {
    breaks(&["I7"], |pages| {
        let unheld = UsageRow {
            id: HoldId::from_u128(9),
            ..row(pages, CRASHED).clone()
        };
        pages.rows.push(unheld);
    });
}

#[test]
fn i8_revenue_matches_the_usage_rows() {
    breaks(&["I8", "I11"], |pages| pages.rows.retain(|row| row.id != SETTLED));
    breaks(&["I8", "I11", "I13"], |pages| {
        row(pages, SETTLED).charge = Credits::from_nanos(29)
    });
    // The usage row exists without its resolution.
    breaks(&["I8", "I11", "I3", "I4"], |pages| {
        pages.transfer(ACCOUNT, TransferSubject::Hold(SETTLED), Leg::Settle, -30);
        pages.transfer(ACCOUNT, TransferSubject::Hold(SETTLED), Leg::Release, -70);
        pages.transfers.truncate(pages.transfers.len() - 2);
        drop_leg(pages, SETTLED, Leg::Settle);
        drop_leg(pages, SETTLED, Leg::Release);
    });
}

#[test]
fn i9_a_loss_is_recorded_on_both_sides() {
    breaks(&["I9", "I13"], |pages| {
        row(pages, OVERRUN).overrun = Credits::from_nanos(19)
    });
    breaks(&["I9"], |pages| {
        pages.transfer(ACCOUNT, TransferSubject::Hold(OVERRUN), Leg::Overrun, -20);
        pages.transfers.pop();
        drop_leg(pages, OVERRUN, Leg::Overrun);
    });
    breaks(&["I9"], |pages| row(pages, SETTLED).outcome = Outcome::Crashed);
}

#[test]
fn i11_every_resolved_hold_has_its_row() {
    breaks(&["I11"], |pages| pages.rows.retain(|row| row.id != CRASHED));
    breaks(&["I11"], |pages| {
        row(pages, SETTLED).held = Credits::from_nanos(101)
    });
}

#[test]
fn i13_prices_never_change() {
    let change_price = |pages: &mut Pages| {
        let raised = Prices::default().with(Unit::Input, Credits::from_nanos(2_000_000));
        pages.prices = vec![(VERSION, raised)];
    };
    breaks(&["I13"], change_price);
    breaks(&["I13"], |pages| pages.prices.clear());
    breaks(&["I13"], |pages| row(pages, OVERRUN).usage = Usage::tokens(71, 0));
    // Only `reprice` finds the fault, because it recomputes the cost of every row.
    let mut pages = valid();
    change_price(&mut pages);
    assert!(check(&pages, false).is_clean());
}

/// Price version of the parts: an input token costs half a nano-credit.
const OTHERS: PriceVersion = PriceVersion::from_u64(8);
/// Price version of a usage row with parts.
const FREE: PriceVersion = PriceVersion::from_u64(9);

fn part(number: u32, price_version: PriceVersion, tokens: u64, cost: i64) -> UsagePart {
    UsagePart {
        number,
        name: format!("scene {number}").into(),
        model: "maker/other".into(),
        target: "upstream".into(),
        price_version,
        usage: Usage::tokens(tokens, 0),
        cost: Credits::from_nanos(cost),
    }
}

/// Returns a valid ledger whose charged calls consist of two parts each: 10 + 20 of 100 held, 40 +
/// 30 of 50.
fn with_parts() -> Pages {
    let mut pages = valid();
    let half = Prices::default().with(Unit::Input, Credits::from_nanos(500_000));
    pages.prices.extend([(OTHERS, half), (FREE, Prices::free())]);
    for (id, first, second) in [(SETTLED, 10, 20), (OVERRUN, 40, 30)] {
        let tokens = |nanos: i64| u64::try_from(nanos).unwrap();
        let parts = [
            part(0, VERSION, tokens(first), first),
            part(1, OTHERS, 2 * tokens(second) - 1, second),
        ];
        let row = row(&mut pages, id);
        row.price_version = FREE;
        row.usage = parts[0].usage.plus(&parts[1].usage);
        pages.parts.extend(parts.map(|part| (ACCOUNT, id, part)));
    }
    let versions: Vec<_> = pages.rows.iter().map(|row| (row.id, row.price_version)).collect();
    for (id, version) in versions {
        name_prices(&mut pages, id, version);
    }
    pages
}

/// Sets the price version of a call's transfers.
fn name_prices(pages: &mut Pages, id: HoldId, version: PriceVersion) {
    let subject = TransferSubject::Hold(id);
    for (_, transfer) in pages
        .transfers
        .iter_mut()
        .filter(|(_, row)| row.subject == subject)
    {
        transfer.price_version = Some(version);
    }
}

/// Asserts that the check and the audit both find the falsified parts.
#[track_caller]
fn breaks_parts(falsify: impl FnOnce(&mut Pages)) {
    let mut pages = with_parts();
    falsify(&mut pages);
    assert_ne!(pages, with_parts());
    let report = check(&pages, true);
    let named: BTreeSet<&str> = report.faults.iter().map(|fault| fault.invariant).collect();
    assert_eq!(named, BTreeSet::from(["I13"]), "{:?}", report.faults);
    assert!(check(&pages, false).is_clean(), "only on demand");
    assert!(!audit(&pages).is_clean(), "the audit finds nothing");
}

fn audit(pages: &Pages) -> AuditReport {
    ready(audit_ledger(&TestLedger::from(pages.clone()), Scope::default())).unwrap()
}

#[test]
fn valid_ledger_with_parts_has_no_fault() {
    let report = check(&with_parts(), true);
    assert!(report.is_clean(), "{:?}", report.faults);
    assert_eq!((report.usage_rows, report.revenue, report.overrun), (3, 80, 20));
    let audited = audit(&with_parts());
    assert!(audited.is_clean(), "{:?}", audited.differences);
    assert_eq!((audited.calls, audited.charged), (3, 80));
    // Between the end of a job and the resolution of its hold, the parts exist without the usage
    // row.
    let mut pages = with_parts();
    pages.parts.push((ACCOUNT, OPEN, part(0, VERSION, 5, 5)));
    assert!(check(&pages, true).is_clean() && audit(&pages).is_clean());
    // The same applies to a hold of zero.
    let free = HoldId::from_u128(5);
    pages.open.insert(free, hold(free, 0, 99));
    pages.parts.push((ACCOUNT, free, part(0, FREE, 5, 0)));
    assert!(check(&pages, true).is_clean() && audit(&pages).is_clean());
}

#[test]
fn i13_parts_are_priced_by_their_own_models_and_make_their_row() {
    // A part has a different cost or a different consumption.
    breaks_parts(|pages| pages.parts[1].2.cost = Credits::from_nanos(21));
    breaks_parts(|pages| pages.parts[1].2.usage = Usage::tokens(43, 0));
    // Two wrong costs have the right sum.
    breaks_parts(|pages| {
        pages.parts[0].2.cost = Credits::from_nanos(11);
        pages.parts[1].2.cost = Credits::from_nanos(19);
    });
    // A part has a different unit than its row, at the same price.
    breaks_parts(|pages| pages.parts[0].2.usage = Usage::ZERO.with(Unit::CacheRead, 10));
    // A part has another model's prices, or an unknown price version.
    breaks_parts(|pages| pages.parts[0].2.price_version = OTHERS);
    breaks_parts(|pages| pages.parts[0].2.price_version = PriceVersion::from_u64(77));
    breaks_parts(|pages| pages.prices.retain(|(version, _)| *version != OTHERS));
    // A part is missing, or all are missing; a part belongs to another row, to no row, or exists
    // twice.
    breaks_parts(|pages| drop(pages.parts.remove(0)));
    breaks_parts(|pages| pages.parts.clear());
    breaks_parts(|pages| pages.parts[0].1 = OVERRUN);
    breaks_parts(|pages| {
        let row = HoldId::from_u128(99);
        pages.parts.push((ACCOUNT, row, part(0, VERSION, 5, 5)));
    });
    breaks_parts(|pages| {
        let row = HoldId::from_u128(0);
        pages.parts.push((ACCOUNT, row, part(0, FREE, 0, 0)));
    });
    breaks_parts(|pages| {
        let more = part(2, VERSION, 1, 1);
        pages.parts.push((ACCOUNT, OVERRUN, more));
    });
    // The usage row differs from its parts.
    breaks_parts(|pages| row(pages, SETTLED).usage = Usage::tokens(48, 0));
    // The prices of a row with parts do not count.
    let mut pages = with_parts();
    row(&mut pages, SETTLED).price_version = VERSION;
    name_prices(&mut pages, SETTLED, VERSION);
    assert!(check(&pages, true).is_clean() && audit(&pages).is_clean());
}

#[test]
fn i14_transfers_are_chained() {
    breaks(&["I14"], |pages| {
        pages.chain(ACCOUNT);
        pages.transfers[1].1.created_at = Timestamp::from_micros(5);
    });
    breaks(&["I14"], |pages| {
        pages.chain(ACCOUNT);
        pages.end.as_mut().unwrap().unchained = 1;
    });
    breaks(&["I1", "I14", "I15"], |pages| {
        pages.chain(ACCOUNT);
        pages.transfers.remove(0);
    });
}

/// Returns a ledger with a plan of 100 a week: a call that the plan paid, a call that the plan paid
/// partly and whose week is closed, and an open call.
fn with_plan() -> Pages {
    let prices = Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000));
    let ledger = TestLedger::of(&[ACCOUNT], &[(VERSION, prices)]);
    let grant = Grant {
        id: TransferId::from_u128(1),
        account: ACCOUNT,
        amount: Credits::from_nanos(1_000),
        at: Timestamp::from_micros(0),
        terms: LotTerms::default(),
    };
    ready(ledger.grant(grant)).unwrap();
    ledger.subscribe(ACCOUNT, 100);
    ready(ledger.hold(hold(SETTLED, 40, 99))).unwrap();
    ready(ledger.settle(settlement(SETTLED, 30, 0))).unwrap();
    ready(ledger.hold(hold(OVERRUN, 90, 99))).unwrap();
    let later = NewHold {
        created_at: Timestamp::from_micros(WEEK_MICROS),
        ..hold(OPEN, 60, 99)
    };
    ready(ledger.hold(later)).unwrap();
    ready(ledger.settle(settlement(OVERRUN, 80, 0))).unwrap();
    ledger.pages()
}

#[track_caller]
fn breaks_with_plan(invariants: &[&str], falsify: impl FnOnce(&mut Pages)) {
    let mut pages = with_plan();
    falsify(&mut pages);
    let report = check(&pages, true);
    let named: BTreeSet<&str> = report.faults.iter().map(|fault| fault.invariant).collect();
    assert_eq!(named, invariants.iter().copied().collect(), "{:?}", report.faults);
}

fn week_leg(number: i64, leg: Leg) -> impl Fn(&(AccountId, TransferRow)) -> bool {
    let subject = TransferSubject::Window(week(ACCOUNT, number));
    move |(_, row)| (row.subject, row.leg) == (subject, leg)
}

#[test]
fn valid_ledger_with_a_plan_has_no_fault() {
    breaks_with_plan(&[], |_| {});
    let pages = with_plan();
    let recorded: Vec<_> = pages
        .rows
        .iter()
        .map(|row| (row.charge.nanos(), row.included.nanos()))
        .collect();
    assert_eq!(recorded, [(30, 30), (80, 70)]);
    assert_eq!(check(&pages, true).revenue, 110);
}

#[test]
fn i6_the_allowance_pays_first() {
    // The usage row records more or less than the allowance paid.
    for included in [29, 31] {
        breaks_with_plan(&["I6"], |pages| {
            row(pages, SETTLED).included = Credits::from_nanos(included)
        });
    }
    // Credits paid for what the allowance could have paid.
    breaks_with_plan(&["I6"], |pages| {
        let leg = |pages: &mut Pages, leg: Leg, amount: i64| {
            pages.transfer(ACCOUNT, TransferSubject::Hold(OVERRUN), leg, amount);
        };
        drop_leg(pages, OVERRUN, Leg::SettleIncluded);
        drop_leg(pages, OVERRUN, Leg::Settle);
        drop_leg(pages, OVERRUN, Leg::Release);
        *balance(pages, LedgerAccount::RevenueIncluded) -= 70;
        *balance(pages, LedgerAccount::RevenueUsage) -= 10;
        *balance(pages, LedgerAccount::Credits) -= 10;
        *balance(pages, LedgerAccount::Hold) += 90;
        leg(pages, Leg::Settle, 20);
        leg(pages, Leg::SettleIncluded, 60);
        leg(pages, Leg::ReleaseBreakage, 10);
        row(pages, OVERRUN).included = Credits::from_nanos(60);
    });
}

#[test]
fn i12_week_allowance_is_capped_and_not_carried_over() {
    // A call names another week.
    breaks_with_plan(&["I12"], |pages| {
        let other = week(ACCOUNT, 1);
        row(pages, SETTLED).plan.as_mut().unwrap().window = other;
    });
    // A call names no week.
    breaks_with_plan(&["I12"], |pages| row(pages, SETTLED).plan = None);
    breaks_with_plan(&["I12"], |pages| {
        pages.shares.get_mut(&OPEN).unwrap().0.window = week(ACCOUNT, 7);
    });
    // A rest is carried over to the next week.
    breaks_with_plan(&["I12"], |pages| {
        let third = TransferSubject::Window(week(ACCOUNT, 2));
        pages.transfer(ACCOUNT, third, Leg::OpenWindow, 100);
    });
    // A week is opened twice.
    breaks_with_plan(&["I12", "I1"], |pages| {
        let twice = pages
            .transfers
            .iter()
            .find(|row| week_leg(1, Leg::OpenWindow)(row))
            .copied();
        pages.transfers.extend(twice);
    });
    // A week was never opened.
    breaks_with_plan(&["I12", "I1"], |pages| {
        pages.transfers.retain(|row| !week_leg(1, Leg::OpenWindow)(row));
    });
    // A week pays a fee.
    breaks_with_plan(&["I12"], |pages| {
        let subject = TransferSubject::Window(week(ACCOUNT, 1));
        pages.transfer(ACCOUNT, subject, Leg::PlanFee, 10);
    });
    breaks_with_plan(&["I1"], |pages| {
        let subject = TransferSubject::Period(week(ACCOUNT, 1));
        pages.transfer(ACCOUNT, subject, Leg::Grant, 10);
    });
}

/// Faults that are not listed are counted.
#[test]
fn faults_beyond_the_list_are_counted() {
    let mut pages = valid();
    let crashed = row(&mut pages, CRASHED).clone();
    pages.rows.extend((100..300).map(|id| UsageRow {
        id: HoldId::from_u128(id),
        ..crashed.clone()
    }));
    let report = check(&pages, true);
    assert_eq!((report.fault_count, report.faults.len()), (200, 100));
}

/// A fault of one account is not compensated by another account.
#[test]
fn every_account_is_checked_by_itself() {
    let mut pages = valid();
    let other = AccountId::from_u128(2);
    pages
        .balances
        .extend(LedgerAccount::ALL.map(|ledger| ((other, ledger), 0)));
    assert!(check(&pages, true).is_clean());
    pages.balances.insert((other, LedgerAccount::Credits), 5);
    *balance(&mut pages, LedgerAccount::Credits) -= 5;
    let report = check(&pages, true);
    assert!(
        report
            .faults
            .iter()
            .any(|fault| fault.detail.starts_with(&other.to_string()))
    );
    assert!(
        report
            .faults
            .iter()
            .any(|fault| fault.detail.starts_with(&ACCOUNT.to_string()))
    );
}

#[test]
fn i15_lots_match_the_balance() {
    breaks(&["I15"], |pages| pages.lots.clear());
    breaks(&["I15"], |pages| {
        pages.lots[0].amount = Credits::from_nanos(1_001);
    });
    breaks(&["I15"], |pages| {
        pages.lots[0].id = TransferId::from_u128(2);
    });
    // 920 of the 1,000 remain: 80 were charged.
    for (remaining, broken) in [
        (1_000, false),
        (920, false),
        (919, true),
        (1_001, true),
        (-1, true),
    ] {
        let mut pages = valid();
        pages.lots[0].remaining = Credits::from_nanos(remaining);
        let report = check(&pages, true);
        assert_eq!(report.is_clean(), !broken, "{remaining}: {:?}", report.faults);
        assert!(report.faults.iter().all(|fault| fault.invariant == "I15"));
    }
    breaks(&["I15"], |pages| {
        pages.lots[0].remaining = Credits::from_nanos(930);
        pages.lots[0].expired = Credits::from_nanos(5);
    });
    breaks(&["I15"], |pages| {
        let part = TransferSubject::Lot(TransferId::from_u128(9));
        pages.transfer(ACCOUNT, part, Leg::Withdraw, 5);
    });
}

/// Returns a ledger with a plan and a refund: 4 of the 10 that credits paid for a call.
fn with_refund() -> Pages {
    let mut pages = with_plan();
    add_refund(&mut pages, 5, 4);
    assert!(check(&pages, true).is_clean());
    pages
}

fn add_refund(pages: &mut Pages, id: u128, amount: i64) {
    let refund = Refund {
        id: TransferId::from_u128(id),
        account: ACCOUNT,
        hold: OVERRUN,
        credits: Credits::from_nanos(amount),
        allowance: Credits::ZERO,
        reason: String::new(),
        created_at: Timestamp::from_micros(0),
    };
    pages.transfer(ACCOUNT, TransferSubject::Refund(refund.id), Leg::Refund, amount);
    pages.lots.extend(refund.lot());
    pages.refunds.push(refund);
    let row = row(pages, OVERRUN);
    row.refunded = row.refunded.checked_add(Credits::from_nanos(amount)).unwrap();
}

#[test]
fn i16_refunds_do_not_exceed_charges() {
    for (what, falsify) in [
        ("all of it", (|pages| add_refund(pages, 6, 6)) as fn(&mut Pages)),
        ("more", |pages| add_refund(pages, 6, 7)),
        ("the row", |pages| row(pages, OVERRUN).refunded = Credits::ZERO),
        ("the refund", |pages| {
            pages.refunds[0].credits = Credits::from_nanos(3)
        }),
        ("its call", |pages| pages.refunds[0].hold = HoldId::from_u128(77)),
        ("nothing", |pages| pages.refunds.clear()),
        ("its part", |pages| {
            pages.refunds[0].credits = Credits::ZERO;
            pages.refunds[0].allowance = Credits::from_nanos(4);
        }),
    ] {
        let mut pages = with_refund();
        falsify(&mut pages);
        let report = check(&pages, true);
        let clean = what == "all of it";
        assert_eq!(report.is_clean(), clean, "{what}: {:?}", report.faults);
        let named = report.faults.iter().any(|fault| fault.invariant == "I16");
        assert_eq!(named, !clean, "{what}: {:?}", report.faults);
    }
}
