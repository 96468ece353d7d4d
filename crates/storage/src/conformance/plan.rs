//! Cases for [`crate::LedgerStore`] with accounts that have a plan.

use std::sync::Arc;

use tollgate_types::{AccountId, Credits, Timestamp};

use super::samples::{
    START, at, call, concurrently, funded, hold, nanos, plan, settlement, subscribe, take, warm_up, week,
};
use super::{AccountLedger, Factory, LedgerSnapshot};
use crate::audit::Leg;
use crate::subscription::window_entry;
use crate::{
    Change, Coverage, HoldOutcome, LedgerAccount, NewHold, Payer, Spendable, Storage, Subscription, UsageRow,
};

/// Stores an account with this many nano-credits and a plan of 100 a week, paid by the provider for
/// four weeks.
async fn with_plan(storage: &Storage, number: u128, balance: i64) -> (AccountId, Subscription) {
    let id = funded(storage, number, balance).await;
    let mut new = plan(number, id, 100);
    new.payer = Payer::Provider;
    (id, subscribe(storage, new).await)
}

/// Makes a hold accepted at this instant.
fn hold_at(number: u128, account: AccountId, amount: i64, created_at: Timestamp) -> NewHold {
    NewHold {
        created_at,
        ..hold(number, account, amount)
    }
}

/// Returns credits, allowance, breakage, and the charges paid by credits and by the allowance.
fn sums(ledger: &AccountLedger) -> [i64; 5] {
    [
        LedgerAccount::Credits,
        LedgerAccount::Allowance,
        LedgerAccount::Breakage,
        LedgerAccount::RevenueUsage,
        LedgerAccount::RevenueIncluded,
    ]
    .map(|account| ledger.balance(account))
}

async fn read(storage: &Storage, id: AccountId) -> AccountLedger {
    LedgerSnapshot::read(storage).await.of(id).clone()
}

fn only_row(ledger: &AccountLedger) -> &UsageRow {
    assert_eq!(ledger.usage.len(), 1);
    &ledger.usage[0]
}

/// Checks that a call covered by the allowance costs no credits. Its row names the plan and the
/// week.
pub async fn allowance_is_drawn_first(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 50).await;
    let held = take(&storage, hold(3, id, 60)).await;
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [50, 40, 0, 0, 0]);
    assert_eq!(
        (ledger.holds[0].amount, ledger.holds[0].allowance),
        (nanos(60), nanos(60))
    );
    let resolution = storage.ledger.settle(settlement(&held, 12)).await.unwrap();
    assert_eq!((resolution.charge, resolution.available), (nanos(12), nanos(50)));
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [50, 88, 0, 0, 12]);
    let row = only_row(&ledger);
    assert_eq!(
        (row.held, row.charge, row.included),
        (nanos(60), nanos(12), nanos(12))
    );
    assert_eq!(row.coverage(), Coverage::Fully);
    let used = row.plan.clone().unwrap();
    assert_eq!(
        (&*used.name, used.window),
        ("lite", window_entry(plan.terms.id, 0))
    );
    assert_eq!(ledger.holds, []);
}

/// Checks that the allowance pays first, in the hold as in the charge; credits pay the rest.
pub async fn partly_covered_call_is_paid_first_by_the_allowance(factory: Factory) {
    for (charge, expected, coverage) in [
        (130, [20, 0, 0, 30, 100], Coverage::Partly),
        (101, [49, 0, 0, 1, 100], Coverage::Partly),
        (100, [50, 0, 0, 0, 100], Coverage::Fully),
        (99, [50, 1, 0, 0, 99], Coverage::Fully),
        (0, [50, 100, 0, 0, 0], Coverage::None),
    ] {
        let storage = factory.open().await;
        let number = 1000 + u128::try_from(charge).unwrap();
        let (id, _) = with_plan(&storage, number, 50).await;
        let held = take(&storage, hold(3, id, 150)).await;
        assert_eq!(sums(&read(&storage, id).await), [0, 0, 0, 0, 0]);
        storage.ledger.settle(settlement(&held, charge)).await.unwrap();
        let ledger = read(&storage, id).await;
        assert_eq!(sums(&ledger), expected, "{charge}");
        assert_eq!(only_row(&ledger).coverage(), coverage);
        storage.engine.close().await.unwrap();
    }
}

/// Checks that without credits, calls run as far as the allowance covers them, to its last
/// nano-credit.
pub async fn zero_balance_runs_what_is_covered(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 0).await;
    let outcome = storage.ledger.hold(hold(3, id, 101)).await.unwrap();
    assert_eq!(
        outcome,
        HoldOutcome::Denied {
            available: nanos(100)
        }
    );
    call(&storage, hold(4, id, 100), 99).await;
    call(&storage, hold(5, id, 1), 1).await;
    let outcome = storage.ledger.hold(hold(6, id, 1)).await.unwrap();
    let available = Credits::ZERO;
    assert_eq!(outcome, HoldOutcome::Denied { available });
    assert_eq!(sums(&read(&storage, id).await), [0, 0, 0, 0, 100]);
}

