//! Tests with a server that is unreachable, loses connections, or does not respond in time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use sqlx::{Connection, PgConnection};
use tollgate_backends::postgres::{self, PostgresConfig};
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{HoldOutcome, LedgerAccount, Storage, StorageError, StorageErrorKind};

use crate::database::TestDatabase;
use crate::nodes::{ACCOUNT, hold, one_account, settlement};

/// An unreachable server is reported as `Unavailable`: nothing was written.
#[test]
fn unreachable_is_unavailable() {
    let database = TestDatabase::create();
    database.block_on(async {
        // Port 1 is reserved; nothing listens there.
        let nowhere = "postgres://postgres@127.0.0.1:1/postgres";
        let config = PostgresConfig {
            acquire_timeout: Duration::from_millis(200),
            ..PostgresConfig::new(nowhere)
        };
        let error = postgres::open(config).await.err().unwrap();
        assert_eq!(error.kind, StorageErrorKind::Unavailable);
        assert!(error.to_string().contains("refused"), "{error}");
        let error = postgres::migrate(nowhere).await.unwrap_err();
        assert_eq!(error.kind, StorageErrorKind::Unavailable);
        let error = postgres::open(PostgresConfig::new("not an address"))
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind, StorageErrorKind::Unavailable);
    });
}

/// The debug output of a configuration does not contain the password.
#[test]
fn the_password_is_not_printed() {
    let config = PostgresConfig::new("postgres://me:hunter2@127.0.0.1/x");
    assert!(!format!("{config:?}").contains("hunter2"));
}

/// A closed engine and an engine without a free connection return `Unavailable`: nothing was
/// written.
#[test]
fn closed_and_exhausted_are_unavailable() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        let config = PostgresConfig {
            max_connections: 1,
            acquire_timeout: Duration::from_secs(5),
            ..database.config()
        };
        let small = postgres::open(config).await.unwrap();
        let mut blocker = Blocker::new(&database).await;
        let (first, second) = tokio::join!(small.ledger.hold(hold(1, 10)), async {
            blocker.wait_for_waiters(1).await;
            let second = small.ledger.hold(hold(2, 10)).await;
            blocker.release().await;
            second
        });
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err().kind, StorageErrorKind::Unavailable);
        small.engine.close().await.unwrap();
        let closed = small.ledger.hold(hold(3, 10)).await;
        assert_eq!(closed.unwrap_err().kind, StorageErrorKind::Unavailable);
        assert_eq!(LedgerSnapshot::read(&storage).await.of(ACCOUNT).holds.len(), 1);
    });
}

/// The server cancels a statement that waits too long for a lock; nothing is written.
#[test]
fn slow_statements_time_out() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        let config = PostgresConfig {
            statement_timeout: Duration::from_secs(3),
            ..database.config()
        };
        let hasty = postgres::open(config).await.unwrap();
        let mut blocker = Blocker::new(&database).await;
        let held = hasty.ledger.hold(hold(1, 10)).await;
        assert_eq!(held.unwrap_err().kind, StorageErrorKind::Timeout);
        blocker.release().await;
        let outcome = storage.ledger.hold(hold(1, 10)).await.unwrap();
        assert!(matches!(outcome, HoldOutcome::Held { .. }));
        assert_eq!(LedgerSnapshot::read(&storage).await.of(ACCOUNT).holds.len(), 1);
    });
}

/// A settlement that fails during an outage is written afterwards, without another request.
#[test]
fn failed_settlements_are_retried() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        let config = PostgresConfig {
            statement_timeout: Duration::from_secs(1),
            ..database.config()
        };
        let hasty = postgres::open(config).await.unwrap();
        for number in [1, 2] {
            hasty.ledger.hold(hold(number, 10)).await.unwrap();
        }
        let mut blocker = Blocker::new(&database).await;
        let (one, two) = tokio::join!(
            hasty.ledger.settle(settlement(1, 7)),
            hasty.ledger.settle(settlement(2, 8))
        );
        assert_eq!(one.unwrap_err().kind, StorageErrorKind::Timeout);
        assert_eq!(two.unwrap_err().kind, StorageErrorKind::Timeout);
        blocker.release().await;
        for _ in 0..600 {
            if LedgerSnapshot::read(&storage).await.of(ACCOUNT).usage.len() == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let ledgers = LedgerSnapshot::read(&storage).await;
        assert_eq!(ledgers.of(ACCOUNT).balance(LedgerAccount::RevenueUsage), 15);
        assert!(ledgers.of(ACCOUNT).holds.is_empty());
        hasty.engine.close().await.unwrap();
    });
}

