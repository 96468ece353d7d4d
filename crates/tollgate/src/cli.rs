//! The command line as types. Every command shows examples, and a test parses them.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use tollgate_server::control::NewLimit;
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
  0  fine
  1  failed
  2  wrong usage or wrong settings
  3  a check found faults (ledger check, statements show, prices check, config check, doctor, move,
     decisions eval)

Settings come from tollgate.toml in the working directory (or --config FILE), then from variables
TOLLGATE_<SECTION>__<KEY> such as TOLLGATE_SERVER__LISTEN, then from flags; the later ones win.
Commands work while a server runs on the same database and while none does, but for `move`.";

/// A self-hosted model gateway: one API, one bill, over every AI model.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// Where the settings and the data are.
    #[command(flatten)]
    pub place: Place,
    /// Prints JSON, one object or array; failures too, on stderr.
    #[arg(long, global = true, display_order = 102)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the settings and the data are.
#[derive(Debug, Args)]
pub struct Place {
    /// Settings file [default: tollgate.toml, when there is one].
    #[arg(long, global = true, value_name = "FILE", display_order = 100)]
    pub config: Option<PathBuf>,
    /// Data directory: secrets, and the embedded database unless storage.url says where [default: tollgate-data].
    #[arg(long, global = true, value_name = "DIR", display_order = 101)]
    pub data: Option<PathBuf>,
}

mod admin;

pub use admin::{Admins, Audit, Members, Prices, Providers};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the gateway until SIGTERM or SIGINT.
    Serve(Serve),
    /// Carries out jobs until SIGTERM or SIGINT, and serves no callers.
    Worker(Worker),
    /// Brings the database to this version's schema.
    ///
    /// The embedded database is brought up to date by `serve` itself. With PostgreSQL this is a step of an update:
    /// run it once, before the nodes of the new version start.
    #[command(
        after_help = "Examples:\n  tollgate migrate\n  tollgate migrate --config /etc/tollgate/tollgate.toml"
    )]
    Migrate,
    /// Moves an installation from SQLite to PostgreSQL, or back.
    Move(Move),
    /// Accounts: who owns keys, limits and a balance.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate accounts create acme\n  tollgate accounts list"
    )]
    Accounts(Accounts),
    /// Who belongs to accounts.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate members add acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a jo@example.com --role owner"
    )]
    Members(Members),
    /// API keys.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name production"
    )]
    Keys(Keys),
    /// Balances, and what is left of what was granted.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 12.5\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    Credits(Credit),
    /// Credits that are paid for through a payment provider.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate top-ups open acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 25\n  tollgate top-ups list"
    )]
    TopUps(TopUps),
    /// Telling accounts that their balance is low.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --email billing@example.com"
    )]
    Alerts(Alerts),
    /// Batches of accounts, and how far they are.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate batches list"
    )]
    Batches(Batches),
    /// Typed decisions, and how good they are.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate decisions eval sample.jsonl --model sim/decide"
    )]
    Decisions(Decisions),
    /// Plans that accounts can have.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate plans list"
    )]
    Plans(Plans),
    /// What accounts pay for by the period.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan pro"
    )]
    Subscriptions(Subscriptions),
    /// Models.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate models list"
    )]
    Models(Models),
    /// Providers in use, and how the last calls to each of their models went.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate providers list"
    )]
    Providers(Providers),
    /// Prices: which are in force, which were, and whether new ones can be meant.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate prices list\n  tollgate prices check"
    )]
    Prices(Prices),
    /// The books.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate ledger check"
    )]
    Ledger(Ledger),
    /// Usage rows.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate usage export --all --format csv --out usage.csv"
    )]
    Usage(Usage),
    /// What accounts had, got, spent and lost, month by month.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11"
    )]
    Statements(Statements),
    /// Who may use the admin API.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate admins create jo --role support\n  tollgate admins list"
    )]
    Admins(Admins),
    /// What was changed by whom.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate audit list --limit 20"
    )]
    Audit(Audit),
    /// The settings.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate config check"
    )]
    Config(Settings),
    /// Says what is reachable, and what to do about what is not.
    ///
    /// Looks at the settings, the data directory, storage, ports, every provider, the models, the clock and the
    /// limits of this machine. Works beside a running server.
    #[command(
        after_help = "Examples:\n  tollgate doctor\n  tollgate doctor --json\n\nExit code 3 when something must be repaired."
    )]
    Doctor,
    /// Prints the OpenAPI document of the public API, or of the admin API.
    #[command(
        after_help = "Examples:\n  tollgate openapi > openapi.json\n  tollgate openapi --admin > openapi-admin.json"
    )]
    Openapi {
        /// That of the admin API.
        #[arg(long)]
        admin: bool,
    },
}