/// Checks that a hold that exceeds allowance and credits takes neither.
pub async fn denied_consumes_neither(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 50).await;
    let before = LedgerSnapshot::read(&storage).await;
    for (number, amount) in [(3, 151), (4, i64::MAX)] {
        let outcome = storage.ledger.hold(hold(number, id, amount)).await.unwrap();
        assert_eq!(
            outcome,
            HoldOutcome::Denied {
                available: nanos(150)
            }
        );
    }
    before.assert_unchanged(&storage).await;
    take(&storage, hold(3, id, 150)).await;
}

/// Checks that a plan pays only for the models that it covers; others cost credits and their rows
/// name no plan.
pub async fn model_that_is_not_covered_costs_credits(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 50).await;
    let uncovered = |number, name: &str, amount| NewHold {
        not_covered_by: Arc::from([Arc::from("max"), Arc::from(name)]),
        ..hold(number, id, amount)
    };
    let outcome = storage.ledger.hold(uncovered(3, "lite", 51)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(50) });
    call(&storage, uncovered(3, "lite", 50), 20).await;
    call(&storage, uncovered(4, "pro", 50), 20).await;
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [30, 80, 0, 20, 20]);
    assert_eq!(
        (ledger.usage[0].plan.is_none(), ledger.usage[1].plan.is_some()),
        (true, true)
    );
}

/// Checks that a call of zero cost draws on nothing.
pub async fn free_call_draws_on_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 0).await;
    call(&storage, hold_at(3, id, 0, week(2)), 0).await;
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [0, 100, 0, 0, 0]);
    assert_eq!(
        (only_row(&ledger).plan.as_ref(), only_row(&ledger).coverage()),
        (None, Coverage::None)
    );
}

/// Checks that a voided call returns credits to credits and allowance to the allowance.
pub async fn void_calls_restore_every_part(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 50).await;
    let held = take(&storage, hold(3, id, 120)).await;
    let mut void = settlement(&held, 0);
    void.overrun = nanos(7);
    storage.ledger.settle(void).await.unwrap();
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [50, 100, 0, 7, 0], "the overrun is the operator's");
    let again = storage.ledger.settle(settlement(&held, 99)).await.unwrap();
    assert_eq!((again.charge, again.first), (Credits::ZERO, false));
    assert_eq!(read(&storage, id).await, ledger);
}

/// Checks that a week ends with its last microsecond; its rest is not carried over.
pub async fn weeks_are_half_open(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 0).await;
    let last = Timestamp::from_micros(week(1).as_micros() - 1);
    call(&storage, hold_at(3, id, 10, last), 10).await;
    assert_eq!(sums(&read(&storage, id).await), [0, 90, 0, 0, 10]);
    call(&storage, hold_at(4, id, 100, week(1)), 30).await;
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [0, 70, 90, 0, 40]);
    assert_eq!(
        ledger.usage[1].plan.as_ref().unwrap().window,
        window_entry(plan.terms.id, 1)
    );
    let stored = storage.subscriptions.get(plan.terms.id).await.unwrap().unwrap();
    assert_eq!(stored.window, Some(1));
    let weeks = ledger.transfers.iter().filter(|row| row.leg == Leg::OpenWindow);
    assert_eq!(weeks.count(), 2);
}

/// Checks that concurrent calls at the beginning of a week open it once.
pub async fn concurrent_calls_open_a_week_once(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 0).await;
    warm_up(&storage, id).await;
    let outcomes = concurrently(64, |number| {
        let (ledger, hold) = (storage.ledger.clone(), hold_at(number as u128, id, 9, week(1)));
        Box::pin(async move { ledger.hold(hold).await.unwrap() })
    })
    .await;
    let held = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, HoldOutcome::Held { .. }));
    assert_eq!(held.count(), 11);
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [0, 1, 100, 0, 0]);
    assert_eq!(ledger.balance(LedgerAccount::GrantPlan), -200);
}

/// Checks that a clock that jumps forward opens the current week, and skipped weeks are never
/// granted; a clock that jumps back opens none again.
pub async fn clock_jumps(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 0).await;
    call(&storage, hold_at(3, id, 10, week(3)), 10).await;
    let forward = read(&storage, id).await;
    assert_eq!(sums(&forward), [0, 90, 100, 0, 10]);
    assert_eq!(forward.balance(LedgerAccount::GrantPlan), -200);
    call(&storage, hold_at(4, id, 10, week(1)), 10).await;
    let before_the_anchor = Timestamp::from_micros(START.as_micros() - 1);
    call(&storage, hold_at(5, id, 10, before_the_anchor), 10).await;
    let back = read(&storage, id).await;
    assert_eq!(sums(&back), [0, 70, 100, 0, 30]);
    assert_eq!(back.usage[2].plan, forward.usage[0].plan, "the week that is open");
}

