//! Runs commands of operators: in the running server that owns the database, which receives them
//! over its command socket, otherwise in this process.

pub mod socket;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollgate_operations::view::ModelView;
use tollgate_operations::view::prices::PriceCheckView;
use tollgate_operations::wire::{Request, reply_to};
use tollgate_operations::{Actor, CheckPrices, ListModels, Operation, prices};
use tollgate_storage::{StorageError, StorageErrorKind};
use tollgate_types::{Error, ErrorCode};

use crate::config::{Config, ConfigError, StorageUrl};
use crate::wiring::AppState;
use crate::{assemble, cause, wiring};

/// Reason why a command failed.
#[derive(Debug)]
pub enum RunError {
    /// The settings are invalid.
    Settings(ConfigError),
    /// The command requires existing data, but this directory contains no database.
    NoData(PathBuf),
    /// The command failed.
    Command(Error),
}

impl From<ConfigError> for RunError {
    fn from(error: ConfigError) -> Self {
        Self::Settings(error)
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Command(error)
    }
}

/// Executes a command: in the running server that owns the database, otherwise in this process.
/// Blocks the calling thread.
pub fn run<C: Operation>(config: &Config, command: C) -> Result<C::Reply, RunError> {
    block_on(run_async(config, command))
}

/// Lists the models of the running server. Without a server, lists those of the settings, which
/// define them alone, so a database is not required. Blocks the calling thread.
pub fn list_models(config: &Config) -> Result<Vec<ModelView>, RunError> {
    block_on(async {
        if is_served(config).await {
            return run_async(config, ListModels).await;
        }
        // If there is neither a database nor a settings file, the directory is probably wrong.
        if config.path.is_none() {
            require_data(config)?;
        }
        let assembled = assemble::assemble(config, &assemble::http_client(config), &[]).await?;
        Ok(ModelView::all(&assembled.snapshot))
    })
}

/// Compares the prices of the settings with the current ones; with `force`, applies them. Blocks
/// the calling thread.
pub fn check_prices(config: &Config, force: bool) -> Result<PriceCheckView, RunError> {
    block_on(async {
        let assembled = assemble::assemble(config, &assemble::http_client(config), &[]).await?;
        let proposed = prices::tables(&assembled.snapshot);
        run_async(config, CheckPrices { proposed, force }).await
    })
}

/// Executes commands in sequence, as [`run`] does. `next` returns each command from the reply to
/// the previous one, and `None` to stop. Blocks the calling thread.
pub fn run_each<C: Operation>(
    config: &Config,
    first: C,
    next: impl FnMut(C::Reply) -> Result<Option<C>, Error>,
) -> Result<(), RunError> {
    block_on(run_each_async(config, first, next))
}

fn block_on<T>(work: impl Future<Output = Result<T, RunError>>) -> Result<T, RunError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Error::internal)?;
    runtime.block_on(work)
}

/// Checks that a database exists. Fails if the settings name a SQLite database and its directory
/// contains no database file.
pub fn require_data(config: &Config) -> Result<(), RunError> {
    let (StorageUrl::Sqlite(database), Some(directory)) = (&config.storage, config.home()) else {
        return Ok(());
    };
    let prefix = database.file_name().unwrap_or_default().as_encoded_bytes();
    // If the directory is unreadable or contains an unfinished move, this check succeeds, and
    // opening the database reports the problem.
    let has_database = match std::fs::read_dir(directory) {
        Ok(entries) => entries
            .flatten()
            .any(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix)),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    match has_database {
        true => Ok(()),
        false => Err(RunError::NoData(directory.to_owned())),
    }
}

async fn run_async<C: Operation>(config: &Config, command: C) -> Result<C::Reply, RunError> {
    let mut answer = None;
    run_each_async(config, command, |reply| {
        answer = Some(reply);
        Ok(None)
    })
    .await?;
    answer.ok_or_else(|| Error::internal("the command returned no reply").into())
}

async fn run_each_async<C: Operation>(
    config: &Config,
    command: C,
    next: impl FnMut(C::Reply) -> Result<Option<C>, Error>,
) -> Result<(), RunError> {
    let executor = Executor::open(config, C::NEEDS_DATA, C::NEEDS_SERVER).await?;
    let done = execute_each(&executor, command, next).await;
    executor.close().await?;
    Ok(done?)
}

/// The process that executes commands. Commands pass it in the form of the command socket, so that
/// the program contains its code once and not for each command.
enum Executor {
    /// The running server, with the command socket in this directory.
    Server(PathBuf),
    /// This process, which has opened the database.
    Here(Box<AppState>),
}

impl Executor {
    /// Finds the running server, or opens the database. Waits for a server that starts or stops.
    async fn open(config: &Config, needs_data: bool, needs_server: bool) -> Result<Self, RunError> {
        let home = config
            .home()
            .or_else(|| needs_server.then_some(config.socket_home()));
        if needs_data {
            require_data(config)?;
        }
        let mut waited = Duration::ZERO;
        loop {
            if let Some(home) = home
                && socket::is_served(home).await
            {
                return Ok(Self::Server(home.to_owned()));
            }
            match wiring::app_state(config).await {
                Ok(app_state) => return Ok(Self::Here(Box::new(app_state))),
                Err(error) if is_starting(config, &error) && waited < START_TIMEOUT => {
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    waited += RETRY_INTERVAL;
                }
                Err(error) => return Err(open_error(error)),
            }
        }
    }

    async fn execute(&self, request: Request) -> Result<Value, Error> {
        match self {
            Self::Server(home) => socket::exchange(home, &request).await,
            Self::Here(app_state) => {
                let actor = Actor::command_line();
                app_state.operations.execute_request(&actor, request).await
            }
        }
    }

    async fn close(self) -> Result<(), Error> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Here(app_state) => app_state.storage.engine.close().await.map_err(Error::internal),
        }
    }
}

async fn execute_each<C: Operation>(
    executor: &Executor,
    first: C,
    mut next: impl FnMut(C::Reply) -> Result<Option<C>, Error>,
) -> Result<(), Error> {
    let mut command = Some(first);
    while let Some(requested) = command {
        let reply = executor.execute(Request::of(&requested)?).await?;
        command = next(reply_to::<C>(reply)?)?;
    }
    Ok(())
}

/// Maximum time that a command waits for a server that starts or stops.
const START_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between attempts to open the storage or to reach the server.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

async fn is_served(config: &Config) -> bool {
    match config.home() {
        Some(home) => socket::is_served(home).await,
        None => false,
    }
}

/// Whether a server may be starting or stopping: it has the lock of the directory, but no command
/// socket.
fn is_starting(config: &Config, error: &anyhow::Error) -> bool {
    let storage = error.downcast_ref::<StorageError>();
    config.home().is_some() && storage.is_some_and(|error| error.kind == StorageErrorKind::Unavailable)
}

fn open_error(error: anyhow::Error) -> RunError {
    match error.downcast::<ConfigError>() {
        Ok(error) => error.into(),
        Err(error) => Error::new(ErrorCode::Overloaded, cause::chain(&error)).into(),
    }
}
