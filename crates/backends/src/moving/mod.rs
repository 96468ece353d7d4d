//! Moves an installation from one engine to the other: every row of every table, or nothing.
//!
//! What is copied is said by the schemas themselves ([`tables`]), so a table or a column that a migration adds is moved
//! without a line here. Each row is counted and digested on its way ([`tally`]); before the target is made valid it is read
//! back and compared. The source is never changed.

mod tables;
mod tally;

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

pub use tables::OWN;
pub(crate) use tables::{Kind, PostgresColumn, SqliteColumn, Table};
pub use tally::TableTally;
use tally::{Accounts, Tally};

/// From where to where.
#[derive(Clone)]
pub enum Route {
    /// Out of the SQLite database in a directory, into a PostgreSQL database.
    ToPostgres {
        /// The directory.
        dir: PathBuf,
        /// The database's address. It holds a secret.
        url: String,
    },
    /// Out of a PostgreSQL database, into a SQLite database that is made in a directory.
    ToSqlite {
        /// The database's address. It holds a secret.
        url: String,
        /// The directory.
        dir: PathBuf,
    },
}

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// So many rows of a table were copied; none when it is begun.
    Copying(&'a str, u64),
    /// A table was copied, with so many rows.
    Copied(&'a str, u64),
    /// So many rows of a table were read back from the target.
    Comparing(&'a str, u64),
}

/// What was moved. The target has the same.
#[derive(Debug)]
pub struct Moved {
    /// Each table, in the order in which they were copied.
    pub tables: Vec<TableTally>,
    /// How many accounts own rows; the rows of each were compared.
    pub accounts: u64,
}

/// Why nothing was moved.
#[derive(Debug)]
pub enum Error {
    /// Source or target is not fit for it; nothing was written. What to do.
    Refused(String),
    /// It failed on the way. The target is as it was.
    Failed(StorageError),
    /// The connection broke while the target was made valid: it has everything or nothing.
    Unknown(StorageError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(why) => f.write_str(why),
            Error::Failed(error) => write!(f, "nothing was moved: {error}"),
            Error::Unknown(error) => write!(
                f,
                "the connection broke at the very end, so the target has everything or nothing: run it again; if it \
                 says that the target is not empty, everything was moved ({error})"
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

/// The values of a row, in order of the table's columns.
pub(crate) type Row = Vec<Value>;

/// Rows that travel together, at most.
const TOGETHER: usize = 512;
/// Bytes of rows that travel together, not counting the last one.
const BYTES_TOGETHER: usize = 256 << 10;
/// How many bundles may be on their way.
const ON_THE_WAY: usize = 4;

/// A database that is read or written.
#[async_trait]
pub(crate) trait Side: Send {
    /// Sends all rows of a table.
    async fn read(&mut self, table: &Table, rows: Bundler) -> Result<()>;
    /// Writes rows into a table until no more come.
    async fn write(&mut self, table: &Table, rows: mpsc::Receiver<Vec<Row>>) -> Result<()>;
}

/// Sends rows in bundles, so that what is in memory has a bound.
pub(crate) struct Bundler {
    send: mpsc::Sender<Vec<Row>>,
    bundle: Vec<Row>,
    bytes: usize,
}

impl Bundler {
    fn new(send: mpsc::Sender<Vec<Row>>) -> Bundler {
        let (bundle, bytes) = (Vec::with_capacity(TOGETHER), 0);
        Bundler { send, bundle, bytes }
    }

    /// Sends a row, sooner or later.
    pub(crate) async fn push(&mut self, row: Row) -> Result<()> {
        self.bytes += row.iter().map(Value::bytes).sum::<usize>();
        self.bundle.push(row);
        if self.bundle.len() >= TOGETHER || self.bytes >= BYTES_TOGETHER {
            self.send().await?;
        }
        Ok(())
    }

    /// Sends what is left.
    pub(crate) async fn finish(mut self) -> Result<()> {
        self.send().await
    }

    async fn send(&mut self) -> Result<()> {
        self.bytes = 0;
        let bundle = std::mem::replace(&mut self.bundle, Vec::with_capacity(TOGETHER));
        let gone = |_| StorageError::new(StorageErrorKind::Unavailable, "the other side ended");
        self.send.send(bundle).await.map_err(gone)
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

/// Moves everything. `watch` is told how far it is.
///
/// Nobody may use either side meanwhile: with SQLite the directory's lock is held, with PostgreSQL no node may be
/// connected and the tables are locked. Interrupted at any point, the target is as it was: PostgreSQL is written in one
/// transaction, SQLite in a file that gets its name at the end, and until then `serve` refuses the directory.
pub async fn run(
    route: &Route,
    clock: Arc<dyn Clock>,
    watch: &mut dyn FnMut(Step<'_>),
) -> std::result::Result<Moved, Error> {
    match route {
        Route::ToPostgres { dir, url } => {
            let mut source = SqliteSide::source(dir, clock).await?;
            let mut target = PostgresSide::connect("target", url).await?;
            let tables = tables::unite(source.columns().await?, &target.columns().await?)?;
            target.begin_writing(&tables).await?;
            let moved = copy(&mut source, &mut target, &tables, watch).await?;
            target.commit(&tables).await?;
            Ok(moved)
        }
        Route::ToSqlite { url, dir } => {
            let mut source = PostgresSide::connect("source", url).await?;
            let mut target = SqliteSide::target(dir).await?;
            let tables = tables::unite(target.columns().await?, &source.columns().await?)?;
            source.begin_reading(&tables).await?;
            let moved = copy(&mut source, &mut target, &tables, watch).await?;
            target.put_in_place().await?;
            Ok(moved)
        }
    }
}

async fn copy(
    source: &mut dyn Side,
    target: &mut dyn Side,
    tables: &[Table],
    watch: &mut dyn FnMut(Step<'_>),
) -> Result<Moved> {
    let mut accounts = Accounts::default();
    let mut copied = Vec::with_capacity(tables.len());
    for table in tables {
        watch(Step::Copying(&table.name, 0));
        let mut tally = Tally::new(table, &mut accounts);
        let (send, mut receive) = mpsc::channel::<Vec<Row>>(ON_THE_WAY);
        let (pass, passed) = mpsc::channel::<Vec<Row>>(ON_THE_WAY);
        let counting = async {
            while let Some(bundle) = receive.recv().await {
                tally.add(&bundle);
                watch(Step::Copying(&table.name, tally.rows()));
                // Whoever no longer takes rows says why.
                let _ = pass.send(bundle).await;
            }
            drop(pass);
            Ok(())
        };
        try_join3(
            source.read(table, Bundler::new(send)),
            counting,
            target.write(table, passed),
        )
        .await?;
        copied.push(tally.finish());
        watch(Step::Copied(
            &table.name,
            copied.last().map_or(0, |table| table.rows),
        ));
    }
    compare(target, tables, (&copied, accounts), watch).await
}

/// Reads the target back. It must have what was read from the source, table by table and account by account.
async fn compare(
    target: &mut dyn Side,
    tables: &[Table],
    (copied, accounts): (&[TableTally], Accounts),
    watch: &mut dyn FnMut(Step<'_>),
) -> Result<Moved> {
    let mut found_accounts = Accounts::default();
    for (table, expected) in tables.iter().zip(copied) {
        let mut tally = Tally::new(table, &mut found_accounts);
        let (send, mut receive) = mpsc::channel::<Vec<Row>>(ON_THE_WAY);
        let counting = async {
            while let Some(bundle) = receive.recv().await {
                tally.add(&bundle);
                watch(Step::Comparing(&table.name, tally.rows()));
            }
            Ok(())
        };
        try_join(target.read(table, Bundler::new(send)), counting).await?;
        let found = tally.finish();
        if found != *expected {
            return Err(different(format!(
                "{} rows of {} with the digest {} were read, but {} with {} are in the target",
                expected.rows, expected.table, expected.digest, found.rows, found.digest
            )));
        }
    }
    if let Some(account) = accounts.first_difference(&found_accounts) {
        return Err(different(format!("the rows of the account {account} differ")));
    }
    Ok(Moved {
        tables: copied.to_vec(),
        accounts: accounts.count(),
    })
}

fn different(how: String) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, how)
}

#[cfg(test)]
mod tests;
