//! Cases for [`crate::SubscriptionStore`].

use tollgate_types::{AccountId, Credits, SubscriptionId, Timestamp};

use super::samples::{
    START, account, at, call, concurrently, funded, hold, kind, nanos, plan, subscribe, warm_up, week,
};
use super::{Factory, LedgerSnapshot};
use crate::audit::Leg;
use crate::{
    Cadence, Change, HoldOutcome, LedgerAccount, NewSubscription, NextPlan, Payer, Payment, Product, Storage,
    StorageErrorKind, Subscription, SubscriptionState,
};

fn renew(period: i64) -> Change {
    let weeks = 4 * (u64::try_from(period).unwrap_or(0) + 1);
    let paid_through = week(weeks);
    Change::Renew { period, paid_through }
}

async fn change(
    storage: &Storage,
    subscription: &Subscription,
    change: Change,
    at: Timestamp,
) -> Subscription {
    match storage
        .subscriptions
        .change(subscription.terms.id, change, at)
        .await
        .unwrap()
    {
        Payment::Done(subscription) => *subscription,
        denied @ Payment::Denied { .. } => unreachable!("{denied:?}"),
    }
}

/// Checks that a new subscription pays its fee and opens its first week in one step.
pub async fn first_fee_and_week_are_one_step(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 50).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    assert_eq!(created, Subscription::begin(plan(1, id, 100)));
    let ledgers = LedgerSnapshot::read(&storage).await;
    let ledger = ledgers.of(id);
    let balances = [
        LedgerAccount::Credits,
        LedgerAccount::RevenuePlan,
        LedgerAccount::Allowance,
    ];
    assert_eq!(balances.map(|account| ledger.balance(account)), [20, 30, 100]);
    let mut legs: Vec<Leg> = ledger.transfers.iter().map(|transfer| transfer.leg).collect();
    legs.sort();
    assert_eq!(legs, [Leg::Grant, Leg::OpenWindow, Leg::PlanFee]);
    assert_eq!(
        storage.subscriptions.get(created.terms.id).await.unwrap(),
        Some(created.clone())
    );
    assert_eq!(storage.subscriptions.list(id).await.unwrap(), [created]);
}

/// Checks that a fee above the balance writes nothing; a fee equal to it is paid.
pub async fn fee_that_is_not_covered_writes_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (poor, exact) = (funded(&storage, 1, 29).await, funded(&storage, 2, 30).await);
    let before = LedgerSnapshot::read(&storage).await;
    let denied = storage.subscriptions.subscribe(plan(1, poor, 100)).await.unwrap();
    assert_eq!(denied, Payment::Denied { available: nanos(29) });
    before.assert_unchanged(&storage).await;
    assert_eq!(storage.subscriptions.list(poor).await.unwrap(), []);
    assert_eq!(
        storage
            .subscriptions
            .events(SubscriptionId::from_u128(1))
            .await
            .unwrap(),
        []
    );
    subscribe(&storage, plan(2, exact, 100)).await;
    assert_eq!(
        storage.ledger.balance(exact).await.unwrap().credits,
        Credits::ZERO
    );
}

/// Checks that an account has at most one plan that is active or past due.
pub async fn one_plan_at_a_time(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 500).await;
    let first = subscribe(&storage, plan(1, id, 100)).await;
    for state in [SubscriptionState::Active, SubscriptionState::PastDue] {
        let before = LedgerSnapshot::read(&storage).await;
        let second = storage.subscriptions.subscribe(plan(2, id, 100)).await;
        assert_eq!(kind(second), StorageErrorKind::Conflict, "{state:?}");
        before.assert_unchanged(&storage).await;
        let _ = storage
            .subscriptions
            .change(first.terms.id, Change::PastDue, at(1))
            .await;
    }
    let other = funded(&storage, 2, 500).await;
    let same_id = storage.subscriptions.subscribe(plan(1, other, 100)).await;
    assert_eq!(kind(same_id), StorageErrorKind::Conflict);
    assert_eq!(storage.ledger.balance(other).await.unwrap().credits, nanos(500));
}

/// Checks that, of concurrent subscriptions, one is created and paid.
pub async fn concurrent_subscriptions_make_one_plan(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 500).await;
    warm_up(&storage, id).await;
    let created = concurrently(16, |number| {
        let (subscriptions, new) = (storage.subscriptions.clone(), plan(number as u128, id, 100));
        Box::pin(async move { subscriptions.subscribe(new).await.is_ok() })
    })
    .await;
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).balance(LedgerAccount::Credits), 470);
    assert_eq!(ledgers.of(id).balance(LedgerAccount::Allowance), 100);
}