/// `move`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate move --from sqlite:/var/lib/tollgate/tollgate.db --to postgres://tollgate@db/tollgate
  tollgate move --from postgres://tollgate@db/tollgate --to sqlite:/var/lib/tollgate-new/tollgate.db --json

Stop every gateway first. The source is only read; a SQLite source takes over its journal, as at any start. The target
must be empty: with PostgreSQL a database on which `tollgate migrate` was run, with SQLite a directory without a database.
It has everything or nothing, whenever the command ends; run it again after a failure. At the end every row was read back
and compared, and the target's ledger was checked.

A password is better in the variable PGPASSWORD or in ~/.pgpass than in an address that `ps` shows.

Exit code 1 when it failed, 2 when a side is not fit for it, 3 when the moved ledger has faults: then the source has them,
too.")]
pub struct Move {
    /// The database that is left: sqlite:DIR/tollgate.db or postgres://user@host:5432/database.
    #[arg(long, value_name = "URL")]
    pub from: String,
    /// The empty database of the other engine.
    #[arg(long, value_name = "URL")]
    pub to: String,
}

/// `serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate serve
  tollgate serve --listen 127.0.0.1:0 --data /var/lib/tollgate
  tollgate serve --print-config

The first line on stdout is the bound address. Logs go to stderr; TOLLGATE_LOG filters them (TOLLGATE_LOG=warn).
SIGTERM or SIGINT stops it after the calls that run, a second one soon. SIGHUP reads the settings file again.")]
pub struct Serve {
    /// Where callers connect [default: 127.0.0.1:8080]; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
    /// Where metrics and the admin API are [default: 127.0.0.1:9464, or a free port when that is busy].
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
    /// Prints the settings that are in effect, without secrets, and exits.
    #[arg(long)]
    pub print_config: bool,
}

/// `worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate worker
  tollgate worker --config /etc/tollgate/tollgate.toml --admin 127.0.0.1:9465

Pictures, films and responses in the background are jobs: a node accepts them, and any process on the same PostgreSQL
database carries them out. `tollgate serve` does so, too, unless its settings say

  [jobs]
  run_here = false

Then workers do it alone, as many as you start: on machines of their own, with the same settings file, the same pepper and
the same [media] store (s3, or a directory that all see). A worker that dies is no loss: after 30 seconds another one goes
on with its jobs, and nothing that may have been asked of a provider is asked again. SQLite has one process, so it has no
workers.

The first line on stdout is the bound address, which has /metrics, /healthz and /readyz. Logs go to stderr. SIGTERM or
SIGINT stops it after the jobs that run, at the latest after timeouts.shutdown_ms; a second one gives them back at once,
for another worker to go on with.")]
pub struct Worker {
    /// Where metrics and probes are [default: 127.0.0.1:9464, or a free port when that is busy].
    #[arg(long, value_name = "ADDR")]
    pub admin: Option<String>,
}

/// `accounts`.
#[derive(Debug, Subcommand)]
pub enum Accounts {
    /// Creates an account and prints its id.
    #[command(
        after_help = "Examples:\n  tollgate accounts create acme\n  tollgate accounts create \"Acme Ltd, production\" --json"
    )]
    Create {
        /// For people: 1 to 200 characters.
        name: String,
        /// Gives it a test clock, which `accounts advance` advances.
        #[arg(long)]
        test_clock: bool,
    },
    /// Advances an account's test clock; what falls due on the way happens.
    #[command(
        after_help = "Examples:\n  tollgate accounts advance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2027-01-01\n  tollgate accounts advance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2027-01-08T12:00:00Z"
    )]
    Advance {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// A time ahead of that which its clock shows, by 366 days at the most.
        #[arg(value_parser = instant)]
        to: Timestamp,
    },
    /// Lists accounts.
    #[command(after_help = "Examples:\n  tollgate accounts list\n  tollgate accounts list --json")]
    List,
    /// Shows an account with its balance.
    #[command(after_help = "Examples:\n  tollgate accounts show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Show {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
    /// Gives an account another name.
    #[command(
        after_help = "Examples:\n  tollgate accounts rename acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a \"Acme Ltd\""
    )]
    Rename {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// For people: 1 to 200 characters.
        name: String,
    },
    /// Sets an account's own limits, or takes them back; what is not given stays.
    #[command(
        after_help = "Examples:\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm 600 --tpm 5000000\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm default --keys 200\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --files 100 --files-gib 5 --batch-tokens 1000000\n\nRequests, tokens, keys, files and batches are held to. GPUs, agents and chats are kept and shown; nothing counts them yet."
    )]
    SetLimits {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// The limits.
        #[command(flatten)]
        limits: Limits,
    },
    /// Makes all keys of an account stop to work, or work again.
    #[command(
        after_help = "Examples:\n  tollgate accounts suspend acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate accounts suspend acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --resume"
    )]
    Suspend {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// Makes them work again.
        #[arg(long)]
        resume: bool,
    },
}

