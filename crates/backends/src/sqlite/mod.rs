//! The SQLite engine: one process owns the whole ledger.
//!
//! Balances and open holds are in memory. A hold or a settlement is decided in memory, written to
//! the journal ([`crate::journal`]) and returned. One task ([`writer`]) then writes the journal to
//! the database in large transactions. If the process dies, the next start recovers the records
//! that are not in the database ([`recover`]). All other changes are committed to the database
//! before the method returns.
//!
//! Suggested reading order: [`ledger`], [`crate::journal`], [`writer`], [`batch`], [`recover`].

mod account;
mod admin;
mod audit;
mod audit_log;
mod balances;
mod batch;
mod batch_line;
mod bulk;
mod calibration;
mod chain;
mod chat;
mod client_secret;
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
mod notice;
mod person;
mod price;
mod provider_subscription;
mod query;
mod recover;
mod refund;
mod report;
mod response;
mod session;
mod statements;
mod subscription;
mod top_up;
mod transfer;
mod usage;
mod usage_hour;
mod webhook;
mod write_task;
mod writer;

pub use database::schema_version;

#[cfg(test)]
mod tests;

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
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
use tollgate_storage::{NoNotifications, Result, Storage, StorageError, StorageErrorKind};
use tollgate_types::Clock;

use crate::fatal::Fatal;
use crate::journal::{Journal, JournalConfig, unavailable};
use crate::rows::storage_error;
use crate::runtime::OwnedRuntime;
use balances::Balances;
use database::Database;
use holds::Holds;
use lock::DirectoryLock;
pub(crate) use transfer::SqliteSide;
use write_task::StatementTask;
use writer::{Command, Inbox, Writer};

/// Paths and write intervals of the engine.
#[derive(Clone, Debug)]
pub struct SqliteConfig {
    /// Directory of the database and its lock, created if missing. Only one process can use the
    /// directory at a time.
    pub data_dir: PathBuf,
    /// Directory of the journal, on durable storage. A journal belongs to exactly one database.
    pub journal_dir: PathBuf,
    /// Number of reading connections.
    pub readers: u32,
    /// Number of journal records that starts a transaction.
    pub commit_records: usize,
    /// Maximum delay between a record and its transaction.
    pub commit_after: Duration,
    /// Maximum delay between a record and its sync to disk. A power failure can undo changes that
    /// returned within this interval.
    pub sync_after: Duration,
    /// Size of a journal file in bytes.
    pub segment_bytes: usize,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

impl SqliteConfig {
    /// Creates default settings, with the journal in `journal` within the data directory.
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

/// Opens the engine: locks the directory, migrates the schema, recovers the journal of an earlier
/// run and voids its open calls. Close the engine before you open it again; dropping the last
/// handle without closing has the effect of a crash.
///
/// Returns `Unavailable` if another process uses the directory or a file cannot be opened, and
/// `Corrupt` if the database and the journal do not belong together or a later version wrote them.
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
        usage_hours: Arc::new(engine.clone()),
        reports: Arc::new(engine.clone()),
        admins: Arc::new(engine.clone()),
        audit_log: Arc::new(engine.clone()),
        members: Arc::new(engine.clone()),
        people: Arc::new(engine.clone()),
        sessions: Arc::new(engine.clone()),
        client_secrets: Arc::new(engine.clone()),
        prices: Arc::new(engine.clone()),
        responses: Arc::new(engine.clone()),
        media: Arc::new(engine.clone()),
        files: Arc::new(engine.clone()),
        batches: Arc::new(engine.clone()),
        calibrations: Arc::new(engine.clone()),
        chats: Arc::new(engine.clone()),
        subscriptions: Arc::new(engine.clone()),
        provider_subscriptions: Arc::new(engine.clone()),
        idempotency: Arc::new(engine.clone()),
        jobs: Arc::new(engine.clone()),
        label_priors: Arc::new(engine.clone()),
        webhooks: Arc::new(engine.clone()),
        notifications: Arc::new(NoNotifications),
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
    let fatal = Arc::<Fatal>::default();
    let journal = Arc::new(Journal::create(JournalConfig {
        dir: config.journal_dir,
        installation: recovered.installation,
        next: recovered.last + 1,
        segment_bytes: config.segment_bytes,
        sync_after: config.sync_after,
        queues: true,
        fatal: fatal.clone(),
    })?);
    let syncer = journal.start_syncer().map_err(unavailable)?;
    let core = Arc::new(Core {
        clock: config.clock,
        balances: recovered.balances,
        holds: recovered.holds,
        journal,
        inbox: Inbox::default(),
        commit_records: config.commit_records,
        commit_after: config.commit_after,
        committed: AtomicU64::new(recovered.last),
        failing: AtomicBool::new(false),
        fatal: fatal.clone(),
        changing: tokio::sync::Mutex::default(),
        readers: database.readers(config.readers),
        runtime: runtime.clone(),
        tracker: tracker.clone(),
        lock,
    });
    let writer = Writer::new(core.clone(), database, connection);
    let guarded = async move {
        fatal
            .guard("the task that writes the database", writer.run())
            .await
    };
    tracker.spawn_on(guarded, &runtime);
    Ok((core, syncer))
}

/// Handle of the engine, which implements all storage ports. Its methods may be called from any
/// runtime.
#[derive(Clone)]
struct Sqlite(Arc<Owner>);

impl Sqlite {
    async fn open(config: SqliteConfig) -> Result<Sqlite> {
        for dir in [&config.data_dir, &config.journal_dir] {
            let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
            created.map_err(unavailable)?;
        }
        let lock = DirectoryLock::take(&config.data_dir)?;
        transfer::refuse_unfinished(&config.data_dir)?;
        restrict_permissions(&config).map_err(unavailable)?;
        // The engine uses a separate runtime, because callers may have several runtimes, which
        // start and stop.
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

/// Restricts the access to the database and the journal, including existing files, to the user of
/// this process. SQLite gives its write-ahead log and index the mode of the database.
fn restrict_permissions(config: &SqliteConfig) -> std::io::Result<()> {
    let database = config.data_dir.join(database::DATABASE_FILE);
    let mut open = fs::OpenOptions::new();
    open.write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&database)?;
    let beside = ["-wal", "-shm"].map(|suffix| {
        let mut name = database.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    });
    let journal = fs::read_dir(&config.journal_dir)?
        .flatten()
        .map(|entry| entry.path());
    let lock = config.data_dir.join(lock::LOCK_FILE);
    for path in journal.chain(beside).chain([lock, database]) {
        if path.is_file() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        }
    }
    fs::set_permissions(&config.journal_dir, fs::Permissions::from_mode(0o700))
}

impl Deref for Sqlite {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.0.core
    }
}

