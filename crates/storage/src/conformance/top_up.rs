//! Cases for [`crate::TopUpStore`].

use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, Money, TopUpId};

use super::Factory;
use super::samples::{account, at, concurrently, funded, kind, nanos};
use crate::{AutoTopUp, StorageErrorKind, TopUp, TopUpChange, TopUpKind, TopUpState};

fn money(amount: i64) -> Money {
    let currency = "usd".parse().unwrap();
    Money { amount, currency }
}

fn new(number: u128, account: AccountId, kind: TopUpKind) -> TopUp {
    TopUp {
        id: TopUpId::from_u128(number),
        account,
        kind,
        state: TopUpState::Pending,
        money: money(500),
        credits: nanos(5),
        reference: None,
        grant: None,
        returned: 0,
        failure: None,
        created_at: at(1),
        updated_at: at(1),
    }
}

fn paid(amount: i64) -> TopUpChange {
    TopUpChange::Paid {
        reference: "pi_1".to_owned(),
        money: money(amount),
        credits: nanos(amount / 100),
        grant: TransferId::from_u128(77),
    }
}

fn failed(why: &str) -> TopUpChange {
    TopUpChange::Failed { why: why.to_owned() }
}

/// Checks that a top-up is read by its id, by its payment, and in pages, newest first.
pub async fn written_then_read(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    let store = &storage.top_ups;
    for (number, account) in [(1, one), (2, other), (3, one)] {
        assert!(
            store
                .create(new(number, account, TopUpKind::Checkout))
                .await
                .unwrap()
        );
    }
    let id = TopUpId::from_u128(1);
    let changed = store.change(id, paid(700), at(9)).await.unwrap();
    let expected = TopUp {
        state: TopUpState::Paid,
        money: money(700),
        credits: nanos(7),
        reference: Some("pi_1".to_owned()),
        grant: Some(TransferId::from_u128(77)),
        updated_at: at(9),
        ..new(1, one, TopUpKind::Checkout)
    };
    assert_eq!(changed, expected);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let store = &storage.top_ups;
    assert_eq!(store.get(id).await.unwrap(), Some(expected.clone()));
    assert_eq!(store.by_reference("pi_1").await.unwrap(), Some(expected));
    assert_eq!(store.by_reference("pi_2").await.unwrap(), None);
    assert_eq!(store.get(TopUpId::from_u128(9)).await.unwrap(), None);
    let page = async |account, before: Option<u128>, limit| -> Vec<u128> {
        let before = before.map(TopUpId::from_u128);
        let page = store.list(account, before, limit).await.unwrap();
        page.iter().map(|top_up| top_up.id.as_u128()).collect()
    };
    assert_eq!(page(None, None, 2).await, [3, 2]);
    assert_eq!(page(None, Some(2), 2).await, [1]);
    assert_eq!(page(Some(one), None, 9).await, [3, 1]);
    assert_eq!(page(Some(one), Some(3), 9).await, [1]);
}

/// Checks that a top-up is paid once, even after a failure, and that no more money is returned than
/// was paid.
pub async fn paid_once(factory: Factory) {
    let storage = factory.open().await;
    let account = funded(&storage, 1, 1).await;
    let store = &storage.top_ups;
    let id = TopUpId::from_u128(1);
    store.create(new(1, account, TopUpKind::Checkout)).await.unwrap();
    let early = store.change(id, TopUpChange::Returned { total: 1 }, at(2)).await;
    assert_eq!(kind(early), StorageErrorKind::Conflict);
    let now = store.change(id, failed("expired"), at(2)).await.unwrap();
    assert_eq!(
        (now.state, now.failure.as_deref()),
        (TopUpState::Failed, Some("expired"))
    );
    let first = store.change(id, paid(700), at(3)).await.unwrap();
    assert_eq!((first.state, first.failure.clone()), (TopUpState::Paid, None));
    for repeated in [paid(700), failed("late")] {
        assert_eq!(store.change(id, repeated, at(4)).await.unwrap(), first);
    }
    let otherwise = TopUpChange::Paid {
        reference: "pi_2".to_owned(),
        money: money(700),
        credits: nanos(7),
        grant: TransferId::from_u128(78),
    };
    assert_eq!(
        kind(store.change(id, otherwise, at(4)).await),
        StorageErrorKind::Conflict
    );
    for (total, returned) in [(300, 300), (200, 300), (9_999, 700)] {
        let now = store
            .change(id, TopUpChange::Returned { total }, at(5))
            .await
            .unwrap();
        assert_eq!(now.returned, returned);
    }
    let unknown = store.change(TopUpId::from_u128(9), paid(1), at(5)).await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
}

