//! A database for one test.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::migrate::Migrator;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::{Builder, Runtime};
use tollgate_backends::postgres::{self, PostgresConfig};
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

/// A database with a unique name, dropped with the value even if the test fails.
pub struct TestDatabase {
    server: String,
    name: String,
    runtime: Option<Runtime>,
}

impl TestDatabase {
    /// Creates an empty database.
    pub fn create() -> TestDatabase {
        TestDatabase::create_on(server_url())
    }

    /// Creates a database with the schema, as a copy of a template that stays on the server. A
    /// migration takes ten times as long as a copy.
    pub fn migrated() -> TestDatabase {
        TestDatabase::of(server_url(), true)
    }

    /// Creates an empty database on a separate server.
    pub fn create_on(server: String) -> TestDatabase {
        TestDatabase::of(server, false)
    }

    fn of(server: String, is_migrated: bool) -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemClock::default().now().as_micros();
        let name = format!("tollgate_test_{}_{count}_{now}", std::process::id());
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let template = match is_migrated {
                true => format!(" TEMPLATE {}", template(&server).await),
                false => String::new(),
            };
            execute(&server, format!("CREATE DATABASE {name}{template}")).await;
        });
        TestDatabase {
            server,
            name,
            runtime: Some(runtime),
        }
    }

    /// Returns the URL of the database, with its credentials.
    pub fn url(&self) -> String {
        url_of(&self.server, &self.name)
    }

    /// Returns settings with few connections and long timeouts, for busy test machines.
    pub fn config(&self) -> PostgresConfig {
        PostgresConfig {
            max_connections: 8,
            acquire_timeout: Duration::from_secs(60),
            statement_timeout: Duration::from_secs(60),
            ..PostgresConfig::new(self.url())
        }
    }

    /// Runs a test on a runtime with two threads.
    pub fn block_on<T>(&self, test: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(test)
    }

    /// Allows or refuses new connections; open ones stay.
    pub async fn allow_connections(&self, allowed: bool) {
        let statement = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", self.name);
        execute(&self.server, statement).await;
    }

    /// Executes statements in the database, without an engine.
    pub async fn execute(&self, statements: &str) {
        execute(&self.url(), statements.to_owned()).await;
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        if let Some(runtime) = self.runtime.take() {
            runtime.block_on(execute(&server, statement));
        }
    }
}

/// Returns the name of the template database, which is created if it does not exist. The name
/// contains the digest of the migrations. A template gets this name only when it is complete.
async fn template(server: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let migrations = Migrator::new(&*folder).await.unwrap();
    let mut digest = Sha256::new();
    migrations
        .iter()
        .for_each(|migration| digest.update(&*migration.checksum));
    let name = format!("tollgate_template_{:.16}", hex(&digest.finalize()));
    let mut connection = PgConnection::connect(server).await.unwrap();
    let lock = "SELECT pg_advisory_lock(7021860145)";
    sqlx::query(lock).execute(&mut connection).await.unwrap();
    let exists = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)";
    let exists = sqlx::query_scalar::<_, bool>(exists)
        .bind(&name)
        .fetch_one(&mut connection);
    if !exists.await.unwrap() {
        let making = format!("{name}_making");
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            execute(server, format!("{statement} {making}")).await;
        }
        postgres::migrate(&url_of(server, &making)).await.unwrap();
        execute(server, format!("ALTER DATABASE {making} RENAME TO {name}")).await;
    }
    // Closing the connection releases the lock.
    connection.close().await.unwrap();
    name
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn url_of(server: &str, name: &str) -> String {
    let (address, settings) = match server.split_once('?') {
        Some((address, settings)) => (address, format!("?{settings}")),
        None => (server, String::new()),
    };
    let (server, _) = address.rsplit_once('/').unwrap();
    format!("{server}/{name}{settings}")
}

async fn execute(url: &str, statements: String) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

#[expect(
    clippy::disallowed_methods,
    reason = "which server is the setting of a test run"
)]
fn server_url() -> String {
    let default = || "postgres://postgres@127.0.0.1:5432/postgres".to_owned();
    std::env::var("TEST_PG_URL").unwrap_or_else(|_| default())
}
