//! Command-line definitions for clap. A test parses the examples in every command's help.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use tollgate_operations::NewLimit;
use tollgate_storage::LotTerms;
use tollgate_types::id::TransferId;
use tollgate_types::{AccountId, Credits, HoldId, KeyId, RequestId, SubscriptionId, Timestamp};

mod alerts;
mod batches;
mod decisions;
mod top_ups;

pub use alerts::Alerts;
pub use batches::Batches;
pub use decisions::{Decisions, Eval};
pub use top_ups::TopUps;

const EXIT_CODES: &str = "\
Examples:
  tollgate serve
  tollgate doctor

Exit codes:
  0  success
  1  failure
  2  invalid usage or settings
  3  a check found problems (ledger check, ledger audit, ledger receipt, ledger verify,
     statements show, prices check, config check, doctor, move, decisions eval)

Settings are read from tollgate.toml in the working directory (or --config FILE), from environment
variables TOLLGATE_<SECTION>__<KEY> such as TOLLGATE_SERVER__LISTEN, and from flags. Later sources
override earlier ones.

Commands work with or without a running server, with these exceptions: `providers list` and
`decisions eval` need a running server; `move` and, with SQLite, `migrate` need a stopped server.";

/// A self-hosted model gateway: one API and one bill for all your AI models.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Locations of the settings and the data.
    #[command(flatten)]
    pub place: Place,
    /// Print the output as JSON, and errors as JSON on stderr.
    #[arg(long, global = true, display_order = 102)]
    pub json: bool,
    /// The subcommand to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Locations of the settings file and the data directory.
#[derive(Debug, Args)]
pub struct Place {
    /// Settings file [default: tollgate.toml, if it exists].
    #[arg(long, global = true, value_name = "FILE", display_order = 100)]
    pub config: Option<PathBuf>,
    /// Data directory, for the secrets and, unless the settings place them elsewhere, the SQLite
    /// database and the media [default: tollgate-data].
    #[arg(long, global = true, value_name = "DIR", display_order = 101)]
    pub data: Option<PathBuf>,
}

mod admin;

pub use admin::{Admins, Audit, Members, Prices, Providers};

/// Subcommands of `tollgate`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the gateway until SIGTERM or SIGINT.
    Serve(Serve),
    /// Run jobs only, without serving API requests, until SIGTERM or SIGINT.
    Worker(Worker),
    /// Create or update the database schema.
    ///
    /// With SQLite, `serve` does this itself. With PostgreSQL, run this command once before you
    /// start the nodes of a new version.
    #[command(
        after_help = "Examples:\n  tollgate migrate\n  tollgate migrate --config /etc/tollgate/tollgate.toml"
    )]
    Migrate,
    /// Move an installation from SQLite to PostgreSQL, or back.
    Move(Move),
    /// Manage accounts and their limits.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate accounts create acme\n  tollgate accounts list"
    )]
    Accounts(Accounts),
    /// Manage account members.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate members add acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a jo@example.com --role owner"
    )]
    Members(Members),
    /// Manage API keys.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name production"
    )]
    Keys(Keys),
    /// Grant, list and refund credits.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 12.5\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    Credits(Credit),
    /// Sell credits through a payment provider.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate top-ups open acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 25\n  tollgate top-ups list"
    )]
    TopUps(TopUps),
    /// Manage low-balance alerts.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --email billing@example.com"
    )]
    Alerts(Alerts),
    /// Show batches and their progress.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate batches list"
    )]
    Batches(Batches),
    /// Evaluate typed decisions.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate decisions eval sample.jsonl --model sim/decide"
    )]
    Decisions(Decisions),
    /// List plans with their prices and allowances.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate plans list"
    )]
    Plans(Plans),
    /// Manage subscriptions to plans.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan pro"
    )]
    Subscriptions(Subscriptions),
    /// List available models with their prices.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate models list"
    )]
    Models(Models),
    /// Show providers and the health of their models.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate providers list"
    )]
    Providers(Providers),
    /// Show current prices and their history, and check new ones.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate prices list\n  tollgate prices check"
    )]
    Prices(Prices),
    /// Verify, audit and export the ledger.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate ledger check"
    )]
    Ledger(Ledger),
    /// Export usage as CSV or JSON lines.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate usage export --all --format csv --out usage.csv"
    )]
    Usage(Usage),
    /// Show monthly account statements.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11"
    )]
    Statements(Statements),
    /// Manage administrators of the admin API.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate admins create jo --role support\n  tollgate admins list"
    )]
    Admins(Admins),
    /// Show the audit log.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate audit list --limit 20"
    )]
    Audit(Audit),
    /// Check the settings without starting the gateway.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate config check"
    )]
    Config(Settings),
    /// Diagnose the installation and suggest repairs.
    ///
    /// The command checks the settings, the data directory, storage, media, rate limits, ports,
    /// payments, providers, models, the clock and this machine's limits. It can run while the
    /// server is running.
    #[command(
        after_help = "Examples:\n  tollgate doctor\n  tollgate doctor --json\n\nExit code 3 when problems are found."
    )]
    Doctor,
    /// Print the OpenAPI document of the public API or the admin API.
    #[command(
        after_help = "Examples:\n  tollgate openapi > openapi.json\n  tollgate openapi --admin > openapi-admin.json"
    )]
    Openapi {
        /// Print the document of the admin API.
        #[arg(long)]
        admin: bool,
    },
}

