//! Tests with a database that cannot be written, and with rows that cannot be read.

use std::time::Duration;

use tollgate_storage::audit::{LedgerBalance, OpenHold, OpenLease, TransferRow};
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{AuditVisitor, HoldOutcome, Storage, StorageErrorKind, UsageRow};
use tollgate_types::{AccountId, PriceVersion, Prices};

use crate::samples::{Directory, block_on, call, funded, grant, hold, nanos, settlement, take};

/// Polls until the condition holds.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::task::yield_now().await;
    }
}

async fn holds(storage: &Storage, number: u128, account: AccountId) -> bool {
    match storage.ledger.hold(hold(number, account, 1)).await {
        Ok(outcome) => matches!(outcome, HoldOutcome::Held { .. }),
        Err(error) => {
            assert_eq!(error.kind, StorageErrorKind::Unavailable);
            false
        }
    }
}

#[test]
fn new_calls_stop_while_the_database_cannot_be_written() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        let open = take(&storage, hold(1, id, 100)).await;
        call(&storage, hold(2, id, 100), 30).await;
        directory
            .path()
            .change("ALTER TABLE usage_row RENAME TO hidden")
            .await;
        let refused = storage.engine.flush().await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        assert!(!holds(&storage, 3, id).await);
        assert_eq!(
            storage.engine.ping().await.unwrap_err().kind,
            StorageErrorKind::Unavailable
        );
        let refused = storage.ledger.grant(grant(9, id, 5)).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        // A running call can be settled, because the settlement is written to the journal.
        assert!(storage.ledger.settle(settlement(&open, 50)).await.unwrap().first);
        directory
            .path()
            .change("ALTER TABLE hidden RENAME TO usage_row")
            .await;
        // The engine retries without further requests.
        until("holds are taken again", async || holds(&storage, 4, id).await).await;
        storage.engine.ping().await.unwrap();
        assert_eq!(
            storage.ledger.grant(grant(9, id, 5)).await.unwrap().credits,
            nanos(1000 - 80 - 1 + 5)
        );
        let ledgers = LedgerSnapshot::read(&storage).await;
        let charges = ledgers.of(id).usage.iter().map(|row| row.charge.nanos());
        assert_eq!(charges.collect::<Vec<_>>(), [50, 30]);
        storage.engine.close().await.unwrap();
    });
}

#[test]
fn unwritten_calls_are_found_in_the_journal() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        call(&storage, hold(1, id, 100), 30).await;
        directory
            .path()
            .change("ALTER TABLE usage_row RENAME TO hidden")
            .await;
        assert!(storage.engine.close().await.is_err());
        drop(storage);
        directory
            .path()
            .change("ALTER TABLE hidden RENAME TO usage_row")
            .await;
        let storage = directory.path().open().await.unwrap();
        assert_eq!(storage.ledger.balance(id).await.unwrap().credits, nanos(970));
        LedgerSnapshot::read(&storage).await;
        storage.engine.close().await.unwrap();
    });
}

/// A visitor that collects the reports of unreadable rows.
#[derive(Default)]
struct Unreadable(Vec<String>);

impl AuditVisitor for Unreadable {
    fn price(&mut self, _: PriceVersion, _: &str, _: &Prices) {}
    fn account(&mut self, _: AccountId) {}
    fn balance(&mut self, _: LedgerBalance) {}
    fn lease(&mut self, _: OpenLease) {}
    fn hold(&mut self, _: OpenHold) {}
    fn chain(&mut self, _: tollgate_storage::Chain) {}
    fn lot(&mut self, _: &tollgate_storage::Lot) {}
    fn transfer(&mut self, _: TransferRow) {}
    fn part(&mut self, _: tollgate_types::HoldId, _: &tollgate_storage::UsagePart) {}
    fn usage(&mut self, _: &UsageRow) {}
    fn refund(&mut self, _: &tollgate_storage::Refund) {}
    fn line(&mut self, _: &tollgate_storage::ChargedLine) {}
    fn account_end(&mut self) {}
    fn unreadable(&mut self, what: String) {
        self.0.push(what);
    }
}

#[test]
fn audits_report_unreadable_rows() {
    let directory = Directory::new();
    block_on(async {
        let storage = directory.path().open().await.unwrap();
        let id = funded(&storage, 1, 1000).await;
        call(&storage, hold(1, id, 100), 30).await;
        storage.engine.close().await.unwrap();
        for change in [
            "INSERT INTO price_version VALUES (1, 'm', '{\"words\":\"1\"}', 0)",
            "INSERT INTO ledger_account (account_id, kind, balance) SELECT id, 'gold', 5 FROM account",
            "INSERT INTO transfer SELECT account_id, x'0102', 1, 'hold', 'credits', 'hold', 5, 0, 0, NULL, NULL, NULL \
             FROM transfer WHERE leg = 0",
            "INSERT INTO transfer SELECT account_id, entry_id, 4, 'gift', 'credits', 'hold', 5, 0, 0, NULL, NULL, NULL \
             FROM transfer WHERE leg = 0",
            "INSERT INTO usage_row SELECT account_id, zeroblob(16), key_id, request_id, endpoint, model, provider, \
             price_version, held, charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning, \
             output_audio, 'lost', estimated, created_at, first_at, ended_at, cache_write_1h, included, plan_name, window_id, \
             0, 0, 0, 0, NULL, 0, 0, 0 FROM usage_row",
        ] {
            directory.path().change(change).await;
        }
        let storage = directory.path().open().await.unwrap();
        let mut unreadable = Unreadable::default();
        storage.ledger.audit(None, &mut unreadable).await.unwrap();
        let expected = ["words", "'gold'", "invalid id of 2 bytes", "'gift'", "'lost'"];
        assert_eq!(unreadable.0.len(), expected.len(), "{:?}", unreadable.0);
        for text in expected {
            assert!(
                unreadable.0.iter().any(|what| what.contains(text)),
                "{text}: {:?}",
                unreadable.0
            );
        }
        storage.engine.close().await.unwrap();
    });
}
