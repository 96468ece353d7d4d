//! Measures the settlements of one account by several nodes, with and without leases. `make
//! measure` runs the measurements; their results are not asserted.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_backends::postgres;
use tollgate_storage::conformance::LedgerSnapshot;
use tollgate_storage::{HoldOutcome, LedgerAccount, Storage};
use tollgate_types::clock::SystemClock;
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Credits};

use crate::database::TestDatabase;
use crate::lease::{dir, lasting, node};
use crate::nodes::{ACCOUNT, one_account, settlement};

const NODES: usize = 3;
/// Number of concurrent callers on each node. A caller makes one call after another.
const CALLERS: usize = 32;
const LASTS_MICROS: u64 = 5_000_000;
const BALANCE: i64 = 1_000_000_000_000;

#[test]
#[ignore = "a measurement"]
fn bench_one_account_without_leases() {
    measure(false);
}

#[test]
#[ignore = "a measurement"]
fn bench_one_account_with_leases() {
    measure(true);
}

#[expect(clippy::print_stdout, reason = "the figures are the result")]
fn measure(leases: bool) {
    let database = TestDatabase::create();
    database.block_on(async {
        let other = one_account(&database, BALANCE).await;
        let homes: Vec<_> = (0..NODES).map(|_| dir()).collect();
        let mut nodes = Vec::new();
        for home in &homes {
            nodes.push(match leases {
                true => node(&database, home).await,
                false => postgres::open(database.config()).await.unwrap(),
            });
        }
        let clock = Arc::new(SystemClock::default());
        let mut callers = JoinSet::new();
        for place in 0..NODES * CALLERS {
            callers.spawn(call_on(nodes[place % NODES].clone(), place, clock.clone()));
        }
        let calls: i64 = callers.join_all().await.into_iter().sum();
        let answered = clock.monotonic_micros();
        for node in &nodes {
            node.engine.close().await.unwrap();
        }
        let settled = clock.monotonic_micros();
        let ledgers = LedgerSnapshot::read(&other).await;
        let ledger = ledgers.of(ACCOUNT);
        assert_eq!(ledger.usage.len() as i64, calls);
        assert_eq!(ledger.balance(LedgerAccount::Credits), BALANCE - 400 * calls);
        println!(
            "one account, {NODES} nodes, leases {leases}: {calls} calls, {} a second answered, {} a second in the database",
            calls * 1_000_000 / answered.cast_signed(),
            calls * 1_000_000 / settled.cast_signed(),
        );
    });
}

async fn call_on(node: Storage, place: usize, clock: Arc<SystemClock>) -> i64 {
    let ids = IdSource::new(place as u64);
    let mut calls = 0;
    while clock.monotonic_micros() < LASTS_MICROS {
        let number = ids.next(clock.now());
        let held = node.ledger.hold(lasting(number, 1_000)).await.unwrap();
        assert!(matches!(held, HoldOutcome::Held { .. }));
        tokio::task::yield_now().await;
        let resolution = node.ledger.settle(settlement(number, 400)).await.unwrap();
        assert_eq!(resolution.charge, Credits::from_nanos(400));
        calls += 1;
    }
    calls
}
