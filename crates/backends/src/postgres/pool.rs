//! Connections on a runtime of their own.
//!
//! A connection belongs to the runtime that opened it, and the servers' workers are several runtimes that come and
//! go by themselves. So every call is a task on the engine's runtime, and its caller awaits the answer; a caller that
//! goes away leaves the task running, and no connection in the middle of a conversation.

use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{ConnectOptions, Connection, PgConnection, Postgres};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::PostgresConfig;
use super::error::{before_running, while_running};

/// Threads that speak with the database. They only move bytes.
const THREADS: usize = 2;

/// A connection that was idle for longer is asked whether it still lives before it is used; a busy one is not, so that
/// a call is one round trip.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// How much longer than the database itself this side waits for an answer, for a network that swallows it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A statement with its arguments.
pub(super) type Statement = Query<'static, Postgres, PgArguments>;

/// The connections of one engine.
pub(super) struct Pool {
    options: PgConnectOptions,
    connections: PgPool,
    runtime: Handle,
    call_timeout: Duration,
    /// Dropped with the pool, which ends the runtime's thread.
    _stop: oneshot::Sender<()>,
}

impl Pool {
    /// Starts the runtime and opens the first connection.
    pub(super) async fn open(config: &PostgresConfig) -> Result<Pool> {
        let options = connect_options(config)?;
        let (runtime, stop) = start_runtime()?;
        let settings = PgPoolOptions::new()
            .max_connections(config.max_connections)
            .acquire_timeout(config.acquire_timeout)
            .test_before_acquire(false)
            .before_acquire(|connection, metadata| {
                Box::pin(async move {
                    let trusted = metadata.idle_for < TRUSTED_IDLE;
                    Ok(trusted || connection.ping().await.is_ok())
                })
            });
        let connect = runtime.spawn(connect(settings, options.clone()));
        let connections = connect
            .await
            .map_err(|error| lost(&error))?
            .map_err(before_running)?;
        Ok(Pool {
            options,
            connections,
            runtime,
            call_timeout: config.statement_timeout + PATIENCE,
            _stop: stop,
        })
    }

    /// How a connection beside these is opened.
    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Starts work that ends with the connections.
    pub(super) fn accompany(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut closed = self.connections.close_event();
        self.runtime.spawn(async move {
            // An error says that they were closed.
            let _ = closed.do_until(work).await;
        });
    }

    /// Does some work on one connection.
    pub(super) async fn call<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, sqlx::Result<T>> + Send + 'static,
    {
        let (connections, call_timeout) = (self.connections.clone(), self.call_timeout);
        let task = self.runtime.spawn(async move {
            let mut connection = connections.acquire().await.map_err(before_running)?;
            match tokio::time::timeout(call_timeout, work(&mut connection)).await {
                Ok(answer) => answer.map_err(while_running),
                Err(_) => {
                    connection.close_on_drop();
                    Err(StorageError::new(
                        StorageErrorKind::Timeout,
                        "the database does not answer",
                    ))
                }
            }
        });
        task.await.unwrap_or_else(|error| Err(lost(&error)))
    }

    /// The first row, if there is one.
    pub(super) async fn optional(&self, statement: Statement) -> Result<Option<PgRow>> {
        self.call(|connection| Box::pin(statement.fetch_optional(connection)))
            .await
    }

    /// The one row that there always is.
    pub(super) async fn one(&self, statement: Statement) -> Result<PgRow> {
        self.call(|connection| Box::pin(statement.fetch_one(connection)))
            .await
    }

    /// All rows.
    pub(super) async fn all(&self, statement: Statement) -> Result<Vec<PgRow>> {
        self.call(|connection| Box::pin(statement.fetch_all(connection)))
            .await
    }

    /// Executes the statement; answers how many rows it changed.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64> {
        let done = self
            .call(|connection| Box::pin(statement.execute(connection)))
            .await?;
        Ok(done.rows_affected())
    }

    /// Starts work that takes as long as it takes, such as an audit, on one connection.
    pub(super) fn start<F>(&self, work: F) -> tokio::task::JoinHandle<Result<()>>
    where
        F: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<()>> + Send + 'static,
    {
        let connections = self.connections.clone();
        self.runtime.spawn(async move {
            let mut connection = connections.acquire().await.map_err(before_running)?;
            work(&mut connection).await
        })
    }

    /// Waits for the calls that run and closes every connection.
    pub(super) async fn close(&self) -> Result<()> {
        let connections = self.connections.clone();
        let close = self.runtime.spawn(async move { connections.close().await });
        close.await.map_err(|error| lost(&error))
    }
}

/// Tries for as long as a call may wait for a connection. The pool does not say why it failed; one more attempt does.
async fn connect(settings: PgPoolOptions, options: PgConnectOptions) -> sqlx::Result<PgPool> {
    let patience = settings.get_acquire_timeout();
    match settings.connect_with(options.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => match tokio::time::timeout(patience, options.connect()).await {
            Ok(Err(cause)) => Err(cause),
            _ => Err(sqlx::Error::PoolTimedOut),
        },
        answer => answer,
    }
}

fn connect_options(config: &PostgresConfig) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = config.url.parse().map_err(before_running)?;
    let settings = [
        // What the functions of the schema are written for.
        ("default_transaction_isolation", "read committed".to_owned()),
        (
            "statement_timeout",
            format!("{}ms", config.statement_timeout.as_millis()),
        ),
        // A node that dies in a transaction must not hold its locks for long.
        ("idle_in_transaction_session_timeout", "60s".to_owned()),
    ];
    Ok(options
        .application_name("tollgate")
        .options(settings)
        .disable_statement_logging())
}

/// A runtime that ends when the sender is dropped. It is ended on a thread of its own, since a runtime must not be
/// dropped within another.
fn start_runtime() -> Result<(Handle, oneshot::Sender<()>)> {
    let unavailable = |error| StorageError::new(StorageErrorKind::Unavailable, error);
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("postgres")
        .enable_all()
        .build()
        .map_err(|error| unavailable(Box::new(error)))?;
    let handle = runtime.handle().clone();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("postgres-runtime".to_owned());
    let keep = move || {
        // An error says that the sender was dropped, which is the signal.
        let _ = runtime.block_on(stopped);
    };
    match thread.spawn(keep) {
        Ok(_) => Ok((handle, stop)),
        Err(error) => Err(unavailable(Box::new(error))),
    }
}

/// The task ended without an answer: the engine was dropped, or the task panicked.
pub(super) fn lost(error: &tokio::task::JoinError) -> StorageError {
    StorageError::new(StorageErrorKind::Timeout, error.to_string())
}
