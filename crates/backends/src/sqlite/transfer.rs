//! SQLite database as the source or target of a move.
//!
//! A target is written to a temporary file, which is renamed when it is complete. Until then the
//! engine refuses to open the directory.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Connection, Row as _};
use tokio::sync::mpsc;
use tollgate_storage::{Result, StorageError, StorageErrorKind};
use tollgate_types::Clock;

use super::bulk::Bulk;
use super::database::{self, DATABASE_FILE, Database};
use super::lock::{DirectoryLock, holder};
use super::writer::execute;
use super::{SqliteConfig, open};
use crate::journal::unavailable;
use crate::rows::storage_error;
use crate::transfer::{EXCLUDED_TABLES, Error, Kind, Row, RowBatcher, Side, SqliteColumn, Table, Value};

/// File name of an unfinished target.
const UNFINISHED: &str = "tollgate.db.moving";

const COLUMNS: &str = "SELECT tables.name AS table_name, columns.name AS column_name, columns.type AS data_type, \
    columns.pk AS key_place, (SELECT \"table\" FROM pragma_foreign_key_list(tables.name) AS other \
    WHERE other.\"from\" = columns.name LIMIT 1) AS refers_to \
    FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns \
    WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
    ORDER BY tables.name, columns.cid";

type TransferResult<T> = std::result::Result<T, Error>;

/// One of the two databases of a move, with the lock of its directory.
pub(crate) struct SqliteSide {
    dir: PathBuf,
    connection: SqliteConnection,
    lock: DirectoryLock,
}

impl SqliteSide {
    /// Opens the database of a directory that no process uses. Starts and closes the engine first,
    /// to recover the journal of an earlier run.
    pub(crate) async fn source(dir: &Path, clock: Arc<dyn Clock>) -> TransferResult<SqliteSide> {
        let file = dir.join(DATABASE_FILE);
        if !file.exists() {
            return Err(Error::Refused(format!("found no database at {}", file.display())));
        }
        let lock = lock_directory(dir)?;
        check_source(dir).await?;
        lock.release();
        let engine = open(SqliteConfig::new(dir, clock)).await?.engine;
        engine.close().await?;
        let lock = lock_directory(dir)?;
        // Repeats the check, because the directory was unlocked after the first one.
        let mut connection = check_source(dir).await?;
        execute(&mut connection, "BEGIN").await?;
        let clean: i64 = sqlx::query_scalar("SELECT clean FROM journal_mark")
            .fetch_one(&mut connection)
            .await
            .map_err(storage_error)?;
        if clean == 0 {
            let message = format!(
                "another process used {} during the move: run the command again",
                file.display()
            );
            return Err(Error::Refused(message));
        }
        let dir = dir.to_owned();
        Ok(SqliteSide {
            dir,
            connection,
            lock,
        })
    }

    /// Creates the temporary file of a target. The directory must not contain a database with rows;
    /// [`SqliteSide::install`] replaces a database without rows.
    pub(crate) async fn target(dir: &Path) -> TransferResult<SqliteSide> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        created.map_err(unavailable)?;
        let lock = lock_directory(dir)?;
        if dir.join(DATABASE_FILE).exists() {
            refuse_rows(dir).await?;
        }
        let journal = fs::read_dir(dir.join("journal"));
        if journal.is_ok_and(|mut files| files.next().is_some()) {
            let dir = dir.display();
            let message = format!(
                "the target {dir} has the journal of another database: remove {dir}/journal or use another \
                 directory"
            );
            return Err(Error::Refused(message));
        }
        let unfinished = dir.join(UNFINISHED);
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(unavailable)?;
        }
        let mut connection = Database::at(&unfinished).unsafe_writer().await?;
        database::migrate(&mut connection).await?;
        execute(&mut connection, "BEGIN").await?;
        let dir = dir.to_owned();
        Ok(SqliteSide {
            dir,
            connection,
            lock,
        })
    }

    /// Returns all columns of the moved tables, ordered by table name and column position.
    pub(crate) async fn columns(&mut self) -> Result<Vec<SqliteColumn>> {
        columns(&mut self.connection).await
    }

    /// Replaces the directory's database with the temporary file, atomically even on a power
    /// failure.
    pub(crate) async fn install(mut self) -> Result<()> {
        execute(&mut self.connection, "COMMIT").await?;
        self.connection.close().await.map_err(storage_error)?;
        let place = || -> std::io::Result<()> {
            let unfinished = self.dir.join(UNFINISHED);
            File::open(&unfinished)?.sync_all()?;
            // Removes the write-ahead log of the replaced database, and the index of the log.
            for rest in ["tollgate.db-wal", "tollgate.db-shm"].map(|name| self.dir.join(name)) {
                if rest.exists() {
                    fs::remove_file(rest)?;
                }
            }
            fs::rename(unfinished, self.dir.join(DATABASE_FILE))?;
            File::open(&self.dir)?.sync_all()
        };
        place().map_err(unavailable)?;
        self.lock.release();
        Ok(())
    }
}

