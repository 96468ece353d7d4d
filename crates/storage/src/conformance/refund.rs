//! [`crate::LotStore::refund`].

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, RequestId};

use super::samples::{
    at, at_once, call, funded, hold, kind, nanos, plan, settlement, subscribe, take, warm_up, week,
};
use super::{Books, Factory};
use crate::refund::refund_id;
use crate::{LedgerAccount, LotKind, NewHold, NewRefund, Refund, RefundOutcome, Storage, StorageErrorKind};

fn new(call: u128, account: AccountId, key: &str, amount: Option<i64>) -> NewRefund {
    let hold = HoldId::from_u128(call);
    NewRefund {
        id: refund_id(hold, key),
        account,
        hold,
        amount: amount.map(nanos),
        reason: "wrong answer".to_owned(),
        at: at(9),
    }
}

/// Gives back; answers what became credits and what went back to the week.
async fn give_back(storage: &Storage, new: NewRefund) -> (i64, i64) {
    match storage.lots.refund(new).await.unwrap() {
        RefundOutcome::Done {
            refund,
            is_repeated: false,
        } => (refund.credits.nanos(), refund.allowance.nanos()),
        other => unreachable!("{other:?}"),
    }
}

async fn denied(storage: &Storage, new: NewRefund) -> i64 {
    match storage.lots.refund(new).await.unwrap() {
        RefundOutcome::Denied { refundable } => refundable.nanos(),
        other @ RefundOutcome::Done { .. } => unreachable!("{other:?}"),
    }
}

/// Credits, allowance, and what was given back.
async fn sums(storage: &Storage, account: AccountId) -> [i64; 3] {
    let books = Books::read(storage).await;
    let book = books.of(account);
    [
        book.balance(LedgerAccount::Credits),
        book.balance(LedgerAccount::Allowance),
        -book.balance(LedgerAccount::RevenueRefunds),
    ]
}

/// What credits paid becomes a lot that never expires and is spent last; the row says so, and revenue stays.
pub async fn charge_becomes_a_lot(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    let refund = new(11, id, "all", None);
    assert_eq!(give_back(&storage, refund.clone()).await, (30, 0));
    call(&storage, hold(12, id, 80), 80).await;
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    let left: Vec<_> = lots
        .iter()
        .map(|lot| (lot.terms.kind, lot.remaining.nanos()))
        .collect();
    assert_eq!(left, [(LotKind::Purchase, 0), (LotKind::Refund, 20)]);
    assert_eq!((lots[1].id, &*lots[1].terms.note), (refund.id, "wrong answer"));
    let books = Books::read(&storage).await;
    assert_eq!(books.of(id).balance(LedgerAccount::RevenueUsage), 110);
    let expected = Refund {
        id: refund.id,
        account: id,
        hold: refund.hold,
        credits: nanos(30),
        allowance: Credits::ZERO,
        reason: refund.reason,
        created_at: refund.at,
    };
    assert_eq!(books.of(id).refunds, [expected]);
    let row = storage.usage.of_request(RequestId::from_u128(11)).await.unwrap();
    assert_eq!(row.unwrap().refunded, nanos(30));
    assert_eq!(
        storage.usage.of_request(RequestId::from_u128(13)).await.unwrap(),
        None
    );
}

/// Parts are given back until the charge is.
pub async fn no_more_than_the_charge_is_given_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    assert_eq!(denied(&storage, new(11, id, "a", Some(31))).await, 30);
    assert_eq!(give_back(&storage, new(11, id, "a", Some(20))).await, (20, 0));
    let before = Books::read(&storage).await;
    assert_eq!(denied(&storage, new(11, id, "b", Some(11))).await, 10);
    assert_eq!(denied(&storage, new(11, id, "b", Some(0))).await, 10);
    assert_eq!(Books::read(&storage).await, before);
    assert_eq!(give_back(&storage, new(11, id, "b", None)).await, (10, 0));
    assert_eq!(denied(&storage, new(11, id, "c", None)).await, 0);
    assert_eq!(sums(&storage, id).await, [100, 0, 30]);
    call(&storage, hold(12, id, 50), 0).await;
    assert_eq!(denied(&storage, new(12, id, "all", None)).await, 0);
}

/// The same id is one refund, whatever its amount; it answers what was given back.
pub async fn same_id_is_one_refund(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    give_back(&storage, new(11, id, "a", Some(5))).await;
    let before = Books::read(&storage).await;
    for amount in [Some(5), Some(99), None] {
        match storage.lots.refund(new(11, id, "a", amount)).await.unwrap() {
            RefundOutcome::Done { refund, is_repeated } => {
                assert_eq!((refund.credits, is_repeated), (nanos(5), true));
            }
            other @ RefundOutcome::Denied { .. } => unreachable!("{other:?}"),
        }
    }
    assert_eq!(Books::read(&storage).await, before);
}

/// What an allowance paid goes back to its week after what credits paid, and can be used again.
pub async fn allowance_goes_back_to_its_open_week(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 80).await;
    subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(11, id, 120), 110).await;
    assert_eq!(sums(&storage, id).await, [40, 0, 0]);
    assert_eq!(give_back(&storage, new(11, id, "a", Some(15))).await, (10, 5));
    assert_eq!(give_back(&storage, new(11, id, "b", None)).await, (0, 95));
    assert_eq!(sums(&storage, id).await, [50, 100, 110]);
    call(&storage, hold(12, id, 150), 150).await;
    assert_eq!(sums(&storage, id).await, [0, 0, 110]);
}

