//! Duration and memory of checking a ledger of a million transfers.

use std::time::Duration;

use tollgate_billing::{Scope, audit_ledger, check_ledger};
use tollgate_types::clock::SystemClock;
use tollgate_types::{AccountId, Clock, Credits, Prices, Unit};

use super::engines::{Engine, TestLedger, hold, settlement};

const ACCOUNTS: u128 = 100;
/// Number of calls of each account. A call has three transfers, so the total with the grants is a
/// million.
const CALLS: u128 = 3_333;
const TRANSFERS: u64 = 1_000_000;

/// Statements that insert the calls within the database, because a commit for each call takes too
/// long.
const IN_POSTGRES: &str = "DO $$
DECLARE
    tenant RECORD;
    number INTEGER;
    id BYTEA;
    h0 BYTEA; h1 BYTEA; h2 BYTEA; h3 BYTEA;
    place BIGINT;
    started BIGINT := 1795181400000000;
BEGIN
    FOR tenant IN SELECT account_id, chain_sequence, chain_hash FROM ledger_account WHERE kind = 'credits' LOOP
        place := tenant.chain_sequence;
        h0 := tenant.chain_hash;
        FOR number IN 1..3333 LOOP
            id := decode(lpad(to_hex(number), 32, '0'), 'hex');
            h1 := transfer_hash(h0, tenant.account_id, place + 1, id, 1::SMALLINT, 'hold', 'credits', 'hold', 1000,
                started, 9);
            h2 := transfer_hash(h1, tenant.account_id, place + 2, id, 2::SMALLINT, 'hold', 'hold', 'revenue:usage', 400,
                started + 1, 9);
            h3 := transfer_hash(h2, tenant.account_id, place + 3, id, 3::SMALLINT, 'hold', 'hold', 'credits', 600,
                started + 1, 9);
            INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version,
                sequence, prev_hash, hash)
            VALUES (tenant.account_id, id, 1, 'hold', 'credits', 'hold', 1000, started, 9, place + 1, h0, h1),
                (tenant.account_id, id, 2, 'hold', 'hold', 'revenue:usage', 400, started + 1, 9, place + 2, h1, h2),
                (tenant.account_id, id, 3, 'hold', 'hold', 'credits', 600, started + 1, 9, place + 3, h2, h3);
            INSERT INTO usage_row (account_id, id, key_id, request_id, endpoint, model, provider, price_version, held,
                charge, overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, outcome,
                estimated, created_at, first_at, ended_at)
            VALUES (tenant.account_id, id, NULL, id, '/v1/chat/completions', 'maker/model', 'upstream', 9, 1000, 400, 0,
                400, 0, 0, 0, 0, 0, 0, 'ok', 0, started, NULL, started + 1);
            place := place + 3;
            h0 := h3;
        END LOOP;
        UPDATE ledger_account SET balance = balance - 400 * 3333, chain_sequence = place, chain_previous = h2,
            chain_hash = h3 WHERE account_id = tenant.account_id AND kind = 'credits';
        UPDATE ledger_account SET balance = 400 * 3333
            WHERE account_id = tenant.account_id AND kind = 'revenue:usage';
    END LOOP;
END $$";

#[expect(clippy::print_stdout, reason = "the figures are the result")]
async fn a_million(engine: Engine) {
    let mut ledger = TestLedger::open(engine).await;
    ledger
        .price(Prices::default().with(Unit::Input, Credits::from_nanos(1_000_000)))
        .await;
    for account in 1..=ACCOUNTS {
        ledger.fund(AccountId::from_u128(account), 1_000_000_000).await;
    }
    match engine {
        Engine::Sqlite => {
            for number in 1..=CALLS {
                for account in 1..=ACCOUNTS {
                    let hold = hold(number, AccountId::from_u128(account), 1_000);
                    ledger.call(hold.clone(), settlement(&hold, 400)).await;
                }
                // The engine refuses calls if the database falls behind, so it is flushed
                // regularly.
                if number % 300 == 0 {
                    ledger.storage.engine.flush().await.unwrap();
                }
            }
            ledger.storage.engine.flush().await.unwrap();
        }
        Engine::Postgres => ledger.falsify(IN_POSTGRES).await,
    }
    let clock = SystemClock::default();
    // Resets the peak memory of this process.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory();
    let (wall, cpu) = (clock.monotonic_micros(), cpu());
    let report = check_ledger(&*ledger.storage.ledger, false).await.unwrap();
    let spent = [clock.monotonic_micros() - wall, self::cpu() - cpu].map(Duration::from_micros);
    assert!(report.is_clean(), "{:?}", report.faults);
    assert_eq!((report.transfers, report.chain_heads), (TRANSFERS, 100));
    let (grown, [wall, cpu]) = (memory().saturating_sub(before), spent);
    println!(
        "{engine:?}: check {wall:.1?}, {cpu:.1?} CPU of this process, peak memory {before} + {grown} KiB"
    );
    let (started, cpu) = (clock.monotonic_micros(), self::cpu());
    let audit = audit_ledger(&*ledger.storage.ledger, Scope::default())
        .await
        .unwrap();
    let spent = [clock.monotonic_micros() - started, self::cpu() - cpu].map(Duration::from_micros);
    assert!(audit.is_clean(), "{:?}", audit.differences);
    println!(
        "{engine:?}: audit {:.1?}, {:.1?} CPU of this process",
        spent[0], spent[1]
    );
    ledger.close().await;
}

/// Returns the CPU time of this process, all threads included.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 10_000
}

/// Returns the peak memory of this process, in KiB.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes a million transfers"]
async fn prove_a_million_transfers_are_checked_on_sqlite() {
    a_million(Engine::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes a million transfers"]
async fn prove_a_million_transfers_are_checked_on_postgres() {
    a_million(Engine::Postgres).await;
}
