//! A running gateway: the built binary as a process, with its own data directory, settings and
//! ports, its command line, and an HTTP client that can also send malformed requests.
//!
//! Suggested reading order: [`Gateway`], [`http`], then the private modules.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "only tests use this: an error here fails the test, and the code has no Clock"
)]

mod command_line;
mod database;
pub mod http;
mod process;
mod settings;
#[cfg(test)]
mod tests;
mod wait;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

pub use command_line::{Balance, Check, CommandLine, Finished, Key, nanos};
pub use database::{Database, Silence, execute_embedded};
pub use wait::eventually;

use http::{Client, Request};
use process::Process;
use settings::Settings;

/// Options for the start of a gateway.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// TOML that overrides the default settings of tests. Tables are merged; other values are
    /// replaced.
    pub config: String,
    /// The storage engine of the gateway.
    pub storage: Storage,
    /// The complete environment of the process.
    pub env: Vec<(String, String)>,
    /// Program and arguments that start the server, as on [another
    /// host](crate::network::Host::runner).
    pub runner: Vec<String>,
}

/// Storage engine of a gateway under test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// SQLite, in the data directory.
    #[default]
    Sqlite,
    /// A separate database on the PostgreSQL server at `TEST_PG_URL`, or on the local server.
    Postgres,
}

/// A running gateway. Dropping it kills the process; [`finish`](Self::finish) shuts it down and
/// checks the ledger.
#[derive(Debug)]
pub struct Gateway {
    binary: PathBuf,
    folder: TempDir,
    settings: Settings,
    database: Option<Arc<Database>>,
    /// The command: `serve` or `worker`.
    role: &'static str,
    process: Option<Process>,
    address: SocketAddr,
}

impl Gateway {
    /// Starts the binary and waits until it listens.
    ///
    /// # Panics
    /// If the gateway does not start. The message contains its log.
    pub async fn start(binary: impl AsRef<Path>, options: Options) -> Self {
        let database = match options.storage {
            Storage::Sqlite => None,
            Storage::Postgres => Some(Arc::new(Database::migrated(binary.as_ref()).await)),
        };
        Self::start_on(binary.as_ref(), "serve", options, database).await
    }

    /// Starts another node on the same PostgreSQL database, with its own data directory.
    ///
    /// # Panics
    /// If this gateway does not use PostgreSQL, or the other one does not start.
    pub async fn start_node(&self, options: Options) -> Self {
        let database = self.database.clone().expect("only PostgreSQL has several nodes");
        Self::start_on(&self.binary, "serve", options, Some(database)).await
    }

    /// Starts a worker on the same PostgreSQL database, with its own data directory. Its address
    /// serves probes and metrics only.
    ///
    /// # Panics
    /// If this gateway does not use PostgreSQL, or the worker does not start.
    pub async fn start_worker(&self, options: Options) -> Self {
        let database = self.database.clone().expect("only PostgreSQL has workers");
        Self::start_on(&self.binary, "worker", options, Some(database)).await
    }

    /// Migrates an existing database and starts the first node on it. A database URL in the
    /// settings takes precedence.
    ///
    /// # Panics
    /// If the gateway does not start.
    pub async fn start_on_database(
        binary: impl AsRef<Path>,
        options: Options,
        database: Arc<Database>,
    ) -> Self {
        let mut gateway = Self::prepare(binary.as_ref(), "serve", options, Some(database));
        gateway.command_line().run(&["migrate"]).await;
        gateway.restart().await;
        gateway
    }

    async fn start_on(
        binary: &Path,
        role: &'static str,
        options: Options,
        database: Option<Arc<Database>>,
    ) -> Self {
        let mut gateway = Self::prepare(binary, role, options, database);
        gateway.restart().await;
        gateway
    }

    fn prepare(binary: &Path, role: &'static str, options: Options, database: Option<Arc<Database>>) -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-api-").tempdir();
        let folder = folder.expect("a temporary directory can be made");
        let settings = Settings::new(&options, database.as_deref(), folder.path());
        settings.write();
        Self {
            binary: binary.to_owned(),
            folder,
            settings,
            database,
            role,
            process: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        }
    }

    /// Starts the gateway again on the same data, on another port.
    ///
    /// # Panics
    /// If the gateway already runs, or does not start.
    pub async fn restart(&mut self) {
        assert!(self.process.is_none(), "the gateway runs already");
        let process = Process::start(&self.command_line(), self.role, &self.log_path()).await;
        self.address = process.address();
        self.process = Some(process);
    }

    /// Like [`restart`](Self::restart), but returns false if the gateway does not start because a
    /// required service is unavailable.
    ///
    /// # Panics
    /// If the gateway already runs, or logs nothing.
    pub async fn try_restart(&mut self) -> bool {
        assert!(self.process.is_none(), "the gateway runs already");
        let started = Process::try_start(&self.command_line(), self.role, &self.log_path()).await;
        self.process = started.ok();
        self.address = self.process.as_ref().map_or(self.address, Process::address);
        self.process.is_some()
    }

