//! Tollgate as a target: keys, limits, holds and durable settlement are enabled. This file contains
//! everything that the comparison needs of the command line and the configuration file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use super::process::Process;
use super::target::{Answered, Charged, Started, Target};

const MODEL: &str = "stub/stub-model";
/// Price of a million prompt and completion tokens, in credits.
const PRICES: (&str, &str) = ("0.15", "0.60");
/// The same prices in nano-credits a token.
const NANO_PER_TOKEN: (i64, i64) = (150, 600);
/// Maximum number of keys of one account.
const KEYS_PER_ACCOUNT: usize = 50;
/// Requests per minute: far above any load, and still a 32-bit number.
const RPM: &str = "100000000";
const TPM: &str = "4000000000";
const CREDITS: &str = "1000000";
/// Number of command-line clients that create keys concurrently.
const PROVISIONERS: usize = 4;
/// Maximum delay of settlement after the answers.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The environment variables of the server's two secrets, with their values.
const SECRETS: [(&str, &str); 2] = [
    ("TOLLGATE_BENCH_UPSTREAM_KEY", "sk-upstream"),
    ("TOLLGATE_BENCH_PEPPER", "a pepper for runs of the comparison"),
];

/// Parameters of the target.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) binary: PathBuf,
    pub(super) work: PathBuf,
    pub(super) stub: std::net::SocketAddr,
    /// `None` for SQLite in the data folder.
    pub(super) postgres: Option<String>,
    /// The Redis of the nodes' limits.
    pub(super) redis: Option<String>,
    /// Number of processes on one database.
    pub(super) nodes: usize,
    /// Number of API keys in the store.
    pub(super) keys: usize,
    /// Number of accounts that the load is spread over, each with one of the keys.
    pub(super) callers: usize,
}

/// Tollgate on one of its storage engines.
pub(super) struct Tollgate {
    setup: Setup,
    cli: Cli,
    callers: Vec<Caller>,
    /// Nano-credits of all callers at the last start of the server.
    balance: i64,
}

#[derive(Clone, Debug)]
struct Caller {
    account: String,
    key: String,
}

impl Tollgate {
    /// Writes the configuration file; starts no process.
    pub(super) fn new(setup: Setup) -> anyhow::Result<Tollgate> {
        let data = setup.work.join(setup.name);
        std::fs::create_dir_all(&data)?;
        let config = setup.work.join(format!("{}.toml", setup.name));
        std::fs::write(&config, settings(&setup, &data))?;
        let cli = Cli {
            binary: setup.binary.clone(),
            data,
            config,
        };
        Ok(Tollgate {
            setup,
            cli,
            callers: Vec::new(),
            balance: 0,
        })
    }

