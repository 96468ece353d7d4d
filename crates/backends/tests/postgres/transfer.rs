//! Tests of moves between the engines: boundary values, constraints after a move, and speed.

use std::path::Path;
use std::sync::Arc;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tempfile::TempDir;
use tollgate_backends::transfer::{self, Error, Route, TransferProgress, TransferSummary};
use tollgate_backends::{postgres, sqlite};
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

use crate::database::TestDatabase;

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// Creates a directory with a database and executes these statements in it.
async fn filled(statements: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let engine = sqlite::open(sqlite::SqliteConfig::new(dir.path(), clock()))
        .await
        .unwrap();
    engine.engine.close().await.unwrap();
    try_embedded(dir.path(), statements).await.unwrap();
    dir
}

async fn try_embedded(dir: &Path, statements: &str) -> sqlx::Result<()> {
    let address = format!("sqlite:{}", dir.join("tollgate.db").display());
    let mut connection = SqliteConnection::connect(&address).await.unwrap();
    let statements = AssertSqlSafe(statements.to_owned());
    let done = sqlx::raw_sql(statements).execute(&mut connection).await;
    connection.close().await.unwrap();
    done.map(drop)
}

async fn run(route: Route) -> Result<TransferSummary, Error> {
    transfer::run(&route, clock(), &mut |_| {}).await
}

fn to_postgres(dir: &Path, database: &TestDatabase) -> Route {
    let (dir, url) = (dir.to_owned(), database.url());
    Route::ToPostgres { dir, url }
}

fn to_sqlite(database: &TestDatabase, dir: &Path) -> Route {
    let (dir, url) = (dir.to_owned(), database.url());
    Route::ToSqlite { url, dir }
}