/// Checks that an agent is paid for, has no weeks, and an account may have several.
pub async fn agents_have_no_weeks(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    for number in [1, 2] {
        let agent = NewSubscription {
            product: Product::Agent,
            subject: format!("agent-{number}").into(),
            ..plan(number, id, 0)
        };
        assert_eq!(subscribe(&storage, agent).await.window, None);
    }
    let agent = storage.subscriptions.list(id).await.unwrap().pop().unwrap();
    change(&storage, &agent, renew(1), week(4)).await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).balance(LedgerAccount::RevenuePlan), 90);
    let outcome = storage.ledger.hold(hold(1, id, 11)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(10) });
    subscribe(
        &storage,
        NewSubscription {
            price: Credits::ZERO,
            ..plan(3, id, 100)
        },
    )
    .await;
    call(&storage, hold(1, id, 11), 11).await;
}

/// Checks that neither the first period nor a renewal takes credits if the payer is a provider.
pub async fn provider_paid_plans_move_no_credits(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 0).await;
    let mut new = plan(1, id, 100);
    new.payer = Payer::Provider;
    let created = subscribe(&storage, new).await;
    change(&storage, &created, renew(1), week(4)).await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).transfers.len(), 1, "the first week");
}

/// Checks that a period is paid once, in order, and extends the paid time.
pub async fn renewal_is_paid_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let renewed = change(&storage, &created, renew(1), week(4)).await;
    assert_eq!((renewed.period, renewed.terms.paid_through), (1, week(8)));
    let before = LedgerSnapshot::read(&storage).await;
    for period in [-1, 0, 1] {
        let again = storage
            .subscriptions
            .change(created.terms.id, renew(period), week(5))
            .await;
        assert_eq!(kind(again), StorageErrorKind::Conflict, "{period}");
    }
    before.assert_unchanged(&storage).await;
    assert_eq!(before.of(id).balance(LedgerAccount::Credits), 40);
    call(
        &storage,
        crate::NewHold {
            created_at: week(7),
            ..hold(1, id, 100)
        },
        100,
    )
    .await;
    assert_eq!(
        storage.ledger.balance(id).await.unwrap().credits,
        nanos(40),
        "a week of the new period"
    );
    let later = change(&storage, &created, renew(5), week(22)).await;
    assert_eq!(
        (later.period, later.terms.paid_through),
        (5, week(24)),
        "those between are not charged"
    );
    assert_eq!(storage.ledger.balance(id).await.unwrap().credits, nanos(10));
}

/// Checks that, of concurrent renewals of one period, one is paid.
pub async fn concurrent_renewals_pay_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 500).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    warm_up(&storage, id).await;
    let renewed = concurrently(16, |_| {
        let (subscriptions, id) = (storage.subscriptions.clone(), created.terms.id);
        Box::pin(async move { subscriptions.change(id, renew(1), week(4)).await.is_ok() })
    })
    .await;
    assert_eq!(renewed.iter().filter(|renewed| **renewed).count(), 1);
    assert_eq!(storage.ledger.balance(id).await.unwrap().credits, nanos(440));
}

/// Checks that a renewal above the balance changes nothing and can be repeated.
pub async fn renewal_that_is_not_covered_changes_nothing(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 59).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let before = LedgerSnapshot::read(&storage).await;
    let denied = storage
        .subscriptions
        .change(created.terms.id, renew(1), week(4))
        .await
        .unwrap();
    assert_eq!(denied, Payment::Denied { available: nanos(29) });
    before.assert_unchanged(&storage).await;
    assert_eq!(
        storage.subscriptions.get(created.terms.id).await.unwrap(),
        Some(created.clone())
    );
    storage
        .ledger
        .grant(super::samples::grant(9, id, 1))
        .await
        .unwrap();
    change(&storage, &created, renew(1), week(4)).await;
}