/// Arguments of `tollgate move`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate move --from sqlite:/var/lib/tollgate/tollgate.db --to postgres://tollgate@db/tollgate
  tollgate move --from postgres://tollgate@db/tollgate --to sqlite:/var/lib/tollgate-new/tollgate.db --json

Stop every gateway first. The source is only read; with SQLite its journal is applied, as at any \
start. The target must be empty: a PostgreSQL database on which `tollgate migrate` was run, or a \
directory without a SQLite database. It receives everything or nothing; after a failure, run the \
command again. Every row is read back and compared, and the target's ledger is checked.

Pass the password in PGPASSWORD or ~/.pgpass: `ps` shows the URLs of the command line.

Exit code 1 on failure, 2 when the source or the target cannot be used, 3 when the moved ledger \
has faults; the source has the same ones.")]
pub struct Move {
    /// Source database: sqlite:DIR/tollgate.db or postgres://user@host:5432/database.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// Target database: an empty database of the other engine, in the same URL form.
    #[arg(long, value_name = "URL")]
    pub to: String,
}

/// Arguments of `tollgate serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate serve
  tollgate serve --listen 127.0.0.1:0 --data /var/lib/tollgate
  tollgate serve --print-config

The first line on stdout is the listen address. Logs go to stderr. The environment variable \
TOLLGATE_LOG filters them, such as TOLLGATE_LOG=warn.
On SIGTERM, the gateway fails its readiness probe and accepts calls for another \
timeouts.drain_delay_ms; a second signal ends this delay. Then, or immediately on SIGINT, it \
finishes running calls, for at most timeouts.shutdown_ms, and stops; a further signal stops it \
within seconds. On SIGHUP, it reloads the settings.")]
pub struct Serve {
    /// Listen address of the public API [default: 127.0.0.1:8080]; port 0 selects a free port.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Listen address of metrics and the admin API [default: 127.0.0.1:9464]; if the port is in
    /// use, a free port is selected.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Print the effective settings, without secrets, and exit.
    #[arg(long)]
    pub print_config: bool,
}

/// Arguments of `tollgate worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate worker
  tollgate worker --config /etc/tollgate/tollgate.toml --admin 127.0.0.1:9465

Images, videos, batches and background responses are jobs: a node accepts them, and any process on \
the same PostgreSQL database runs them. `tollgate serve` runs jobs too, unless its settings contain

  [jobs]
  run_here = false

Then only workers run them. Start as many as you like, on any machine, with the same settings \
file, pepper and [media] store (s3, or a shared directory). When a worker dies, another one \
continues its jobs after 30 seconds; requests that may have reached a provider are not repeated. \
Workers need PostgreSQL.