/// What an allowance paid is gone with its week.
pub async fn allowance_of_a_closed_week_is_not_given_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 80).await;
    subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(11, id, 120), 110).await;
    let next = NewHold {
        created_at: week(1),
        ..hold(12, id, 10)
    };
    call(&storage, next, 10).await;
    assert_eq!(denied(&storage, new(11, id, "a", Some(11))).await, 10);
    assert_eq!(give_back(&storage, new(11, id, "a", None)).await, (10, 0));
    assert_eq!(give_back(&storage, new(12, id, "a", None)).await, (0, 10));
    assert_eq!(sums(&storage, id).await, [50, 100, 20]);
}

/// A call that runs has nothing to give back yet, and another account's call is nobody's.
pub async fn call_without_a_row_is_not_found(factory: Factory) {
    let storage = factory.open().await;
    let (id, other) = (funded(&storage, 1, 100).await, funded(&storage, 2, 100).await);
    let held = take(&storage, hold(11, id, 50)).await;
    let running = storage.lots.refund(new(11, id, "a", None)).await;
    assert_eq!(kind(running), StorageErrorKind::NotFound);
    storage.ledger.settle(settlement(&held, 30)).await.unwrap();
    let foreign = storage.lots.refund(new(11, other, "a", None)).await;
    assert_eq!(kind(foreign), StorageErrorKind::NotFound);
    call(&storage, hold(12, other, 50), 30).await;
    give_back(&storage, new(12, other, "a", None)).await;
    let of_another = NewRefund {
        id: refund_id(HoldId::from_u128(12), "a"),
        ..new(11, id, "a", None)
    };
    let refused = storage.lots.refund(of_another).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    Books::read(&storage).await;
}

/// Refunds outlive the process, and are still refunds of the call after it.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 80).await;
    subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(11, id, 120), 110).await;
    give_back(&storage, new(11, id, "a", Some(15))).await;
    let before = Books::read(&storage).await;
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(Books::read(&storage).await, before);
    assert_eq!(denied(&storage, new(11, id, "b", Some(96))).await, 95);
}

/// Refunds at once, beside calls that spend what they bring.
pub async fn refunds_at_once_give_back_no_more(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 100), 100).await;
    warm_up(&storage, id).await;
    let given = at_once(24, |number| {
        let storage = storage.clone();
        Box::pin(async move {
            let refund = new(11, id, &(number % 16).to_string(), Some(9));
            let outcome = storage.lots.refund(refund).await.unwrap();
            let spend = hold(100 + number as u128, id, 4);
            if let Ok(crate::HoldOutcome::Held { .. }) = storage.ledger.hold(spend.clone()).await {
                storage.ledger.settle(settlement(&spend, 3)).await.unwrap();
            }
            match outcome {
                RefundOutcome::Done { is_repeated, .. } => i64::from(!is_repeated),
                RefundOutcome::Denied { .. } => 0,
            }
        })
    })
    .await;
    assert_eq!(given.into_iter().sum::<i64>(), 11);
    assert_eq!(sums(&storage, id).await[2], 99);
}

/// What is left of a purchase is taken back once, without what calls hold of it.
pub async fn purchase_is_taken_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    let held = take(&storage, hold(12, id, 50)).await;
    let lot = TransferId::from_u128(1);
    assert_eq!(
        storage.lots.withdraw(lot, Credits::MAX, at(9)).await.unwrap(),
        nanos(20)
    );
    assert_eq!(
        storage.lots.withdraw(lot, Credits::MAX, at(9)).await.unwrap(),
        Credits::ZERO
    );
    storage.ledger.settle(settlement(&held, 40)).await.unwrap();
    assert_eq!(
        storage.lots.withdraw(lot, Credits::MAX, at(9)).await.unwrap(),
        nanos(10)
    );
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    assert_eq!((lots[0].remaining, lots[0].withdrawn), (nanos(0), nanos(30)));
    let books = Books::read(&storage).await;
    assert_eq!(books.of(id).balance(LedgerAccount::Cash), -70);
    assert_eq!(sums(&storage, id).await, [0, 0, 0]);
}

/// So much is taken back that a total is reached, and no more, however often it is asked for.
pub async fn purchase_is_taken_back_in_parts(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let lot = TransferId::from_u128(1);
    for (total, taken) in [(30, 30), (30, 0), (20, 0), (45, 15), (1_000, 55)] {
        let now = storage.lots.withdraw(lot, nanos(total), at(9)).await.unwrap();
        assert_eq!(now, nanos(taken), "{total}");
    }
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    assert_eq!((lots[0].remaining, lots[0].withdrawn), (nanos(0), nanos(100)));
    assert_eq!(Books::read(&storage).await.of(id).balance(LedgerAccount::Cash), 0);
}

/// What was given is not paid out, and what is not there is not found.
pub async fn only_purchases_are_taken_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    give_back(&storage, new(11, id, "all", None)).await;
    let before = Books::read(&storage).await;
    let lot = refund_id(HoldId::from_u128(11), "all");
    let refused = storage.lots.withdraw(lot, Credits::MAX, at(9)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let unknown = storage
        .lots
        .withdraw(TransferId::from_u128(77), Credits::MAX, at(9))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    assert_eq!(Books::read(&storage).await, before);
}