/// Limits of an account; at least one is given.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub struct Limits {
    /// Requests per minute over all keys of the account; `default` for those of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_limit::<u32>)]
    pub rpm: Option<NewLimit<u32>>,
    /// Tokens per minute over all keys of the account; `default` for those of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_limit::<u64>)]
    pub tpm: Option<NewLimit<u64>>,
    /// Keys that are not revoked; `default` for that of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub keys: Option<NewLimit<u32>>,
    /// GPUs at once.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub gpus: Option<NewLimit<u32>>,
    /// Hosted agents.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub agents: Option<NewLimit<u32>>,
    /// Saved chats.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub chats: Option<NewLimit<u32>>,
    /// Files that are kept; `default` for that of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub files: Option<NewLimit<u32>>,
    /// GiB of all files together; `default` for that of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u32>)]
    pub files_gib: Option<NewLimit<u32>>,
    /// Tokens that unfinished batches may consume together; `default` for that of the settings.
    #[arg(long, value_name = "N|default", value_parser = new_count::<u64>)]
    pub batch_tokens: Option<NewLimit<u64>>,
}

/// `keys`.
#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Creates a key and prints it. It is shown this once and cannot be read again.
    #[command(
        after_help = "Examples:\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name staging\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --name ci --test\n  tollgate keys create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --expires-in-days 90"
    )]
    Create {
        /// The account that it is for.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: AccountId,
        /// For people, such as the environment that it is for.
        #[arg(long, value_name = "TEXT", default_value = "default")]
        name: String,
        /// Days until it stops to work; without it, it works until it is revoked.
        #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
        expires_in_days: Option<u32>,
        /// What becomes of hosted tools, unknown fields and hints that a model cannot use.
        #[arg(long, value_enum, default_value_t)]
        compat: Compat,
        /// Makes a test key: it reaches simulated models only and spends nothing.
        #[arg(long)]
        test: bool,
        /// Answers requests for pictures with the pictures and not with a job, unless they say otherwise.
        #[arg(long)]
        sync: bool,
    },
    /// Lists an account's keys, by their last four characters.
    #[command(after_help = "Examples:\n  tollgate keys list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    List {
        /// The account whose keys they are.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: AccountId,
    },
    /// Changes what becomes of hosted tools, unknown fields and hints that a model cannot use.
    #[command(
        after_help = "Examples:\n  tollgate keys set-compat key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b lenient"
    )]
    SetCompat {
        /// The key's id, not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// What becomes of them.
        compat: Compat,
    },
    /// Changes whether requests for pictures are answered with the pictures, as with `sync: true`, unless they say otherwise.
    ///
    /// Clients that know no jobs, such as `client.images.generate()` of OpenAI's SDKs, need it on.
    #[command(after_help = "Examples:\n  tollgate keys set-sync key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b on")]
    SetSync {
        /// The key's id, not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
        /// Whether they are.
        sync: Switch,
    },
    /// Revokes a key for ever.
    #[command(after_help = "Examples:\n  tollgate keys revoke key_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b")]
    Revoke {
        /// The key's id, not the key itself.
        #[arg(value_parser = key_id)]
        id: KeyId,
    },
}

/// What becomes of parts of a request that a model cannot use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Compat {
    /// The request is refused.
    #[default]
    Strict,
    /// They are left out, and named in `x-tollgate-ignored`.
    Lenient,
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

