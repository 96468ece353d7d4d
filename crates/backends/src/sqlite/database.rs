//! Connections to the database file, and schema migration.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqlitePool};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::rows::storage_error;
use crate::schema::{APPLIED, Applied, compare, migrations, newest};

/// Page size of a new database, in bytes. Calls are appended in batches, so large pages reduce page
/// splits and log writes.
const PAGE_BYTES: u32 = 16 << 10;
/// Size of the write-ahead log that starts a checkpoint, in pages. With `PAGE_BYTES`, this is 32
/// MiB.
const CHECKPOINT_PAGES: u32 = 2048;

pub(super) const DATABASE_FILE: &str = "tollgate.db";

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| migrations!("sqlite"));

/// A database file.
#[derive(Clone)]
pub(super) struct Database {
    options: SqliteConnectOptions,
}

impl Database {
    pub(super) fn in_directory(dir: &Path) -> Database {
        Database::at(&dir.join(DATABASE_FILE))
    }

    pub(super) fn at(file: &Path) -> Database {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(5))
            .foreign_keys(true)
            .pragma("temp_store", "MEMORY")
            .disable_statement_logging();
        Database { options }
    }

    /// Opens the only connection that writes to the database. Creates the file if it is missing.
    pub(super) async fn writer(&self) -> Result<SqliteConnection> {
        let options = self
            .options
            .clone()
            .create_if_missing(true)
            .page_size(PAGE_BYTES)
            .pragma("wal_autocheckpoint", CHECKPOINT_PAGES.to_string())
            .pragma("journal_size_limit", (64 << 20).to_string())
            .pragma("cache_size", "-65536")
            .thread_name(|_| "tollgate-writer".to_owned());
        options.connect().await.map_err(storage_error)
    }

    /// Opens a writing connection to a new file, without a rollback journal and without syncs. A
    /// failure may corrupt the file.
    pub(super) async fn unsafe_writer(&self) -> Result<SqliteConnection> {
        let options = self
            .options
            .clone()
            .create_if_missing(true)
            .page_size(PAGE_BYTES)
            .journal_mode(SqliteJournalMode::Off)
            .synchronous(SqliteSynchronous::Off)
            .pragma("cache_size", "-65536");
        options.connect().await.map_err(storage_error)
    }

    /// Opens one read-only connection.
    pub(super) async fn reader(&self) -> Result<SqliteConnection> {
        let options = self.options.clone().read_only(true);
        options.connect().await.map_err(storage_error)
    }

    /// Opens a pool of up to `max` read-only connections.
    pub(super) fn readers(&self, max: u32) -> SqlitePool {
        let options = self
            .options
            .clone()
            .read_only(true)
            .thread_name(|n| format!("tollgate-reader-{n}"));
        SqlitePoolOptions::new()
            .max_connections(max)
            .acquire_timeout(Duration::from_secs(10))
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(options)
    }
}

/// Migrates the database to the schema of this program, in a single transaction: a failure leaves
/// the schema unchanged, and the disk is synced once.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<()> {
    let mut transaction = connection.begin().await.map_err(storage_error)?;
    MIGRATIONS
        .run_direct(None, &mut *transaction, false)
        .await
        .map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error))?;
    transaction.commit().await.map_err(storage_error)
}

/// Returns the schema version of the database in a directory; 0 if the directory has no database.
pub async fn schema_version(dir: &Path) -> Result<i64> {
    if !dir.join(DATABASE_FILE).exists() {
        return Ok(0);
    }
    let mut connection = Database::in_directory(dir).reader().await?;
    let version = newest(&applied(&mut connection).await?);
    connection.close().await.map_err(storage_error)?;
    Ok(version)
}

/// Checks whether the applied migrations equal those of this program. The inner error describes the
/// difference and the solution.
pub(super) async fn verdict(connection: &mut SqliteConnection) -> Result<std::result::Result<(), String>> {
    Ok(compare(&applied(connection).await?, &MIGRATIONS))
}

async fn applied(connection: &mut SqliteConnection) -> Result<Vec<Applied>> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
    let exists: bool = sqlx::query_scalar(exists)
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    match exists {
        true => sqlx::query_as(APPLIED)
            .fetch_all(connection)
            .await
            .map_err(storage_error),
        false => Ok(Vec::new()),
    }
}
