//! Connections to the database file, and its schema.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, SqlitePool};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use crate::rows::storage_error;

/// Pages of a new database. Calls are appended, many at a time: a large page is split, logged and moved less often.
const PAGE_BYTES: u32 = 16 << 10;
/// Pages of the write-ahead log after which they are moved into the database: 32 MiB.
const CHECKPOINT_PAGES: u32 = 2048;

/// A database file.
#[derive(Clone)]
pub(super) struct Database {
    options: SqliteConnectOptions,
}

impl Database {
    /// The database in a directory.
    pub(super) fn in_directory(dir: &Path) -> Database {
        let options = SqliteConnectOptions::new()
            .filename(dir.join("tollgate.db"))
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
    sqlx::migrate!("migrations/sqlite")
        .run_direct(None, connection, false)
        .await
        .map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error))
}