    /// Whether the process is still running.
    pub fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::runs)
    }

    /// Returns the address of the public API.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the PostgreSQL database; `None` on SQLite.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_deref()
    }

    /// Returns the folder with the settings file `tollgate.toml`, the log and the data directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the data directory.
    pub fn data(&self) -> PathBuf {
        self.settings.data()
    }

    /// Returns the output of the process on stdout since its start.
    pub fn stdout(&self) -> String {
        self.process.as_ref().map(Process::stdout).unwrap_or_default()
    }

    /// Returns the peak memory of the process, in bytes.
    ///
    /// # Panics
    /// If the process does not run.
    pub fn peak_memory(&self) -> u64 {
        let process = self.process.as_ref().expect("the gateway runs");
        process.peak_memory()
    }

    /// Returns the present resident memory of the process, in bytes.
    ///
    /// # Panics
    /// If the process does not run.
    pub fn memory(&self) -> u64 {
        let process = self.process.as_ref().expect("the gateway runs");
        process.memory()
    }

    /// Returns the log (stderr) of every process so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log contains this text more than `times` times.
    ///
    /// # Panics
    /// If this takes longer than the deadline of [`eventually`].
    pub async fn wait_for_log(&self, text: &str, times: usize) {
        let what = format!("{text:?} in the log more than {times} times");
        eventually(&what, async || self.log().matches(text).count() > times).await;
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }

    /// Replaces the settings of [`Options::config`] like an operator who edits the file: writes a
    /// new file and renames it.
    ///
    /// # Panics
    /// If the text is not TOML.
    pub fn change_config(&mut self, config: &str) {
        self.settings.change(config);
        self.settings.write();
    }

    /// Writes this text as the settings file, valid or not.
    pub fn write_config(&self, text: &str) {
        self.settings.write_text(text);
    }

    /// Returns an HTTP client of the gateway.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// Returns the command line with this gateway's settings and data.
    pub fn command_line(&self) -> CommandLine {
        CommandLine::new(&self.binary, &self.settings)
    }

    /// Creates an account and returns its id.
    pub async fn account(&self) -> String {
        self.command_line().create_account("test").await
    }

    /// Creates a key for an account.
    pub async fn key(&self, account: &str) -> Key {
        self.command_line().create_key(account).await
    }

    /// Adds credits to an account.
    pub async fn grant(&self, account: &str, amount: &str) {
        self.command_line()
            .run(&["credits", "grant", account, amount])
            .await;
    }

    /// Sets the limits of an account: requests and tokens per minute.
    pub async fn set_limits(&self, account: &str, rpm: u64, tpm: u64) {
        let (rpm, tpm) = (rpm.to_string(), tpm.to_string());
        let command = ["accounts", "set-limits", account, "--rpm", &rpm, "--tpm", &tpm];
        self.command_line().run(&command).await;
    }

    /// Returns the available and held credits of an account.
    pub async fn balance(&self, account: &str) -> Balance {
        self.command_line().balance(account).await
    }

    /// Runs `ledger check --reprice`.
    pub async fn ledger_check(&self) -> Check {
        self.command_line().check().await
    }

    /// Requests `GET /v1/account/usage` with this query.
    ///
    /// # Panics
    /// If the status is not 200.
    pub async fn usage(&self, key: &str, query: &str) -> Value {
        let path = format!("/v1/account/usage{query}");
        let response = self.client().send(&Request::get(&path).key(key)).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    }

    /// Sends a signal, such as `HUP`.
    ///
    /// # Panics
    /// If the process does not run.
    pub async fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("the gateway runs");
        process.signal(name).await;
    }

    /// Waits until the process exits by itself and returns its exit code; `None` if a signal killed
    /// it.
    ///
    /// # Panics
    /// If the process does not exit in time.
    pub async fn wait_for_exit(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("the gateway runs");
        process.wait().await
    }

    /// Stops the gateway (SIGTERM) and waits for its end.
    ///
    /// # Panics
    /// If the gateway does not stop, or its exit code is not 0.
    pub async fn stop(&mut self) {
        self.signal("TERM").await;
        let code = self.wait_for_exit().await;
        assert_eq!(
            code,
            Some(0),
            "the gateway exits with code 0; its log:\n{}",
            self.log()
        );
    }

    /// Kills the gateway (SIGKILL), as a crash does.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("the gateway runs");
        process.kill().await;
    }

    /// Stops the gateway if it runs, checks its ledger and its log, and returns the ledger check.
    ///
    /// # Panics
    /// If the ledger has faults or unresolved holds, or a handler panicked.
    pub async fn finish(mut self) -> Check {
        if self.process.is_some() {
            self.stop().await;
        }
        let check = self.ledger_check().await;
        assert!(check.clean, "{check:?}\n{}", self.log());
        assert_eq!(check.open_holds, 0, "{check:?}");
        assert!(!self.log().contains("panicked"), "{}", self.log());
        check
    }
}
