//! The `tollgate top-ups` commands.

use clap::Subcommand;
use serde_json::json;
use tollgate_operations::top_ups::{AutoView, PageView};
use tollgate_operations::{
    ListTopUps, OpenPortal, OpenTopUp, RemoveAutoTopUp, RunTopUps, SetAutoTopUp, ShowAutoTopUp,
};
use tollgate_types::Credits;

use super::arguments::AccountArg;
use super::send::{KNOWN_ACCOUNTS, resolve_account, resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Subcommands of `tollgate top-ups`.
#[derive(Debug, Subcommand)]
pub enum TopUps {
    /// Create a checkout page for credits and print its URL.
    #[command(
        after_help = "Examples:\n  tollgate top-ups open acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a 25\n\nThe credits are granted when the payment provider reports the payment."
    )]
    Open {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Credits to buy, from `payments.min_amount` to `payments.max_amount`.
        credits: Credits,
    },
    /// Create a payment provider page with the account's receipts and cards, and print its URL.
    #[command(after_help = "Examples:\n  tollgate top-ups portal acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Portal {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// List the last 200 top-ups, newest first.
    #[command(
        after_help = "Examples:\n  tollgate top-ups list\n  tollgate top-ups list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json"
    )]
    List {
        /// Filter by account (default: all).
        #[arg(long, value_name = "ID|NAME")]
        account: Option<AccountArg>,
    },
    /// Check all balances and run due automatic top-ups now, instead of within 30 seconds.
    #[command(after_help = "Examples:\n  tollgate top-ups fill-up")]
    FillUp,
    /// Set, show or disable an account's automatic top-up, which charges the first saved card that
    /// the payment provider lists.
    #[command(
        after_help = "Examples:\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --add 25 --monthly-limit 200\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate top-ups auto acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --off\n\nThe card is charged within 30 seconds after the available credits fall below --below. After three consecutive failed charges, automatic top-up pauses until it is set again."
    )]
    Auto {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Threshold in credits, above 0.
        #[arg(long, value_name = "CREDITS", requires_all = ["add", "monthly_limit"])]
        below: Option<Credits>,
        /// Number of credits that each automatic top-up buys.
        #[arg(long, value_name = "CREDITS", requires = "below")]
        add: Option<Credits>,
        /// Maximum number of credits that automatic top-ups buy per calendar month (UTC).
        #[arg(long, value_name = "CREDITS", requires = "below")]
        monthly_limit: Option<Credits>,
        /// Disable automatic top-up.
        #[arg(long, conflicts_with = "below")]
        off: bool,
    },
}

/// Runs `tollgate top-ups`.
pub fn top_ups(place: Place, command: TopUps, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let account = |id| resolve_account(config, &id);
    // Prints only the URL, for shell substitution.
    let show_page = |page: PageView| printer.answer(&page, || format!("{}\n", page.url));
    match command {
        TopUps::Open { id, credits } => {
            let account = account(id)?;
            show_page(send(config, OpenTopUp { account, credits }, KNOWN_ACCOUNTS)?)?;
        }
        TopUps::Portal { id } => {
            let account = account(id)?;
            show_page(send(config, OpenPortal { account }, KNOWN_ACCOUNTS)?)?;
        }
        TopUps::FillUp => {
            send(config, RunTopUps, "")?;
            printer.answer(&json!({"done": true}), || "done\n".to_owned())?;
        }
        TopUps::List { account } => {
            let command = ListTopUps {
                account: resolve_filter(config, account.as_ref())?,
                before: None,
                limit: None,
            };
            let found = send(config, command, KNOWN_ACCOUNTS)?;
            printer.answer(&found, || tables::top_ups(&found))?;
            if found.is_empty() {
                printer.hint("No top-ups. `tollgate top-ups open ID CREDITS` creates a checkout page.");
            }
        }
        TopUps::Auto { id, off: true, .. } => {
            let account = account(id)?;
            show_auto(
                send(config, RemoveAutoTopUp { account }, KNOWN_ACCOUNTS)?,
                printer,
            )?;
        }
        TopUps::Auto {
            id,
            below: Some(below),
            add: Some(amount),
            monthly_limit: Some(monthly_limit),
            ..
        } => {
            let command = SetAutoTopUp {
                account: account(id)?,
                below,
                amount,
                monthly_limit,
            };
            show_auto(Some(send(config, command, KNOWN_ACCOUNTS)?), printer)?;
        }
        TopUps::Auto { id, .. } => {
            let account = account(id)?;
            show_auto(send(config, ShowAutoTopUp { account }, KNOWN_ACCOUNTS)?, printer)?;
        }
    }
    Ok(Exit::Fine)
}

fn show_auto(auto: Option<AutoView>, printer: &Printer) -> Result<(), Failure> {
    printer.answer(&auto, || {
        auto.as_ref()
            .map_or_else(|| "off\n".to_owned(), tables::auto_top_up)
    })?;
    if auto.is_some_and(|auto| auto.failures >= 3) {
        printer.hint("Automatic top-up is paused: three consecutive charges failed. Add a card, then set automatic top-up again.");
    }
    Ok(())
}