/// `credits`.
#[derive(Debug, Subcommand)]
pub enum Credit {
    /// Puts credits into an account.
    #[command(
        after_help = "Examples:\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 12.5\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --kind promotion --expires-in-days 30 --note \"launch week\"\n  tollgate credits grant acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 5 --expires-at 2027-01-01 --priority 10\n\nLower priorities are spent first, then what expires sooner, then what came earlier."
    )]
    Grant {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// Credits, above 0, with at most nine decimals.
        amount: Credits,
        /// How they are given.
        #[command(flatten)]
        terms: Terms,
    },
    /// Lists grants and refunds with what is left of each, in the order in which they are spent.
    #[command(
        after_help = "Examples:\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate credits list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --all --json"
    )]
    List {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
        /// Lists those that are used up, too.
        #[arg(long)]
        all: bool,
    },
    /// Gives back what was charged for a call: what credits paid as credits, what a plan paid to its week while that is open.
    #[command(
        after_help = "Examples:\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --reason \"wrong language\"\n  tollgate credits refund req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3d --amount 0.5 --key complaint-17\n\nThe same refund happens once: sent again it answers what it did. Another one of the same amount needs a --key.\n\nExit code 1 when there is no such call, 2 when less can be given back."
    )]
    Refund {
        /// The call's `x-request-id`.
        #[arg(value_parser = request_id)]
        request: RequestId,
        /// Credits, above 0; all that can be given back when it is not said. What credits paid is given back first.
        #[arg(long, value_name = "CREDITS")]
        amount: Option<Credits>,
        /// For operators: at most 200 characters.
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        /// Names the refund, so that it happens once; the amount when it is not said.
        #[arg(long, value_name = "TEXT")]
        key: Option<String>,
    },
    /// Takes back what is left of a grant that was paid for, to be paid out.
    #[command(
        after_help = "Examples:\n  tollgate credits refund-grant xfer_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3e\n\nWhat calls that run hold of it stays. Exit code 1 when there is no such grant, 2 when it was not paid for or nothing is left."
    )]
    RefundGrant {
        /// The grant's id.
        #[arg(value_parser = grant_id)]
        id: TransferId,
    },
    /// Shows what an account can spend, and what is held by calls that run.
    #[command(
        after_help = "Examples:\n  tollgate credits balance acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    Balance {
        /// The account's id.
        #[arg(value_parser = account_id)]
        id: AccountId,
    },
}

/// How credits are given.
#[derive(Debug, Args)]
pub struct Terms {
    /// Names the grant, so that it happens once: sent again under this name it changes nothing.
    #[arg(long = "id", id = "grant_id", value_name = "TEXT")]
    pub id: Option<String>,
    /// Where they come from.
    #[arg(long, value_enum, default_value_t)]
    pub kind: Kind,
    /// Days until what is left of them is gone; without it, they never expire.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=36_500))]
    pub expires_in_days: Option<u32>,
    /// When what is left of them is gone: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant, conflicts_with = "expires_in_days")]
    pub expires_at: Option<Timestamp>,
    /// From 0 to 255; lower ones are spent first.
    #[arg(long, value_name = "N", default_value_t = LotTerms::PRIORITY)]
    pub priority: u8,
    /// For operators: at most 200 characters.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
}

/// Where credits come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// They were paid for.
    #[default]
    Purchase,
    /// The operator gives them.
    Promotion,
}

/// `plans`.
#[derive(Debug, Subcommand)]
pub enum Plans {
    /// Lists the plans that can be subscribed to: price of a period, and what a week includes, in credits.
    #[command(after_help = "Examples:\n  tollgate plans list\n  tollgate plans list --json")]
    List,
}

