//! Tests of every statement against the schema, and of failures of the journal and the writer.

use std::path::Path;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, Row, SqlSafeStr};
use tollgate_storage::{
    Account, AccountState, AccountStore, Balance, Engine, Grant, HoldOutcome, HourDifference, HourSums,
    LedgerStore, Limits, LotTerms, NewHold, OutcomeFilter, SeriesGroup, StorageErrorKind, UsageFilter,
    UsageHourStore,
};
use tollgate_types::clock::SystemClock;
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, MemberId, PriceVersion, RequestId, Timestamp};

use super::database::migrate;
use super::statements::BatchWriter;
use super::{
    Sqlite, SqliteConfig, account, admin, audit, audit_log, chain, chat, client_secret, idempotency, job,
    key, ledger, lot, media, member, notice, person, price, recover, refund, report, response, session,
    subscription, usage, usage_hour, webhook,
};
use crate::rows::{KEYS_LAST_USED, SCAN_END};

async fn schema() -> SqliteConnection {
    let mut connection = SqliteConnectOptions::new()
        .in_memory(true)
        .connect()
        .await
        .unwrap();
    migrate(&mut connection).await.unwrap();
    connection
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn statements() -> Vec<Arc<str>> {
    let fixed = [
        account::STATEMENTS,
        &crate::closing::statements(),
        admin::STATEMENTS,
        audit::STATEMENTS,
        audit_log::STATEMENTS,
        chain::STATEMENTS,
        idempotency::STATEMENTS,
        crate::batches::STATEMENTS,
        crate::calibrations::STATEMENTS,
        chat::STATEMENTS,
        crate::chats::STATEMENTS,
        client_secret::STATEMENTS,
        crate::client_secrets::STATEMENTS,
        crate::files::STATEMENTS,
        job::STATEMENTS,
        crate::jobs::STATEMENTS,
        crate::parts::STATEMENTS,
        crate::label_priors::STATEMENTS,
        key::STATEMENTS,
        ledger::STATEMENTS,
        lot::STATEMENTS,
        member::STATEMENTS,
        notice::STATEMENTS,
        person::STATEMENTS,
        crate::people::STATEMENTS,
        price::STATEMENTS,
        recover::STATEMENTS,
        media::STATEMENTS,
        response::STATEMENTS,
        refund::STATEMENTS,
        report::STATEMENTS,
        session::STATEMENTS,
        crate::sessions::STATEMENTS,
        subscription::STATEMENTS,
        crate::provider_subscriptions::STATEMENTS,
        crate::top_ups::STATEMENTS,
        usage::STATEMENTS,
        usage_hour::STATEMENTS,
        crate::usage_hours::STATEMENTS,
        webhook::STATEMENTS,
        crate::webhooks::STATEMENTS,
    ];
    let fixed = fixed.into_iter().flatten().map(|statement| Arc::from(*statement));
    let claims = [0, 2].map(|caps| Arc::from(crate::jobs::claim(caps).0));
    let fixed = fixed.chain(claims);
    fixed.chain(BatchWriter::new().statements()).collect()
}

#[test]
fn every_statement_can_be_prepared() {
    block_on(async {
        let mut connection = schema().await;
        for statement in statements() {
            let prepared = connection
                .prepare(AssertSqlSafe(statement.clone()).into_sql_str())
                .await;
            assert!(prepared.is_ok(), "{statement}: {:?}", prepared.err());
        }
    });
}

/// Migration 0007 assigns the balance and the held credits of an account to its newest grants.
#[test]
fn balances_become_lots() {
    block_on(async {
        let mut connection = SqliteConnectOptions::new()
            .in_memory(true)
            .connect()
            .await
            .unwrap();
        let before = "INSERT INTO account VALUES (x'01', '', 'active', NULL, NULL, 0), (x'02', '', 'active', NULL, NULL, 0);
            INSERT INTO ledger_account SELECT id, kinds.column1, 0 FROM account CROSS JOIN
                (VALUES ('cash'), ('credits'), ('hold'), ('allowance')) AS kinds;
            UPDATE ledger_account SET balance = 11 WHERE account_id = x'01' AND kind = 'credits';
            INSERT INTO hold (account_id, id, request_id, amount, allowance, price_version, model, endpoint, created_at,
                expires_at) VALUES (x'01', x'09', x'09', 7, 3, 0, '', '', 0, 0);
            INSERT INTO transfer (account_id, entry_id, leg, subject, debit, credit, amount, created_at) VALUES
                (x'01', x'0a', 0, 'grant', 'cash', 'credits', 10, 1), (x'01', x'0b', 0, 'grant', 'cash', 'credits', 10, 3),
                (x'01', x'0c', 0, 'grant', 'cash', 'credits', 10, 2), (x'02', x'0d', 0, 'grant', 'cash', 'credits', 10, 1)";
        let migrations = crate::schema::migrations!("sqlite");
        for migration in migrations.iter() {
            if migration.version == 7 {
                connection.execute(before).await.unwrap();
            }
            connection.execute(migration.sql.clone()).await.unwrap();
        }
        let lots = "SELECT hex(id), amount, remaining FROM credit_lot ORDER BY account_id, created_at";
        let lots: Vec<(String, i64, i64)> = sqlx::query_as(lots).fetch_all(&mut connection).await.unwrap();
        let expected = [("0A", 0), ("0C", 5), ("0B", 10), ("0D", 0)];
        assert_eq!(lots, expected.map(|(id, left)| (id.to_owned(), 10, left)));
    });
}

/// The last use of a key is read from the end of the key's index range, so the lookup does not
/// depend on the number of calls.
#[test]
fn the_last_use_of_a_key_is_looked_up_in_an_index() {
    block_on(async {
        let mut connection = schema().await;
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {KEYS_LAST_USED}"));
        let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
        let expected = "SEARCH usage_row USING COVERING INDEX usage_row_key (key_id=?)";
        assert!(steps.iter().any(|step| step == expected), "{steps:?}");
    });
}

/// Pages and series of calls read a range of the primary key, whatever the filter, so that a page
/// far back takes as long as the first.
#[test]
fn calls_are_read_from_the_primary_key() {
    let filters = [
        UsageFilter::default(),
        UsageFilter {
            from: Some(Timestamp::from_micros(1)),
            to: Some(Timestamp::from_micros(2)),
            key: Some(KeyId::from_u128(1)),
            ..UsageFilter::default()
        },
        UsageFilter {
            model: Some(String::new()),
            requested_model: Some(String::new()),
            upstream_model: Some(String::new()),
            member: Some(MemberId::from_u128(1)),
            outcome: Some(OutcomeFilter::ExceptOk),
            endpoint: Some(String::new()),
            request: Some(RequestId::from_u128(1)),
            ..UsageFilter::default()
        },
    ];
    let mut statements = vec![SCAN_END.to_owned()];
    statements.extend(filters.map(usage::calls_statement));
    let mut hours = Vec::new();
    for by in [SeriesGroup::Model, SeriesGroup::Key] {
        let [of_rows, of_hours] = usage::series_statements(Some(by));
        statements.push(of_rows);
        hours.push(of_hours);
    }
    block_on(async {
        let mut connection = schema().await;
        for statement in statements {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
            let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
            let expected = "SEARCH usage_row USING PRIMARY KEY (account_id=? AND id>? AND id<?)";
            assert_eq!(steps[0], expected, "{statement}");
            let sorts = steps.iter().any(|step| step == "USE TEMP B-TREE FOR ORDER BY");
            assert!(!sorts, "{steps:?}");
        }
        for statement in hours {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
            let step: String = plan[0].get("detail");
            let expected = "SEARCH usage_hour USING PRIMARY KEY (account_id=? AND hour>? AND hour<?)";
            assert_eq!(step, expected, "{statement}");
        }
    });
}

/// A claim reads the unfinished jobs only, so that it does not depend on the number of ended jobs.
#[test]
fn claims_read_unfinished_jobs_from_an_index() {
    block_on(async {
        let mut connection = schema().await;
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", crate::jobs::claim(1).0));
        let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
        let steps: Vec<String> = plan.iter().map(|step| step.get("detail")).collect();
        // The running jobs, the waiting jobs, and the rows to update.
        let of_jobs: Vec<&String> = steps.iter().filter(|step| step.contains(" job ")).collect();
        assert_eq!(of_jobs.len(), 3, "{steps:#?}");
        for step in of_jobs {
            let of_unfinished = ["SCAN job USING INDEX job_unfinished", "SEARCH job USING"];
            assert!(
                of_unfinished.iter().any(|plan| step.starts_with(plan)),
                "{steps:#?}"
            );
        }
    });
}

/// No statement scans the tables of transfers, usage, balances, responses, media, chats, client
/// secrets, people or sessions, except the statement that loads the balances at startup.
#[test]
fn no_statement_scans_growing_tables() {
    block_on(async {
        let mut connection = schema().await;
        for statement in statements() {
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
            assert!(!plan.is_empty() || statement.contains("VALUES"), "{statement}");
            for step in plan {
                let step: String = step.get("detail");
                let scans = [
                    "transfer",
                    "usage_row",
                    "ledger_account",
                    "response",
                    "response_item",
                    "media",
                    "chat",
                    "chat_turn",
                    "client_secret",
                    "person",
                    "credential",
                    "session",
                    "sign_in_link",
                    "sign_in_failure",
                ]
                .iter()
                .any(|table| step == format!("SCAN {table}"));
                let loads_balances = *statement == *recover::BALANCES;
                assert!(!scans || loads_balances, "{statement}: {step}");
            }
        }
    });
}

#[test]
fn append_only_rows_cannot_be_changed() {
    block_on(async {
        let mut connection = schema().await;
        for statement in [
            "INSERT INTO transfer VALUES (x'01', x'02', 0, 'grant', 'cash', 'credits', 5, 0, NULL, NULL, NULL, NULL)",
            "INSERT INTO usage_row VALUES (x'01', x'02', NULL, x'02', '', '', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'ok', \
             0, 0, NULL, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, NULL, 0, 0, 0)",
            "INSERT INTO subscription_event VALUES (x'01', 0, 'created', 'active', 0, 0)",
            "INSERT INTO price_version VALUES (1, 'm', '{}', 0)",
            "INSERT INTO price_change VALUES (x'01', 'm', 1, 0, 'cli')",
            "INSERT INTO audit_log VALUES (x'01', 0, 'cli', NULL, 'owner', 'a', NULL, '', NULL, NULL, NULL, 'done', NULL)",
        ] {
            connection.execute(statement).await.unwrap();
        }
        for statement in [
            "UPDATE transfer SET amount = 6",
            "DELETE FROM transfer",
            "UPDATE usage_row SET charge = 1",
            "DELETE FROM usage_row",
            "UPDATE subscription_event SET at = 1",
            "DELETE FROM subscription_event",
            "UPDATE price_version SET prices = ''",
            "DELETE FROM price_version",
            "UPDATE price_change SET actor = ''",
            "DELETE FROM price_change",
            "UPDATE audit_log SET actor = ''",
            "DELETE FROM audit_log",
        ] {
            let refused = connection.execute(statement).await.unwrap_err().to_string();
            assert!(refused.contains("append-only"), "{statement}: {refused}");
        }
        let account = "INSERT INTO account (id, name, state, created_at) VALUES (x'01', '', 'active', 0)";
        connection.execute(account).await.unwrap();
        for (kind, allowed) in [
            ("credits", false),
            ("hold", false),
            ("allowance", false),
            ("cash", true),
            ("expense:overrun", true),
        ] {
            let insert =
                sqlx::query("INSERT INTO ledger_account (account_id, kind, balance) VALUES (x'01', $1, -1)")
                    .bind(kind);
            assert_eq!(insert.execute(&mut connection).await.is_ok(), allowed, "{kind}");
        }
    });
}

/// The first migrations of both engines define the same columns, except `journal_mark`.
#[test]
fn schemas_have_the_same_columns() {
    let columns = |text: &str| {
        let mut columns = Vec::new();
        let mut table = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("CREATE TABLE ") {
                table = name.split_whitespace().next();
            } else if line.starts_with(')') {
                table = None;
            } else if let (Some(table), Some(name)) = (table, line.split_whitespace().next()) {
                let is_column = name
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit());
                if is_column && table != "journal_mark" {
                    columns.push(format!("{table}.{name}"));
                }
            }
        }
        columns
    };
    let migrations = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let read =
        |engine: &str| std::fs::read_to_string(migrations.join(engine).join("0001_books.sql")).unwrap();
    let sqlite = columns(&read("sqlite"));
    assert!(sqlite.len() > 50, "{sqlite:?}");
    assert_eq!(sqlite, columns(&read("postgres")));
}

