//! Tests of the access to a data directory and of the files that the engine leaves in it.

use std::sync::Arc;

use tollgate_backends::sqlite::open;
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{HoldOutcome, StorageErrorKind, UsageFilter, UsagePage};
use tollgate_types::Credits;
use tollgate_types::clock::ManualClock;

use crate::samples::{
    Directory, START, account, block_on, call, create, funded, hold, nanos, settlement, take,
};

#[test]
fn second_open_is_refused_with_the_owner() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let refused = directory.path().open().await.err().unwrap();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        let text = refused.to_string();
        assert!(text.contains(&format!("pid {}", std::process::id())), "{text}");
        assert!(text.contains("is using the data directory"), "{text}");
        assert!(text.contains("socket"), "{text}");
        storage.engine.close().await.unwrap();
        directory
            .path()
            .open()
            .await
            .unwrap()
            .engine
            .close()
            .await
            .unwrap();
    });
}

#[test]
fn journal_of_another_database_is_refused() {
    let (one, two) = (Directory::new(), Directory::new());
    block_on(async {
        let foreign = one.path().open().await.unwrap();
        take(&foreign, hold(1, funded(&foreign, 1, 100).await, 10)).await;
        let clock = Arc::new(ManualClock::at(START));
        two.path().open().await.unwrap().engine.close().await.unwrap();
        let mut config = two.path().config(clock);
        config.journal_dir = one.path().0.join("journal");
        let refused = open(config).await.err().unwrap();
        assert_eq!(refused.kind, StorageErrorKind::Corrupt);
        assert!(
            refused.to_string().contains("belongs to another database"),
            "{refused}"
        );
    });
}

#[test]
fn nothing_is_left_in_the_journal_after_close() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        for number in 1..=50 {
            call(&storage, hold(number, id, 10), 3).await;
        }
        assert_eq!(directory.path().segments().len(), 1);
        storage.engine.close().await.unwrap();
        assert!(directory.path().segments().is_empty());
        assert!(!directory.path().0.join("tollgate.db-wal").exists());
        let refused = storage.ledger.hold(hold(99, id, 1)).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        let refused = storage.accounts.get(id).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
    });
}

#[test]
fn unfinished_segments_are_empty() {
    for bytes in [0, 7, 100, 4096] {
        let directory = Directory::new();
        block_on(async {
            let storage = directory.path().open().await.unwrap();
            let id = funded(&storage, 1, 1000).await;
            storage.engine.close().await.unwrap();
            let unfinished = directory
                .path()
                .0
                .join("journal/journal-00000000000000000007.log");
            std::fs::write(&unfinished, vec![0; bytes]).unwrap();
            let storage = directory.path().open().await.unwrap();
            call(&storage, hold(1, id, 10), 3).await;
            assert!(!unfinished.exists());
            storage.engine.close().await.unwrap();
        });
    }
}

#[test]
fn stored_segments_are_removed() {
    let directory = Directory::new();
    let clock = Arc::new(ManualClock::at(START));
    block_on(async {
        let mut config = directory.path().config(clock.clone());
        config.segment_bytes = 4096;
        let storage = open(config).await.unwrap();
        let id = funded(&storage, 1, 1_000_000).await;
        let long = take(&storage, hold(1_000_000, id, 10)).await;
        let mut max = 0;
        for number in 1..=400 {
            call(&storage, hold(number, id, 10), 3).await;
            if number % 20 == 0 {
                // A read writes the calls to the database; the open hold stays in the journal.
                let page = UsagePage {
                    after: None,
                    limit: 1,
                };
                storage
                    .usage
                    .list(id, UsageFilter::default(), page)
                    .await
                    .unwrap();
                max = max.max(directory.path().segments().len());
            }
        }
        assert!(
            max > 10,
            "an open hold keeps its segment and those behind it: {max}"
        );
        storage.engine.flush().await.unwrap();
        assert!(
            directory.path().segments().len() <= 2,
            "{:?}",
            directory.path().segments()
        );
        assert!(storage.ledger.settle(settlement(&long, 7)).await.unwrap().first);
        let ledgers = LedgerSnapshot::read(&storage).await;
        assert_eq!(ledgers.of(id).usage.len(), 401);
        assert_eq!(
            storage.ledger.balance(id).await.unwrap().credits,
            nanos(1_000_000 - 1207)
        );
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn ids_are_remembered_beyond_memory() {
    let directory = Directory::new();
    let clock = Arc::new(ManualClock::at(START));
    block_on(async {
        let storage = open(directory.path().config(clock.clone())).await.unwrap();
        let (id, other) = (funded(&storage, 1, 1000).await, funded(&storage, 2, 1000).await);
        call(&storage, hold(500, id, 10), 3).await;
        storage.engine.flush().await.unwrap();
        clock.advance(std::time::Duration::from_secs(60));
        assert_eq!(storage.ledger.sweep(START, 0).await.unwrap(), 0);
        let again = storage.ledger.hold(hold(500, id, 10)).await.unwrap_err();
        assert_eq!(again.kind, StorageErrorKind::Conflict);
        let resolution = storage
            .ledger
            .settle(settlement(&hold(500, id, 10), 9))
            .await
            .unwrap();
        assert_eq!((resolution.charge, resolution.first), (nanos(3), false));
        assert_eq!(resolution.available, nanos(997));
        let never = storage
            .ledger
            .settle(settlement(&hold(499, id, 10), 9))
            .await
            .unwrap_err();
        assert_eq!(never.kind, StorageErrorKind::NotFound);
        // The same id in another account and a smaller unused id are accepted.
        for (number, account) in [(500, other), (499, id)] {
            let outcome = storage.ledger.hold(hold(number, account, 1)).await.unwrap();
            assert!(matches!(outcome, HoldOutcome::Held { .. }));
        }
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn several_runtimes_share_the_engine() {
    let directory = Directory::new();
    let storage = block_on(directory.path().open()).unwrap();
    block_on(funded(&storage, 1, 10_000));
    std::thread::scope(|scope| {
        for thread in 0..4_u128 {
            let storage = storage.clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    for number in 0..50 {
                        call(&storage, hold(thread * 50 + number, account(1), 10), 2).await;
                        storage.accounts.get(account(1)).await.unwrap().unwrap();
                    }
                });
            });
        }
    });
    block_on(async {
        assert_eq!(
            LedgerSnapshot::read(&storage).await.of(account(1)).usage.len(),
            200
        );
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn overflowing_sums_of_costs_are_a_conflict() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 100).await;
        for number in [1, 2] {
            let hold = take(&storage, hold(number, id, 10)).await;
            let mut max = settlement(&hold, 10);
            max.overrun = Credits::MAX.checked_sub(nanos(15)).unwrap();
            let settled = storage.ledger.settle(max).await;
            assert_eq!(settled.is_ok(), number == 1, "{settled:?}");
            if let Err(error) = settled {
                assert_eq!(error.kind, StorageErrorKind::Conflict);
            }
        }
        let ledgers = LedgerSnapshot::read(&storage).await;
        assert_eq!((ledgers.of(id).usage.len(), ledgers.of(id).holds.len()), (1, 1));
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn accounts_without_balances_can_be_read() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        create(&storage, 3).await;
        storage.engine.close().await.unwrap();
        let storage = directory.path().open().await.unwrap();
        assert_eq!(
            storage.ledger.balance(account(3)).await.unwrap().credits,
            Credits::ZERO
        );
        storage.engine.close().await.unwrap();
    });
}