/// Checks that a denied hold opens no week, and returns the amount that the new week would give.
pub async fn denied_in_a_new_week_opens_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 5).await;
    call(&storage, hold(3, id, 100), 100).await;
    let before = LedgerSnapshot::read(&storage).await;
    let outcome = storage.ledger.hold(hold_at(4, id, 106, week(1))).await.unwrap();
    assert_eq!(
        outcome,
        HoldOutcome::Denied {
            available: nanos(105)
        }
    );
    before.assert_unchanged(&storage).await;
}

/// Checks that a call that ends after its week is charged by the terms of its hold; its unused
/// allowance becomes breakage.
pub async fn rest_of_a_closed_week_is_breakage(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 50).await;
    let old = take(&storage, hold(3, id, 120)).await;
    call(&storage, hold_at(4, id, 10, week(1)), 10).await;
    storage.ledger.settle(settlement(&old, 30)).await.unwrap();
    let ledger = read(&storage, id).await;
    assert_eq!(sums(&ledger), [50, 90, 70, 0, 40]);
    assert_eq!(
        ledger.usage[0].plan.as_ref().unwrap().window,
        window_entry(plan.terms.id, 0)
    );
}

/// Checks that a plan that becomes past due during a call pays for that call, and for no later one.
pub async fn terms_are_frozen_in_the_hold(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 50).await;
    let held = take(&storage, hold(3, id, 120)).await;
    storage
        .subscriptions
        .change(plan.terms.id, Change::PastDue, at(1))
        .await
        .unwrap();
    storage.ledger.settle(settlement(&held, 110)).await.unwrap();
    assert_eq!(sums(&read(&storage, id).await), [40, 0, 0, 10, 100]);
    let outcome = storage.ledger.hold(hold(4, id, 41)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(40) });
}

/// Checks that the sweep of an unsettled call also returns its allowance.
pub async fn sweep_returns_the_allowance(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 50).await;
    take(&storage, hold(3, id, 120)).await;
    assert_eq!(storage.ledger.sweep(at(3600), 10).await.unwrap(), 1);
    assert_eq!(sums(&read(&storage, id).await), [50, 100, 0, 0, 0]);
}

/// Checks that `spendable` returns the largest possible hold without taking it.
pub async fn spendable_is_what_a_hold_could_take(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 50).await;
    call(&storage, hold(3, id, 60), 60).await;
    let before = LedgerSnapshot::read(&storage).await;
    let lite: Arc<[Arc<str>]> = Arc::from([Arc::from("lite")]);
    for (not_covered_by, at, allowance) in [
        (Arc::default(), START, 40),
        (Arc::default(), week(1), 100),
        (Arc::default(), week(4), 0),
        (lite, START, 0),
    ] {
        let spendable = storage.ledger.spendable(id, not_covered_by, at).await.unwrap();
        let expected = Spendable {
            credits: nanos(50),
            allowance: nanos(allowance),
        };
        assert_eq!(spendable, expected, "{at:?}");
    }
    assert_eq!(storage.subscriptions.allowance(id).await.unwrap(), nanos(40));
    before.assert_unchanged(&storage).await;
    assert_eq!(
        plan.terms.paid_through,
        week(4),
        "nothing is opened that is not paid for"
    );
}

/// Checks that concurrent calls, each with a hold above its cost, never make the allowance or the
/// credits negative.
pub async fn concurrent_holds_never_overdraw(factory: Factory) {
    let storage = factory.open().await;
    let (id, _) = with_plan(&storage, 1, 60).await;
    warm_up(&storage, id).await;
    concurrently(32, |number| {
        let ledger = storage.ledger.clone();
        Box::pin(async move {
            for round in 0..4_u64 {
                let number = number as u64 * 4 + round;
                let new = hold_at(number.into(), id, 30, week(number / 64));
                if let HoldOutcome::Held { .. } = ledger.hold(new.clone()).await.unwrap() {
                    let charge = i64::try_from(number % 11).unwrap();
                    ledger.settle(settlement(&new, charge)).await.unwrap();
                }
            }
        })
    })
    .await;
    let ledger = read(&storage, id).await;
    let charged: i64 = ledger.usage.iter().map(|row| row.charge.nanos()).sum();
    let [credits, allowance, breakage, paid, included] = sums(&ledger);
    assert_eq!((credits + paid, paid + included), (60, charged));
    assert_eq!(
        allowance + breakage + included,
        -ledger.balance(LedgerAccount::GrantPlan)
    );
}

/// Checks that plan, week and held allowance survive a restart.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let (id, plan) = with_plan(&storage, 1, 50).await;
    call(&storage, hold_at(3, id, 20, week(1)), 20).await;
    let held = take(&storage, hold_at(4, id, 90, week(1))).await;
    let before = LedgerSnapshot::read(&storage).await;
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    before.assert_unchanged(&storage).await;
    let stored = storage.subscriptions.get(plan.terms.id).await.unwrap().unwrap();
    assert_eq!(stored.window, Some(1));
    storage.ledger.settle(settlement(&held, 85)).await.unwrap();
    assert_eq!(sums(&read(&storage, id).await), [45, 0, 100, 5, 100]);
}