/// Owner of the engine's tasks, which end when the last handle is dropped.
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

/// State shared by callers and tasks.
struct Core {
    clock: Arc<dyn Clock>,
    balances: Balances,
    holds: Holds,
    journal: Arc<Journal>,
    inbox: Inbox,
    commit_records: usize,
    commit_after: Duration,
    /// Sequence number of the last journal record in the database.
    committed: AtomicU64,
    /// Whether the last transaction failed.
    failing: AtomicBool,
    /// The first fatal failure, if any.
    fatal: Arc<Fatal>,
    /// Lock that serializes all changes of credits except those by calls.
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

    /// Sends `statements` to the writer, which runs them in a transaction and then runs `apply` on
    /// their result. Returns the result of `apply`.
    async fn write<T, R>(
        &self,
        statements: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
        apply: impl FnOnce(T) -> R + Send + 'static,
    ) -> Result<R>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        let (write_task, answer) = StatementTask::prepare(statements, apply, false);
        self.inbox.send(Command::WriteTask(write_task));
        answer.await.map_err(stopped)?
    }

    /// Like [`Core::write`], for a frequent change that is a single statement and needs no
    /// savepoint.
    async fn write_one<T: Send + 'static>(
        &self,
        statement: impl for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (write_task, answer) = StatementTask::prepare(statement, |result| result, true);
        self.inbox.send(Command::WriteTask(write_task));
        answer.await.map_err(stopped)?
    }

    /// Runs read statements on a pooled connection.
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

    /// Runs a task to completion, even if the caller is dropped.
    async fn run_to_completion<T: Send + 'static>(
        &self,
        write_task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let write_task = self.tracker.spawn_on(write_task, &self.runtime);
        write_task.await.map_err(stopped)?
    }

    /// Waits until the database contains all records appended so far, except for open holds.
    async fn flush_resolved(&self) -> Result<()> {
        if self.committed.load(Ordering::SeqCst) >= self.journal.last() {
            return Ok(());
        }
        self.flush(false).await
    }

    /// Waits until the database contains all records appended so far, including open holds if
    /// `open_holds` is set.
    async fn flush(&self, open_holds: bool) -> Result<()> {
        let (done, answer) = oneshot::channel();
        self.inbox.send(Command::Flush { open_holds, done });
        answer.await.map_err(stopped)?
    }
}

/// Creates the `Unavailable` error of a closed engine, whose tasks have ended.
fn stopped(cause: impl std::fmt::Display) -> StorageError {
    StorageError::new(
        StorageErrorKind::Unavailable,
        format!("the engine is closed: {cause}"),
    )
}
