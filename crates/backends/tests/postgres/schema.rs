//! Tests of the schema: version, constraints, and equality with the schema of the SQLite engine.

use std::collections::BTreeSet;
use std::path::Path;

use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection, Row, SqliteConnection};
use tollgate_backends::postgres;
use tollgate_backends::transfer::EXCLUDED_TABLES;
use tollgate_storage::{StorageErrorKind, audit::AuditVisitor};
use tollgate_types::{AccountId, PriceVersion, Prices};

use crate::database::TestDatabase;
use crate::nodes::{hold, one_account, settlement};

async fn refusal(database: &TestDatabase) -> String {
    let error = postgres::open(database.config())
        .await
        .err()
        .expect("it must be refused");
    assert_eq!(error.kind, StorageErrorKind::Unavailable);
    error.to_string()
}

/// A database without a schema is refused until it is migrated. Repeated and concurrent migrations
/// change nothing.
#[test]
fn schema_behind_is_refused() {
    let database = TestDatabase::create();
    database.block_on(async {
        let refused = refusal(&database).await;
        assert!(
            refused.contains("schema version 0") && refused.contains("tollgate migrate"),
            "{refused}"
        );
        let url = database.url();
        let (one, two) = tokio::join!(postgres::migrate(&url), postgres::migrate(&url));
        one.and(two).unwrap();
        postgres::migrate(&url).await.unwrap();
        let storage = postgres::open(database.config()).await.unwrap();
        storage.engine.close().await.unwrap();
    });
}

/// A schema with additions of a later program is accepted. A schema with removals is refused by
/// `open` and by `migrate`.
#[test]
fn schema_ahead_is_refused() {
    let database = TestDatabase::create();
    database.block_on(async {
        let url = database.url();
        postgres::migrate(&url).await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
            VALUES (9999, 'later', true, 'x', 0)";
        database.execute(newer).await;
        let storage = postgres::open(database.config()).await.unwrap();
        storage.engine.close().await.unwrap();
        database
            .execute("UPDATE installation SET least_schema = 9999")
            .await;
        let refused = refusal(&database).await;
        assert!(
            refused.contains("schema version 9999") && refused.contains("a newer version"),
            "{refused}"
        );
        let migrated = postgres::migrate(&url).await.unwrap_err();
        assert_eq!(migrated.kind, StorageErrorKind::Conflict);
    });
}

/// A schema of the same version with another checksum is refused.
#[test]
fn another_schema_is_refused() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        database
            .execute("UPDATE _sqlx_migrations SET checksum = 'x'")
            .await;
        let refused = refusal(&database).await;
        assert!(refused.contains("another build"), "{refused}");
    });
}

/// Append-only rows cannot be changed or deleted, even without the engine.
#[test]
fn the_record_is_append_only() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        storage.ledger.hold(hold(1, 10)).await.unwrap();
        storage.ledger.settle(settlement(1, 10)).await.unwrap();
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        for statement in [
            "UPDATE transfer SET amount = amount + 1",
            "DELETE FROM transfer",
            "TRUNCATE transfer",
            "UPDATE usage_row SET charge = 0",
            "DELETE FROM usage_row",
            "TRUNCATE usage_row",
            "UPDATE price_version SET prices = '{}'",
            "DELETE FROM price_version",
            "TRUNCATE price_version",
            "UPDATE price_change SET actor = ''",
            "DELETE FROM price_change",
            "TRUNCATE price_change",
            "UPDATE audit_log SET actor = ''",
            "DELETE FROM audit_log",
            "TRUNCATE audit_log",
        ] {
            let error = sqlx::raw_sql(statement)
                .execute(&mut connection)
                .await
                .unwrap_err();
            assert!(error.to_string().contains("append-only"), "{statement}: {error}");
        }
        let overdrawn = "UPDATE ledger_account SET balance = -1 WHERE kind IN ('credits', 'hold')";
        assert!(sqlx::raw_sql(overdrawn).execute(&mut connection).await.is_err());
    });
}

