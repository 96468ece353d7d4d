//! Connections to the database file, and its schema.

use std::path::Path;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqlitePool};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::rows::storage_error;
use crate::schema::{APPLIED, Applied, compare};

/// Pages of a new database. Calls are appended, many at a time: a large page is split, logged and moved less often.
const PAGE_BYTES: u32 = 16 << 10;
/// Pages of the write-ahead log after which they are moved into the database: 32 MiB.
const CHECKPOINT_PAGES: u32 = 2048;

/// The name of the database's file.
pub(super) const DATABASE_FILE: &str = "tollgate.db";

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/sqlite");

/// A database file.
#[derive(Clone)]
pub(super) struct Database {
    options: SqliteConnectOptions,
}

impl Database {
    /// The database in a directory.
    pub(super) fn in_directory(dir: &Path) -> Database {
        Database::at(&dir.join(DATABASE_FILE))
    }

    /// The database in a file.
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

    /// The one connection that writes.
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

    /// A connection that fills a file which nobody needs unless it is filled: a failure leaves it in any state.
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

    /// One connection that reads.
    pub(super) async fn reader(&self) -> Result<SqliteConnection> {
        let options = self.options.clone().read_only(true);
        options.connect().await.map_err(storage_error)
    }

    /// Connections that read.
    pub(super) fn readers(&self, most: u32) -> SqlitePool {
        let options = self
            .options
            .clone()
            .read_only(true)
            .thread_name(|n| format!("tollgate-reader-{n}"));
        SqlitePoolOptions::new()
            .max_connections(most)
            .acquire_timeout(Duration::from_secs(10))
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(options)
    }
}

/// Brings the schema up to date.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<()> {
    MIGRATIONS
        .run_direct(None, connection, false)
        .await
        .map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error))
}

/// Whether the schema is the one of this program; else what to do.
pub(super) async fn verdict(connection: &mut SqliteConnection) -> Result<std::result::Result<(), String>> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
    let exists: bool = sqlx::query_scalar(exists)
        .fetch_one(&mut *connection)
        .await
        .map_err(storage_error)?;
    let applied: Vec<Applied> = match exists {
        true => sqlx::query_as(APPLIED)
            .fetch_all(connection)
            .await
            .map_err(storage_error)?,
        false => Vec::new(),
    };
    Ok(compare(&applied, &MIGRATIONS))
}
