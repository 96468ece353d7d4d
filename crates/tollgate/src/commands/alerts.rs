//! The `tollgate alerts` commands.

use clap::Subcommand;
use serde_json::json;
use tollgate_operations::alerts::AlertView;
use tollgate_operations::{ListNotices, RemoveAlert, SendAlerts, SetAlert, ShowAlert};
use tollgate_types::Credits;

use super::arguments::AccountArg;
use super::send::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Subcommands of `tollgate alerts`.
#[derive(Debug, Subcommand)]
pub enum Alerts {
    /// Set the low-balance alert of an account, delivered by webhook, e-mail, or both.
    #[command(
        after_help = "Examples:\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --webhook https://example.com/hooks/tollgate\n  tollgate alerts set acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --below 5 --email billing@example.com\n\nAt least one of --webhook and --email is required. The alert is sent within 30 seconds after the available credits fall below --below. The next alert is sent only after the available credits have returned to --below or more. E-mail needs [mail] in the settings."
    )]
    Set {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
        /// Threshold in credits, above 0.
        #[arg(long, value_name = "CREDITS")]
        below: Credits,
        /// Webhook URL, with a public address and port 80 or 443, or an address allowed by
        /// egress.allow.
        #[arg(long, value_name = "URL")]
        webhook: Option<String>,
        /// Recipient address of alert e-mails.
        #[arg(long, value_name = "ADDRESS")]
        email: Option<String>,
        /// Replace the webhook signing secret.
        #[arg(long)]
        new_secret: bool,
    },
    /// Show an account's alert and its webhook signing secret.
    #[command(after_help = "Examples:\n  tollgate alerts show acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Show {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// Remove an account's alert. Pending webhook deliveries fail; pending e-mails are still sent.
    #[command(after_help = "Examples:\n  tollgate alerts remove acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Remove {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// List the alert deliveries of an account, newest first: at most 200, of the last 30 days.
    #[command(after_help = "Examples:\n  tollgate alerts list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json")]
    List {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        id: AccountArg,
    },
    /// Check all balances and send due alerts now, instead of within 30 seconds.
    #[command(after_help = "Examples:\n  tollgate alerts send")]
    Send,
}

/// Runs `tollgate alerts`.
pub fn alerts(place: Place, command: Alerts, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let account = |id| resolve_account(config, &id);
    let show = |alert: Option<AlertView>| {
        printer.answer(&alert, || {
            let shown = alert.as_ref().map(tables::alert);
            shown.unwrap_or_else(|| "off\n".to_owned())
        })
    };
    match command {
        Alerts::Set {
            id,
            below,
            webhook,
            email,
            new_secret,
        } => {
            let command = SetAlert {
                account: account(id)?,
                below,
                webhook,
                email,
                new_secret,
            };
            show(Some(send(config, command, KNOWN_ACCOUNTS)?))?;
        }
        Alerts::Show { id } => {
            let account = account(id)?;
            show(send(config, ShowAlert { account }, KNOWN_ACCOUNTS)?)?;
        }
        Alerts::Remove { id } => {
            let account = account(id)?;
            show(send(config, RemoveAlert { account }, KNOWN_ACCOUNTS)?)?;
        }
        Alerts::List { id } => {
            let account = account(id)?;
            let notices = send(config, ListNotices { account }, KNOWN_ACCOUNTS)?;
            printer.answer(&notices, || tables::notices(&notices))?;
            if notices.is_empty() {
                printer.hint("No deliveries. Set an alert with `tollgate alerts set ID --below CREDITS`.");
            }
        }
        Alerts::Send => {
            send(config, SendAlerts, "")?;
            printer.answer(&json!({"done": true}), || "done\n".to_owned())?;
        }
    }
    Ok(Exit::Fine)
}
