//! A PostgreSQL database for one test, and a way into an embedded one.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};

use super::wait::eventually;

/// A database with a name of its own. It is dropped with the value, when the test fails too.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// An empty database on the server that `TEST_PG_URL` names, or the one on this machine.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn create() -> Self {
        let default = || "postgres://postgres@127.0.0.1:5432/postgres".to_owned();
        Self::create_on(std::env::var("TEST_PG_URL").unwrap_or_else(|_| default())).await
    }

    /// An empty database on the server at this address, which names one of its databases.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn create_on(server: String) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let name = format!("tollgate_api_{}_{count}_{now}", std::process::id());
        execute(&server, format!("CREATE DATABASE {name}")).await;
        Self { server, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    ///
    /// # Panics
    /// When the server's address names no database.
    pub fn url(&self) -> String {
        let (server, _) = self
            .server
            .rsplit_once('/')
            .expect("an address ends with a database");
        format!("{server}/{}", self.name)
    }

    /// Takes the database away from everybody, or gives it back.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn set_reachable(&self, reachable: bool) {
        let name = &self.name;
        execute(
            &self.server,
            format!("ALTER DATABASE {name} ALLOW_CONNECTIONS {reachable}"),
        )
        .await;
        if !reachable {
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname =";
            execute(&self.server, format!("{end} '{name}'")).await;
        }
    }

    /// Cuts off the connections by which gateways listen to what changes.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn cut_listeners(&self) {
        let end = format!("SELECT pg_terminate_backend(pid) {}", listeners_of(&self.name));
        execute(&self.server, end).await;
    }

    /// Cuts them off and keeps them away until [`Silence::end`]; every other connection stays.
    ///
    /// # Panics
    /// When the server does not answer, or they do not go.
    pub async fn silence(&self) -> Silence<'_> {
        let mut connection = PgConnection::connect(&self.url()).await.unwrap();
        let name = &self.name;
        let closed = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
        execute(&self.server, closed).await;
        self.cut_listeners().await;
        eventually("nobody listens", async || {
            let count = format!("SELECT count(*) {}", listeners_of(name));
            let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count));
            count.fetch_one(&mut connection).await.unwrap() == 0
        })
        .await;
        Silence {
            database: self,
            connection,
        }
    }

    /// Executes statements in it, beside every gateway.
    ///
    /// # Panics
    /// When they fail.
    pub async fn execute(&self, statements: &str) {
        execute(&self.url(), statements.to_owned()).await;
    }
}

/// While no gateway can listen to what changes in a database.
#[derive(Debug)]
pub struct Silence<'d> {
    database: &'d Database,
    connection: PgConnection,
}

impl Silence<'_> {
    /// Executes statements in the database.
    ///
    /// # Panics
    /// When they fail.
    pub async fn execute(&mut self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    /// Gateways can listen again.
    ///
    /// # Panics
    /// When the server does not answer.
    pub async fn end(self) {
        self.connection.close().await.unwrap();
        let opened = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.database.name);
        execute(&self.database.server, opened).await;
    }
}

fn listeners_of(database: &str) -> String {
    format!("FROM pg_stat_activity WHERE datname = '{database}' AND application_name = 'tollgate-news'")
}

impl Drop for Database {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        // A thread of its own: the one that drops is most often inside a runtime already.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(execute(&server, statement));
        });
        let _ = dropped.join();
    }
}

/// Executes statements in an embedded database that no process has open.
///
/// # Panics
/// When they fail.
pub async fn execute_embedded(file: &Path, statements: &str) {
    let options = SqliteConnectOptions::new().filename(file);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

async fn execute(url: &str, statements: String) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}