fn hold(id: u128) -> NewHold {
    NewHold {
        id: HoldId::from_u128(id),
        account: AccountId::from_u128(1),
        principal: None,
        request: RequestId::from_u128(id),
        amount: Credits::from_nanos(10),
        price_version: PriceVersion::from_u64(1),
        model: Arc::from("m"),
        endpoint: "/v1/chat/completions",
        not_covered_by: Arc::default(),
        created_at: Timestamp::from_micros(0),
        expires_at: Timestamp::from_micros(1),
    }
}

/// Returns settings that write each journal record to a separate segment.
fn config(directory: &Path) -> SqliteConfig {
    SqliteConfig {
        segment_bytes: 0,
        ..SqliteConfig::new(directory, Arc::new(SystemClock::default()))
    }
}

/// Opens an engine with one account that was granted 25 nano-credits and has a hold of 10.
async fn engine_with_a_hold(directory: &Path) -> Sqlite {
    let engine = Sqlite::open(config(directory)).await.unwrap();
    let account = Account {
        id: AccountId::from_u128(1),
        name: String::new(),
        state: AccountState::Active,
        limits: Limits::default(),
        test_clock: None,
        created_at: Timestamp::from_micros(0),
    };
    let grant = Grant {
        id: TransferId::from_u128(1),
        account: account.id,
        amount: Credits::from_nanos(25),
        at: Timestamp::from_micros(0),
        terms: LotTerms::default(),
    };
    AccountStore::create(&engine, account).await.unwrap();
    engine.grant(grant).await.unwrap();
    engine.hold(hold(1)).await.unwrap();
    engine
}

