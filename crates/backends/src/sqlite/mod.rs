//! The SQLite engine: one process owns all the books.
//!
//! Balances and open holds live in memory. A hold or a settlement is decided there, written to the journal
//! ([`crate::journal`]) and answered; behind it one task ([`writer`]) takes the journal over into the database in large
//! transactions. What the process had not taken over when it died is taken over at the next start ([`recover`]).
//! Everything else is written in the database before it is answered.
//!
//! Suggested reading order: [`ledger`], [`crate::journal`], [`writer`], [`batch`], [`recover`].

mod account;
mod admin;
mod audit;
mod audit_log;
mod batch;
mod batch_line;
mod books;
mod bulk;
mod calibration;
mod chain;
mod database;
mod engine;
mod file;
mod holds;
mod idempotency;
mod job;
mod key;
mod label_prior;
mod ledger;
mod lock;
mod lot;
mod media;
mod member;
mod moving;
mod notice;
mod price;
mod provider_subscription;
mod query;
mod recover;
mod refund;
mod report;
mod response;
mod statements;
mod subscription;
mod top_up;
mod usage;
mod webhook;
mod work;
mod writer;

#[cfg(test)]
mod tests;

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnection;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use tollgate_storage::{NoNews, Result, Storage, StorageError, StorageErrorKind};
use tollgate_types::Clock;

use crate::journal::{Journal, JournalConfig, unavailable};
use crate::rows::storage_error;
use crate::runtime::OwnedRuntime;
use books::Books;
use database::Database;
use holds::Holds;
use lock::DirectoryLock;
pub(crate) use moving::SqliteSide;
use work::Task;
use writer::{Command, Inbox, Writer};

/// Where the engine keeps its files, and how eagerly it writes them.
#[derive(Clone, Debug)]
pub struct SqliteConfig {
    /// Directory of the database and its lock. It is made if it does not exist. It belongs to one process at a time.
    pub data_dir: PathBuf,
    /// Directory of the journal, on a disk that keeps what it is given. It belongs to the database.
    pub journal_dir: PathBuf,
    /// Connections that read.
    pub readers: u32,
    /// Records of the journal that make a transaction.
    pub commit_records: usize,
    /// How long a record may wait for its transaction.
    pub commit_after: Duration,
    /// How long a record may wait for the disk; a power cut can take back what was answered in this time.
    pub sync_after: Duration,
    /// Size of the journal's files.
    pub segment_bytes: usize,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl SqliteConfig {
    /// The usual settings, with the journal in `journal` within the data directory.
    pub fn new(data_dir: impl AsRef<Path>, clock: Arc<dyn Clock>) -> SqliteConfig {
        SqliteConfig {
            data_dir: data_dir.as_ref().to_owned(),
            journal_dir: data_dir.as_ref().join("journal"),
            readers: 4,
            commit_records: 16_384,
            commit_after: Duration::from_millis(200),
            sync_after: Duration::from_millis(5),
            segment_bytes: 8 << 20,
            clock,
        }
    }
}

/// Opens the engine: takes the directory, brings the schema up to date, takes over what an earlier run left in the
/// journal and voids the calls that it left open. Close it before it is opened again; dropping the last handle
/// without that is like the death of the process.
///
/// `Unavailable` when another process uses the directory or a file cannot be opened; `Corrupt` when database and
/// journal do not belong together or were written by a later version.
pub async fn open(config: SqliteConfig) -> Result<Storage> {
    let engine = Sqlite::open(config).await?;
    Ok(Storage {
        accounts: Arc::new(engine.clone()),
        keys: Arc::new(engine.clone()),
        ledger: Arc::new(engine.clone()),
        lots: Arc::new(engine.clone()),
        notices: Arc::new(engine.clone()),
        top_ups: Arc::new(engine.clone()),
        usage: Arc::new(engine.clone()),
        reports: Arc::new(engine.clone()),
        admins: Arc::new(engine.clone()),
        audit_log: Arc::new(engine.clone()),
        members: Arc::new(engine.clone()),
        prices: Arc::new(engine.clone()),
        responses: Arc::new(engine.clone()),
        media: Arc::new(engine.clone()),
        files: Arc::new(engine.clone()),
        batches: Arc::new(engine.clone()),
        calibrations: Arc::new(engine.clone()),
        subscriptions: Arc::new(engine.clone()),
        provider_subscriptions: Arc::new(engine.clone()),
        idempotency: Arc::new(engine.clone()),
        jobs: Arc::new(engine.clone()),
        label_priors: Arc::new(engine.clone()),
        webhooks: Arc::new(engine.clone()),
        news: Arc::new(NoNews),
        engine: Arc::new(engine),
    })
}

async fn start(
    config: SqliteConfig,
    lock: DirectoryLock,
    runtime: Handle,
    tracker: TaskTracker,
) -> Result<(Arc<Core>, JoinHandle<()>)> {
    let database = Database::in_directory(&config.data_dir);
    let mut connection = database.writer().await?;
    database::migrate(&mut connection).await?;
    idempotency::abandon(&mut connection).await?;
    job::abandon(&mut connection).await?;
    webhook::abandon(&mut connection).await?;
    let recovered = recover::recover(&mut connection, &config.journal_dir, &*config.clock).await?;
    let journal = Arc::new(Journal::create(JournalConfig {
        dir: config.journal_dir,
        installation: recovered.installation,
        next: recovered.last + 1,
        segment_bytes: config.segment_bytes,
        sync_after: config.sync_after,
        queues: true,
    })?);
    let syncer = journal.start_syncer().map_err(unavailable)?;
    let core = Arc::new(Core {
        clock: config.clock,
        books: recovered.books,
        holds: recovered.holds,
        journal,
        inbox: Inbox::default(),
        commit_records: config.commit_records,
        commit_after: config.commit_after,
        committed: AtomicU64::new(recovered.last),
        failing: AtomicBool::new(false),
        changing: tokio::sync::Mutex::default(),
        readers: database.readers(config.readers),
        runtime: runtime.clone(),
        tracker: tracker.clone(),
        lock,
    });
    let writer = Writer::new(core.clone(), database, connection);
    tracker.spawn_on(writer.run(), &runtime);
    Ok((core, syncer))
}

/// The engine behind every port. Its methods may be called from any runtime.
#[derive(Clone)]
struct Sqlite(Arc<Owner>);

impl Sqlite {
    async fn open(config: SqliteConfig) -> Result<Sqlite> {
        for dir in [&config.data_dir, &config.journal_dir] {
            fs::create_dir_all(dir).map_err(unavailable)?;
        }
        let lock = DirectoryLock::take(&config.data_dir)?;
        moving::refuse_unfinished(&config.data_dir)?;
        // The engine depends on no caller's runtime: callers may have several, and they come and go.
        let owner = OwnedRuntime::start("tollgate-sqlite").map_err(unavailable)?;
        let handle = owner.handle().clone();
        let tracker = TaskTracker::new();
        let started = tracker.spawn_on(start(config, lock, handle.clone(), tracker.clone()), &handle);
        let (core, syncer) = started.await.map_err(stopped)??;
        Ok(Sqlite(Arc::new(Owner {
            core,
            syncer: Mutex::new(Some(syncer)),
            _runtime: owner,
        })))
    }
}

impl Deref for Sqlite {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0.core
    }
}

