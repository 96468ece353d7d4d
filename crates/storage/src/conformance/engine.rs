//! Cases for [`crate::Engine`], and for data across restarts of the engine.

use tollgate_types::{MemberId, Principal};

use super::samples::{account, at, funded, hold, key, nanos, settlement, take};
use super::{Factory, LedgerSnapshot};
use crate::{Balance, NewHold, PriceRecord, UsageFilter, UsagePage};

/// Checks that an open engine responds to a ping and returns its name.
pub async fn answers_and_is_named(factory: Factory) {
    let storage = factory.open().await;
    assert!(["sqlite", "postgres"].contains(&storage.engine.name()));
    storage.engine.ping().await.unwrap();
    storage.engine.flush().await.unwrap();
    storage.engine.ping().await.unwrap();
    storage.engine.close().await.unwrap();
}

/// Checks that everything written before `close` is present after reopening.
pub async fn writes_survive_reopening(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    storage.keys.create(key(1, id)).await.unwrap();
    let hold = take(&storage, hold(3, id, 30)).await;
    storage.ledger.settle(settlement(&hold, 12)).await.unwrap();
    let price = PriceRecord {
        version: hold.price_version,
        model: hold.model.to_string(),
        prices: tollgate_types::Prices::free(),
        created_at: at(0),
    };
    storage.prices.record(vec![price.clone()]).await.unwrap();
    storage.engine.flush().await.unwrap();
    let before = LedgerSnapshot::read(&storage).await;
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    assert_eq!(LedgerSnapshot::read(&storage).await, before);
    assert_eq!(storage.accounts.get(id).await.unwrap(), Some(account(1)));
    assert_eq!(storage.keys.list(id).await.unwrap(), [key(1, id).key]);
    assert_eq!(storage.prices.get(price.version).await.unwrap(), Some(price));
    let page = UsagePage {
        after: None,
        limit: 9,
    };
    let rows = storage
        .usage
        .list(id, UsageFilter::default(), page)
        .await
        .unwrap();
    assert_eq!(rows, before.of(id).usage);
}

/// Checks that a hold survives the process that took it: it stays held, and can be settled once or
/// swept.
pub async fn open_hold_survives_reopening(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let principals = [3, 4].map(|number| Some(Principal::Member(MemberId::from_u128(number))));
    let of = |place: usize, hold| NewHold {
        principal: principals[place],
        ..hold
    };
    let settled = take(&storage, of(0, hold(3, id, 30))).await;
    take(&storage, of(1, hold(4, id, 20))).await;
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let held = storage.ledger.balance(id).await.unwrap();
    let expected = Balance {
        credits: nanos(50),
        held: nanos(50),
    };
    assert_eq!(held, expected);
    assert!(
        storage
            .ledger
            .settle(settlement(&settled, 12))
            .await
            .unwrap()
            .first
    );
    assert_eq!(storage.ledger.sweep(at(3600), 10).await.unwrap(), 1);
    storage.engine.close().await.unwrap();
    drop(storage);
    let storage = factory.open().await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    let usage = &ledgers.of(id).usage;
    let found: Vec<_> = usage.iter().map(|row| row.principal).collect();
    assert_eq!(found, principals);
    assert_eq!(storage.ledger.balance(id).await.unwrap().credits, nanos(88));
}
