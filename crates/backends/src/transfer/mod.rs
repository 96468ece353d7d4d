//! Moves an installation from one engine to the other: all rows of all tables except
//! [`EXCLUDED_TABLES`], or nothing.
//!
//! The schemas define the copied tables and columns ([`tables`]), so that a migration that adds a
//! table or a column requires no change in this module. Each row is counted and digested during the
//! copy ([`checksum`]), and the target is read back and compared before it becomes valid. A SQLite
//! source first recovers its journal; otherwise the source does not change.

mod checksum;
mod tables;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{try_join, try_join3};
use tokio::sync::mpsc;
use tollgate_storage::{Result, StorageError, StorageErrorKind};
use tollgate_types::Clock;

use crate::postgres::PostgresSide;
use crate::sqlite::SqliteSide;

pub use checksum::TableChecksum;
use checksum::{AccountDigests, ChecksumBuilder};
pub use tables::EXCLUDED_TABLES;
pub(crate) use tables::{Kind, PostgresColumn, SqliteColumn, Table};

/// Source and target of a move.
#[derive(Clone)]
pub enum Route {
    /// From the SQLite database in a directory to a PostgreSQL database.
    ToPostgres {
        /// Data directory of the source.
        dir: PathBuf,
        /// URL of the target. Contains a secret.
        url: String,
    },
    /// From a PostgreSQL database to a new SQLite database in a directory.
    ToSqlite {
        /// URL of the source. Contains a secret.
        url: String,
        /// Data directory of the target.
        dir: PathBuf,
    },
}

/// Progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferProgress<'a> {
    /// Number of rows of a table copied so far; zero at its start.
    Copying(&'a str, u64),
    /// A table was copied, with this number of rows.
    Copied(&'a str, u64),
    /// Number of rows of a table read back from the target so far.
    Comparing(&'a str, u64),
}

/// Summary of a successful move: the copied rows of source and target are equal.
#[derive(Debug)]
pub struct TransferSummary {
    /// Checksums of the tables, in the order of copying.
    pub tables: Vec<TableChecksum>,
    /// Number of accounts with rows. The rows of each account were compared.
    pub accounts: u64,
}

/// Errors of a move.
#[derive(Debug)]
pub enum Error {
    /// Source or target is unsuitable. Nothing was written. The text includes advice.
    Refused(String),
    /// The move failed. The target is unchanged.
    Failed(StorageError),
    /// The connection broke during the commit: the target has all rows or none.
    Unknown(StorageError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) => f.write_str(why),
            Error::Failed(error) => write!(f, "nothing was moved: {error}"),
            Error::Unknown(error) => write!(
                f,
                "the connection broke at the commit, so the target has all rows or none: run the command \
                 again. If it reports that the target is not empty, all rows were moved ({error})"
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        Error::Failed(error)
    }
}

/// A value of either engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of a row, in column order.
pub(crate) type Row = Vec<Value>;

/// Maximum number of rows in a batch.
const BATCH_ROWS: usize = 512;
/// Size of a batch, in bytes, at which it is sent. The last row may exceed this size.
const BATCH_BYTES: usize = 256 << 10;
/// Maximum number of queued batches.
const MAX_QUEUED_BATCHES: usize = 4;

/// One of the two databases of a move.
#[async_trait]
pub(crate) trait Side: Send {
    /// Sends all rows of a table.
    async fn read(&mut self, table: &Table, rows: RowBatcher) -> Result<()>;
    /// Writes rows into a table until the channel is closed.
    async fn write(&mut self, table: &Table, rows: mpsc::Receiver<Vec<Row>>) -> Result<()>;
}

/// Sender of rows in batches, which bound the memory in use.
pub(crate) struct RowBatcher {
    send: mpsc::Sender<Vec<Row>>,
    batch: Vec<Row>,
    bytes: usize,
}

impl RowBatcher {
    fn new(send: mpsc::Sender<Vec<Row>>) -> RowBatcher {
        let (batch, bytes) = (Vec::with_capacity(BATCH_ROWS), 0);
        RowBatcher { send, batch, bytes }
    }

    /// Adds a row; sends the batch if it is full.
    pub(crate) async fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += row.iter().map(Value::bytes).sum::<usize>();
        self.batch.push(row);
        if self.batch.len() >= BATCH_ROWS || self.bytes >= BATCH_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    /// Sends the remaining rows.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_ROWS));
        let gone = |_| StorageError::new(StorageErrorKind::Unavailable, "the other side stopped");
        self.send.send(batch).await.map_err(gone)
    }
}

impl Value {
    fn bytes(&self) -> usize {
        match self {
            Value::Null | Value::Integer(_) => 8,
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Moves all tables and reports progress to `on_progress`.
///
/// Neither database may be in use during the move: a SQLite directory is locked; no node may be
/// connected to PostgreSQL, and its tables are locked. An interruption leaves the target unchanged:
/// PostgreSQL is written in one transaction, SQLite in a file that is renamed at the end. Until
/// then `serve` refuses the directory.
pub async fn run(
    route: &Route,
    clock: Arc<dyn Clock>,
    on_progress: &mut dyn FnMut(TransferProgress<'_>),
) -> std::result::Result<TransferSummary, Error> {
    match route {
        Route::ToPostgres { dir, url } => {
            let mut source = SqliteSide::source(dir, clock).await?;
            let mut target = PostgresSide::connect("target", url).await?;
            let tables = tables::merge_schemas(source.columns().await?, &target.columns().await?)?;
            target.begin_writing(&tables).await?;
            let summary = copy(&mut source, &mut target, &tables, on_progress).await?;
            target.commit(&tables).await?;
            Ok(summary)
        }
        Route::ToSqlite { url, dir } => {
            let mut source = PostgresSide::connect("source", url).await?;
            let mut target = SqliteSide::target(dir).await?;
            let tables = tables::merge_schemas(target.columns().await?, &source.columns().await?)?;
            source.begin_reading(&tables).await?;
            let summary = copy(&mut source, &mut target, &tables, on_progress).await?;
            target.install().await?;
            Ok(summary)
        }
    }
}

async fn copy(
    source: &mut dyn Side,
    target: &mut dyn Side,
    tables: &[Table],
    on_progress: &mut dyn FnMut(TransferProgress<'_>),
) -> Result<TransferSummary> {
    let mut accounts = AccountDigests::default();
    let mut copied = Vec::with_capacity(tables.len());
    for table in tables {
        on_progress(TransferProgress::Copying(&table.name, 0));
        let mut checksum = ChecksumBuilder::new(table, &mut accounts);
        let (send, mut receive) = mpsc::channel::<Vec<Row>>(MAX_QUEUED_BATCHES);
        let (pass, passed) = mpsc::channel::<Vec<Row>>(MAX_QUEUED_BATCHES);
        let counting = async {
            while let Some(batch) = receive.recv().await {
                checksum.add(&batch);
                on_progress(TransferProgress::Copying(&table.name, checksum.rows()));
                // The writing side returns the error that closed the receiver.
                let _ = pass.send(batch).await;
            }
            drop(pass);
            Ok(())
        };
        try_join3(
            source.read(table, RowBatcher::new(send)),
            counting,
            target.write(table, passed),
        )
        .await?;
        copied.push(checksum.finish());
        on_progress(TransferProgress::Copied(
            &table.name,
            copied.last().map_or(0, |table| table.rows),
        ));
    }
    compare(target, tables, (&copied, accounts), on_progress).await
}

/// Reads the target back and compares it with the source, table by table and account by account.
async fn compare(
    target: &mut dyn Side,
    tables: &[Table],
    (copied, accounts): (&[TableChecksum], AccountDigests),
    on_progress: &mut dyn FnMut(TransferProgress<'_>),
) -> Result<TransferSummary> {
    let mut found_accounts = AccountDigests::default();
    for (table, expected) in tables.iter().zip(copied) {
        let mut checksum = ChecksumBuilder::new(table, &mut found_accounts);
        let (send, mut receive) = mpsc::channel::<Vec<Row>>(MAX_QUEUED_BATCHES);
        let counting = async {
            while let Some(batch) = receive.recv().await {
                checksum.add(&batch);
                on_progress(TransferProgress::Comparing(&table.name, checksum.rows()));
            }
            Ok(())
        };
        try_join(target.read(table, RowBatcher::new(send)), counting).await?;
        let found = checksum.finish();
        if found != *expected {
            return Err(mismatch(format!(
                "read {} rows of {} with digest {}, but the target has {} with digest {}",
                expected.rows, expected.table, expected.digest, found.rows, found.digest
            )));
        }
    }
    if let Some(account) = accounts.first_difference(&found_accounts) {
        return Err(mismatch(format!("the rows of the account {account} differ")));
    }
    Ok(TransferSummary {
        tables: copied.to_vec(),
        accounts: accounts.count(),
    })
}

fn mismatch(detail: String) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, detail)
}

#[cfg(test)]
mod tests;