#[tokio::test]
async fn changed_usage_hours_are_found() {
    let directory = tempfile::TempDir::new().unwrap();
    let engine = engine_with_a_hold(directory.path()).await;
    let account = AccountId::from_u128(1);
    let settlement =
        crate::journal::record::crashed((account, HoldId::from_u128(1)), Timestamp::from_micros(0));
    assert!(engine.settle(settlement).await.unwrap().first);
    let now = Timestamp::from_micros(3 * 3_600_000_000);
    assert!(!engine.advance(account, now).await.unwrap());
    assert_eq!(engine.differences().await.unwrap(), []);
    let change = "UPDATE usage_hour SET requests = 2, charge = 3";
    let changed = engine.write(
        move |connection| Box::pin(async move { Ok(connection.execute(change).await.is_ok()) }),
        |is_changed| is_changed,
    );
    assert!(changed.await.unwrap());
    let sums = |requests, nanos| HourSums {
        requests,
        charge: Credits::from_nanos(nanos),
    };
    let expected = HourDifference {
        account,
        hours: sums(2, 3),
        rows: sums(1, 0),
    };
    assert_eq!(engine.differences().await.unwrap(), [expected]);
    engine.close().await.unwrap();
}

/// A hold or settlement that cannot be written to the journal does not change the balances.
#[test]
fn journal_that_cannot_be_written_changes_nothing() {
    let directory = tempfile::TempDir::new().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let engine = engine_with_a_hold(directory.path()).await;
        let account = AccountId::from_u128(1);
        let settlement =
            crate::journal::record::crashed((account, HoldId::from_u128(1)), Timestamp::from_micros(0));
        let held = Balance {
            credits: Credits::from_nanos(15),
            held: Credits::from_nanos(10),
        };
        // Each record needs a new segment, which cannot be created without the directory.
        let (journal, elsewhere) = (
            directory.path().join("journal"),
            directory.path().join("elsewhere"),
        );
        std::fs::rename(&journal, &elsewhere).unwrap();
        let refused = engine.hold(hold(2)).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        let refused = engine.settle(settlement.clone()).await.unwrap_err();
        assert_eq!(refused.kind, StorageErrorKind::Unavailable);
        assert_eq!(engine.balance(account).await.unwrap(), held);
        std::fs::rename(&elsewhere, &journal).unwrap();
        assert!(matches!(engine.hold(hold(2)).await, Ok(HoldOutcome::Held { .. })));
        let release =
            crate::journal::record::crashed((account, HoldId::from_u128(2)), Timestamp::from_micros(0));
        assert!(engine.settle(release).await.unwrap().first);
        engine.close().await.unwrap();
        // After a restart the first hold is still open and the balances are unchanged.
        let engine = Sqlite::open(config(directory.path())).await.unwrap();
        assert_eq!(engine.balance(account).await.unwrap(), held);
        assert!(engine.settle(settlement).await.unwrap().first);
        engine.close().await.unwrap();
    });
}

/// A panic in the task that writes the database is a fatal failure of the engine.
#[tokio::test]
async fn a_panic_of_the_writer_fails_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    let config = SqliteConfig::new(dir.path(), Arc::new(SystemClock::default()));
    let engine = Sqlite::open(config).await.unwrap();
    engine.ping().await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(engine.failed()).is_none());
    let work = engine.write(|_| Box::pin(async { panic!("on purpose") }), |()| ());
    assert_eq!(work.await.unwrap_err().kind, StorageErrorKind::Unavailable);
    assert!(engine.failed().await.contains("panicked"));
    assert_eq!(
        engine.ping().await.unwrap_err().kind,
        StorageErrorKind::Unavailable
    );
}