/// Checks that a past due plan gives no access; the rest of its week is available again after the
/// payment.
pub async fn past_due_gives_no_access(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 90).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(1, id, 30), 30).await;
    let owed = change(&storage, &created, Change::PastDue, at(5)).await;
    assert_eq!(
        (owed.state, owed.past_due_since),
        (SubscriptionState::PastDue, Some(at(5)))
    );
    let outcome = storage.ledger.hold(hold(2, id, 61)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(60) });
    let paid = change(&storage, &owed, renew(1), at(6)).await;
    assert_eq!(
        (paid.state, paid.past_due_since),
        (SubscriptionState::Active, None)
    );
    call(&storage, hold(2, id, 70), 70).await;
    assert_eq!(storage.ledger.balance(id).await.unwrap().credits, nanos(30));
}

/// Checks that a cancelled subscription lasts to the end of the paid time, and can be resumed until
/// then.
pub async fn cancel_and_resume(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 30).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let not_wanted = change(&storage, &created, Change::CancelAtPeriodEnd, at(1)).await;
    assert!(not_wanted.cancel_at_period_end && not_wanted.state == SubscriptionState::Active);
    call(&storage, hold(1, id, 10), 10).await;
    let late = crate::NewHold {
        created_at: week(4),
        ..hold(2, id, 1)
    };
    let outcome = storage.ledger.hold(late.clone()).await.unwrap();
    assert_eq!(
        outcome,
        HoldOutcome::Denied {
            available: Credits::ZERO
        }
    );
    let wanted = change(&storage, &not_wanted, Change::Resume, at(2)).await;
    assert!(!wanted.cancel_at_period_end);
    let twice = storage
        .subscriptions
        .change(created.terms.id, Change::Resume, at(3))
        .await;
    assert_eq!(kind(twice), StorageErrorKind::Conflict);
    let end = storage
        .subscriptions
        .change(created.terms.id, Change::Cancel, at(3))
        .await;
    assert_eq!(kind(end), StorageErrorKind::Conflict, "it is wanted");
}

/// Checks that the rest of the open week becomes breakage when the subscription ends, and that an
/// ended subscription gives no allowance.
pub async fn end_moves_the_allowance_to_breakage(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 40).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let running = super::samples::take(&storage, hold(1, id, 30)).await;
    let created = change(&storage, &created, Change::CancelAtPeriodEnd, at(1)).await;
    let ended = change(&storage, &created, Change::Cancel, week(4)).await;
    assert_eq!((ended.state, ended.window), (SubscriptionState::Canceled, None));
    storage
        .ledger
        .settle(super::samples::settlement(&running, 20))
        .await
        .unwrap();
    let ledgers = LedgerSnapshot::read(&storage).await;
    let balances = [
        LedgerAccount::Allowance,
        LedgerAccount::Breakage,
        LedgerAccount::RevenueIncluded,
    ];
    assert_eq!(
        balances.map(|account| ledgers.of(id).balance(account)),
        [0, 80, 20]
    );
    let outcome = storage.ledger.hold(hold(2, id, 11)).await.unwrap();
    assert_eq!(outcome, HoldOutcome::Denied { available: nanos(10) });
    for change in [renew(1), Change::Resume, Change::Cancel, Change::Expire] {
        let after = storage
            .subscriptions
            .change(created.terms.id, change.clone(), week(4))
            .await;
        assert_eq!(kind(after), StorageErrorKind::Conflict, "{change:?}");
    }
    assert_eq!(LedgerSnapshot::read(&storage).await, ledgers);
}

/// Checks that every change appends an event, in order; a refused change does not.
pub async fn every_change_is_an_event(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 60).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let _ = storage
        .subscriptions
        .change(created.terms.id, Change::Expire, at(1))
        .await;
    for (number, step) in (1..).zip([
        Change::CancelAtPeriodEnd,
        Change::Resume,
        Change::PastDue,
        renew(1),
        Change::PastDue,
        Change::Expire,
    ]) {
        change(&storage, &created, step, at(number)).await;
    }
    let events = storage.subscriptions.events(created.terms.id).await.unwrap();
    let reported: Vec<_> = events
        .iter()
        .map(|event| {
            (
                event.number,
                event.kind.as_str(),
                event.state.as_str(),
                event.period,
            )
        })
        .collect();
    let expected = [
        (0, "created", "active", 0),
        (1, "cancel_requested", "active", 0),
        (2, "resumed", "active", 0),
        (3, "past_due", "past_due", 0),
        (4, "renewed", "active", 1),
        (5, "past_due", "past_due", 1),
        (6, "expired", "expired", 1),
    ];
    assert_eq!(reported, expected);
    assert_eq!((events[0].at, events[6].at), (START, at(6)));
}

