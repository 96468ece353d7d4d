//! The gateway as its users have it: the built binary in a process of its own, with a data directory, settings and
//! ports of its own, the command line beside it, and an HTTP client that can also send what is broken.
//!
//! Suggested reading order: [`Gateway`], [`http`], then what they stand on.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "only tests use this: what goes wrong here fails the test, and there is no clock to take the time from"
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

/// What a gateway is started with.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// TOML that is laid over the settings of tests: tables are merged, everything else is replaced.
    pub config: String,
    /// Where everything is kept.
    pub storage: Storage,
    /// Variables of the process, which has no others.
    pub env: Vec<(String, String)>,
    /// The program and its arguments that the server is started by, as on [another host](crate::network::Host::runner).
    pub runner: Vec<String>,
}

/// A storage engine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// In the data directory.
    #[default]
    Sqlite,
    /// In a database of its own on the server that `TEST_PG_URL` names, or the one on this machine.
    Postgres,
}

/// A running gateway. The process is killed when it is dropped; [`finish`](Self::finish) ends it in order and looks at
/// the books.
#[derive(Debug)]
pub struct Gateway {
    binary: PathBuf,
    folder: TempDir,
    settings: Settings,
    database: Option<Arc<Database>>,
    /// Which command it is: `serve` or `worker`.
    role: &'static str,
    process: Option<Process>,
    address: SocketAddr,
}

impl Gateway {
    /// Starts the binary and waits until it listens.
    ///
    /// # Panics
    /// When it does not start; its log is in the message.
    pub async fn start(binary: impl AsRef<Path>, options: Options) -> Self {
        let database = match options.storage {
            Storage::Sqlite => None,
            Storage::Postgres => Some(Arc::new(Database::create().await)),
        };
        Self::start_on(binary.as_ref(), "serve", options, database).await
    }

    /// Starts another node on the same PostgreSQL database, with a data directory of its own.
    ///
    /// # Panics
    /// When this one is not on PostgreSQL, or the other does not start.
    pub async fn start_node(&self, options: Options) -> Self {
        let database = self.database.clone().expect("only PostgreSQL has several nodes");
        Self::start_on(&self.binary, "serve", options, Some(database)).await
    }

    /// Starts a worker on the same PostgreSQL database, with a data directory of its own. It has an address for probes and metrics
    /// alone.
    ///
    /// # Panics
    /// When this one is not on PostgreSQL, or the worker does not start.
    pub async fn start_worker(&self, options: Options) -> Self {
        let database = self.database.clone().expect("only PostgreSQL has workers");
        Self::start_on(&self.binary, "worker", options, Some(database)).await
    }

