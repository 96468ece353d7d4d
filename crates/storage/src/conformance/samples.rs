//! Sample rows, and helpers for concurrent calls.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tollgate_types::id::{TransferId, min_id};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Credits, HoldId, KeyId, KeyRights, PriceVersion, Principal, RequestId, SubscriptionId,
    Timestamp, Unit, Usage,
};

use super::BoxFuture;
use crate::key::KeyDigest;
use crate::{
    Account, AccountState, Cadence, Compat, Grant, HoldOutcome, Key, KeyMode, KeyState, Limits, LotTerms,
    NewHold, NewKey, NewSubscription, Payer, Payment, Product, Settlement, Storage, StorageError,
    StorageErrorKind, Subscription,
};

/// 2026-11-20, 13:30:00 UTC.
pub(super) const START: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);

/// Returns the time this many seconds after [`START`].
pub(super) fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// Makes an amount of this many nano-credits.
pub(super) fn nanos(nanos: i64) -> Credits {
    Credits::from_nanos(nanos)
}

/// Returns the kind of the failure; panics on success.
#[track_caller]
pub(super) fn kind<T: std::fmt::Debug>(result: Result<T, StorageError>) -> StorageErrorKind {
    result.expect_err("it must fail").kind
}

/// Makes an account that is not stored yet.
pub(super) fn account(number: u128) -> Account {
    Account {
        id: AccountId::from_u128(number),
        name: format!("tenant {number}"),
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: None,
        created_at: START,
    }
}

/// Stores an account with a balance of this many nano-credits.
pub(super) async fn funded(storage: &Storage, number: u128, balance: i64) -> AccountId {
    let account = account(number);
    let id = account.id;
    storage.accounts.create(account).await.unwrap();
    if balance > 0 {
        storage.ledger.grant(grant(number, id, balance)).await.unwrap();
    }
    id
}

/// Makes a grant of this many nano-credits.
pub(super) fn grant(number: u128, account: AccountId, amount: i64) -> Grant {
    Grant {
        id: TransferId::from_u128(number),
        account,
        amount: nanos(amount),
        at: START,
        terms: LotTerms::default(),
    }
}

/// Makes a key whose digest begins with its number; its account may have 50 keys.
pub(super) fn key(number: u128, account: AccountId) -> NewKey {
    let key = Key {
        id: KeyId::from_u128(number),
        account,
        name: format!("key {number}"),
        digest: digest(number),
        last4: "wxyz".to_owned(),
        mode: KeyMode::Live,
        compat: Compat::Strict,
        sync: false,
        rights: KeyRights::default(),
        state: KeyState::Active,
        created_at: START,
        expires_at: None,
        revoked_at: None,
        created_by: None,
        replaced_by: None,
    };
    NewKey { key, quota: 50 }
}

/// Makes a digest that begins with this number.
pub(super) fn digest(number: u128) -> KeyDigest {
    let mut digest = [7; 32];
    digest[..16].copy_from_slice(&number.to_be_bytes());
    digest
}

/// Makes a hold of this many nano-credits, accepted at [`START`], that expires an hour later.
pub(super) fn hold(number: u128, account: AccountId, amount: i64) -> NewHold {
    NewHold {
        id: HoldId::from_u128(number),
        account,
        principal: Some(Principal::Key(KeyId::from_u128(5))),
        request: RequestId::from_u128(number),
        amount: nanos(amount),
        price_version: PriceVersion::from_u64(9),
        model: Arc::from("maker/model"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: START,
        expires_at: at(3600),
    }
}

/// Makes a hold created at this time, with a UUIDv7 of that time. `number` is at most 65,535.
pub(super) fn hold_at(number: u128, account: AccountId, amount: i64, created_at: Timestamp) -> NewHold {
    let id = min_id(created_at) + number;
    NewHold {
        id: HoldId::from_u128(id),
        request: RequestId::from_u128(id),
        created_at,
        ..hold(number, account, amount)
    }
}

/// Makes the plan `lite` with this weekly allowance: 30 nano-credits for four weeks from [`START`],
/// paid from credits.
pub(super) fn plan(number: u128, account: AccountId, allowance: i64) -> NewSubscription {
    NewSubscription {
        id: SubscriptionId::from_u128(number),
        account,
        product: Product::Plan,
        subject: Arc::from("lite"),
        price: nanos(30),
        cadence: Cadence::Monthly,
        payer: Payer::Credits,
        allowance: nanos(allowance),
        anchor: START,
        paid_through: week(4),
    }
}

/// Returns the time this many weeks after [`START`].
pub(super) fn week(number: u64) -> Timestamp {
    at(number * crate::subscription::WEEK.as_secs())
}

/// Creates the subscription; panics if the balance does not cover its first period.
pub(super) async fn subscribe(storage: &Storage, new: NewSubscription) -> Subscription {
    match storage.subscriptions.subscribe(new).await.unwrap() {
        Payment::Done(subscription) => *subscription,
        denied @ Payment::Denied { .. } => unreachable!("{denied:?}"),
    }
}

/// Places the hold; panics if the balance does not cover it.
pub(super) async fn take(storage: &Storage, hold: NewHold) -> NewHold {
    let outcome = storage.ledger.hold(hold.clone()).await.unwrap();
    assert!(matches!(outcome, HoldOutcome::Held { .. }), "{outcome:?}");
    hold
}

/// Makes a settlement that charges this many nano-credits.
pub(super) fn settlement(hold: &NewHold, charge: i64) -> Settlement {
    Settlement {
        hold: hold.id,
        account: hold.account,
        charge: nanos(charge),
        overrun: Credits::ZERO,
        usage: Usage::tokens(12, 34),
        outcome: Outcome::Ok,
        estimated: false,
        target: Arc::from("sim"),
        first_at: Some(at(1)),
        ended_at: at(2),
    }
}

/// Places the hold and settles it with a charge of this many nano-credits.
pub(super) async fn call(storage: &Storage, hold: NewHold, charge: i64) {
    let hold = take(storage, hold).await;
    storage.ledger.settle(settlement(&hold, charge)).await.unwrap();
}

/// Makes a usage with a different quantity for every class.
pub(super) fn every_class() -> Usage {
    let classes = Unit::ALL.into_iter().zip(1..);
    classes.fold(Usage::ZERO, |usage, (unit, quantity)| {
        usage.with(unit, quantity * 100_000_000)
    })
}

/// Reads concurrently, so that an engine with a pool opens its connections and later calls overlap.
pub(super) async fn warm_up(storage: &Storage, account: AccountId) {
    concurrently(64, |_| {
        let ledger = storage.ledger.clone();
        Box::pin(async move { ledger.balance(account).await.unwrap() })
    })
    .await;
}

/// Runs the calls on separate tasks that start together; returns the results in order of their
/// numbers.
pub(super) async fn concurrently<T: Send + 'static>(
    count: usize,
    call: impl Fn(usize) -> BoxFuture<T>,
) -> Vec<T> {
    let barrier = Arc::new(Barrier::new(count));
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let (barrier, call) = (barrier.clone(), call(number));
        tasks.spawn(async move {
            barrier.wait().await;
            (number, call.await)
        });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
