//! Writer: the only task that writes to the database. The task writes the journal records in large
//! transactions. A transaction also contains administrative writes, each in a separate savepoint,
//! so that the failure of one write does not undo the others.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Executor};
use tokio::sync::{Notify, oneshot};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::Core;
use super::batch::{Batch, ResolvedCall};
use super::database::Database;
use super::statements::BatchWriter;
use super::write_task::WriteTask;
use crate::ids::lock;
use crate::journal::Entry;
use crate::journal::record::Hold;

/// Age at which the writer inserts a row for an open hold, in microseconds. Most calls end earlier,
/// so that their holds never need a row.
const STORED_AFTER_MICROS: u64 = 30_000_000;
/// Base and maximum of the exponential backoff after failed transactions. The first pause is twice
/// the base.
const RETRY_PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// A command for the writer.
pub(super) enum Command {
    /// Runs an administrative write.
    WriteTask(Box<dyn WriteTask>),
    /// Inserts a row for an open hold.
    Store {
        /// Sequence number of the hold in the journal.
        seq: u64,
    },
    /// Writes all records that were appended before the command.
    Flush {
        /// Whether to include open holds.
        open_holds: bool,
        /// Receives the outcome.
        done: oneshot::Sender<Result<()>>,
    },
    /// Writes all records, marks the database as properly closed, and stops the writer.
    Close {
        /// Receives the outcome.
        done: oneshot::Sender<Result<()>>,
    },
}

/// Queue of commands for the writer.
pub(super) struct Inbox {
    /// `None` after the writer has stopped.
    commands: Mutex<Option<Vec<Command>>>,
    wake: Notify,
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox {
            commands: Mutex::new(Some(Vec::new())),
            wake: Notify::new(),
        }
    }
}

impl Inbox {
    /// Queues a command for the writer. After the writer has stopped, the command is dropped, which
    /// closes its reply channel.
    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &mut *lock(&self.commands) {
            commands.push(command);
        }
        self.wake();
    }

    /// Wakes the writer.
    pub(super) fn wake(&self) {
        self.wake.notify_one();
    }

    fn is_empty(&self) -> bool {
        lock(&self.commands).as_ref().is_none_or(Vec::is_empty)
    }

    fn take(&self) -> Vec<Command> {
        lock(&self.commands)
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    fn end(&self) {
        lock(&self.commands).take();
    }
}

/// An open hold without a row.
struct Unstored {
    hold: Arc<Hold>,
    since_micros: u64,
}

/// State of the writer task.
pub(super) struct Writer {
    core: Arc<Core>,
    database: Database,
    connection: Option<SqliteConnection>,
    statements: BatchWriter,
    /// Open holds without rows, by sequence number.
    unstored: BTreeMap<u64, Unstored>,
    batch: Batch,
    recycled: Vec<Entry>,
}

impl Writer {
    /// Creates a writer with an empty batch.
    pub(super) fn new(core: Arc<Core>, database: Database, connection: SqliteConnection) -> Writer {
        Writer {
            core,
            database,
            connection: Some(connection),
            statements: BatchWriter::new(),
            unstored: BTreeMap::new(),
            batch: Batch::default(),
            recycled: Vec::new(),
        }
    }