/// Returns `Unavailable` for a directory with an unfinished move. Otherwise the engine would start
/// with an empty database.
pub(super) fn refuse_unfinished(dir: &Path) -> Result<()> {
    if !dir.join(UNFINISHED).exists() {
        return Ok(());
    }
    let dir = dir.display();
    let message = format!(
        "a move into {dir} did not finish: run `tollgate move` again, or remove \
         {dir}/{UNFINISHED} to start with the other files of the directory"
    );
    Err(StorageError::new(StorageErrorKind::Unavailable, message))
}

#[async_trait]
impl Side for SqliteSide {
    async fn read(&mut self, table: &Table, mut rows: RowBatcher) -> Result<()> {
        let statement = format!("SELECT {} FROM {}", table.column_list(), table.quoted());
        let mut found = sqlx::query(AssertSqlSafe(statement)).fetch(&mut self.connection);
        while let Some(row) = found.try_next().await.map_err(storage_error)? {
            let values = table.columns.iter().enumerate();
            let values = values.map(|(place, column)| value(&row, place, column.kind));
            rows.push(values.collect::<sqlx::Result<Row>>().map_err(storage_error)?)
                .await?;
        }
        rows.finish().await
    }

    async fn write(&mut self, table: &Table, mut rows: mpsc::Receiver<Vec<Row>>) -> Result<()> {
        let head = format!("INSERT INTO {} ({})", table.quoted(), table.column_list());
        let insert = Bulk::new(&head, table.columns.len(), "");
        while let Some(batch) = rows.recv().await {
            let each = |row: &Row, values: &mut super::bulk::Values| {
                row.iter().for_each(|value| {
                    values.any(value);
                });
            };
            insert.run(&mut self.connection, |_| {}, &batch, each).await?;
        }
        Ok(())
    }
}

fn value(row: &SqliteRow, place: usize, kind: Kind) -> sqlx::Result<Value> {
    let value = match kind {
        Kind::Flag | Kind::Small | Kind::Integer => row.try_get::<Option<i64>, _>(place)?.map(Value::Integer),
        Kind::Text => row.try_get::<Option<String>, _>(place)?.map(Value::Text),
        Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(place)?.map(Value::Bytes),
    };
    Ok(value.unwrap_or(Value::Null))
}

/// Locks the directory. Returns `Refused` with the process id if another process holds the lock.
fn lock_directory(dir: &Path) -> TransferResult<DirectoryLock> {
    DirectoryLock::take(dir).map_err(|error| match holder(dir) {
        Some(pid) if error.kind == StorageErrorKind::Unavailable => Error::Refused(format!(
            "{} is used by another tollgate process (pid {pid}): stop it first. Later writes would be lost",
            dir.join(DATABASE_FILE).display()
        )),
        _ => Error::Failed(error),
    })
}

async fn check_source(dir: &Path) -> TransferResult<SqliteConnection> {
    refuse_unfinished(dir).map_err(|error| Error::Refused(error.source.to_string()))?;
    let mut connection = Database::in_directory(dir).reader().await?;
    let verdict = database::verdict(&mut connection).await?;
    let file = dir.join(DATABASE_FILE);
    verdict.map_err(|why| Error::Refused(format!("the source {}: {why}", file.display())))?;
    Ok(connection)
}

async fn refuse_rows(dir: &Path) -> TransferResult<()> {
    let mut connection = Database::in_directory(dir).reader().await?;
    let mut tables: Vec<String> = columns(&mut connection)
        .await?
        .into_iter()
        .map(|column| column.table_name)
        .collect();
    tables.dedup();
    for table in tables {
        let statement = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\")");
        let has_rows: bool = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_one(&mut connection)
            .await
            .map_err(storage_error)?;
        if has_rows {
            let file = dir.join(DATABASE_FILE);
            return Err(Error::Refused(format!(
                "the target {} is not empty ({table} has rows): use another directory",
                file.display()
            )));
        }
    }
    connection.close().await.map_err(storage_error)?;
    Ok(())
}

async fn columns(connection: &mut SqliteConnection) -> Result<Vec<SqliteColumn>> {
    let mut columns: Vec<SqliteColumn> = sqlx::query_as(COLUMNS)
        .fetch_all(connection)
        .await
        .map_err(storage_error)?;
    columns.retain(|column| {
        EXCLUDED_TABLES
            .iter()
            .all(|(table, _)| *table != column.table_name)
    });
    Ok(columns)
}