/// Both engines have the same tables and columns, except tables that are not moved. No trigger or
/// sequence sets values on insertion, so that moved rows stay unchanged.
#[test]
fn both_engines_have_the_same_columns() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        let mut names = async |statement: &'static str| -> BTreeSet<String> {
            let rows = sqlx::query(statement).fetch_all(&mut connection).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let columns = "SELECT table_name || '.' || column_name FROM information_schema.columns
            WHERE table_schema = 'public'";
        let mut postgres = names(columns).await;
        for automatic in [
            "SELECT sequencename::text FROM pg_sequences",
            "SELECT table_name || '.' || column_name FROM information_schema.columns
                WHERE table_schema = 'public' AND (is_generated <> 'NEVER' OR is_identity <> 'NO')",
            // These triggers notify nodes and write nothing.
            "SELECT tgname::text FROM pg_trigger WHERE tgtype & 4 <> 0 AND NOT tgisinternal
                AND tgname NOT IN ('api_key_new', 'job_new')",
        ] {
            assert_eq!(names(automatic).await, BTreeSet::new());
        }

        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/sqlite");
        let migrations = Migrator::new(&*folder).await.unwrap();
        migrations.run(&mut connection).await.unwrap();
        let mut names = async |statement: &'static str| -> BTreeSet<String> {
            let rows = sqlx::query(statement).fetch_all(&mut connection).await.unwrap();
            rows.iter().map(|row| row.get(0)).collect()
        };
        let columns = "SELECT tables.name || '.' || columns.name
            FROM sqlite_schema AS tables, pragma_table_xinfo(tables.name) AS columns WHERE tables.type = 'table'";
        let mut sqlite = names(columns).await;
        for automatic in [
            "SELECT name FROM sqlite_schema WHERE name = 'sqlite_sequence'",
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND sql LIKE '% INSERT %'",
        ] {
            assert_eq!(names(automatic).await, BTreeSet::new());
        }
        for (table, reason) in EXCLUDED_TABLES {
            let is_other = |name: &String| !name.starts_with(&format!("{table}."));
            let exists = !(sqlite.iter().all(is_other) && postgres.iter().all(is_other));
            assert!(exists, "{table}: {reason}");
            sqlite.retain(is_other);
            postgres.retain(is_other);
        }
        assert!(postgres.contains("usage_row.charge"));
        assert_eq!(postgres, sqlite);
    });
}

#[derive(Default)]
struct Faults(Vec<String>);

impl AuditVisitor for Faults {
    fn price(&mut self, _: PriceVersion, _: &str, _: &Prices) {}
    fn account(&mut self, _: AccountId) {}
    fn balance(&mut self, _: tollgate_storage::LedgerBalance) {}
    fn lease(&mut self, _: tollgate_storage::audit::OpenLease) {}
    fn hold(&mut self, _: tollgate_storage::audit::OpenHold) {}
    fn chain(&mut self, _: tollgate_storage::Chain) {}
    fn lot(&mut self, _: &tollgate_storage::Lot) {}
    fn transfer(&mut self, _: tollgate_storage::audit::TransferRow) {}
    fn part(&mut self, _: tollgate_types::HoldId, _: &tollgate_storage::UsagePart) {}
    fn usage(&mut self, _: &tollgate_storage::UsageRow) {}
    fn refund(&mut self, _: &tollgate_storage::Refund) {}
    fn line(&mut self, _: &tollgate_storage::ChargedLine) {}
    fn account_end(&mut self) {}
    fn unreadable(&mut self, what: String) {
        self.0.push(what);
    }
}