The first line on stdout is the listen address, which serves /metrics, /healthz and /readyz. Logs \
go to stderr. On SIGTERM or SIGINT, the worker finishes running jobs, for at most \
timeouts.shutdown_ms; on a second signal, it hands them over to other workers immediately.")]
pub struct Worker {
    /// Listen address of metrics and probes [default: 127.0.0.1:9464]; if the port is in use, a
    /// free port is selected.
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
}

/// Subcommands of `tollgate accounts`.
#[derive(Debug, Subcommand)]
pub enum Accounts {
    /// Create an account and print its id.
    #[command(
        after_help = "Examples:\n  tollgate accounts create acme\n  tollgate accounts create \"Acme Ltd, production\" --json"
    )]
    Create {
        /// Display name (1–200 characters).
        name: String,
        /// Attach a test clock, for use with `accounts advance`.
        #[arg(long)]
        test_clock: bool,
    },
    /// Advance an account's test clock and process all events that become due.
    #[command(
        after_help = "Examples:\n  tollgate accounts advance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2027-01-01\n  tollgate accounts advance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2027-01-08T12:00:00Z"
    )]
    Advance {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// New clock time, at most 366 days after the current clock time: RFC 3339, or a date in
        /// UTC.
        #[arg(value_parser = instant)]
        to: Timestamp,
    },
    /// List accounts, with their state and limits.
    #[command(after_help = "Examples:\n  tollgate accounts list\n  tollgate accounts list --json")]
    List,
    /// Show an account and its balance.
    #[command(after_help = "Examples:\n  tollgate accounts show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Show {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// Rename an account.
    #[command(
        after_help = "Examples:\n  tollgate accounts rename acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a \"Acme Ltd\""
    )]
    Rename {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Display name (1–200 characters).
        name: String,
    },
    /// Override an account's limits. Omitted limits stay unchanged; `default` removes an override.
    #[command(
        after_help = "Examples:\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm 600 --tpm 5000000\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm default --keys 200\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --files 100 --files-gib 5 --batch-tokens 1000000\n\nGPU, agent and chat limits are not enforced yet."
    )]
    SetLimits {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Limits to override.
        #[command(flatten)]
        limits: Limits,
    },
    /// Suspend or resume an account.
    #[command(
        after_help = "Examples:\n  tollgate accounts suspend acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate accounts suspend acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --resume"
    )]
    Suspend {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Resume the account instead of suspending it.
        #[arg(long)]
        resume: bool,
    },
    /// Close an account and remove its personal data. The ledger is retained.
    #[command(
        after_help = "Examples:\n  tollgate accounts close acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n\nSuspend the account first (`tollgate accounts suspend ID`). Closing cannot be undone. Keys are revoked; name, members, alerts, stored responses, jobs, files and media are removed. Transfers, usage rows, statements and the audit log are retained. Exit code 1 while the account is active or has running calls, unfinished jobs or open subscriptions."
    )]
    Close {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
}

/// Limits of an account; at least one is required.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Limits {
    /// Maximum number of requests per minute over all keys.
    #[arg(long, value_name = "N|default", value_parser = new_limit::<u32>)]
    pub rpm: Option<NewLimit<u32>>,
    /// Maximum number of tokens per minute over all keys.
    #[arg(long, value_name = "N|default", value_parser = new_limit::<u64>)]
    pub tpm: Option<NewLimit<u64>>,
    /// Maximum number of unrevoked keys.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub keys: Option<NewLimit<u32>>,
    /// Maximum number of concurrent GPUs.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub gpus: Option<NewLimit<u32>>,
    /// Maximum number of hosted agents.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub agents: Option<NewLimit<u32>>,
    /// Maximum number of saved chats.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub chats: Option<NewLimit<u32>>,
    /// Maximum number of stored files.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub files: Option<NewLimit<u32>>,
    /// Maximum total size of stored files, in GiB.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub files_gib: Option<NewLimit<u32>>,
    /// Maximum number of estimated tokens of all unfinished batches together.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u64>)]
    pub batch_tokens: Option<NewLimit<u64>>,
}