/// Checks that active and past due subscriptions are due after their paid period, up to the limit.
pub async fn due_subscriptions_have_ended_periods(factory: Factory) {
    let storage = factory.open().await;
    let mut created = Vec::new();
    for number in 1..=4 {
        let id = funded(&storage, number, 30).await;
        let mut new = plan(number, id, 100);
        new.paid_through = week(u64::try_from(5 - number).unwrap());
        created.push(subscribe(&storage, new).await);
    }
    change(&storage, &created[2], Change::PastDue, at(1)).await;
    change(&storage, &created[3], Change::PastDue, at(1)).await;
    change(&storage, &created[3], Change::Expire, at(1)).await;
    let due = async |now, limit| -> Vec<u128> {
        let due = storage.subscriptions.due(now, limit).await.unwrap();
        due.iter().map(|due| due.terms.id.as_u128()).collect()
    };
    assert_eq!(due(week(1), 9).await, [] as [u128; 0]);
    assert_eq!(due(week(2), 9).await, [3]);
    assert_eq!(due(week(9), 9).await, [3, 2, 1]);
    assert_eq!(due(week(9), 2).await, [3, 2]);
}

/// Checks that an unknown subscription is not found.
pub async fn unknown_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let (unknown_account, nothing) = (account(9).id, SubscriptionId::from_u128(9));
    let created = storage
        .subscriptions
        .subscribe(plan(1, unknown_account, 100))
        .await;
    assert_eq!(kind(created), StorageErrorKind::NotFound);
    let changed = storage.subscriptions.change(nothing, Change::Resume, at(1)).await;
    assert_eq!(kind(changed), StorageErrorKind::NotFound);
    assert_eq!(storage.subscriptions.get(nothing).await.unwrap(), None);
    assert_eq!(storage.subscriptions.events(nothing).await.unwrap(), []);
    assert_eq!(storage.subscriptions.list(unknown_account).await.unwrap(), []);
    let left = storage.subscriptions.allowance(AccountId::from_u128(9)).await;
    assert_eq!(kind(left), StorageErrorKind::NotFound);
    let spendable = storage
        .ledger
        .spendable(unknown_account, std::sync::Arc::default(), START)
        .await;
    assert_eq!(kind(spendable), StorageErrorKind::NotFound);
}

/// Checks that after a plan has ended, another can start, with its own weeks.
pub async fn new_plan_after_the_end(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 60).await;
    let first = subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(1, id, 40), 40).await;
    change(&storage, &first, Change::PastDue, at(1)).await;
    change(&storage, &first, Change::Expire, at(2)).await;
    let mut new = plan(2, id, 70);
    (new.anchor, new.subject) = (at(3), "pro".into());
    subscribe(&storage, new).await;
    call(
        &storage,
        crate::NewHold {
            created_at: at(4),
            ..hold(2, id, 50)
        },
        50,
    )
    .await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    let ledger = ledgers.of(id);
    let balances = [
        LedgerAccount::Credits,
        LedgerAccount::Allowance,
        LedgerAccount::Breakage,
    ];
    assert_eq!(balances.map(|account| ledger.balance(account)), [0, 20, 60]);
    assert_eq!(&*ledger.usage[1].plan.as_ref().unwrap().name, "pro");
    assert_eq!(storage.subscriptions.list(id).await.unwrap().len(), 2);
}

/// Makes the plan that replaces `lite`: 70 nano-credits for four weeks, and 200 a week.
fn larger(number: u128, account: AccountId, anchor: Timestamp) -> NewSubscription {
    NewSubscription {
        subject: "max".into(),
        price: nanos(70),
        anchor,
        paid_through: week(9),
        ..plan(number, account, 200)
    }
}