/// Checks that, of concurrent automatic top-ups of an account, one is pending at a time.
pub async fn one_automatic_top_up_is_pending(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    let store = &storage.top_ups;
    let created = concurrently(8, |number| {
        let store = store.clone();
        Box::pin(async move {
            let top_up = new(number as u128 + 1, one, TopUpKind::Auto);
            store.create(top_up).await.unwrap()
        })
    })
    .await;
    assert_eq!(created.iter().filter(|created| **created).count(), 1);
    assert!(store.create(new(20, other, TopUpKind::Auto)).await.unwrap());
    assert!(store.create(new(21, one, TopUpKind::Checkout)).await.unwrap());
    let pending = store.pending_auto(at(2), 9).await.unwrap();
    assert_eq!(pending.len(), 2);
    assert!(store.pending_auto(at(1), 9).await.unwrap().is_empty());
    assert_eq!(store.pending_auto(at(2), 1).await.unwrap(), pending[..1]);
    let ended = store
        .change(pending[0].id, failed("declined"), at(3))
        .await
        .unwrap();
    assert!(
        store
            .create(new(30, ended.account, TopUpKind::Auto))
            .await
            .unwrap()
    );
    assert_eq!(store.auto_since(one, at(1)).await.unwrap(), nanos(5));
    assert_eq!(store.auto_since(one, at(2)).await.unwrap(), Credits::ZERO);
}

/// Checks that an id is used once, and the account must exist.
pub async fn used_id_and_unknown_account(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 1).await;
    let store = &storage.top_ups;
    store.create(new(1, id, TopUpKind::Checkout)).await.unwrap();
    let again = store.create(new(1, id, TopUpKind::Checkout)).await;
    assert_eq!(kind(again), StorageErrorKind::Conflict);
    let unknown_account = account(99).id;
    let unknown = store.create(new(2, unknown_account, TopUpKind::Checkout)).await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    let unknown = store.save_payer(unknown_account, "stripe", "cus_1", at(1)).await;
    assert_eq!(kind(unknown), StorageErrorKind::NotFound);
    assert_eq!(
        kind(store.set_auto(unknown_account, None).await),
        StorageErrorKind::NotFound
    );
}

/// Checks that the first payer id of an account at a provider stays.
pub async fn first_payer_stays(factory: Factory) {
    let storage = factory.open().await;
    let (one, other) = (funded(&storage, 1, 1).await, funded(&storage, 2, 1).await);
    let store = &storage.top_ups;
    assert_eq!(store.payer(one, "stripe").await.unwrap(), None);
    for _ in 0..2 {
        let stored = store.save_payer(one, "stripe", "cus_1", at(1)).await.unwrap();
        assert_eq!(stored, "cus_1");
    }
    assert_eq!(
        store.save_payer(one, "stripe", "cus_2", at(2)).await.unwrap(),
        "cus_1"
    );
    assert_eq!(
        store.save_payer(one, "other", "cus_2", at(2)).await.unwrap(),
        "cus_2"
    );
    assert_eq!(
        store.payer(one, "stripe").await.unwrap().as_deref(),
        Some("cus_1")
    );
    assert_eq!(store.payer(other, "stripe").await.unwrap(), None);
}

/// Checks that automatic top-ups are set, replaced, listed and removed.
pub async fn automatic_top_ups_are_configured(factory: Factory) {
    let storage = factory.open().await;
    let store = &storage.top_ups;
    let auto = |account, failures| AutoTopUp {
        account,
        below: nanos(2),
        amount: nanos(10),
        monthly_limit: nanos(50),
        failures,
    };
    let mut accounts = Vec::new();
    for number in 1..=3 {
        let id = funded(&storage, number, 1).await;
        store.set_auto(id, Some(auto(id, 1))).await.unwrap();
        accounts.push(id);
    }
    store
        .set_auto(accounts[1], Some(auto(accounts[1], 0)))
        .await
        .unwrap();
    assert_eq!(store.auto(accounts[1]).await.unwrap(), Some(auto(accounts[1], 0)));
    store.set_auto(accounts[0], None).await.unwrap();
    assert_eq!(store.auto(accounts[0]).await.unwrap(), None);
    let all = [auto(accounts[1], 0), auto(accounts[2], 1)];
    assert_eq!(store.autos(None, 9).await.unwrap(), all);
    assert_eq!(store.autos(None, 1).await.unwrap(), all[..1]);
    assert_eq!(store.autos(Some(accounts[1]), 9).await.unwrap(), all[1..]);
}