/// An audit reports unreadable rows and rows without an account, and continues.
#[test]
fn audits_name_unreadable_rows() {
    let database = TestDatabase::create();
    database.block_on(async {
        let storage = one_account(&database, 100).await;
        let mut faults = Faults::default();
        storage.ledger.audit(None, &mut faults).await.unwrap();
        assert_eq!(faults.0, Vec::<String>::new());
        database
            .execute(
                "INSERT INTO transfer SELECT account_id, entry_id, 77, 'hold', 'credits', 'hold', 1, 0
                    FROM transfer WHERE leg = 0;
                INSERT INTO transfer SELECT account_id, entry_id, 1, 'hold', 'pocket', 'hold', 1, 0
                    FROM transfer WHERE leg = 0;
                INSERT INTO transfer VALUES ('\\x00000000000000000000000000000000', '\\x03', 1, 'hold', 'a', 'b', 1, 0);
                INSERT INTO hold VALUES ('\\xff000000000000000000000000000000', '\\x03', NULL, '\\x04', 0, 0, '', '',
                    0, 0);
                INSERT INTO price_version VALUES (1, 'm', 'free', 0);
                INSERT INTO ledger_account (account_id, kind, balance) SELECT id, 'pocket', 0 FROM account",
            )
            .await;
        let mut faults = Faults::default();
        storage.ledger.audit(None, &mut faults).await.unwrap();
        assert_eq!(faults.0.len(), 6, "{:#?}", faults.0);
        assert!(faults.0.iter().any(|fault| fault.contains("acct_ff000000")), "{:#?}", faults.0);
    });
}

/// The last use of a key is the last entry of its range in an index, regardless of the number of
/// calls.
#[test]
fn the_last_use_of_a_key_is_looked_up_in_an_index() {
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        // Without rows the planner would choose a scan.
        let no_scan = sqlx::query("SET enable_seqscan = off");
        no_scan.execute(&mut connection).await.unwrap();
        let explain =
            "EXPLAIN SELECT (SELECT max(created_at) FROM usage_row WHERE key_id = api_key.id) FROM api_key";
        let plan: Vec<String> = sqlx::query_scalar(explain)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let step = "Index Only Scan Backward using usage_row_key";
        assert!(plan.iter().any(|line| line.contains(step)), "{plan:?}");
    });
}

/// Every key begins with the account, so that a distributed database can store an account's rows
/// together. docs/scaling.md explains the exceptions.
#[test]
fn keys_begin_with_the_account() {
    const OTHERS: [&str; 27] = [
        "_sqlx_migrations_pkey",
        "account_pkey",
        "admin_digest_prefix",
        "admin_name",
        "admin_pkey",
        "api_key_digest_prefix",
        "api_key_pkey",
        "audit_log_pkey",
        "client_secret_digest_prefix",
        "credential_pkey",
        "installation_pkey",
        "label_prior_pkey",
        "member_pkey",
        "person_email",
        "person_pkey",
        "price_change_pkey",
        "price_version_pkey",
        "refund_pkey",
        "response_pkey",
        "session_digest_prefix",
        "session_pkey",
        "sign_in_failure_pkey",
        "sign_in_link_digest_prefix",
        "sign_in_link_pkey",
        "subscription_event_pkey",
        "subscription_pkey",
        "transfer_grant",
    ];
    let database = TestDatabase::create();
    database.block_on(async {
        postgres::migrate(&database.url()).await.unwrap();
        let mut connection = PgConnection::connect(&database.url()).await.unwrap();
        let found: Vec<String> = sqlx::query_scalar(
            "SELECT key.relname::text FROM pg_index JOIN pg_class AS key ON key.oid = indexrelid
            WHERE indisunique AND key.relnamespace = 'public'::regnamespace
                AND pg_get_indexdef(indexrelid, 1, true) <> 'account_id' ORDER BY 1",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        assert_eq!(found, OTHERS);
        let scaling =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scaling.md")).unwrap();
        for key in OTHERS.iter().filter(|key| **key != "_sqlx_migrations_pkey") {
            assert!(
                scaling.contains(&format!("`{key}`")),
                "{key} is not in docs/scaling.md"
            );
        }
    });
}