/// Subcommands of `tollgate keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Create an API key and print it. The key is shown only once.
    #[command(
        after_help = "Examples:\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name staging\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name ci --test\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --expires-in-days 90"
    )]
    Create {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Display name (1–100 characters).
        #[arg(long, value_name = "TEXT", default_value = "default")]
        name: String,
        /// Days until the key expires, 1–36500 (default: never).
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
        expires_in_days: Option<u32>,
        /// Adaptation of requests to models that lack a requested feature.
        #[arg(long, value_enum, default_value_t)]
        compat: Compat,
        /// Create a test key. It reaches only simulated models and spends no credits.
        #[arg(long)]
        test: bool,
        /// Make image requests with this key wait for the image by default, instead of returning a
        /// job.
        #[arg(long)]
        sync: bool,
    },
    /// List an account's keys with their last four characters and last use.
    #[command(
        after_help = "Examples:\n  tollgate keys list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate keys list --account acme"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
    },
    /// Set how a key's requests are adapted to models that lack a requested feature.
    #[command(
        after_help = "Examples:\n  tollgate keys set-compat key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b lenient"
    )]
    SetCompat {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Adaptation level for requests with this key.
        compat: Compat,
    },
    /// Set whether image requests wait for the image by default, instead of returning a job.
    ///
    /// Clients without job support, such as `client.images.generate()` of OpenAI's SDKs, need `on`.
    /// The request field `sync` overrides this setting.
    #[command(after_help = "Examples:\n  tollgate keys set-sync key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b on")]
    SetSync {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Default for image requests with this key.
        sync: Switch,
    },
    /// Revoke a key permanently.
    #[command(after_help = "Examples:\n  tollgate keys revoke key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b")]
    Revoke {
        /// Key id (key_…), not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
    },
}

/// Adaptation of requests to models that lack a requested feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// Refuse the request with an error.
    Strict,
    /// Move mid-conversation instructions into the user's turn, and drop an unsupported
    /// `parallel_tool_calls: false` or reasoning effort.
    #[default]
    Standard,
    /// Also drop hosted tools, unknown fields, and unsupported optional fields such as
    /// `service_tier` or `verbosity`. The header `x-tollgate-ignored` lists the dropped fields.
    Lenient,
}

impl Compat {
    /// Returns the name that the control commands use.
    pub fn as_str(self) -> &'static str {
        match self {
            Compat::Strict => "strict",
            Compat::Standard => "standard",
            Compat::Lenient => "lenient",
        }
    }
}

/// Default for image requests: wait for the image (`on`), or return a job (`off`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Wait for the image.
    On,
    /// Return a job immediately.
    Off,
}

/// Subcommands of `tollgate credits`.
#[derive(Debug, Subcommand)]
pub enum Credit {
    /// Grant credits to an account.
    #[command(
        after_help = "Examples:\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 12.5\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --kind promotion --expires-in-days 30 --note \"launch week\"\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --expires-at 2027-01-01 --priority 10\n\nGrants are spent by ascending priority, then by earliest expiry, then by age."
    )]
    Grant {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Credits to grant, above 0, with at most nine decimals.
        amount: Credits,
        /// Terms of the grant.
        #[command(flatten)]
        terms: Terms,
    },
    /// List grants and refunds with their remaining credits, in the order in which they are spent.
    #[command(
        after_help = "Examples:\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --all --json"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Include grants without remaining credits.
        #[arg(long)]
        all: bool,
    },
    /// Refund the charge of a call. Credits return to the balance, and plan allowance returns to
    /// its week while the week is open.
    #[command(
        after_help = "Examples:\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --reason \"wrong language\"\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --amount 0.5 --key complaint-17\n\nA repeated refund is executed once. A second refund of the same amount needs a --key.\n\nExit code 1 when the call does not exist or is still running, 2 when the amount exceeds the refundable amount."
    )]
    Refund {
        /// The call's request id, from the `x-request-id` response header.
        #[arg(value_parser = request_id)]
        request: RequestId,
        /// Credits to refund, above 0 (default: the full refundable amount). Paid credits are
        /// refunded before allowance.
        #[arg(long, value_name = "CREDITS")]
        amount: Option<Credits>,
        /// Note for operators (at most 200 characters).
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Idempotency key of the refund, at most 200 characters (default: the amount).
        #[arg(long, value_name = "TEXT")]
        key: Option<String>,
    },
    /// Withdraw the unspent part of a purchase or promotion.
    #[command(
        after_help = "Examples:\n  tollgate credits refund-grant xfer_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3e\n\nCredits held by running calls are not withdrawn. Exit code 1 when the grant does not exist, 2 when it is a refund or has no unspent credits."
    )]
    RefundGrant {
        /// Grant id, from `credits list`.
        #[arg(value_parser = grant_id)]
        id: TransferId,
    },
    /// Show an account's available and held credits.
    #[command(
        after_help = "Examples:\n  tollgate credits balance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    Balance {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
}