/// Boundary values of numbers, texts and bytes, and more rows and bytes than fit a batch.
const EDGES: &str = r#"
    INSERT INTO account (id, name, state, rpm, tpm, created_at) VALUES
        (x'01000000000000000000000000000000', char(9, 13, 10) || '\N\.\\"é🦀', '', NULL, -1, -9223372036854775808),
        (x'ff000000000000000000000000000000', '', 'active', 9223372036854775807, 0, 0);
    INSERT INTO api_key (id, account_id, name, digest, digest_prefix, last4, mode, compat, sync, state, created_at,
        expires_at, revoked_at, created_by, replaced_by, models, scopes) VALUES
        (x'01', x'ff000000000000000000000000000000', 'é', x'01ff', x'01', '', 'live', 'strict', 0, 'active', -1,
            -9223372036854775808, NULL, x'ff00', x'02', '["é/*"]', '[]'),
        (x'02', x'ff000000000000000000000000000000', '', x'02ff', x'02', 'wxyz', 'test', 'lenient', 1, 'revoked', 0, NULL,
            9223372036854775807, NULL, NULL, NULL, NULL);
    INSERT INTO price_version (version, model, prices, created_at)
        VALUES (-9223372036854775808, '', '{}', 9223372036854775807);
    INSERT INTO response (id, account_id, previous_id, created_at, expires_at, content)
        VALUES (x'01', x'01000000000000000000000000000000', x'', 0, 0, zeroblob(3000000));
    WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted WHERE n < 3000)
    INSERT INTO response (id, account_id, previous_id, created_at, expires_at, content)
        SELECT randomblob(16), x'ff000000000000000000000000000000', NULL, n, -n, randomblob(n % 999) FROM counted;
    INSERT INTO media (account_id, id, object, sha256, bytes, mime_type, width, height, duration, created_at, expires_at,
        source_id, deleted_at) VALUES
        (x'01000000000000000000000000000000', x'01', x'', x'00ff', 9223372036854775807, '', NULL, 0, NULL, -1, 0, NULL, NULL),
        (x'ff000000000000000000000000000000', x'01', x'ff', x'', 0, 'é', 1, NULL, 7, 0, 1, x'00', -9223372036854775808);
    INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at) VALUES
        (x'ff000000000000000000000000000000', x'00', 32767, 'hold', 'a', 'b', 9223372036854775807, 1),
        (x'ff000000000000000000000000000000', x'00', 0, 'grant', 'a', 'b', 9223372036854775807, 1);
    INSERT INTO provider_subscription (account_id, id, provider, plan, price, cadence, allowance, currency, amount, state,
        reference, course, created_at, updated_at) VALUES (x'ff000000000000000000000000000000', x'01', 'stripe', 'é', 0,
        'yearly', 9223372036854775807, 'usd', 9223372036854775807, 'begun', 'sub_1', 'ends', -1, 1);
    INSERT INTO usage_row (account_id, id, request_id, endpoint, model, provider, price_version, held, charge, overrun,
        input, cache_read, cache_write, input_audio, output, reasoning, output_audio, outcome, estimated, created_at,
        ended_at) VALUES (x'ff000000000000000000000000000000', x'00000000000000000000000000000000', x'00', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        '', 0, 0, 0);
    INSERT INTO usage_part (account_id, id, number, name, model, provider, price_version, cost, input, cache_read, cache_write,
        input_audio, output, reasoning, output_audio, cache_write_1h, image, video, audio, characters, searches, input_image,
        cache_read_audio) VALUES
        (x'ff000000000000000000000000000000', x'00', 4294967295, 'é', '', '', -9223372036854775808, 9223372036854775807, 1, 2, 3,
        4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 9223372036854775807);
    INSERT INTO admin (id, name, role, digest, digest_prefix, last4, created_at)
        VALUES (x'01', '', 'owner', x'00', x'00', '', 0);
    INSERT INTO person (id, email, name, created_at) VALUES (x'02', NULL, 'é', -1), (x'03', '', '', 0);
    INSERT INTO credential (id, person_id, kind, data, set_at) VALUES (x'02', x'02', 'password', '$', 9223372036854775807);
    INSERT INTO member (id, account_id, email, role, created_at, person_id) VALUES
        (x'01', x'ff000000000000000000000000000000', '', 'owner', 0, x'03'),
        (x'02', x'ff000000000000000000000000000000', 'é', 'owner', 0, NULL);
    INSERT INTO session (id, digest, digest_prefix, person_id, admin_id, created_at, last_seen_at, expires_at, proved_at,
        client, address) VALUES (x'01', x'01ff', x'01', x'02', NULL, 0, -1, 1, 2, 'é', ''),
        (x'02', x'02ff', x'02', NULL, x'01', 0, 0, 9223372036854775806, 0, '', '::1');
    INSERT INTO sign_in_link (id, digest, digest_prefix, purpose, member_id, account_id, admin_id, created_at, expires_at)
        VALUES (x'01', x'01ff', x'01', 'invitation', x'02', NULL, NULL, 0, 7),
        (x'02', x'02ff', x'02', 'sign_in', NULL, x'ff000000000000000000000000000000', NULL, 0, -7),
        (x'03', x'03ff', x'03', 'sign_in', NULL, NULL, x'01', 0, 1);
    INSERT INTO chat (account_id, id, created_by, kind, title, models, settings, revision, turns, bytes, saved, created_at,
        updated_at) VALUES (x'01000000000000000000000000000000', x'01', NULL, '', x'', '[]', x'', 1, 0, 0, x'', 0, 0),
        (x'ff000000000000000000000000000000', x'01', x'02', 'chat', x'ff', '["é"]', x'00', 4294967295, 1,
        9223372036854775807, x'01ff', -1, 7);
    INSERT INTO chat_turn (account_id, chat_id, ordinal, body, bytes, request_ids)
        VALUES (x'ff000000000000000000000000000000', x'01', 0, x'00ff', 4294967295, x'');
    INSERT INTO client_secret (account_id, id, key_id, member_id, digest, digest_prefix, session, model, max_cost, spent,
        max_seconds, allowed_origins, created_at, expires_at, console_session_id) VALUES
        (x'01000000000000000000000000000000', x'01', x'02', NULL, x'01ff', x'01', x'', NULL, NULL, 0, NULL, '[]', -1, 1,
        NULL),
        (x'ff000000000000000000000000000000', x'01', NULL, x'02', x'02ff', x'02', x'00ff', 'é', 9223372036854775807,
        9223372036854775807, 4294967295, '["é"]', 0, 2, x'02');
    INSERT INTO usage_hour (account_id, hour, model, key_id, member_id, endpoint, requests, charge, input, cache_read,
        cache_write, input_audio, output, reasoning, output_audio, cache_write_1h, image, video, audio, characters) VALUES
        (x'ff000000000000000000000000000000', 0, 'é', x'', x'', '', 1, 9223372036854775807, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
        11, 12), (x'ff000000000000000000000000000000', 0, 'é', x'', x'01', '', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    INSERT INTO usage_hour_mark (account_id, until) VALUES (x'ff000000000000000000000000000000', 3600000000);
    INSERT INTO sign_in_failure (digest, failures, began_at, ends_at) VALUES (x'01ff', 9223372036854775807, 0, -1);
    INSERT INTO audit_log (id, at, actor, role, action, object, outcome, member_id)
        VALUES (x'01', 0, '', '', '', '', 'done', x'02'), (x'02', 0, '', '', '', '', 'done', NULL)"#;

#[test]
fn values_round_trip_unchanged() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let dir = filled(EDGES).await;
        let to = run(to_postgres(dir.path(), &database)).await.unwrap();
        let sum = |table: &str, column: &str| {
            let table = to.tables.iter().find(|tally| tally.table == table).unwrap();
            (table.rows, table.sums[column])
        };
        assert_eq!(sum("transfer", "amount"), (2, 2 * i128::from(i64::MAX)));
        assert_eq!(sum("response", "expires_at"), (3001, -4_501_500));
        assert_eq!(sum("provider_subscription", "amount"), (1, i128::from(i64::MAX)));
        assert_eq!(sum("usage_part", "cost"), (1, i128::from(i64::MAX)));
        assert_eq!(sum("usage_part", "characters"), (1, 12));
        assert_eq!(sum("media", "bytes"), (2, i128::from(i64::MAX)));
        for (table, column, expected) in [
            ("api_key", "expires_at", (2, i128::from(i64::MIN))),
            ("person", "created_at", (2, -1)),
            ("credential", "set_at", (1, i128::from(i64::MAX))),
            ("session", "expires_at", (2, i128::from(i64::MAX))),
            ("sign_in_link", "expires_at", (3, 1)),
            ("sign_in_failure", "failures", (1, i128::from(i64::MAX))),
            ("chat", "bytes", (2, i128::from(i64::MAX))),
            ("client_secret", "spent", (2, i128::from(i64::MAX))),
            ("usage_hour", "charge", (2, i128::from(i64::MAX))),
            ("usage_hour_mark", "until", (1, 3_600_000_000)),
            ("chat_turn", "bytes", (1, i128::from(u32::MAX))),
            ("member", "created_at", (2, 0)),
            ("audit_log", "at", (2, 0)),
        ] {
            assert_eq!(sum(table, column), expected, "{table}");
        }
        assert_eq!(to.accounts, 2);

        let second_run = tempfile::tempdir().unwrap();
        let from = run(to_sqlite(&database, second_run.path())).await.unwrap();
        assert_eq!((&from.tables, from.accounts), (&to.tables, to.accounts));

        // The triggers that prevent changes exist in both databases.
        for (table, column) in [
            ("transfer", "created_at"),
            ("usage_row", "created_at"),
            ("usage_part", "cost"),
            ("price_version", "created_at"),
        ] {
            for statement in [
                format!("DELETE FROM {table}"),
                format!("UPDATE {table} SET {column} = 7"),
            ] {
                let refused = format!(
                    "DO $$ BEGIN {statement}; RAISE 'it was done'; EXCEPTION WHEN raise_exception THEN
                        IF SQLERRM NOT LIKE '%append-only%' THEN RAISE; END IF; END $$"
                );
                database.execute(&refused).await;
                let error = try_embedded(second_run.path(), &statement).await.unwrap_err();
                assert!(error.to_string().contains("append-only"), "{error}");
            }
        }
    });
}