    /// Starts the first node on a database that is there already. Where the settings name another way to it, that is the one it takes.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_on_database(
        binary: impl AsRef<Path>,
        options: Options,
        database: Arc<Database>,
    ) -> Self {
        Self::start_on(binary.as_ref(), "serve", options, Some(database)).await
    }

    async fn start_on(
        binary: &Path,
        role: &'static str,
        options: Options,
        database: Option<Arc<Database>>,
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-api-").tempdir();
        let folder = folder.expect("a temporary directory can be made");
        let settings = Settings::new(&options, database.as_deref(), folder.path());
        settings.write();
        let mut gateway = Self {
            binary: binary.to_owned(),
            folder,
            settings,
            database,
            role,
            process: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        if gateway.database.is_some() {
            gateway.command_line().run(&["migrate"]).await;
        }
        gateway.restart().await;
        gateway
    }

    /// Starts it again on the same data, on another port.
    ///
    /// # Panics
    /// When it runs, or does not start.
    pub async fn restart(&mut self) {
        assert!(self.process.is_none(), "the gateway runs already");
        let process = Process::start(&self.command_line(), self.role, &self.log_path()).await;
        self.address = process.address();
        self.process = Some(process);
    }

    /// The same; false when it does not start, since something that it needs is away.
    ///
    /// # Panics
    /// When it runs, or says nothing at all.
    pub async fn try_restart(&mut self) -> bool {
        assert!(self.process.is_none(), "the gateway runs already");
        let started = Process::try_start(&self.command_line(), self.role, &self.log_path()).await;
        self.process = started.ok();
        self.address = self.process.as_ref().map_or(self.address, Process::address);
        self.process.is_some()
    }

    /// Whether its process has not ended.
    pub fn runs(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::runs)
    }

    /// Where it listens for callers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The database, when it is on PostgreSQL.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_deref()
    }

    /// The folder with the settings file `tollgate.toml`, the log and the data directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.settings.data()
    }

    /// What the process has printed on stdout since it was started, so far.
    pub fn stdout(&self) -> String {
        self.process.as_ref().map(Process::stdout).unwrap_or_default()
    }

    /// The most memory that the process has had at once, in bytes.
    ///
    /// # Panics
    /// When it does not run.
    pub fn peak_memory(&self) -> u64 {
        let process = self.process.as_ref().expect("the gateway runs");
        process.peak_memory()
    }

    /// Everything that was logged on stderr, by every process so far.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until the log has this text more than `times` times.
    ///
    /// # Panics
    /// When it does not come within the time of [`eventually`].
    pub async fn wait_for_log(&self, text: &str, times: usize) {
        let what = format!("{text:?} in the log more than {times} times");
        eventually(&what, async || self.log().matches(text).count() > times).await;
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("stderr.log")
    }

    /// Replaces the settings beyond those of every test, as an operator does who edits the file: it is written beside
    /// and renamed.
    ///
    /// # Panics
    /// When the text is not TOML.
    pub fn change_config(&mut self, config: &str) {
        self.settings.change(config);
        self.settings.write();
    }

    /// Writes these bytes as the settings file, whatever they are.
    pub fn write_config(&self, text: &str) {
        self.settings.write_text(text);
    }

    /// An HTTP client for it.
    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// The command line with this gateway's settings and data.
    pub fn command_line(&self) -> CommandLine {
        CommandLine::new(&self.binary, &self.settings)
    }

    /// Makes an account and answers its id.
    pub async fn account(&self) -> String {
        self.command_line().create_account("test").await
    }

    /// Makes a key for an account.
    pub async fn key(&self, account: &str) -> Key {
        self.command_line().create_key(account).await
    }

    /// Puts credits into an account.
    pub async fn grant(&self, account: &str, amount: &str) {
        self.command_line()
            .run(&["credits", "grant", account, amount])
            .await;
    }

    /// Sets an account's own requests and tokens per minute.
    pub async fn set_limits(&self, account: &str, rpm: u64, tpm: u64) {
        let (rpm, tpm) = (rpm.to_string(), tpm.to_string());
        let command = ["accounts", "set-limits", account, "--rpm", &rpm, "--tpm", &tpm];
        self.command_line().run(&command).await;
    }

    /// What an account can spend, and what is held.
    pub async fn balance(&self, account: &str) -> Balance {
        self.command_line().balance(account).await
    }

    /// What `ledger check --reprice` finds.
    pub async fn ledger_check(&self) -> Check {
        self.command_line().check().await
    }

    /// `GET /v1/account/usage` with this query.
    ///
    /// # Panics
    /// When it is not answered by 200.
    pub async fn usage(&self, key: &str, query: &str) -> Value {
        let path = format!("/v1/account/usage{query}");
        let response = self.client().send(&Request::get(&path).key(key)).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    }

    /// Sends a signal, such as `HUP`.
    ///
    /// # Panics
    /// When the process does not run.
    pub async fn signal(&self, name: &str) {
        let process = self.process.as_ref().expect("the gateway runs");
        process.signal(name).await;
    }

    /// Waits until the process ends by itself and answers its exit code; `None` when a signal ended it.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn wait_for_exit(&mut self) -> Option<i32> {
        let mut process = self.process.take().expect("the gateway runs");
        process.wait().await
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    ///
    /// # Panics
    /// When it does not stop, or not with exit code 0.
    pub async fn stop(&mut self) {
        self.signal("TERM").await;
        let code = self.wait_for_exit().await;
        assert_eq!(
            code,
            Some(0),
            "the gateway stops in order; its log:\n{}",
            self.log()
        );
    }

    /// Ends it at once (SIGKILL), as a crash does.
    pub async fn kill(&mut self) {
        let mut process = self.process.take().expect("the gateway runs");
        process.kill().await;
    }

    /// Stops it if it runs, checks what it leaves behind, and answers that.
    ///
    /// # Panics
    /// When the books have faults or holds that nobody resolved, or a handler panicked.
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