/// Terms of a grant.
#[derive(Debug, Args)]
pub struct Terms {
    /// Idempotency key of the grant, at most 200 characters. If omitted, each run creates another
    /// grant.
    #[arg(long = "id", id = "grant_id", value_name = "TEXT")]
    pub id: Option<String>,
    /// Origin of the credits.
    #[arg(long, value_enum, default_value_t)]
    pub kind: Kind,
    /// Days until unused credits expire, 1–36500 (default: never).
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
    pub expires_in_days: Option<u32>,
    /// Expiry time of unused credits: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant, conflicts_with = "expires_in_days")]
    pub expires_at: Option<Timestamp>,
    /// Spending priority, 0–255. Grants with a lower value are spent first.
    #[arg(long, value_name = "N", default_value_t = LotTerms::PRIORITY)]
    pub priority: u8,
    /// Note for operators (at most 200 characters).
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Origin of granted credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Purchased by the customer.
    #[default]
    Purchase,
    /// Given away by the operator.
    Promotion,
}

/// Subcommands of `tollgate plans`.
#[derive(Debug, Subcommand)]
pub enum Plans {
    /// List plans with their price per period and weekly allowance, in credits.
    #[command(after_help = "Examples:\n  tollgate plans list\n  tollgate plans list --json")]
    List,
}

/// Subcommands of `tollgate subscriptions`.
#[derive(Debug, Subcommand)]
pub enum Subscriptions {
    /// Subscribe an account to a plan.
    ///
    /// A plan with payer = "credits" is charged for the first period immediately. A plan with payer
    /// = "provider" starts without a charge; record each further paid period with
    /// `subscriptions renew`.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan pro\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan lite --cadence yearly"
    )]
    Create {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's). A year of a monthly plan costs twelve times the
        /// monthly price.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Change the plan of a subscription.
    ///
    /// A plan starts immediately, as a new subscription, if it has at least the same allowance and
    /// period length and its price covers the unused part of the current period, which is credited.
    /// Other plans start with the next period. Pass the current plan and cadence to undo a
    /// scheduled change.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan max\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan lite --cadence yearly"
    )]
    ChangePlan {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's).
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Create a checkout page for a plan billed by the payment provider, and print its URL.
    ///
    /// The plan must have payer = "provider". The account's earlier checkout pages for plans
    /// become invalid.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions open --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan team\n\nThe plan starts when the payment provider reports the payment, and renews with each further payment."
    )]
    Open {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
        /// Plan name, as in `plans list`.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// Billing period (default: the plan's). A year of a monthly plan costs twelve times the
        /// monthly price.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// List an account's subscriptions, newest first.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    List {
        /// Account id, or account name if unique.
        #[arg(long, value_name = "ID|NAME")]
        account: AccountArg,
    },
    /// Show a subscription with its current week and events.
    #[command(after_help = "Examples:\n  tollgate subscriptions show sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Show {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Cancel a subscription at the end of the paid period. It can be resumed until then.
    #[command(after_help = "Examples:\n  tollgate subscriptions cancel sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Cancel {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Resume a subscription that is scheduled for cancellation.
    #[command(after_help = "Examples:\n  tollgate subscriptions resume sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Resume {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Renew a subscription for the next period now.
    ///
    /// If the plan has payer = "credits", the command charges the period. If the plan has payer =
    /// "provider", the command records that the period was paid, and charges nothing.
    #[command(after_help = "Examples:\n  tollgate subscriptions renew sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Renew {
        /// Subscription id (sub_…).
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
}

