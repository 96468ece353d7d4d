//! The `tollgate` commands, run beside the server as an operator runs them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::settings::Settings;
use super::wait::in_time;

/// The binary with the settings and the data directory of one gateway.
#[derive(Debug, Clone)]
pub struct CommandLine {
    binary: PathBuf,
    folder: PathBuf,
    data: PathBuf,
    config: PathBuf,
    env: Vec<(String, String)>,
    runner: Vec<String>,
}

/// Exit code and output of a command.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit code of the process.
    pub code: i32,
    /// Output of the command on stdout.
    pub stdout: String,
    /// Output of the command on stderr.
    pub stderr: String,
}

/// A newly created API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Id of the key: `key_…`.
    pub id: String,
    /// The key in clear text.
    pub secret: String,
}

/// A balance in nano-credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Available nano-credits, without held credits and allowances.
    pub credits: i64,
    /// Nano-credits held for running calls.
    pub held: i64,
}

/// Result of `ledger check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Whether the ledger has no faults.
    pub clean: bool,
    /// Number of transfers that were read.
    pub transfers: u64,
    /// Number of usage rows that were read.
    pub usage_rows: u64,
    /// Number of unresolved holds.
    pub open_holds: u64,
    /// Revenue from callers, in nano-credits.
    pub revenue: i64,
    /// Cost borne by the operator, in nano-credits.
    pub overrun: i64,
    /// Number of calls that a crash interrupted.
    pub crashed: u64,
    /// Descriptions of the faults.
    pub faults: Vec<String>,
}

impl CommandLine {
    pub(super) fn new(binary: &Path, settings: &Settings) -> Self {
        Self {
            binary: binary.to_owned(),
            folder: settings.folder().to_owned(),
            data: settings.data(),
            config: settings.file(),
            env: settings.env.clone(),
            runner: settings.runner.clone(),
        }
    }

    /// Returns the program with its folder and only the test's environment variables.
    pub(super) fn command(&self) -> Command {
        self.position(Command::new(&self.binary))
    }

    /// Returns the command of the server: like [`command`](Self::command), but prefixed with the
    /// server's runner, if it has one.
    pub(super) fn server_command(&self) -> Command {
        let Some((program, arguments)) = self.runner.split_first() else {
            return self.command();
        };
        let mut command = Command::new(program);
        command.args(arguments).arg(&self.binary);
        self.position(command)
    }

    fn position(&self, mut command: Command) -> Command {
        let env = self.env.iter().map(|(name, value)| (name, value));
        command.env_clear().envs(env).current_dir(&self.folder);
        command
            .arg("--config")
            .arg(&self.config)
            .arg("--data")
            .arg(&self.data);
        command
    }

    /// Returns the program with its folder and variables, as a shell command.
    pub fn command_text(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        let variables = self
            .env
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let position = [
            &self.binary,
            &PathBuf::from("--config"),
            &self.config,
            &PathBuf::from("--data"),
            &self.data,
        ];
        let position = position.map(|part| quoted(&part.to_string_lossy()));
        let variables: Vec<String> = variables.collect();
        format!("env {} {}", variables.join(" "), position.join(" "))
    }

    /// Runs a command until it exits. Returns the outcome, also of a failed command.
    ///
    /// # Panics
    /// If the command cannot start, does not exit, or is killed by a signal.
    pub async fn try_run(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
        let output = in_time("the end of a command", command.output()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Finished {
            code: output.status.code().expect("no signal killed the command"),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    /// Runs a command with `--json` that must succeed, and returns its output.
    ///
    /// # Panics
    /// If the command fails or prints no JSON.
    pub async fn run(&self, arguments: &[&str]) -> Value {
        let finished = self.try_run(&[arguments, &["--json"]].concat()).await;
        assert_eq!(finished.code, 0, "{arguments:?}: {finished:?}");
        json(&finished.stdout)
    }

    /// Runs `accounts create` and returns the id.
    ///
    /// # Panics
    /// If the command fails.
    pub async fn create_account(&self, name: &str) -> String {
        text(&self.run(&["accounts", "create", name]).await["id"])
    }

    /// Runs `keys create`.
    ///
    /// # Panics
    /// If the command fails.
    pub async fn create_key(&self, account: &str) -> Key {
        let created = self.run(&["keys", "create", "--account", account]).await;
        Key {
            id: text(&created["id"]),
            secret: text(&created["key"]),
        }
    }

    /// Runs `credits balance`.
    ///
    /// # Panics
    /// If the command fails.
    pub async fn balance(&self, account: &str) -> Balance {
        let balance = self.run(&["credits", "balance", account]).await;
        Balance {
            credits: nanos(&balance["credits"]),
            held: nanos(&balance["held"]),
        }
    }

    /// Runs `ledger check --reprice`. Ledger faults are a result, not a panic.
    ///
    /// # Panics
    /// If the check cannot run.
    pub async fn check(&self) -> Check {
        let finished = self.try_run(&["ledger", "check", "--reprice", "--json"]).await;
        assert!(matches!(finished.code, 0 | 3), "{finished:?}");
        let check = json(&finished.stdout);
        let count = |name: &str| {
            check[name]
                .as_u64()
                .unwrap_or_else(|| panic!("{name} in {check}"))
        };
        let clean = check["clean"].as_bool().unwrap();
        assert_eq!(
            clean,
            finished.code == 0,
            "the exit code says the same: {finished:?}"
        );
        assert_eq!(clean, count("fault_count") == 0, "{check}");
        Check {
            clean,
            transfers: count("transfers"),
            usage_rows: count("usage_rows"),
            open_holds: count("open_holds"),
            revenue: nanos(&check["revenue"]),
            overrun: nanos(&check["overrun"]),
            crashed: count("crashed"),
            faults: check["faults"].as_array().unwrap().iter().map(text).collect(),
        }
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is not a string"))
        .to_owned()
}

/// Converts a decimal string in JSON to nano-credits, exactly.
///
/// # Panics
/// If the value is not a decimal string.
pub fn nanos(value: &Value) -> i64 {
    let amount = text(value);
    let (sign, digits) = amount
        .strip_prefix('-')
        .map_or((1, amount.as_str()), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    assert!(
        !whole.is_empty() && fraction.len() <= 9 && plain(whole) && plain(fraction),
        "{amount:?}"
    );
    let nanos: i64 = format!("{whole}{fraction:0<9}").parse().unwrap();
    sign * nanos
}
