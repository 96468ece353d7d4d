//! The `tollgate accounts` commands.

use std::str::FromStr;

use clap::{Args, Subcommand};
use tollgate_operations::view::AccountView;
use tollgate_operations::{
    AccountUpdate, AdvanceClock, ChangeAccount, CloseAccount, CreateAccount, ListAccounts, NewLimit,
    ShowAccount,
};
use tollgate_server::Config;
use tollgate_types::Timestamp;

use super::arguments::{AccountArg, instant};
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

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
        after_help = "Examples:\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm 600 --tpm 5000000\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --rpm default --keys 200\n  tollgate accounts set-limits acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --files 100 --files-gib 5 --batch-tokens 1000000\n\nLimits of GPUs and agents are not enforced yet."
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

/// Runs `tollgate accounts`.
pub fn accounts(place: Place, command: Accounts, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let show = |account: AccountView| printer.answer(&account, || tables::account(&account));
    match command {
        Accounts::Create { name, test_clock } => {
            let account = send(config, CreateAccount { name, test_clock }, KNOWN_ACCOUNTS)?;
            // Prints only the id, for shell substitution: id=$(tollgate accounts create acme).
            printer.answer(&account, || format!("{}\n", account.id))?;
            printer.hint(
                "The account has no credits and no key yet. Run `tollgate credits grant ID AMOUNT` and `tollgate keys create --account ID`.",
            );
        }
        Accounts::Advance { id, to } => {
            let account = resolve_account(config, &id)?;
            show(send(config, AdvanceClock { account, to }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::List => {
            let accounts = send(config, ListAccounts::default(), KNOWN_ACCOUNTS)?;
            printer.answer(&accounts, || tables::accounts(&accounts))?;
            if accounts.is_empty() {
                printer.hint("No accounts. Create one with `tollgate accounts create NAME`.");
            }
        }
        Accounts::Show { id } => {
            let id = resolve_account(config, &id)?;
            show(send(config, ShowAccount { id }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::Rename { id, name } => {
            let change = AccountUpdate {
                name: Some(name),
                ..AccountUpdate::default()
            };
            show(change_account(config, &id, change)?)?;
        }
        Accounts::SetLimits { id, limits } => {
            let change = AccountUpdate {
                rpm: limits.rpm,
                tpm: limits.tpm,
                keys: limits.keys,
                gpus: limits.gpus,
                agents: limits.agents,
                chats: limits.chats,
                files: limits.files,
                files_gib: limits.files_gib,
                batch_tokens: limits.batch_tokens,
                ..AccountUpdate::default()
            };
            show(change_account(config, &id, change)?)?;
        }
        Accounts::Close { id } => {
            let id = resolve_account(config, &id)?;
            show(send(config, CloseAccount { id }, KNOWN_ACCOUNTS)?)?;
        }
        Accounts::Suspend { id, resume } => {
            let change = AccountUpdate {
                suspended: Some(!resume),
                ..AccountUpdate::default()
            };
            show(change_account(config, &id, change)?)?;
        }
    }
    Ok(Exit::Fine)
}

fn change_account(config: &Config, id: &AccountArg, change: AccountUpdate) -> Result<AccountView, Failure> {
    let id = resolve_account(config, id)?;
    send(config, ChangeAccount { id, change }, KNOWN_ACCOUNTS)
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