/// Length of a billing period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cadence {
    /// One calendar month.
    Monthly,
    /// One calendar year.
    Yearly,
}

/// Subcommands of `tollgate models`.
#[derive(Debug, Subcommand)]
pub enum Models {
    /// List the available models with their prices in credits.
    #[command(after_help = "Examples:\n  tollgate models list\n  tollgate models list --json")]
    List,
}

/// Subcommands of `tollgate ledger`.
#[derive(Debug, Subcommand)]
pub enum Ledger {
    /// Verify all ledger invariants.
    #[command(
        after_help = "Examples:\n  tollgate ledger check\n  tollgate ledger check --reprice --json\n\nExit code 3 when an invariant is violated."
    )]
    Check {
        /// Also recompute the cost of every usage row.
        #[arg(long)]
        reprice: bool,
    },
    /// Recompute every charge independently and list the differences.
    ///
    /// The audit computes each charge from its usage row, price version and hold, with code
    /// separate from the billing code. Differences show both amounts, in nano-credits.
    #[command(
        after_help = "Examples:\n  tollgate ledger audit\n  tollgate ledger audit --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --json\n\nExit code 3 when a figure differs."
    )]
    Audit(AuditScope),
    /// Show the charge of one call as a receipt with line-by-line arithmetic.
    #[command(
        after_help = "Examples:\n  tollgate ledger receipt req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate ledger receipt hold_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json\n\nExit code 3 when the ledger records different figures."
    )]
    Receipt(Receipt),
    /// Verify the hash chains of an export, without a database.
    ///
    /// The command reads the output of `ledger export` (CSV or JSON lines) and lists transfers that
    /// were changed, moved or removed.
    #[command(
        after_help = "Examples:\n  tollgate ledger verify ledger.csv\n  tollgate ledger verify november.jsonl --part --json\n\nExit code 3 when a chain is broken."
    )]
    Verify(Verify),
    /// Export ledger transfers, one per line, ordered by account.
    #[command(
        after_help = "Examples:\n  tollgate ledger export --all --format jsonl\n  tollgate ledger export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out ledger.csv"
    )]
    Export(Export),
}

/// Range of charges to recompute.
#[derive(Debug, Args)]
pub struct AuditScope {
    /// Filter by account (default: all).
    #[arg(long, value_name = "ID|NAME")]
    pub account: Option<AccountArg>,
    /// Calls that ended at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Calls that ended before this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
}

/// Arguments of `tollgate ledger receipt`.
#[derive(Debug, Args)]
pub struct Receipt {
    /// Request id (req_…) or hold id (hold_…).
    #[arg(value_name = "ID", value_parser = call_id)]
    pub id: RequestId,
}

/// Arguments of `tollgate ledger verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// Export file, written by `ledger export`.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Accept a partial export with incomplete chains.
    #[arg(long)]
    pub part: bool,
}

/// Subcommands of `tollgate usage`.
#[derive(Debug, Subcommand)]
pub enum Usage {
    /// Export usage, one line per call, ordered by account, newest first. Prompts and responses are
    /// not included.
    #[command(
        after_help = "Examples:\n  tollgate usage export --all --format jsonl\n  tollgate usage export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out usage.csv"
    )]
    Export(Export),
}

