//! Administrative work: a piece of a transaction, what follows from it in memory, and the answer.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::oneshot;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

/// Work for the writer.
#[async_trait]
pub(super) trait Work: Send {
    /// Does it within the open transaction. `NotFound`, `Conflict` and `Corrupt` are
    /// answers; other failures are the engine's.
    async fn run(&mut self, connection: &mut SqliteConnection) -> std::result::Result<(), StorageErrorKind>;

    /// Whether one statement alone may write: when it fails, SQLite undoes it by itself.
    fn is_one_statement(&self) -> bool;

    /// Answers, after the transaction was committed or failed as a whole.
    fn finish(self: Box<Self>, committed: Result<()>);
}

/// Work as two functions: `statements` within the transaction, and `apply` on its result once that is on the disk.
/// `apply` runs whether or not the caller still waits, so memory never misses what the database has.
pub(super) struct Task<T, S, A, R> {
    statements: Option<S>,
    apply: A,
    outcome: Option<Result<T>>,
    is_one_statement: bool,
    answer: oneshot::Sender<Result<R>>,
}

impl<T, S, A, R> Task<T, S, A, R>
where
    T: Send + 'static,
    R: Send + 'static,
    S: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    A: FnOnce(T) -> R + Send + 'static,
{
    /// The work, and where its answer arrives.
    pub(super) fn prepare(
        statements: S,
        apply: A,
        is_one_statement: bool,
    ) -> (Box<dyn Work>, oneshot::Receiver<Result<R>>) {
        let (answer, answered) = oneshot::channel();
        let task = Task {
            statements: Some(statements),
            apply,
            outcome: None,
            is_one_statement,
            answer,
        };
        (Box::new(task), answered)
    }
}

#[async_trait]
impl<T, S, A, R> Work for Task<T, S, A, R>
where
    T: Send + 'static,
    R: Send + 'static,
    S: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    A: FnOnce(T) -> R + Send + 'static,
{
    async fn run(&mut self, connection: &mut SqliteConnection) -> std::result::Result<(), StorageErrorKind> {
        let Some(statements) = self.statements.take() else {
            return Err(StorageErrorKind::Unavailable);
        };
        let outcome = statements(connection).await;
        let kind = outcome.as_ref().map(|_| ()).map_err(|error| error.kind);
        self.outcome = Some(outcome);
        kind
    }

    fn is_one_statement(&self) -> bool {
        self.is_one_statement
    }

    fn finish(self: Box<Self>, committed: Result<()>) {
        let never_run = || {
            Err(StorageError::new(
                StorageErrorKind::Unavailable,
                "the transaction failed",
            ))
        };
        let outcome = match (committed, self.outcome.unwrap_or_else(never_run)) {
            (Ok(()), outcome) => outcome,
            (Err(error), Ok(_)) => Err(error),
            (Err(_), Err(error)) => Err(error),
        };
        // Whoever asked may have gone away.
        drop(self.answer.send(outcome.map(self.apply)));
    }
}