/// A value that does not fit the target stops the move; nothing is moved.
#[test]
fn values_that_do_not_fit_are_reported() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let large = "INSERT INTO account (id, name, state, created_at) VALUES (x'01', '', '', 0);
            INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at)
            VALUES (x'01', x'00', 32768, 'hold', 'a', 'b', 1, 1)";
        let dir = filled(large).await;
        let error = run(to_postgres(dir.path(), &database)).await.unwrap_err();
        assert!(error.to_string().contains("too large for its column"), "{error}");
        let nul =
            "DROP TRIGGER transfer_no_delete; DELETE FROM transfer; UPDATE account SET name = 'a' || char(0)";
        try_embedded(dir.path(), nul).await.unwrap();
        let error = run(to_postgres(dir.path(), &database)).await.unwrap_err();
        assert!(matches!(error, Error::Failed(_)), "{error}");
        try_embedded(dir.path(), "UPDATE account SET name = 'a'")
            .await
            .unwrap();
        run(to_postgres(dir.path(), &database)).await.unwrap();
    });
}

/// A target that another move is writing stays unchanged.
#[test]
fn concurrent_transfers_are_refused() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let dir = filled("SELECT 1").await;
        let mut other = sqlx::PgConnection::connect(&database.url()).await.unwrap();
        let lock = "BEGIN; LOCK TABLE account IN SHARE ROW EXCLUSIVE MODE";
        sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
        let error = run(to_postgres(dir.path(), &database)).await.unwrap_err();
        assert!(
            matches!(&error, Error::Refused(why) if why.contains("another process is writing to the target")),
            "{error}"
        );
        other.close().await.unwrap();
        run(to_postgres(dir.path(), &database)).await.unwrap();
    });
}