/// Checks that a replacement ends one plan and starts the other in one step, for the given fee;
/// running calls keep their terms.
pub async fn replacement_takes_over(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let old = subscribe(&storage, plan(1, id, 100)).await;
    let running = super::samples::take(&storage, hold(1, id, 30)).await;
    let new = larger(2, id, at(9));
    let replaced = storage
        .subscriptions
        .replace(old.terms.id, new.clone(), nanos(45))
        .await;
    assert_eq!(
        replaced.unwrap(),
        Payment::Done(Box::new(Subscription::begin(new)))
    );
    let ledger = LedgerSnapshot::read(&storage).await;
    let sums = [
        LedgerAccount::Credits,
        LedgerAccount::RevenuePlan,
        LedgerAccount::Allowance,
        LedgerAccount::Breakage,
    ];
    assert_eq!(
        sums.map(|account| ledger.of(id).balance(account)),
        [25, 75, 200, 70]
    );
    let settled = super::samples::settlement(&running, 20);
    storage.ledger.settle(settled).await.unwrap();
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let ledger = LedgerSnapshot::read(&storage).await;
    assert_eq!(
        sums.map(|account| ledger.of(id).balance(account)),
        [25, 75, 200, 80]
    );
    let ended = storage.subscriptions.get(old.terms.id).await.unwrap().unwrap();
    assert_eq!((ended.state, ended.window), (SubscriptionState::Canceled, None));
    let events = storage.subscriptions.events(old.terms.id).await.unwrap();
    assert_eq!(events.last().unwrap().kind, "replaced");
    let later = crate::NewHold {
        created_at: at(10),
        ..hold(2, id, 225)
    };
    call(&storage, later, 210).await;
    let ledger = LedgerSnapshot::read(&storage).await;
    assert_eq!(
        sums.map(|account| ledger.of(id).balance(account)),
        [15, 75, 0, 80]
    );
    let again = storage
        .subscriptions
        .replace(old.terms.id, larger(3, id, at(11)), nanos(1))
        .await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
}

/// Checks that a replacement above the balance, or of another account's subscription, changes
/// nothing.
pub async fn replacement_that_is_not_covered_changes_nothing(factory: Factory) {
    let storage = factory.open().await;
    let (id, other) = (funded(&storage, 1, 40).await, funded(&storage, 2, 900).await);
    let old = subscribe(&storage, plan(1, id, 100)).await;
    let before = LedgerSnapshot::read(&storage).await;
    let denied = storage
        .subscriptions
        .replace(old.terms.id, larger(3, id, at(9)), nanos(11))
        .await;
    let available = nanos(10);
    assert_eq!(denied.unwrap(), Payment::Denied { available });
    let elsewhere = storage
        .subscriptions
        .replace(old.terms.id, larger(3, other, at(9)), nanos(1))
        .await;
    assert_eq!(kind(elsewhere), StorageErrorKind::NotFound);
    let unknown = SubscriptionId::from_u128(9);
    let unknown = storage
        .subscriptions
        .replace(unknown, larger(3, id, at(9)), nanos(1))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    before.assert_unchanged(&storage).await;
    assert_eq!(
        storage.subscriptions.get(old.terms.id).await.unwrap(),
        Some(old.clone())
    );
    assert_eq!(storage.subscriptions.allowance(id).await.unwrap(), nanos(100));
    let free = storage
        .subscriptions
        .replace(old.terms.id, larger(3, id, at(9)), Credits::ZERO)
        .await;
    assert!(matches!(free.unwrap(), Payment::Done(_)));
    LedgerSnapshot::read(&storage).await;
}

/// Checks that the plan of the next period is stored until it is withdrawn; a cancelled
/// subscription accepts none.
pub async fn next_plan_is_stored(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let created = subscribe(&storage, plan(1, id, 100)).await;
    let smaller = Some(NextPlan {
        name: "tiny".into(),
        cadence: Cadence::Yearly,
    });
    let wanted = change(&storage, &created, Change::Next(smaller.clone()), at(1)).await;
    assert_eq!(wanted.next, smaller);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(
        storage.subscriptions.get(created.terms.id).await.unwrap(),
        Some(wanted.clone())
    );
    let renewed = change(&storage, &wanted, renew(1), week(4)).await;
    assert_eq!(renewed.next, smaller);
    let twice = storage
        .subscriptions
        .change(created.terms.id, Change::Next(smaller.clone()), at(2))
        .await;
    assert_eq!(kind(twice), StorageErrorKind::Conflict);
    let back = change(&storage, &wanted, Change::Next(None), at(3)).await;
    assert_eq!(back.next, None);
    change(&storage, &back, Change::CancelAtPeriodEnd, at(4)).await;
    let late = storage
        .subscriptions
        .change(created.terms.id, Change::Next(smaller), at(5))
        .await;
    assert_eq!(kind(late), StorageErrorKind::Conflict);
}