/// `subscriptions`.
#[derive(Debug, Subcommand)]
pub enum Subscriptions {
    /// Subscribes an account to a plan from now on. The first period is paid at once.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan pro\n  tollgate subscriptions create --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan lite --cadence yearly"
    )]
    Create {
        /// The account that it is for.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: AccountId,
        /// The plan's name.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// How long a period is; as the plan says when it is not given. A year of a monthly plan costs twelve months.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Makes another plan of a subscription.
    ///
    /// A plan whose weeks include more begins at once, as a subscription of its own: its first period is cheaper by what was
    /// paid for weeks that have not begun. Others begin with the next period. The plan that it is of takes that back.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan max\n  tollgate subscriptions change-plan sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c --plan lite --cadence yearly"
    )]
    ChangePlan {
        /// The subscription's id.
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
        /// The plan's name.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// How long a period is; as the plan says when it is not given.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Opens a page of the payment provider on which a plan is begun that the provider then renews, and prints its address.
    ///
    /// The plan has payer = "provider". A page that was opened for the account before cannot be paid any more.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions open --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --plan team\n\nThe plan begins when the provider has said that it is paid, and is renewed whenever it says so again."
    )]
    Open {
        /// The account that it is for.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: AccountId,
        /// The plan's name.
        #[arg(long, value_name = "NAME")]
        plan: String,
        /// How long a period is; as the plan says when it is not given. A year of a monthly plan costs twelve months.
        #[arg(long, value_enum)]
        cadence: Option<Cadence>,
    },
    /// Lists an account's subscriptions, newest first.
    #[command(
        after_help = "Examples:\n  tollgate subscriptions list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    List {
        /// The account whose they are.
        #[arg(long, value_name = "ID", value_parser = account_id)]
        account: AccountId,
    },
    /// Shows a subscription, its week, and what happened to it.
    #[command(after_help = "Examples:\n  tollgate subscriptions show sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Show {
        /// The subscription's id.
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Ends a subscription with the time that is paid for. Until then it can be resumed.
    #[command(after_help = "Examples:\n  tollgate subscriptions cancel sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Cancel {
        /// The subscription's id.
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Takes a cancellation back.
    #[command(after_help = "Examples:\n  tollgate subscriptions resume sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Resume {
        /// The subscription's id.
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
    /// Pays the next period now: out of credits, or as a payment provider has said that it is paid.
    #[command(after_help = "Examples:\n  tollgate subscriptions renew sub_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3c")]
    Renew {
        /// The subscription's id.
        #[arg(value_parser = subscription_id)]
        id: SubscriptionId,
    },
}

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cadence {
    /// A month.
    Monthly,
    /// A year.
    Yearly,
}

/// `models`.
#[derive(Debug, Subcommand)]
pub enum Models {
    /// Lists the models that can be called, with prices in credits per 1,000,000 tokens.
    #[command(after_help = "Examples:\n  tollgate models list\n  tollgate models list --json")]
    List,
}

/// `ledger`.
#[derive(Debug, Subcommand)]
pub enum Ledger {
    /// Reads all books and says whether they keep their promises.
    #[command(
        after_help = "Examples:\n  tollgate ledger check\n  tollgate ledger check --reprice --json\n\nExit code 3 when a promise is broken."
    )]
    Check {
        /// Prices every usage row again, too.
        #[arg(long)]
        reprice: bool,
    },
    /// Recomputes every charge from its usage row, its price version and what was held for it.
    ///
    /// The arithmetic is written down once more for this, apart from the code that charged. Says each figure that comes
    /// out otherwise, with both numbers, in nano-credits.
    #[command(
        after_help = "Examples:\n  tollgate ledger audit\n  tollgate ledger audit --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --json\n\nExit code 3 when a figure differs."
    )]
    Audit(AuditScope),
    /// Shows the charge of one call as a receipt, with its arithmetic line by line.
    #[command(
        after_help = "Examples:\n  tollgate ledger receipt req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate ledger receipt hold_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json\n\nExit code 3 when the books say something else."
    )]
    Receipt(Receipt),
    /// Verifies the chains of an export, without a database.
    ///
    /// Reads what `ledger export` wrote, CSV or lines of JSON, and says which transfers were changed, moved or left out.
    #[command(
        after_help = "Examples:\n  tollgate ledger verify ledger.csv\n  tollgate ledger verify november.jsonl --part --json\n\nExit code 3 when a chain is not whole."
    )]
    Verify(Verify),
    /// Writes every transfer: one line each, in order of account and of what it belongs to.
    #[command(
        after_help = "Examples:\n  tollgate ledger export --all --format jsonl\n  tollgate ledger export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out ledger.csv"
    )]
    Export(Export),
}

/// Which charges are recomputed.
#[derive(Debug, Args)]
pub struct AuditScope {
    /// Those of this account.
    #[arg(long, value_name = "ID", value_parser = account_id)]
    pub account: Option<AccountId>,
    /// Of calls that ended at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Of calls that ended before this time.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
}

/// Whose receipt is shown.
#[derive(Debug, Args)]
pub struct Receipt {
    /// The request's id, or that of its hold.
    #[arg(value_name = "ID", value_parser = call_id)]
    pub id: RequestId,
}

/// Which export is verified.
#[derive(Debug, Args)]
pub struct Verify {
    /// What `ledger export` wrote.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// It is a part of the ledger: its chains need not be whole.
    #[arg(long)]
    pub part: bool,
}