    /// Runs until a `Close` command.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            self.wait().await;
            // Takes commands before records, so that a flush covers all records appended before the
            // command.
            let commands = self.core.inbox.take();
            let closing = commands
                .iter()
                .any(|command| matches!(command, Command::Close { .. }));
            if closing {
                self.core.journal.close();
            }
            self.take_journal_entries();
            let flush = commands.iter().any(Command::wants_open_holds);
            self.store_open_holds(flush);
            self.store_holds_of(&commands);
            match self.commit(commands, closing).await {
                Ok(()) if closing => return,
                Ok(()) => failures = 0,
                Err(_) if closing => return,
                Err(_) => {
                    failures += 1;
                    let pause = RETRY_PAUSES[0]
                        .saturating_mul(1 << failures.min(10))
                        .min(RETRY_PAUSES[1]);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits for a command or for `commit_records` records, at most `commit_after` after the first
    /// record.
    async fn wait(&self) {
        let core = &self.core;
        if core.is_failing() {
            // Retries immediately, because [`Writer::run`] paused after the failure.
            return;
        }
        while core.inbox.is_empty() && core.journal.pending() == 0 {
            core.inbox.wake.notified().await;
        }
        let enough = async {
            while core.inbox.is_empty() && core.journal.pending() < core.commit_records {
                core.inbox.wake.notified().await;
            }
        };
        // Enough records and a timeout have the same effect.
        let _ = tokio::time::timeout(core.commit_after, enough).await;
    }

    fn take_journal_entries(&mut self) {
        let now = self.core.clock.monotonic_micros();
        let mut entries = self.core.journal.take_pending(std::mem::take(&mut self.recycled));
        for entry in entries.drain(..) {
            match entry {
                Entry::Hold { seq, hold } => {
                    let since_micros = now;
                    self.unstored.insert(seq, Unstored { hold, since_micros });
                    self.batch.reach(seq);
                }
                Entry::Settle {
                    seq,
                    hold_seq,
                    hold,
                    settlement,
                    week,
                } => {
                    let is_stored = self.unstored.remove(&hold_seq).is_none();
                    self.batch.resolve(ResolvedCall {
                        hold,
                        settlement,
                        is_stored,
                        week,
                    });
                    self.batch.reach(seq);
                }
                Entry::Refund { seq, refund } => {
                    self.batch.add_refund(refund);
                    self.batch.reach(seq);
                }
                Entry::Shrink {
                    seq,
                    hold_seq,
                    hold,
                    shrink,
                } => {
                    if let Some(unstored) = self.unstored.remove(&hold_seq) {
                        self.batch.store(unstored.hold);
                    }
                    self.batch.shrink(hold, shrink);
                    self.batch.reach(seq);
                }
                Entry::Window { seq, window } => {
                    self.batch.open_window(window);
                    self.batch.reach(seq);
                }
            }
        }
        self.recycled = entries;
    }

    fn store_open_holds(&mut self, all: bool) {
        let now = self.core.clock.monotonic_micros();
        while let Some(oldest) = self.unstored.first_entry() {
            if !all && now.saturating_sub(oldest.get().since_micros) < STORED_AFTER_MICROS {
                return;
            }
            self.batch.store(oldest.remove().hold);
        }
    }

    fn store_holds_of(&mut self, commands: &[Command]) {
        for command in commands {
            if let Command::Store { seq } = command
                && let Some(unstored) = self.unstored.remove(seq)
            {
                self.batch.store(unstored.hold);
            }
        }
    }

    async fn commit(&mut self, mut commands: Vec<Command>, closing: bool) -> Result<()> {
        let outcome = self.transact(&mut commands, closing).await;
        match &outcome {
            Ok(()) => self.committed(),
            Err(error) => {
                // Refuses new calls until a transaction succeeds. The batch is retried.
                self.core.failing.store(true, Ordering::SeqCst);
                self.connection = None;
                self.statements.forget_chains();
                tracing::error!(%error, waiting = self.batch.len(), "cannot write to the database; refusing new calls");
            }
        }
        for command in commands {
            command.finish(&outcome);
        }
        outcome
    }

    fn committed(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        let core = &self.core;
        core.failing.store(false, Ordering::SeqCst);
        core.committed.fetch_max(batch.last(), Ordering::SeqCst);
        let committed = core.committed.load(Ordering::SeqCst);
        let oldest_unstored = self.unstored.first_key_value().map(|(seq, _)| *seq);
        let needed = oldest_unstored.unwrap_or(committed + 1);
        if let Err(error) = core.journal.tidy(needed) {
            tracing::warn!(%error, "cannot compact the journal");
        }
    }

    async fn transact(&mut self, commands: &mut [Command], closing: bool) -> Result<()> {
        let has_work = commands
            .iter()
            .any(|command| matches!(command, Command::WriteTask(_)));
        if self.batch.is_empty() && !has_work && !closing && !self.core.is_failing() {
            return Ok(());
        }
        if self.connection.is_none() {
            self.connection = Some(self.database.writer().await?);
        }
        let Some(connection) = &mut self.connection else {
            return Err(StorageError::new(
                StorageErrorKind::Unavailable,
                "the database connection is lost",
            ));
        };
        execute(connection, "BEGIN IMMEDIATE").await?;
        self.statements.write(connection, &self.batch).await?;
        for command in commands {
            if let Command::WriteTask(write_task) = command {
                run_task(connection, &mut **write_task).await?;
            }
        }
        if has_work {
            self.statements.forget_chains();
        }
        if closing {
            execute(connection, "UPDATE journal_mark SET clean = 1").await?;
        }
        execute(connection, "COMMIT").await?;
        if closing {
            self.close_database().await?;
        }
        Ok(())
    }

    /// Checkpoints the write-ahead log and closes the database.
    async fn close_database(&mut self) -> Result<()> {
        let Some(mut connection) = self.connection.take() else {
            return Ok(());
        };
        execute(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await?;
        connection.close().await.map_err(crate::rows::storage_error)
    }
}

/// Runs a task, in a savepoint if the task has several statements. `NotFound`, `Conflict` and
/// `Corrupt` roll back only the task. Other errors are returned and fail the whole transaction,
/// because SQLite may already have rolled it back.
async fn run_task(connection: &mut SqliteConnection, write_task: &mut dyn WriteTask) -> Result<()> {
    if write_task.is_one_statement() {
        return match write_task.run(connection).await {
            Ok(())
            | Err(StorageErrorKind::NotFound | StorageErrorKind::Conflict | StorageErrorKind::Corrupt) => {
                Ok(())
            }
            Err(kind) => Err(failed(kind)),
        };
    }
    execute(connection, "SAVEPOINT work").await?;
    match write_task.run(connection).await {
        Ok(()) => {}
        Err(StorageErrorKind::NotFound | StorageErrorKind::Conflict | StorageErrorKind::Corrupt) => {
            execute(connection, "ROLLBACK TO work").await?;
        }
        Err(kind) => return Err(failed(kind)),
    }
    execute(connection, "RELEASE work").await
}

fn failed(kind: StorageErrorKind) -> StorageError {
    StorageError::new(kind, "the administrative write failed")
}

/// Executes a statement without parameters.
pub(super) async fn execute(connection: &mut SqliteConnection, statement: &'static str) -> Result<()> {
    let done = connection.execute(sqlx::query(statement)).await;
    done.map(|_| ()).map_err(crate::rows::storage_error)
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.core.inbox.end();
    }
}

impl Command {
    fn wants_open_holds(&self) -> bool {
        matches!(
            self,
            Command::Close { .. } | Command::Flush { open_holds: true, .. }
        )
    }

    fn finish(self, outcome: &Result<()>) {
        let copy = || match outcome {
            Ok(()) => Ok(()),
            Err(error) => Err(StorageError::new(
                StorageErrorKind::Unavailable,
                error.to_string(),
            )),
        };
        match self {
            Command::WriteTask(write_task) => write_task.finish(copy()),
            Command::Store { .. } => {}
            // The caller may have been dropped.
            Command::Flush { done, .. } | Command::Close { done } => drop(done.send(copy())),
        }
    }
}
