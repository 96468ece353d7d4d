//! The one task that writes the database. It takes over the journal in large transactions, and carries out
//! administrative work in between, each piece in a savepoint of its own, so that one failure does not undo the others.

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
use super::work::Work;
use crate::ids::lock;
use crate::journal::Entry;
use crate::journal::record::Hold;

/// How long an open hold lives in the journal alone. Most calls end sooner, and their holds never become rows.
const STORED_AFTER_MICROS: u64 = 30_000_000;
/// Pauses after a failure of the database, doubled up to the second one.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// What the writer is asked to do.
pub(super) enum Command {
    /// Administrative work.
    Work(Box<dyn Work>),
    /// Give the open hold of this place in the journal a row.
    Store {
        /// The place.
        seq: u64,
    },
    /// Take over everything that was appended before.
    Flush {
        /// Open holds as well.
        open_holds: bool,
        /// Told when it is done.
        done: oneshot::Sender<Result<()>>,
    },
    /// Flush, mark the database as closed in order, and end.
    Close {
        /// Told when it is done.
        done: oneshot::Sender<Result<()>>,
    },
}

/// Where commands wait.
pub(super) struct Inbox {
    /// `None` once the writer has ended.
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
    /// Leaves a command for the writer. Once the writer has ended the command is dropped, and whoever waits for its
    /// answer is told so by its channel.
    pub(super) fn send(&self, command: Command) {
        if let Some(commands) = &mut *lock(&self.commands) {
            commands.push(command);
        }
        self.wake();
    }

    /// Tells the writer that records wait.
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

/// An open hold that has no row yet.
struct Unstored {
    hold: Arc<Hold>,
    since_micros: u64,
}

/// The task.
pub(super) struct Writer {
    core: Arc<Core>,
    database: Database,
    connection: Option<SqliteConnection>,
    statements: BatchWriter,
    /// Open holds without rows by their place in the journal.
    unstored: BTreeMap<u64, Unstored>,
    batch: Batch,
    recycled: Vec<Entry>,
}

impl Writer {
    /// A writer that has nothing to do yet.
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

    /// Writes until it is told to close.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        loop {
            self.wait().await;
            // Commands before records: a flush covers everything that was appended before it was asked for.
            let commands = self.core.inbox.take();
            let closing = commands
                .iter()
                .any(|command| matches!(command, Command::Close { .. }));
            if closing {
                self.core.journal.close();
            }
            self.absorb();
            let flush = commands.iter().any(Command::wants_open_holds);
            self.store_open_holds(flush);
            self.store_holds_of(&commands);
            match self.commit(commands, closing).await {
                Ok(()) if closing => return,
                Ok(()) => failures = 0,
                Err(_) if closing => return,
                Err(_) => {
                    failures += 1;
                    let pause = RETRY_AFTER[0]
                        .saturating_mul(1 << failures.min(10))
                        .min(RETRY_AFTER[1]);
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Waits for a command, for many records, or for a while with a few.
    async fn wait(&self) {
        let core = &self.core;
        if core.is_failing() {
            // It is tried again without waiting for more; the pause was made after the failure.
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
        // It makes no difference whether there is enough or time is over.
        let _ = tokio::time::timeout(core.commit_after, enough).await;
    }

    fn absorb(&mut self) {
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
                    self.batch.give_back(refund);
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
                // New calls stop rather than run unmetered. The batch stays and is tried again.
                self.core.failing.store(true, Ordering::SeqCst);
                self.connection = None;
                self.statements.forget_chains();
                tracing::error!(%error, waiting = self.batch.len(), "cannot write the database: new calls are refused");
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
            tracing::warn!(%error, "cannot tidy the journal");
        }
    }

    async fn transact(&mut self, commands: &mut [Command], closing: bool) -> Result<()> {
        let has_work = commands.iter().any(|command| matches!(command, Command::Work(_)));
        if self.batch.is_empty() && !has_work && !closing && !self.core.is_failing() {
            return Ok(());
        }
        if self.connection.is_none() {
            self.connection = Some(self.database.writer().await?);
        }
        let Some(connection) = &mut self.connection else {
            return Err(StorageError::new(
                StorageErrorKind::Unavailable,
                "there is no connection",
            ));
        };
        execute(connection, "BEGIN IMMEDIATE").await?;
        self.statements.write(connection, &self.batch).await?;
        for command in commands {
            if let Command::Work(work) = command {
                carry_out(connection, &mut **work).await?;
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
            self.leave().await?;
        }
        Ok(())
    }

    /// Moves the write-ahead log into the database and closes it.
    async fn leave(&mut self) -> Result<()> {
        let Some(mut connection) = self.connection.take() else {
            return Ok(());
        };
        execute(&mut connection, "PRAGMA wal_checkpoint(TRUNCATE)").await?;
        connection.close().await.map_err(crate::rows::storage_error)
    }
}

/// Carries out one piece of work, in a savepoint where it is several statements. A rule that forbids it undoes it alone; a failure of the engine
/// undoes the whole transaction, because the engine may have undone it already.
async fn carry_out(connection: &mut SqliteConnection, work: &mut dyn Work) -> Result<()> {
    if work.is_one_statement() {
        return match work.run(connection).await {
            Ok(())
            | Err(StorageErrorKind::NotFound | StorageErrorKind::Conflict | StorageErrorKind::Corrupt) => {
                Ok(())
            }
            Err(kind) => Err(failed(kind)),
        };
    }
    execute(connection, "SAVEPOINT work").await?;
    match work.run(connection).await {
        Ok(()) => {}
        Err(StorageErrorKind::NotFound | StorageErrorKind::Conflict | StorageErrorKind::Corrupt) => {
            execute(connection, "ROLLBACK TO work").await?;
        }
        Err(kind) => return Err(failed(kind)),
    }
    execute(connection, "RELEASE work").await
}

fn failed(kind: StorageErrorKind) -> StorageError {
    StorageError::new(kind, "administrative work failed")
}

/// Runs a statement without values.
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
            Command::Work(work) => work.finish(copy()),
            Command::Store { .. } => {}
            // Whoever asked may have gone away.
            Command::Flush { done, .. } | Command::Close { done } => drop(done.send(copy())),
        }
    }
}
