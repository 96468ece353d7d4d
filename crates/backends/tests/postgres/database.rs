//! A database for one test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime::{Builder, Runtime};
use tollgate_backends::postgres::PostgresConfig;
use tollgate_types::Clock;
use tollgate_types::clock::SystemClock;

/// A database with a name of its own, dropped with the value, when the test fails too.
pub struct TestDatabase {
    server: String,
    name: String,
    runtime: Option<Runtime>,
}

impl TestDatabase {
    /// An empty database.
    pub fn create() -> TestDatabase {
        TestDatabase::create_on(server_url())
    }

    /// The same, on a server of the test's own.
    pub fn create_on(server: String) -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemClock::default().now().as_micros();
        let name = format!("tollgate_test_{}_{count}_{now}", std::process::id());
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(execute(&server, format!("CREATE DATABASE {name}")));
        TestDatabase {
            server,
            name,
            runtime: Some(runtime),
        }
    }

    /// Its address.
    pub fn url(&self) -> String {
        let (address, settings) = match self.server.split_once('?') {
            Some((address, settings)) => (address, format!("?{settings}")),
            None => (self.server.as_str(), String::new()),
        };
        let (server, _) = address.rsplit_once('/').unwrap();
        format!("{server}/{}{settings}", self.name)
    }

    /// A few connections to it, with more patience than a server has, for machines that do much at once.
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

    /// Whether connections can be opened; those that are open stay.
    pub async fn allow_connections(&self, allowed: bool) {
        let statement = format!("ALTER DATABASE {} ALLOW_CONNECTIONS {allowed}", self.name);
        execute(&self.server, statement).await;
    }

    /// Executes statements in it, outside of any engine.
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