/// Connections are terminated repeatedly while calls run, and callers repeat failed steps with the
/// same ids. At the end every call was held once and settled once, and the engine has reconnected.
#[test]
fn lost_connections_apply_nothing_twice() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 1_000_000).await;
        let (working, failures) = (AtomicUsize::new(8), AtomicUsize::new(0));
        let callers = (0..8_u128).map(|caller| {
            let (storage, working, failures) = (&storage, &working, &failures);
            async move {
                for round in 0..15 {
                    hold_until_taken(storage, caller * 1000 + round, failures).await;
                    settle_until_known(storage, caller * 1000 + round, failures).await;
                }
                working.fetch_sub(1, Ordering::SeqCst);
            }
        });
        tokio::join!(join_all(callers), kill_connections(&database, &working));
        assert!(failures.load(Ordering::SeqCst) > 0, "no call was hit");
        // Uses new connections, because idle ones may have been killed.
        let fresh = postgres::open(database.config()).await.unwrap();
        let ledgers = LedgerSnapshot::read(&fresh).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!((ledger.holds.len(), ledger.usage.len()), (0, 8 * 15));
        assert_eq!(ledger.balance(LedgerAccount::RevenueUsage), 8 * 15 * 4);
    });
}

async fn hold_until_taken(storage: &Storage, number: u128, failures: &AtomicUsize) {
    let mut failed = false;
    loop {
        match storage.ledger.hold(hold(number, 10)).await {
            Ok(outcome) => return assert!(matches!(outcome, HoldOutcome::Held { .. })),
            // The interrupted attempt had succeeded.
            Err(error) if error.kind == StorageErrorKind::Conflict => return assert!(failed, "{error}"),
            Err(error) => note(&error, failures),
        }
        failed = true;
    }
}

async fn settle_until_known(storage: &Storage, number: u128, failures: &AtomicUsize) {
    let mut failed = false;
    loop {
        match storage.ledger.settle(settlement(number, 4)).await {
            Ok(resolution) => {
                assert_eq!(resolution.charge.nanos(), 4);
                return assert!(resolution.first || failed);
            }
            Err(error) => note(&error, failures),
        }
        failed = true;
    }
}

fn note(error: &StorageError, failures: &AtomicUsize) {
    let lost = [StorageErrorKind::Timeout, StorageErrorKind::Unavailable];
    assert!(lost.contains(&error.kind), "{error}");
    failures.fetch_add(1, Ordering::SeqCst);
}

async fn kill_connections(database: &TestDatabase, working: &AtomicUsize) {
    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'tollgate' AND pid % 3 = $1";
    let mut turn = 0;
    while working.load(Ordering::SeqCst) > 0 {
        sqlx::query(kill)
            .bind(turn % 3)
            .execute(&mut connection)
            .await
            .unwrap();
        turn += 1;
        // Lets some calls succeed: a few statements run between two terminations.
        for _ in 0..20 {
            sqlx::query("SELECT count(*) FROM usage_row")
                .execute(&mut connection)
                .await
                .unwrap();
        }
    }
}

/// A transaction that has locked every ledger account.
struct Blocker {
    connection: PgConnection,
}

impl Blocker {
    async fn new(database: &TestDatabase) -> Blocker {
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        for statement in ["BEGIN", "SELECT * FROM ledger_account FOR UPDATE"] {
            sqlx::query(statement).execute(&mut connection).await.unwrap();
        }
        Blocker { connection }
    }

    async fn wait_for_waiters(&mut self, count: i64) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while sqlx::query_scalar::<_, i64>(waiting)
            .fetch_one(&mut self.connection)
            .await
            .unwrap()
            < count
        {
            // Within a transaction the view is a snapshot until it is cleared.
            sqlx::query("SELECT pg_stat_clear_snapshot()")
                .execute(&mut self.connection)
                .await
                .unwrap();
        }
    }

    async fn release(&mut self) {
        sqlx::query("COMMIT").execute(&mut self.connection).await.unwrap();
    }
}