/// Measures the number of moved rows per second. `--no-capture` prints the result.
#[test]
#[ignore = "prints how fast it is"]
fn prove_how_fast_rows_are_moved() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let dir = filled(
            "INSERT INTO account (id, name, state, created_at)
                VALUES (x'01000000000000000000000000000000', 'one', 'active', 0);
            CREATE TABLE call AS WITH RECURSIVE counted (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM counted
                WHERE n < 100000) SELECT n, randomblob(16) AS id FROM counted;
            INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at, price_version)
                SELECT x'01000000000000000000000000000000', id, leg.column1, 'hold', 'credits', 'hold', n, n, 7
                FROM call, (VALUES (1), (2), (3)) AS leg;
            INSERT INTO usage_row (account_id, id, request_id, endpoint, model, provider, price_version, held, charge,
                overrun, input, cache_read, cache_write, input_audio, output, reasoning, output_audio, outcome, estimated,
                created_at, ended_at) SELECT x'01000000000000000000000000000000', id, id, '/v1/chat/completions',
                'acme/large', 'northwind', 7, n, n, 0, n, 0, 0, 0, n, 0, 0, 'ok', 0, n, n FROM call;
            DROP TABLE call",
        )
        .await;
        let second_run = tempfile::tempdir().unwrap();
        let clock = clock();
        for route in [to_postgres(dir.path(), &database), to_sqlite(&database, second_run.path())] {
            let started = clock.monotonic_micros();
            let mut copied = 0;
            let mut on_progress = |step: TransferProgress<'_>| {
                if matches!(step, TransferProgress::Copied(..)) {
                    copied = clock.monotonic_micros();
                }
            };
            let moved = transfer::run(&route, clock.clone(), &mut on_progress).await.unwrap();
            let (copied, all) = (copied - started, clock.monotonic_micros() - started);
            let rows: u64 = moved.tables.iter().map(|table| table.rows).sum();
            println!(
                "{rows} rows: copied in {} ms, compared after {} ms, {} rows/s",
                copied / 1000,
                all / 1000,
                rows * 1_000_000 / all
            );
        }
    });
}
