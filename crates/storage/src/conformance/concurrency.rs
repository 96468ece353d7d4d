//! Cases for [`crate::LedgerStore`] under concurrent calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_types::{AccountId, Credits};

use super::samples::{at, concurrently, funded, grant, hold, nanos, settlement, take, warm_up};
use super::{Factory, LedgerSnapshot};
use crate::{Balance, HoldOutcome, LedgerStore, NewHold};

/// Checks that of 256 concurrent calls against a balance that covers exactly 10, exactly 10 are
/// held, and the rest write nothing.
pub async fn holds_never_overspend(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 10 * 7 + 6).await;
    warm_up(&storage, id).await;
    let outcomes = concurrently(256, |number| {
        let (ledger, hold) = (storage.ledger.clone(), hold(number as u128, id, 7));
        Box::pin(async move { ledger.hold(hold).await.unwrap() })
    })
    .await;
    let mut left: Vec<i64> = Vec::new();
    for outcome in outcomes {
        match outcome {
            HoldOutcome::Held { available } => left.push(available.nanos()),
            HoldOutcome::Denied { available } => assert_eq!(available, nanos(6)),
        }
    }
    left.sort_unstable();
    assert_eq!(left, [6, 13, 20, 27, 34, 41, 48, 55, 62, 69]);
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(ledgers.of(id).holds.len(), 10);
    assert_eq!(ledgers.of(id).transfers.len(), 11);
}

/// Checks that callers can hold and settle in turn, with a balance too small for all of them
/// together: none fails, and the sum of their charges equals the credits that the ledger lost.
pub async fn holds_and_settles_never_overspend(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 500).await;
    warm_up(&storage, id).await;
    let charged = concurrently(32, |number| {
        let ledger = storage.ledger.clone();
        Box::pin(async move {
            let mut charged = 0;
            for round in 0..8 {
                let number = (number * 8 + round) as u128;
                charged += hold_and_settle(
                    &*ledger,
                    hold(number, id, 40),
                    i64::try_from(number % 41).unwrap(),
                )
                .await;
            }
            charged
        })
    })
    .await;
    let spent: i64 = charged.iter().sum();
    assert!((1..=500).contains(&spent), "{spent}");
    let balance = storage.ledger.balance(id).await.unwrap();
    let expected = Balance {
        credits: nanos(500 - spent),
        held: Credits::ZERO,
    };
    assert_eq!(balance, expected);
    let ledgers = LedgerSnapshot::read(&storage).await;
    let in_rows: i64 = ledgers.of(id).usage.iter().map(|row| row.charge.nanos()).sum();
    assert_eq!(in_rows, spent);
}

async fn hold_and_settle(ledger: &dyn LedgerStore, hold: NewHold, charge: i64) -> i64 {
    match ledger.hold(hold.clone()).await.unwrap() {
        HoldOutcome::Denied { available } => {
            assert!(available < hold.amount);
            0
        }
        HoldOutcome::Held { .. } => {
            let resolution = ledger.settle(settlement(&hold, charge)).await.unwrap();
            assert!(resolution.first);
            resolution.charge.nanos()
        }
    }
}

/// Checks that, of 16 concurrent settlements, exactly one is the first, and all return its charge.
pub async fn settles_resolve_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 100).await;
    warm_up(&storage, id).await;
    for number in 1..=4 {
        let held = take(&storage, hold(number, id, 20)).await;
        let resolutions = concurrently(16, |charge| {
            let (ledger, hold) = (storage.ledger.clone(), held.clone());
            Box::pin(async move {
                let settlement = settlement(&hold, i64::try_from(charge).unwrap());
                ledger.settle(settlement).await.unwrap()
            })
        })
        .await;
        let winners: Vec<usize> = (0..16).filter(|number| resolutions[*number].first).collect();
        assert_eq!(winners.len(), 1);
        let charge = nanos(i64::try_from(winners[0]).unwrap());
        assert!(resolutions.iter().all(|resolution| resolution.charge == charge));
        storage.ledger.grant(grant(100 + number, id, 20)).await.unwrap();
    }
    assert_eq!(LedgerSnapshot::read(&storage).await.of(id).usage.len(), 4);
}

