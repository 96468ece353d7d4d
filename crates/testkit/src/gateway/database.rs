//! A PostgreSQL database for one test, and SQL access to an embedded database.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
use tokio::process::Command;

use super::settings::PEPPER;
use super::wait::{eventually, in_time};

/// A database with a unique name. Dropping the value drops the database, also after a failed test.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Creates an empty database on the server at `TEST_PG_URL`, or on the local server.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn create() -> Self {
        Self::create_on(server_url()).await
    }

    /// Creates a database with the schema of this binary, as a copy of a template that stays on the
    /// server. A migration takes ten times as long as a copy.
    ///
    /// # Panics
    /// If the server does not answer, or the migration fails.
    pub(super) async fn migrated(binary: &Path) -> Self {
        let server = server_url();
        let template = template(&server, binary).await;
        let database = Self::create_like(server, &format!(" TEMPLATE {template}")).await;
        let new_id = "UPDATE installation SET id = uuid_send(gen_random_uuid())";
        database.execute(new_id).await;
        database
    }

    /// Creates an empty database on the server at this URL, which names one of its databases.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn create_on(server: String) -> Self {
        Self::create_like(server, "").await
    }

    async fn create_like(server: String, template: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let name = format!("tollgate_api_{}_{count}_{now}", std::process::id());
        execute(&server, format!("CREATE DATABASE {name}{template}")).await;
        Self { server, name }
    }

    /// Returns the unique name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the connection URL of the database.
    ///
    /// # Panics
    /// If the server's URL has no database name.
    pub fn url(&self) -> String {
        url_of(&self.server, &self.name)
    }

    /// Closes the database to all connections, or opens it again.
    ///
    /// # Panics
    /// If the server does not answer.
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

    /// Terminates the `LISTEN` connections of all gateways.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn cut_listeners(&self) {
        let end = format!("SELECT pg_terminate_backend(pid) {}", listeners_of(&self.name));
        execute(&self.server, end).await;
    }

    /// Terminates the `LISTEN` connections and refuses new connections until [`Silence::end`].
    /// Other open connections stay open.
    ///
    /// # Panics
    /// If the server does not answer, or the connections do not end.
    pub async fn silence(&self) -> Silence<'_> {
        let mut connection = PgConnection::connect(&self.url()).await.unwrap();
        let name = &self.name;
        let closed = format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false");
        execute(&self.server, closed).await;
        self.cut_listeners().await;
        eventually("no LISTEN connections", async || {
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

    /// Executes statements in the database, independently of any gateway.
    ///
    /// # Panics
    /// If the statements fail.
    pub async fn execute(&self, statements: &str) {
        execute(&self.url(), statements.to_owned()).await;
    }
}

/// Guard that prevents all gateways from listening for notifications of the database while it
/// exists.
#[derive(Debug)]
pub struct Silence<'d> {
    database: &'d Database,
    connection: PgConnection,
}

impl Silence<'_> {
    /// Executes statements in the database.
    ///
    /// # Panics
    /// If the statements fail.
    pub async fn execute(&mut self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
            .execute(&mut self.connection)
            .await
            .unwrap();
    }

    /// Lets gateways listen again.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn end(self) {
        self.connection.close().await.unwrap();
        let opened = format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.database.name);
        execute(&self.database.server, opened).await;
    }
}

fn listeners_of(database: &str) -> String {
    format!(
        "FROM pg_stat_activity WHERE datname = '{database}' AND application_name = 'tollgate-notifications'"
    )
}

impl Drop for Database {
    fn drop(&mut self) {
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let server = self.server.clone();
        // The destructor usually runs inside a runtime, so a separate thread drops the database.
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
/// If the statements fail.
pub async fn execute_embedded(file: &Path, statements: &str) {
    let options = SqliteConnectOptions::new().filename(file);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

/// Returns the name of the template database, which is created if it does not exist. The name
/// contains the digest of the migrations. A template gets this name only when it is complete.
async fn template(server: &str, binary: &Path) -> String {
    let name = format!("tollgate_api_template_{}", digest_of_migrations());
    let mut connection = PgConnection::connect(server).await.unwrap();
    let lock = "SELECT pg_advisory_lock(7021860146)";
    sqlx::query(lock).execute(&mut connection).await.unwrap();
    let exists = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)";
    let exists = sqlx::query_scalar::<_, bool>(exists)
        .bind(&name)
        .fetch_one(&mut connection);
    if !exists.await.unwrap() {
        let unfinished = format!("{name}_unfinished");
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            execute(server, format!("{statement} {unfinished}")).await;
        }
        migrate(binary, &url_of(server, &unfinished)).await;
        execute(server, format!("ALTER DATABASE {unfinished} RENAME TO {name}")).await;
    }
    // Closing the connection releases the lock.
    connection.close().await.unwrap();
    name
}

/// Runs `migrate` of this binary.
async fn migrate(binary: &Path, url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(binary)
        .env_clear()
        .env("TOLLGATE_STORAGE__URL", url)
        .env("TOLLGATE_SERVICE__PEPPER_ENV", PEPPER.0)
        .env(PEPPER.0, PEPPER.1)
        .current_dir(folder.path())
        .arg("--data")
        .arg(folder.path().join("data"))
        .arg("migrate")
        .output();
    let output = in_time("the end of the migration", output).await.unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns the first 64 bits of a digest of all migrations, in hexadecimal.
fn digest_of_migrations() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../backends/migrations/postgres");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut context = digest::Context::new(&digest::SHA256);
    for file in files {
        context.update(&std::fs::read(file).unwrap());
    }
    let digest = context.finish();
    digest.as_ref()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the URL of another database on the server of this URL.
fn url_of(server: &str, name: &str) -> String {
    let (server, _) = server.rsplit_once('/').expect("a URL ends with a database name");
    format!("{server}/{name}")
}

fn server_url() -> String {
    let default = || "postgres://postgres@127.0.0.1:5432/postgres".to_owned();
    std::env::var("TEST_PG_URL").unwrap_or_else(|_| default())
}

async fn execute(url: &str, statements: String) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}