/// Ends the engine's tasks when the last handle is gone.
struct Owner {
    core: Arc<Core>,
    syncer: Mutex<Option<JoinHandle<()>>>,
    _runtime: OwnedRuntime,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.core.journal.close();
        self.core.journal.stop_syncer();
    }
}

/// What callers and tasks share.
struct Core {
    clock: Arc<dyn Clock>,
    books: Books,
    holds: Holds,
    journal: Arc<Journal>,
    inbox: Inbox,
    commit_records: usize,
    commit_after: Duration,
    /// The last record of the journal that is in the database.
    committed: AtomicU64,
    /// Whether the last transaction failed.
    failing: AtomicBool,
    /// Held while anything but a call moves credits.
    changing: tokio::sync::Mutex<()>,
    readers: SqlitePool,
    runtime: Handle,
    tracker: TaskTracker,
    lock: DirectoryLock,
}

impl Core {
    fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Has the writer carry out `statements` in a transaction, then `apply` to their result; answers what `apply` does.
    async fn write<T, R>(
        &self,
        statements: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
        apply: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<R>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let (work, answer) = Task::prepare(statements, apply, false);
        self.inbox.send(Command::Work(work));
        answer.await.map_err(stopped)?
    }

    /// The same for what is written often and by one statement alone, beside which nothing is to be undone.
    async fn write_one<T: Send + 'static>(
        &self,
        statement: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (work, answer) = Task::prepare(statement, |result| result, true);
        self.inbox.send(Command::Work(work));
        answer.await.map_err(stopped)?
    }

    /// Reads on a connection of its own.
    async fn read<T: Send + 'static>(
        &self,
        statements: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let readers = self.readers.clone();
        let reading = async move {
            let mut connection = readers.acquire().await.map_err(storage_error)?;
            statements(&mut connection).await
        };
        self.tracker
            .spawn_on(reading, &self.runtime)
            .await
            .map_err(stopped)?
    }

    /// Does it to its end, even when whoever asked goes away.
    async fn carry_through<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let work = self.tracker.spawn_on(work, &self.runtime);
        work.await.map_err(stopped)?
    }

    /// Returns when everything appended so far is in the database; open holds may still be in the journal alone.
    async fn flush_resolved(&self) -> Result<()> {
        if self.committed.load(Ordering::SeqCst) >= self.journal.last() {
            return Ok(());
        }
        self.flush(false).await
    }

    /// Returns when everything appended so far is in the database.
    async fn flush(&self, open_holds: bool) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.inbox.send(Command::Flush { open_holds, done });
        answer.await.map_err(stopped)?
    }
}

/// The engine's tasks are gone.
fn stopped(cause: impl std::fmt::Display) -> StorageError {
    StorageError::new(
        StorageErrorKind::Unavailable,
        format!("the engine is closed: {cause}"),
    )
}
