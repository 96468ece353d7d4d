//! Cases for [`crate::LotStore::refund`].

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, RequestId};

use super::samples::{
    at, call, concurrently, funded, hold, kind, nanos, plan, settlement, subscribe, take, warm_up, week,
};
use super::{Factory, LedgerSnapshot};
use crate::refund::refund_id;
use crate::{
    Grant, LedgerAccount, LotKind, LotTerms, NewHold, NewRefund, Refund, RefundOutcome, Storage,
    StorageErrorKind,
};

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

/// Refunds a call and returns the amounts refunded as credits and as allowance.
async fn refund_call(storage: &Storage, new: NewRefund) -> (i64, i64) {
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

/// Returns credits, allowance, and the total of refunds.
async fn sums(storage: &Storage, account: AccountId) -> [i64; 3] {
    let ledgers = LedgerSnapshot::read(storage).await;
    let ledger = ledgers.of(account);
    [
        ledger.balance(LedgerAccount::Credits),
        ledger.balance(LedgerAccount::Allowance),
        -ledger.balance(LedgerAccount::RevenueRefunds),
    ]
}

/// Checks that refunded credits become a lot that never expires and is spent last. The usage row
/// shows the refund, and the revenue stays unchanged.
pub async fn charge_becomes_a_lot(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    let refund = new(11, id, "all", None);
    assert_eq!(refund_call(&storage, refund.clone()).await, (30, 0));
    call(&storage, hold(12, id, 80), 80).await;
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    let left: Vec<_> = lots
        .iter()
        .map(|lot| (lot.terms.kind, lot.remaining.nanos()))
        .collect();
    assert_eq!(left, [(LotKind::Purchase, 0), (LotKind::Refund, 20)]);
    assert_eq!((lots[1].id, &*lots[1].terms.note), (refund.id, "wrong answer"));
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).balance(LedgerAccount::RevenueUsage), 110);
    let expected = Refund {
        id: refund.id,
        account: id,
        hold: refund.hold,
        credits: nanos(30),
        allowance: Credits::ZERO,
        reason: refund.reason,
        created_at: refund.at,
    };
    assert_eq!(ledgers.of(id).refunds, [expected]);
    let row = storage.usage.of_request(RequestId::from_u128(11)).await.unwrap();
    assert_eq!(row.unwrap().refunded, nanos(30));
    assert_eq!(
        storage.usage.of_request(RequestId::from_u128(13)).await.unwrap(),
        None
    );
}

/// Checks that partial refunds are possible up to the charge.
pub async fn refunds_never_exceed_the_charge(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    assert_eq!(denied(&storage, new(11, id, "a", Some(31))).await, 30);
    assert_eq!(refund_call(&storage, new(11, id, "a", Some(20))).await, (20, 0));
    let before = LedgerSnapshot::read(&storage).await;
    assert_eq!(denied(&storage, new(11, id, "b", Some(11))).await, 10);
    assert_eq!(denied(&storage, new(11, id, "b", Some(0))).await, 10);
    before.assert_unchanged(&storage).await;
    assert_eq!(refund_call(&storage, new(11, id, "b", None)).await, (10, 0));
    assert_eq!(denied(&storage, new(11, id, "c", None)).await, 0);
    assert_eq!(sums(&storage, id).await, [100, 0, 30]);
    call(&storage, hold(12, id, 50), 0).await;
    assert_eq!(denied(&storage, new(12, id, "all", None)).await, 0);
}

/// Checks that the same id is one refund, regardless of its amount; it returns the first result.
pub async fn same_id_is_one_refund(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    refund_call(&storage, new(11, id, "a", Some(5))).await;
    let before = LedgerSnapshot::read(&storage).await;
    for amount in [Some(5), Some(99), None] {
        match storage.lots.refund(new(11, id, "a", amount)).await.unwrap() {
            RefundOutcome::Done { refund, is_repeated } => {
                assert_eq!((refund.credits, is_repeated), (nanos(5), true));
            }
            other @ RefundOutcome::Denied { .. } => unreachable!("{other:?}"),
        }
    }
    before.assert_unchanged(&storage).await;
}

/// Checks that allowance returns to its open week, after credits are refunded, and can be used
/// again.
pub async fn allowance_returns_to_its_open_week(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 80).await;
    subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(11, id, 120), 110).await;
    assert_eq!(sums(&storage, id).await, [40, 0, 0]);
    assert_eq!(refund_call(&storage, new(11, id, "a", Some(15))).await, (10, 5));
    assert_eq!(refund_call(&storage, new(11, id, "b", None)).await, (0, 95));
    assert_eq!(sums(&storage, id).await, [50, 100, 110]);
    call(&storage, hold(12, id, 150), 150).await;
    assert_eq!(sums(&storage, id).await, [0, 0, 110]);
}

/// Checks that the part of a charge that a closed week paid is not refunded, only the part paid by
/// credits.
pub async fn allowance_of_a_closed_week_is_not_refunded(factory: Factory) {
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
    assert_eq!(refund_call(&storage, new(11, id, "a", None)).await, (10, 0));
    assert_eq!(refund_call(&storage, new(12, id, "a", None)).await, (0, 10));
    assert_eq!(sums(&storage, id).await, [50, 100, 20]);
}