/// Checks that 16 concurrent grants with one id are one grant, and none of them fails.
pub async fn same_grant_id_is_granted_once(factory: Factory) {
    let storage = factory.open().await;
    let id = funded(&storage, 1, 0).await;
    warm_up(&storage, id).await;
    let balances = concurrently(16, |_| {
        let ledger = storage.ledger.clone();
        Box::pin(async move { ledger.grant(grant(1, id, 5)).await.unwrap() })
    })
    .await;
    assert!(
        balances.iter().all(|balance| balance.credits == nanos(5)),
        "{balances:?}"
    );
    assert_eq!(LedgerSnapshot::read(&storage).await.of(id).transfers.len(), 1);
}

/// Checks that concurrent sweeps and settlements of the same holds resolve each hold once.
pub async fn sweep_and_settle_resolve_once(factory: Factory) {
    let storage = factory.open().await;
    let ids = [funded(&storage, 1, 1000).await, funded(&storage, 2, 1000).await];
    warm_up(&storage, ids[0]).await;
    let mut holds = Vec::new();
    for number in 0..24 {
        holds.push(take(&storage, hold(number, ids[(number % 2) as usize], 10)).await);
    }
    let resolved = concurrently(32, |number| {
        let (ledger, hold) = (storage.ledger.clone(), holds.get(number).cloned());
        Box::pin(async move {
            match hold {
                Some(hold) => u64::from(ledger.settle(settlement(&hold, 10)).await.unwrap().first),
                None => ledger.sweep(at(3600), 3).await.unwrap(),
            }
        })
    })
    .await;
    assert_eq!(resolved.iter().sum::<u64>(), 24);
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(
        ledgers
            .ledgers
            .values()
            .map(|ledger| ledger.usage.len())
            .sum::<usize>(),
        24
    );
    assert!(ledgers.ledgers.values().all(|ledger| ledger.holds.is_empty()));
}

/// Checks that concurrent calls of every kind over three accounts neither deadlock nor fail.
pub async fn accounts_do_not_deadlock(factory: Factory) {
    let storage = factory.open().await;
    let mut accounts: Vec<AccountId> = Vec::new();
    for number in 1..=3 {
        accounts.push(funded(&storage, number, 100_000).await);
    }
    concurrently(64, |caller| {
        let (ledger, accounts) = (storage.ledger.clone(), accounts.clone());
        Box::pin(async move {
            for round in 0..6 {
                let number = (caller * 6 + round) as u128;
                let account = accounts[(caller + round) % 3];
                let hold = hold(number, account, 10);
                if caller % 16 == 0 {
                    ledger.sweep(at(3600), 2).await.unwrap();
                    ledger.grant(grant(1000 + number, account, 1)).await.unwrap();
                }
                ledger.hold(hold.clone()).await.unwrap();
                for charge in [3, 4] {
                    ledger.settle(settlement(&hold, charge)).await.unwrap();
                }
            }
        })
    })
    .await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    assert_eq!(
        ledgers
            .ledgers
            .values()
            .map(|ledger| ledger.usage.len())
            .sum::<usize>(),
        64 * 6
    );
}

/// Checks that audits during concurrent writes see every ledger balanced.
pub async fn every_audit_is_of_one_instant(factory: Factory) {
    let storage = factory.open().await;
    let ids = [
        funded(&storage, 1, 10_000).await,
        funded(&storage, 2, 10_000).await,
    ];
    let ended = Arc::new(AtomicU64::new(0));
    let writers: usize = 6;
    concurrently(writers + 2, |caller| {
        let (storage, ended) = (storage.clone(), ended.clone());
        Box::pin(async move {
            if caller < writers {
                for round in 0..30 {
                    let hold = hold((caller * 30 + round) as u128, ids[caller % 2], 3);
                    hold_and_settle(&*storage.ledger, hold, 1).await;
                }
                ended.fetch_add(1, Ordering::SeqCst);
                return;
            }
            while ended.load(Ordering::SeqCst) < writers as u64 {
                LedgerSnapshot::read(&storage).await;
            }
        })
    })
    .await;
    let ledgers = LedgerSnapshot::read(&storage).await;
    let rows: usize = ledgers.ledgers.values().map(|ledger| ledger.usage.len()).sum();
    assert_eq!(rows, 6 * 30);
}
