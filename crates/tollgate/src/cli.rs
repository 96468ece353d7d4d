//! Root of the command line for clap. The arguments of each group of commands stand beside the
//! functions that run them, in [`commands`](crate::commands). A test parses the examples in every
//! command's help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::commands::accounts::Accounts;
use crate::commands::admin::{Admins, Audit, Members, Prices, Providers};
use crate::commands::alerts::Alerts;
use crate::commands::batches::Batches;
use crate::commands::check::Settings;
use crate::commands::console::Console;
use crate::commands::corpus::Corpus;
use crate::commands::credits::Credit;
use crate::commands::decisions::Decisions;
use crate::commands::export::Usage;
use crate::commands::keys::Keys;
use crate::commands::ledger::Ledger;
use crate::commands::models::Models;
use crate::commands::moving::Move;
use crate::commands::research::Research;
use crate::commands::serve::{Serve, Worker};
use crate::commands::sessions::Sessions;
use crate::commands::statements::Statements;
use crate::commands::subscriptions::{Plans, Subscriptions};
use crate::commands::top_ups::TopUps;

const EXIT_CODES: &str = "\
Examples:
  tollgate serve
  tollgate doctor

Exit codes:
  0  success
  1  failure
  2  invalid usage or settings
  3  a check found problems (ledger check, ledger audit, ledger receipt, ledger verify,
     statements show, prices check, config check, doctor, move, decisions eval,
     research eval)

Settings are read from tollgate.toml in the working directory (or --config FILE), from environment
variables TOLLGATE_<SECTION>__<KEY> such as TOLLGATE_SERVER__LISTEN, and from flags. Later sources
override earlier ones.

Commands work with or without a running server, with these exceptions: `providers list`,
`sessions`, `decisions eval` and `research eval` need a running server; `move` and, with SQLite, `migrate` need a stopped server.";

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
    /// Sign in to the console.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate console link --account acme\n  tollgate console link --admin jo"
    )]
    Console(Console),
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
    /// Show research jobs and their sources, and evaluate reports.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate research list\n  tollgate research eval --model sim/research --effort minimal"
    )]
    Research(Research),
    /// Show and end open realtime sessions.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate sessions list\n  tollgate sessions end rtsess_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a"
    )]
    Sessions(Sessions),
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
    /// Manage the document collections of research.
    #[command(
        subcommand,
        arg_required_else_help = true,
        after_help = "Examples:\n  tollgate corpus list\n  tollgate corpus rebuild handbook"
    )]
    Corpus(Corpus),
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
    /// Extract the text of web pages. The gateway starts this command itself.
    ///
    /// The command reads pages from standard input and writes their texts to standard output, in
    /// frames. It limits its memory to 512 MiB and ends with its input.
    #[command(hide = true, after_help = "Examples:\n  tollgate extract")]
    Extract,
    /// Print the OpenAPI document of the public API, the admin API or the console API.
    #[command(
        after_help = "Examples:\n  tollgate openapi > openapi.json\n  tollgate openapi --admin > openapi-admin.json"
    )]
    Openapi {
        /// Print the document of the admin API.
        #[arg(long, conflicts_with = "console")]
        admin: bool,
        /// Print the document of the console API, which accepts sessions only.
        #[arg(long)]
        console: bool,
    },
}

#[cfg(test)]
mod tests;
