//! Administrative writes: statements in a transaction, their effect in memory, and the reply.

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::oneshot;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

/// An administrative write for the writer task.
#[async_trait]
pub(super) trait WriteTask: Send {
    /// Runs the statements within the open transaction. `NotFound`, `Conflict` and `Corrupt` fail
    /// only this task; other errors fail the whole transaction.
    async fn run(&mut self, connection: &mut SqliteConnection) -> std::result::Result<(), StorageErrorKind>;

    /// Whether the task is a single statement, which SQLite rolls back automatically if it fails.
    fn is_one_statement(&self) -> bool;

    /// Sends the reply after the transaction was committed or has failed.
    fn finish(self: Box<Self>, committed: Result<()>);
}

/// A task of two functions: `statements` runs within the transaction, and `apply` runs on the
/// result after the commit. `apply` runs even if the caller was dropped, so that memory matches the
/// database.
pub(super) struct StatementTask<T, S, A, R> {
    statements: Option<S>,
    apply: A,
    outcome: Option<Result<T>>,
    is_one_statement: bool,
    answer: oneshot::Sender<Result<R>>,
}

impl<T, S, A, R> StatementTask<T, S, A, R>
where
    T: Send + 'static,
    R: Send + 'static,
    S: for<'c> FnOnce(&'c mut SqliteConnection) -> BoxFuture<'c, Result<T>> + Send + 'static,
    A: FnOnce(T) -> R + Send + 'static,
{
    /// Creates the task and the receiver of its result.
    pub(super) fn prepare(
        statements: S,
        apply: A,
        is_one_statement: bool,
    ) -> (Box<dyn WriteTask>, oneshot::Receiver<Result<R>>) {
        let (answer, answered) = oneshot::channel();
        let task = StatementTask {
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
impl<T, S, A, R> WriteTask for StatementTask<T, S, A, R>
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
        // The caller may have been dropped.
        drop(self.answer.send(outcome.map(self.apply)));
    }
}
