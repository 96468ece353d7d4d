//! The `tollgate alerts` commands.

use serde_json::json;
use tollgate_operations::Command;
use tollgate_operations::alerts::AlertCommand;
use tollgate_operations::view::Reply;

use super::control::{KNOWN_ACCOUNTS, resolve_account, send, unexpected};
use super::start;
use crate::cli::{Alerts, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Runs `tollgate alerts`.
pub fn alerts(place: Place, command: Alerts, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let account = |id| resolve_account(config, &id);
    let action = match command {
        Alerts::Set {
            id,
            below,
            webhook,
            email,
            new_secret,
        } => AlertCommand::Set {
            account: account(id)?,
            below,
            webhook,
            email,
            new_secret,
        },
        Alerts::Show { id } => AlertCommand::Show {
            account: account(id)?,
        },
        Alerts::Remove { id } => AlertCommand::Stop {
            account: account(id)?,
        },
        Alerts::List { id } => AlertCommand::List {
            account: account(id)?,
        },
        Alerts::Send => AlertCommand::Send,
    };
    match send(config, Command::Alerts { action }, KNOWN_ACCOUNTS)? {
        Reply::Alert(alert) => printer.answer(&alert, || {
            let shown = alert.as_ref().map(tables::alert);
            shown.unwrap_or_else(|| "off\n".to_owned())
        })?,
        Reply::Notices(notices) => {
            printer.answer(&notices, || tables::notices(&notices))?;
            if notices.is_empty() {
                printer.hint("No deliveries. Set an alert with `tollgate alerts set ID --below CREDITS`.");
            }
        }
        Reply::Done => printer.answer(&json!({"done": true}), || "done\n".to_owned())?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
