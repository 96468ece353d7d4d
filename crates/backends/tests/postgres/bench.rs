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
use crate::nodes::{ACCOUNT, NOW, one_account, settlement};

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

#[test]
#[ignore = "a measurement"]
fn bench_a_million_calls() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, BALANCE).await;
        database.execute(MILLION_CALLS).await;
        crate::measure_usage::measure(&storage, ACCOUNT, NOW).await;
    });
}

/// Inserts a million calls in 90 days, of 5 models, 4 keys and 2 endpoints.
const MILLION_CALLS: &str = "INSERT INTO price_version (version, model, prices, created_at)
        SELECT n, 'maker/' || n, '{}', 0 FROM generate_series(0, 4) AS n;
    INSERT INTO usage_row (account_id, id, key_id, request_id, endpoint, model, provider, price_version, held, charge,
        overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, outcome, estimated,
        created_at, ended_at)
    SELECT account.id, decode(lpad(to_hex(at / 1000), 12, '0') || lpad(to_hex(n), 20, '0'), 'hex'),
        decode(lpad(to_hex(n % 4 + 1), 32, '0'), 'hex'), decode(lpad(to_hex(n), 32, '0'), 'hex'),
        CASE n / 20 % 2 WHEN 0 THEN '/v1/messages' ELSE '/v1/chat/completions' END,
        'alias', 'provider/model', n % 5, 1000, n % 1000, 0, n % 10000, 7, 0, 0, n % 3000, 0, 0,
        CASE n % 50 WHEN 0 THEN 'timeout' ELSE 'ok' END, 0, at, at + 2000000
    FROM account, (SELECT n, 1795181400000000 + n::bigint * 7776000 AS at FROM generate_series(0, 999999) AS n) AS calls;
    ANALYZE usage_row";

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
