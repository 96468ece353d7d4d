//! Cases for [`crate::LedgerStore::sweep`].

use std::sync::Arc;

use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Usage};

use super::samples::{at, funded, hold, nanos, settlement, take};
use super::{Factory, LedgerSnapshot};
use crate::{Balance, NewHold, Resolution};

/// Checks that expired holds are voided as crashed calls with unknown usage; the others stay open.
pub async fn voids_only_expired_holds(factory: Factory) {
    let storage = factory.open().await;
    let one = funded(&storage, 1, 100).await;
    let two = funded(&storage, 2, 100).await;
    let expiring = |number, account, seconds| NewHold {
        expires_at: at(seconds),
        ..hold(number, account, 10)
    };
    take(&storage, expiring(1, one, 9)).await;
    take(&storage, expiring(2, two, 10)).await;
    take(&storage, expiring(3, one, 11)).await;
    let settled = take(&storage, expiring(4, two, 5)).await;
    storage.ledger.settle(settlement(&settled, 10)).await.unwrap();
    assert_eq!(storage.ledger.sweep(at(8), 100).await.unwrap(), 0);
    assert_eq!(storage.ledger.sweep(at(10), 100).await.unwrap(), 2);
    assert_eq!(storage.ledger.sweep(at(10), 100).await.unwrap(), 0);
    let ledgers = LedgerSnapshot::read(&storage).await;
    let open: Vec<u128> = ledgers
        .of(one)
        .holds
        .iter()
        .map(|hold| hold.id.as_u128())
        .collect();
    assert_eq!(open, [3]);
    assert_eq!(ledgers.of(two).holds, []);
    let row = &ledgers.of(one).usage[0];
    assert_eq!(
        (row.id.as_u128(), row.outcome, row.ended_at),
        (1, Outcome::Crashed, at(10))
    );
    assert_eq!(
        (row.held, row.charge, row.overrun),
        (nanos(10), Credits::ZERO, Credits::ZERO)
    );
    assert_eq!(
        (row.usage, row.estimated, row.first_at),
        (Usage::ZERO, false, None)
    );
    assert_eq!((row.target.clone(), row.created_at), (Arc::from(""), at(0)));
    assert_eq!(
        (&*row.model, &*row.endpoint),
        ("maker/model", "/v1/chat/completions")
    );
    let balance = storage.ledger.balance(one).await.unwrap();
    let expected = Balance {
        credits: nanos(90),
        held: nanos(10),
    };
    assert_eq!(balance, expected);
}

/// Checks that a sweep voids at most `limit` holds, so that it never blocks others for long.
pub async fn sweep_respects_the_limit(factory: Factory) {
    let storage = factory.open().await;
    for number in 1..=7 {
        let id = funded(&storage, number, 100).await;
        let amount = i64::from(number % 2 == 0);
        take(&storage, hold(number, id, amount)).await;
    }
    for voided in [3, 3, 1, 0] {
        assert_eq!(storage.ledger.sweep(at(3600), 3).await.unwrap(), voided);
    }
    assert_eq!(storage.ledger.sweep(at(3600), 0).await.unwrap(), 0);
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert!(
        ledgers
            .ledgers
            .values()
            .all(|ledger| ledger.holds.is_empty() && ledger.usage.len() == 1)
    );
}

/// Checks that a call that settles after the sweep of its hold gets a charge of zero.
pub async fn settle_after_the_sweep_returns_its_result(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    let hold = take(&storage, hold(3, id, 30)).await;
    assert_eq!(storage.ledger.sweep(at(4000), 10).await.unwrap(), 1);
    let resolution = storage.ledger.settle(settlement(&hold, 12)).await.unwrap();
    let expected = Resolution {
        charge: Credits::ZERO,
        first: false,
        available: nanos(100),
    };
    assert_eq!(resolution, expected);
    LedgerSnapshot::read(&storage).await;
}