    /// Starts a node. All nodes share the configuration file; each has its own data folder.
    fn serve(&self, node: usize) -> anyhow::Result<(Process, std::net::SocketAddr)> {
        let cli = match node {
            0 => self.cli.clone(),
            _ => Cli {
                data: self.cli.data.with_extension(format!("node-{node}")),
                ..self.cli.clone()
            },
        };
        let command = cli.command(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        let process = Process::start(command, &self.setup.work, self.name())?;
        let address = process.bound_address()?;
        Ok((process, address))
    }

    /// Creates the accounts and their keys through the running server.
    fn provision(&self) -> anyhow::Result<Vec<Caller>> {
        let accounts = self.setup.keys.div_ceil(KEYS_PER_ACCOUNT).max(self.setup.callers);
        let names: Vec<_> = (0..accounts)
            .map(|index| (index, keys_of(index, accounts, self.setup.keys)))
            .collect();
        let share = accounts.div_ceil(PROVISIONERS);
        let shares = std::thread::scope(|scope| {
            let workers: Vec<_> = names
                .chunks(share)
                .map(|share| scope.spawn(|| self.provision_share(share)))
                .collect();
            workers
                .into_iter()
                .map(|worker| worker.join())
                .collect::<Vec<_>>()
        });
        let mut callers = Vec::new();
        for share in shares {
            callers.extend(share.map_err(|_| anyhow::anyhow!("a provisioning thread panicked"))??);
        }
        Ok(callers)
    }

    fn provision_share(&self, share: &[(usize, usize)]) -> anyhow::Result<Vec<Caller>> {
        let mut callers = Vec::new();
        for (index, keys) in share {
            let account = self
                .cli
                .create_account(&format!("bench-{}-{index}", std::process::id()))?;
            let mut first = None;
            for number in 0..*keys {
                let key = self.cli.create_key(&account, &format!("key-{number}"))?;
                first.get_or_insert(key);
            }
            if *index < self.setup.callers {
                self.cli
                    .run(["accounts", "set-limits", &account, "--rpm", RPM, "--tpm", TPM])?;
                self.cli.run(["credits", "grant", &account, CREDITS])?;
                callers.push(Caller {
                    account,
                    key: first.context("the caller has no key")?,
                });
            }
        }
        Ok(callers)
    }

    fn balance(&self) -> anyhow::Result<Balance> {
        let mut sum = Balance { credits: 0, held: 0 };
        for caller in &self.callers {
            let balance = self.cli.balance(&caller.account)?;
            sum.credits += balance.credits;
            sum.held += balance.held;
        }
        Ok(sum)
    }

    /// Waits until no hold is open: then every answer is charged.
    fn settled(&self) -> anyhow::Result<i64> {
        let deadline = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let balance = self.balance()?;
            if balance.held == 0 {
                return Ok(balance.credits);
            }
            let waited = SETTLE_TIMEOUT.as_secs();
            ensure!(
                Instant::now() < deadline,
                "{} nano-credits still held after {waited} s",
                balance.held
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Target for Tollgate {
    fn name(&self) -> &'static str {
        self.setup.name
    }

    fn translates(&self) -> bool {
        true
    }

    fn version(&self) -> String {
        let version = self
            .cli
            .bare_command(["--version"])
            .output()
            .map(|output| output.stdout)
            .unwrap_or_default();
        format!("{}: {}", self.name(), String::from_utf8_lossy(&version).trim())
    }

    fn prepare(&mut self) -> anyhow::Result<()> {
        let launched_at = Instant::now();
        self.cli.run(["migrate"])?;
        let (process, _) = self.serve(0)?;
        self.callers = self.provision().with_context(|| process.output_tail())?;
        process.stop(self.stop_timeout())?;
        let seconds = launched_at.elapsed().as_secs_f64();
        eprintln!(
            "{}: {} keys made in {seconds:.1} s",
            self.name(),
            self.setup.keys.max(self.setup.callers)
        );
        Ok(())
    }

    fn start(&mut self) -> anyhow::Result<Started> {
        let (mut processes, mut addresses) = (Vec::new(), Vec::new());
        for node in 0..self.setup.nodes {
            let (process, address) = self.serve(node)?;
            processes.push(process);
            addresses.push(address);
        }
        self.balance = self.settled().with_context(|| processes[0].output_tail())?;
        let keys = self.callers.iter().map(|caller| caller.key.clone()).collect();
        Ok(Started {
            processes,
            addresses,
            model: MODEL.to_owned(),
            keys,
        })
    }

    fn charged(&mut self, answered: &Answered) -> anyhow::Result<Option<Charged>> {
        let charged = self.balance - self.settled()?;
        if answered.bad > 0 {
            return Ok(None);
        }
        let expected = answered.answers.iter().map(|(payload, count)| {
            let (prompt, completion) = payload.tokens();
            let each = prompt as i64 * NANO_PER_TOKEN.0 + completion as i64 * NANO_PER_TOKEN.1;
            each * *count as i64
        });
        Ok(Some(Charged {
            expected: expected.sum(),
            charged,
        }))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.cli
            .run(["ledger", "check"])
            .map(|_| ())
            .context("the ledger check found faults")
    }

    fn stop_timeout(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn uses_postgres(&self) -> bool {
        self.setup.postgres.is_some()
    }
}

/// Returns the configuration file.
fn settings(setup: &Setup, data: &Path) -> String {
    let url = match &setup.postgres {
        Some(url) => url.clone(),
        None => format!("sqlite:{}", data.join("tollgate.db").display()),
    };
    let redis = setup.redis.as_ref().map_or(String::new(), |url| {
        format!(
            "\n[redis]\nurl = {url:?}\nprefix = \"tollgate-bench-{}\"\n",
            std::process::id()
        )
    });
    let (input, output) = PRICES;
    let [(upstream_key, _), (pepper, _)] = SECRETS;
    // Disables the detection of model servers on this machine, and the wait of a stop for a load
    // balancer.
    format!(
        "[server]
discover = false

[timeouts]
drain_delay_ms = 0

[service]
pepper_env = \"{pepper}\"

[storage]
url = {url:?}
{redis}

[providers.stub]
preset = \"vllm\"
base_url = \"http://{}/v1\"
api_key_env = \"{upstream_key}\"

[models.{MODEL:?}]
targets = [{MODEL:?}]
prices = {{ input = \"{input}\", output = \"{output}\" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
",
        setup.stub
    )
}

/// Returns the number of keys of account `index` of `accounts`: `keys` in all, and at least one
/// each.
fn keys_of(index: usize, accounts: usize, keys: usize) -> usize {
    let share = keys / accounts + usize::from(index < keys % accounts);
    share.max(1)
}

/// The command line of one installation.
#[derive(Clone, Debug)]
struct Cli {
    binary: PathBuf,
    data: PathBuf,
    config: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Balance {
    credits: i64,
    held: i64,
}

impl Cli {
    /// Passes only the variables that a program needs, and Tollgate's own settings. A provider's
    /// key in the environment would otherwise enable that provider.
    fn bare_command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).env_clear();
        command.envs(std::env::vars_os().filter(|(name, _)| {
            let name = name.to_string_lossy();
            matches!(&*name, "PATH" | "HOME" | "TMPDIR" | "LANG" | "LD_LIBRARY_PATH")
                || name.starts_with("TOLLGATE_")
        }));
        command
    }

    fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.bare_command(arguments);
        command
            .arg("--data")
            .arg(&self.data)
            .arg("--config")
            .arg(&self.config);
        command.envs(SECRETS);
        command
    }

    /// Runs a command to its end; returns its stdout.
    fn run<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> anyhow::Result<String> {
        let mut command = self.command(arguments);
        let output = command
            .output()
            .with_context(|| format!("running {}", self.binary.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!(
                "tollgate {}: {}: {} {}",
                words.join(" "),
                output.status,
                text.trim(),
                errors.trim()
            );
        }
        Ok(text)
    }

    fn create_account(&self, name: &str) -> anyhow::Result<String> {
        #[derive(Deserialize)]
        struct Created {
            id: String,
        }
        let text = self.run(["accounts", "create", name, "--json"])?;
        Ok(serde_json::from_str::<Created>(&text)
            .with_context(|| text.clone())?
            .id)
    }

    fn create_key(&self, account: &str, name: &str) -> anyhow::Result<String> {
        #[derive(Deserialize)]
        struct Created {
            key: String,
        }
        let text = self.run(["keys", "create", "--account", account, "--name", name, "--json"])?;
        Ok(serde_json::from_str::<Created>(&text)
            .with_context(|| text.clone())?
            .key)
    }

    fn balance(&self, account: &str) -> anyhow::Result<Balance> {
        let text = self.run(["credits", "balance", account, "--json"])?;
        read_balance(&text).with_context(|| format!("reading the balance: {text}"))
    }
}

/// Parses `{"credits": "12.5", "held": "0"}` into nano-credits.
fn read_balance(text: &str) -> anyhow::Result<Balance> {
    #[derive(Deserialize)]
    struct Shown {
        credits: String,
        held: String,
    }
    let Shown { credits, held } = serde_json::from_str(text)?;
    Ok(Balance {
        credits: nano(&credits)?,
        held: nano(&held)?,
    })
}

/// Parses a decimal number of credits to nano-credits, exactly.
fn nano(decimal: &str) -> anyhow::Result<i64> {
    let (sign, digits) = decimal
        .strip_prefix('-')
        .map_or((1, decimal), |digits| (-1, digits));
    ensure!(
        digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'),
        "{decimal} is not a decimal number"
    );
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    ensure!(fraction.len() <= 9, "{decimal} is finer than a nano-credit");
    let whole: i64 = whole.parse().with_context(|| decimal.to_owned())?;
    let fraction: i64 = format!("{fraction:0<9}")
        .parse()
        .with_context(|| decimal.to_owned())?;
    let value = whole
        .checked_mul(1_000_000_000)
        .and_then(|nano| nano.checked_add(fraction));
    Ok(sign * value.with_context(|| format!("{decimal} is too large"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balances_are_read_exactly() {
        let cases = [
            ("0", 0),
            ("12.5", 12_500_000_000),
            ("999999.999999999", 999_999_999_999_999),
            ("-0.000000001", -1),
        ];
        for (decimal, expected) in cases {
            assert_eq!(nano(decimal).unwrap(), expected, "{decimal}");
        }
        for wrong in ["", "x", "1.0000000001", "99999999999999", "1.-5", "+-1"] {
            assert!(nano(wrong).is_err(), "{wrong}");
        }
        let balance = read_balance(r#"{"credits":"9.9999","held":"0.1"}"#).unwrap();
        assert_eq!(
            balance,
            Balance {
                credits: 9_999_900_000,
                held: 100_000_000
            }
        );
    }

    #[test]
    fn keys_are_shared_out_to_the_last() {
        for (keys, accounts) in [(10_000, 200), (501, 11), (7, 3)] {
            let made: Vec<_> = (0..accounts)
                .map(|index| keys_of(index, accounts, keys))
                .collect();
            assert_eq!(made.iter().sum::<usize>(), keys);
            assert!(made.iter().all(|count| *count <= KEYS_PER_ACCOUNT));
        }
        assert_eq!(keys_of(3, 8, 2), 1);
    }
}