/// `usage`.
#[derive(Debug, Subcommand)]
pub enum Usage {
    /// Writes every usage row: one line each, in order of account, newest first. They hold no text of prompts or answers.
    #[command(
        after_help = "Examples:\n  tollgate usage export --all --format jsonl\n  tollgate usage export --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --from 2026-11-01 --to 2026-12-01 --out usage.csv"
    )]
    Export(Export),
}

/// Which rows are written, and where.
#[derive(Debug, Args)]
pub struct Export {
    /// Those of this account.
    #[arg(long, value_name = "ID", value_parser = account_id, required_unless_present = "all")]
    pub account: Option<AccountId>,
    /// Those of every account.
    #[arg(long, conflicts_with = "account")]
    pub all: bool,
    /// Those at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub from: Option<Timestamp>,
    /// Those before this time.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub to: Option<Timestamp>,
    /// How they are written.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The file; it is replaced. Without it, they go to stdout.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// How rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Values with commas, after a line of names. A text that begins as a formula does has an apostrophe before it.
    #[default]
    Csv,
    /// An object of JSON on each line.
    Jsonl,
}

/// `statements`.
#[derive(Debug, Subcommand)]
pub enum Statements {
    /// Shows a month in UTC: what there was, what came and went, what there is. The figures are sums of transfers.
    #[command(
        after_help = "Examples:\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11\n  tollgate statements show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 2026-11 --json\n\nThe month that runs is shown up to now. Exit code 3 when the figures do not add up."
    )]
    Show {
        /// The account's id.
        #[arg(value_parser = account_id)]
        account: AccountId,
        /// The month, such as 2026-11.
        #[arg(value_name = "YYYY-MM")]
        month: String,
    },
}

/// `config`.
#[derive(Debug, Subcommand)]
pub enum Settings {
    /// Reads the settings and builds providers and models as `serve` would, and says what is wrong. Starts nothing.
    #[command(
        after_help = "Examples:\n  tollgate config check\n  tollgate config check --config /etc/tollgate/tollgate.toml\n\nExit code 3 when the settings have faults."
    )]
    Check,
}

fn new_limit<T: FromStr + Default + PartialEq>(text: &str) -> Result<NewLimit<T>, &'static str> {
    if text == "default" {
        return Ok(NewLimit::Default);
    }
    let number = text.parse().ok().filter(|number| *number != T::default());
    let advice = "a limit is a whole number above 0, or `default` for that of the settings";
    number.map(NewLimit::Own).ok_or(advice)
}

fn new_count<T: FromStr>(text: &str) -> Result<NewLimit<T>, &'static str> {
    if text == "default" {
        return Ok(NewLimit::Default);
    }
    let number = text.parse().map(NewLimit::Own);
    number.map_err(|_| "a limit is a whole number, or `default` for that of the settings")
}

fn account_id(text: &str) -> Result<AccountId, &'static str> {
    text.parse()
        .map_err(|_| "an account's id is acct_ and 32 characters; `tollgate accounts list` shows them")
}

fn instant(text: &str) -> Result<Timestamp, &'static str> {
    Timestamp::parse(text)
        .ok_or("a time is RFC 3339 such as 2026-11-20T13:30:00Z, or a date such as 2026-11-20")
}

/// A call by its request or by its hold, which have the same value.
fn call_id(text: &str) -> Result<RequestId, &'static str> {
    let of_hold = || {
        text.parse::<HoldId>()
            .map(|id| RequestId::from_u128(id.as_u128()))
    };
    text.parse()
        .or_else(|_| of_hold())
        .map_err(|_| "a call's id is req_ or hold_ and 32 characters; answers have it in `x-request-id`")
}

fn request_id(text: &str) -> Result<RequestId, &'static str> {
    text.parse()
        .map_err(|_| "a request's id is req_ and 32 characters; answers have it in `x-request-id`")
}

fn grant_id(text: &str) -> Result<TransferId, &'static str> {
    text.parse()
        .map_err(|_| "a grant's id is xfer_ and 32 characters; `tollgate credits list ID` shows them")
}

fn subscription_id(text: &str) -> Result<SubscriptionId, &'static str> {
    let advice = "a subscription's id is sub_ and 32 characters; `tollgate subscriptions list --account ID` shows them";
    text.parse().map_err(|_| advice)
}

fn key_id(text: &str) -> Result<KeyId, &'static str> {
    let advice = "a key's id is key_ and 32 characters; `tollgate keys list --account ID` shows them";
    text.parse().map_err(|_| advice)
}

#[cfg(test)]
mod tests;
