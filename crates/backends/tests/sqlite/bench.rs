//! Measures the cost of one call. Run the measurements with `cargo test --release -p
//! tollgate-backends --test sqlite -- --ignored --nocapture bench`.

use std::collections::VecDeque;
use std::sync::Arc;

use tollgate_backends::sqlite::{SqliteConfig, open};
use tollgate_storage::{Settlement, Storage};
use tollgate_types::clock::SystemClock;
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, HoldId, RequestId};

use crate::samples::{Directory, START, account, funded, hold, settlement};

const ROUNDS: u64 = 10;
const PAIRS_PER_ROUND: u64 = 40_000;

#[test]
#[ignore = "it measures"]
fn bench_hold_settle() {
    measure(1, 1);
}

#[test]
#[ignore = "it measures"]
fn bench_256_open_calls() {
    measure(1, 256);
}

#[test]
#[ignore = "it measures"]
fn bench_200_accounts() {
    measure(200, 256);
}

#[test]
#[ignore = "it measures"]
fn bench_5000_accounts() {
    measure(5000, 256);
}

#[test]
#[ignore = "it measures"]
fn bench_a_million_calls() {
    let directory = Directory::new();
    crate::samples::block_on(async {
        let path = directory.path();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let storage = open(SqliteConfig::new(&path.0, clock.clone())).await.unwrap();
        funded(&storage, 1, 1_000).await;
        storage.engine.close().await.unwrap();
        path.change(PRICES).await;
        path.change(MILLION_CALLS).await;
        let storage = open(SqliteConfig::new(&path.0, clock)).await.unwrap();
        crate::measure_usage::measure(&storage, account(1), START).await;
        storage.engine.close().await.unwrap();
    });
}

const PRICES: &str =
    "INSERT INTO price_version (version, model, prices, created_at) VALUES (0, 'maker/a', '{}', 0),
    (1, 'maker/b', '{}', 0), (2, 'maker/c', '{}', 0), (3, 'maker/d', '{}', 0), (4, 'maker/e', '{}', 0)";

/// Inserts a million calls in 90 days, of 5 models, 4 keys and 2 endpoints.
const MILLION_CALLS: &str = "WITH RECURSIVE calls (n, at) AS (
        VALUES (0, 1795181400000000)
        UNION ALL SELECT n + 1, at + 7776000 FROM calls WHERE n < 999999
    )
    INSERT INTO usage_row (account_id, id, key_id, request_id, endpoint, model, provider, price_version, held, charge,
        overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, outcome, estimated,
        created_at, ended_at)
    SELECT account.id, unhex(printf('%012x', at / 1000) || printf('%020x', n)), unhex(printf('%032x', n % 4 + 1)),
        unhex(printf('%032x', n)), CASE n / 20 % 2 WHEN 0 THEN '/v1/messages' ELSE '/v1/chat/completions' END,
        'alias', 'provider/model', n % 5, 1000, n % 1000, 0, n % 10000, 7, 0, 0, n % 3000, 0, 0,
        CASE n % 50 WHEN 0 THEN 'timeout' ELSE 'ok' END, 0, at, at + 2000000
    FROM calls, account";

/// Holds and settles on one thread, with `open_calls` calls open at a time. Prints per call: the
/// time to the reply, the time to the database, and the processor time of all threads.
fn measure(accounts: u64, open_calls: usize) {
    let directory = Directory::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let storage = open(SqliteConfig::new(&directory.path().0, clock.clone()))
            .await
            .unwrap();
        for number in 0..accounts {
            funded(&storage, number.into(), 1_000_000_000_000).await;
        }
        let (ids, plain) = (IdSource::new(7), hold(0, account(0), 1000));
        let end = settlement(&plain, 400);
        let mut running = VecDeque::new();
        let (mut answered, started, cpu) = (0, clock.monotonic_micros(), cpu_micros());
        for round in 0..ROUNDS {
            let round_started = clock.monotonic_micros();
            for pair in round * PAIRS_PER_ROUND..(round + 1) * PAIRS_PER_ROUND {
                let mut new = plain.clone();
                new.account = account(u128::from(pair * 7919 % accounts));
                new.id = HoldId::from_u128(ids.next(clock.now()));
                new.request = RequestId::from_u128(new.id.as_u128());
                running.push_back((new.account, new.id));
                storage.ledger.hold(new).await.unwrap();
                if running.len() >= open_calls {
                    settle_oldest(&storage, &mut running, &end).await;
                }
            }
            answered += clock.monotonic_micros() - round_started;
            // Flushes after each round, because the engine refuses calls if too many records are
            // queued.
            storage.engine.flush().await.unwrap();
        }
        while !running.is_empty() {
            settle_oldest(&storage, &mut running, &end).await;
        }
        storage.engine.flush().await.unwrap();
        let (stored, cpu) = (clock.monotonic_micros() - started, cpu_micros() - cpu);
        let pairs = ROUNDS * PAIRS_PER_ROUND;
        println!(
            "{accounts} accounts, {open_calls} open: {} ns answered, {} ns stored, {} ns CPU, {} calls/s",
            answered * 1000 / pairs,
            stored * 1000 / pairs,
            cpu * 1000 / pairs,
            pairs * 1_000_000 / stored,
        );
        storage.engine.close().await.unwrap();
    });
}

async fn settle_oldest(storage: &Storage, running: &mut VecDeque<(AccountId, HoldId)>, end: &Settlement) {
    let (account, hold) = running.pop_front().unwrap();
    let settlement = Settlement {
        account,
        hold,
        ..end.clone()
    };
    assert!(storage.ledger.settle(settlement).await.unwrap().first);
}

/// Returns the processor time of all threads of this process so far, in microseconds.
fn cpu_micros() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 10_000
}