/// Checks that a running call and a call of another account cannot be refunded.
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
    refund_call(&storage, new(12, other, "a", None)).await;
    let of_another = NewRefund {
        id: refund_id(HoldId::from_u128(12), "a"),
        ..new(11, id, "a", None)
    };
    let refused = storage.lots.refund(of_another).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    LedgerSnapshot::read(&storage).await;
}

/// Checks that refunds survive a restart and still count for their call.
pub async fn survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 80).await;
    subscribe(&storage, plan(1, id, 100)).await;
    call(&storage, hold(11, id, 120), 110).await;
    refund_call(&storage, new(11, id, "a", Some(15))).await;
    let before = LedgerSnapshot::read(&storage).await;
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    before.assert_unchanged(&storage).await;
    assert_eq!(denied(&storage, new(11, id, "b", Some(96))).await, 95);
}

/// Checks that concurrent refunds never exceed the charge while calls spend the refunded credits.
pub async fn concurrent_refunds_never_exceed_the_charge(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 100), 100).await;
    warm_up(&storage, id).await;
    let given = concurrently(24, |number| {
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

/// Checks that the rest of a purchase is withdrawn once, without credits held by calls.
pub async fn purchase_is_taken_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    let held = take(&storage, hold(12, id, 50)).await;
    let lot = TransferId::from_u128(1);
    assert_eq!(
        storage
            .lots
            .withdraw(lot, Credits::MAX, at(9))
            .await
            .unwrap()
            .amount,
        nanos(20)
    );
    assert_eq!(
        storage
            .lots
            .withdraw(lot, Credits::MAX, at(9))
            .await
            .unwrap()
            .amount,
        Credits::ZERO
    );
    storage.ledger.settle(settlement(&held, 40)).await.unwrap();
    assert_eq!(
        storage
            .lots
            .withdraw(lot, Credits::MAX, at(9))
            .await
            .unwrap()
            .amount,
        nanos(10)
    );
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    assert_eq!((lots[0].remaining, lots[0].withdrawn), (nanos(0), nanos(30)));
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).balance(LedgerAccount::Cash), -70);
    assert_eq!(sums(&storage, id).await, [0, 0, 0]);
}

/// Checks that withdrawals reach the given total and no more, however often they are repeated.
pub async fn purchase_is_taken_back_in_parts(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let lot = TransferId::from_u128(1);
    for (total, taken) in [(30, 30), (30, 0), (20, 0), (45, 15), (1_000, 55)] {
        let now = storage
            .lots
            .withdraw(lot, nanos(total), at(9))
            .await
            .unwrap()
            .amount;
        assert_eq!(now, nanos(taken), "{total}");
    }
    let lots = storage.lots.lots(id, at(9)).await.unwrap();
    assert_eq!((lots[0].remaining, lots[0].withdrawn), (nanos(0), nanos(100)));
    assert_eq!(
        LedgerSnapshot::read(&storage)
            .await
            .of(id)
            .balance(LedgerAccount::Cash),
        0
    );
}

/// Checks that the rest of a promotion returns to goodwill, and none of it to cash.
pub async fn promotion_is_taken_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let terms = LotTerms {
        kind: LotKind::Promotion,
        priority: 1,
        ..LotTerms::default()
    };
    let lot = TransferId::from_u128(2);
    let grant = Grant {
        id: lot,
        account: id,
        amount: nanos(500),
        terms,
        at: at(0),
    };
    storage.ledger.grant(grant).await.unwrap();
    call(&storage, hold(11, id, 50), 30).await;
    let held = take(&storage, hold(12, id, 50)).await;
    for taken in [420, 0] {
        let now = storage
            .lots
            .withdraw(lot, Credits::MAX, at(9))
            .await
            .unwrap()
            .amount;
        assert_eq!(now, nanos(taken));
    }
    storage.ledger.settle(settlement(&held, 40)).await.unwrap();
    let rest = storage
        .lots
        .withdraw(lot, Credits::MAX, at(9))
        .await
        .unwrap()
        .amount;
    assert_eq!(rest, nanos(10));
    let ledgers = LedgerSnapshot::read(&storage).await;
    let balances = [
        LedgerAccount::Cash,
        LedgerAccount::Credits,
        LedgerAccount::ExpenseGoodwill,
    ];
    assert_eq!(balances.map(|of| ledgers.of(id).balance(of)), [-100, 100, -70]);
}

/// Checks that a refund cannot be withdrawn, and an unknown lot is not found.
pub async fn only_grants_are_taken_back(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    call(&storage, hold(11, id, 50), 30).await;
    refund_call(&storage, new(11, id, "all", None)).await;
    let before = LedgerSnapshot::read(&storage).await;
    let lot = refund_id(HoldId::from_u128(11), "all");
    let refused = storage.lots.withdraw(lot, Credits::MAX, at(9)).await;
    assert_eq!(kind(refused), StorageErrorKind::Conflict);
    let unknown = storage
        .lots
        .withdraw(TransferId::from_u128(77), Credits::MAX, at(9))
        .await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    before.assert_unchanged(&storage).await;
}