/// Rows to export, with their format and destination.
#[derive(Debug, Args)]
pub struct Export {
    /// Export the rows of this account. Required unless --all is set.
    #[arg(long, value_name = "ID|NAME", required_unless_present = "all")]
    pub account: Option<AccountArg>,
    /// Export the rows of all accounts.
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    /// Rows created at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Rows created before this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
    /// Output format of the rows.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Output file, which is overwritten (default: stdout).
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Output format of exported rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// CSV with a header row. Cells that a spreadsheet would evaluate as formulas are escaped.
    #[default]
    Csv,
    /// One JSON object per line.
    Jsonl,
}

/// Subcommands of `tollgate statements`.
#[derive(Debug, Subcommand)]
pub enum Statements {
    /// Show an account's month (UTC): opening balance, movements, closing balance.
    #[command(
        after_help = "Examples:\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11 --json\n\nThe current month is shown up to now. Exit code 3 when the figures do not add up."
    )]
    Show {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        account: AccountArg,
        /// Month in UTC: YYYY-MM.
        #[arg(value_name = "YYYY-MM")]
        month: String,
    },
}

/// Subcommands of `tollgate config`.
#[derive(Debug, Subcommand)]
pub enum Settings {
    /// Load the settings as `serve` would, and report problems without starting the gateway.
    #[command(
        after_help = "Examples:\n  tollgate config check\n  tollgate config check --config /etc/tollgate/tollgate.toml\n\nExit code 3 when the settings have problems."
    )]
    Check,
}

fn new_limit<T: FromStr + Default + PartialEq>(text: &str) -> Result<NewLimit<T>, &'static str> {
    if text == "default" {
        return Ok(NewLimit::Default);
    }
    let number = text.parse().ok().filter(|number| *number != T::default());
    let advice = "expected an integer above 0, or `default`";
    number.map(NewLimit::Own).ok_or(advice)
}

fn new_count<T: FromStr>(text: &str) -> Result<NewLimit<T>, &'static str> {
    if text == "default" {
        return Ok(NewLimit::Default);
    }
    let number = text.parse().map(NewLimit::Own);
    number.map_err(|_| "expected an integer of at least 0, or `default`")
}

/// Account argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountArg {
    /// Id, which is unique.
    Id(AccountId),
    /// Name, which several accounts may share.
    Name(String),
}

impl FromStr for AccountArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(id) => Ok(AccountArg::Id(id)),
            Err(_) if text.is_empty() || text.starts_with(AccountId::PREFIX) => {
                Err("expected an account id: acct_ and 32 hex digits; `tollgate accounts list` shows the ids")
            }
            Err(_) => Ok(AccountArg::Name(text.to_owned())),
        }
    }
}

fn instant(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text)
        .ok_or("expected RFC 3339, such as 2026-11-20T13:30:00Z, or a date, such as 2026-11-20")
}

/// Parses a request id or a hold id; the ids of a call differ only in their prefix.
fn call_id(text: &str) -> Result<RequestId, &'static str> {
    let of_hold = || {
        text.parse::<HoldId>()
            .map(|id| RequestId::from_u128(id.as_u128()))
    };
    text.parse()
        .or_else(|_| of_hold())
        .map_err(|_| "expected a call id: req_ or hold_ and 32 hex digits; see the `x-request-id` header")
}

fn request_id(text: &str) -> Result<RequestId, &'static str> {
    text.parse()
        .map_err(|_| "expected a request id: req_ and 32 hex digits; see the `x-request-id` header")
}

fn grant_id(text: &str) -> Result<TransferId, &'static str> {
    text.parse()
        .map_err(|_| "expected a grant id: xfer_ and 32 hex digits; `tollgate credits list ID` shows the ids")
}

fn subscription_id(text: &str) -> Result<SubscriptionId, &'static str> {
    let advice =
        "expected a subscription id: sub_ and 32 hex digits; see `tollgate subscriptions list --account ID`";
    text.parse().map_err(|_| advice)
}

fn key_id(text: &str) -> Result<KeyId, &'static str> {
    let advice = "expected a key id: key_ and 32 hex digits; `tollgate keys list --account ID` shows the ids";
    text.parse().map_err(|_| advice)
}

#[cfg(test)]
mod tests;
