//! The connection pool, on a separate runtime.
//!
//! A connection belongs to the runtime that opened it, and the server's workers are several
//! runtimes that start and stop. Therefore every call is a task on the engine's runtime, and its
//! caller awaits the result. If the caller is dropped, the task still completes, so that no
//! connection is left with an incomplete exchange.

use std::sync::Arc;
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
use crate::fatal::Fatal;

/// Number of worker threads of the runtime, which only transfers data.
const THREADS: usize = 2;

/// Idle time from which a connection is checked before use. A connection in frequent use is not
/// checked, so that a call is one round trip.
const MAX_TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// Time beyond the statement timeout for which the client waits for a response. The client timeout
/// applies if the network drops the response.
const CALL_TIMEOUT_MARGIN: Duration = Duration::from_secs(5);

/// A statement with its arguments.
pub(super) type Statement = Query<'static, Postgres, PgArguments>;

/// The connections of one engine.
pub(super) struct Pool {
    options: PgConnectOptions,
    connections: PgPool,
    runtime: Handle,
    call_timeout: Duration,
    fatal: Arc<Fatal>,
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
                    let trusted = metadata.idle_for < MAX_TRUSTED_IDLE;
                    Ok(trusted || connection.ping().await.is_ok())
                })
            });
        let connect = runtime.spawn(connect(settings, options.clone()));
        let connections = connect
            .await
            .map_err(|error| join_error(&error))?
            .map_err(before_running)?;
        Ok(Pool {
            options,
            connections,
            runtime,
            call_timeout: config.statement_timeout + CALL_TIMEOUT_MARGIN,
            fatal: Arc::default(),
            _stop: stop,
        })
    }

    /// Returns the options for a connection outside the pool.
    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// Returns the recorder of the engine's fatal failures.
    pub(super) fn fatal(&self) -> &Arc<Fatal> {
        &self.fatal
    }

    /// Starts a background task that is cancelled when the pool closes. A panic of the task is a
    /// fatal failure of the engine.
    pub(super) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (mut closed, fatal) = (self.connections.close_event(), self.fatal.clone());
        self.runtime.spawn(async move {
            // An error means that the pool was closed.
            let _ = closed
                .do_until(fatal.guard("a task of the PostgreSQL engine", work))
                .await;
        });
    }

    /// Runs `work` on one connection, with the client timeout.
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
                        "the database did not respond in time",
                    ))
                }
            }
        });
        task.await.unwrap_or_else(|error| Err(join_error(&error)))
    }

    /// Returns the first row, if any.
    pub(super) async fn optional(&self, statement: Statement) -> Result<Option<PgRow>> {
        self.call(|connection| Box::pin(statement.fetch_optional(connection)))
            .await
    }

    /// Returns the first row of a statement that always has one.
    pub(super) async fn one(&self, statement: Statement) -> Result<PgRow> {
        self.call(|connection| Box::pin(statement.fetch_one(connection)))
            .await
    }

    /// Returns all rows of a statement.
    pub(super) async fn all(&self, statement: Statement) -> Result<Vec<PgRow>> {
        self.call(|connection| Box::pin(statement.fetch_all(connection)))
            .await
    }

    /// Executes the statement; returns the number of changed rows.
    pub(super) async fn execute(&self, statement: Statement) -> Result<u64> {
        let done = self
            .call(|connection| Box::pin(statement.execute(connection)))
            .await?;
        Ok(done.rows_affected())
    }

    /// Starts work without a timeout on one connection, such as an audit.
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

    /// Waits for running calls, then closes every connection.
    pub(super) async fn close(&self) -> Result<()> {
        let connections = self.connections.clone();
        let close = self.runtime.spawn(async move { connections.close().await });
        close.await.map_err(|error| join_error(&error))
    }
}

/// Opens the pool within its acquire timeout. Because a pool timeout hides its cause, a direct
/// connection attempt then determines the cause.
async fn connect(settings: PgPoolOptions, options: PgConnectOptions) -> sqlx::Result<PgPool> {
    let timeout = settings.get_acquire_timeout();
    match settings.connect_with(options.clone()).await {
        Err(sqlx::Error::PoolTimedOut) => match tokio::time::timeout(timeout, options.connect()).await {
            Ok(Err(cause)) => Err(cause),
            _ => Err(sqlx::Error::PoolTimedOut),
        },
        answer => answer,
    }
}

fn connect_options(config: &PostgresConfig) -> Result<PgConnectOptions> {
    let options: PgConnectOptions = config.url.parse().map_err(before_running)?;
    let settings = [
        // The functions of the schema require this isolation level.
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

/// Starts a runtime that ends when the sender is dropped. The runtime is dropped on a separate
/// thread, because a runtime must not be dropped within another.
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
    let run_until_stopped = move || {
        // An error means that the sender was dropped, which is the signal.
        let _ = runtime.block_on(stopped);
    };
    match thread.spawn(run_until_stopped) {
        Ok(_) => Ok((handle, stop)),
        Err(error) => Err(unavailable(Box::new(error))),
    }
}

/// Converts the error of a task that ended without a result: the engine was dropped, or the task
/// panicked.
pub(super) fn join_error(error: &tokio::task::JoinError) -> StorageError {
    StorageError::new(StorageErrorKind::Timeout, error.to_string())
}
