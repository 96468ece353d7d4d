//! The `tollgate statements` command.

use clap::Subcommand;
use tollgate_operations::ShowStatement;

use super::arguments::AccountArg;
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

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

/// Runs `tollgate statements`. Returns [`Exit::Faults`] if the figures do not add up.
pub fn statements(place: Place, command: Statements, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Statements::Show { account, month } = command;
    let account = resolve_account(config, &account)?;
    let statement = send(config, ShowStatement { account, month }, KNOWN_ACCOUNTS)?;
    printer.answer(&statement, || tables::statement(&statement))?;
    let adds_up = statement.faults.is_empty();
    Ok(if adds_up { Exit::Fine } else { Exit::Faults })
}
