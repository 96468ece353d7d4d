//! `alerts …`.

use serde_json::json;
use tollgate_server::control::Command;
use tollgate_server::control::alerts::AlertCommand;
use tollgate_server::control::view::Reply;

use super::control::{KNOWN_ACCOUNTS, send, unexpected};
use crate::cli::{Alerts, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// `alerts …`.
pub fn alerts(place: Place, command: Alerts, printer: &Printer) -> Result<Exit, Failure> {
    let wish = match command {
        Alerts::Set {
            id,
            below,
            webhook,
            email,
            new_secret,
        } => AlertCommand::Set {
            account: id,
            below,
            webhook,
            email,
            new_secret,
        },
        Alerts::Show { id } => AlertCommand::Show { account: id },
        Alerts::Remove { id } => AlertCommand::Stop { account: id },
        Alerts::List { id } => AlertCommand::List { account: id },
        Alerts::Send => AlertCommand::Send,
    };
    match send(place, Command::Alerts { wish }, KNOWN_ACCOUNTS)? {
        Reply::Alert(alert) => printer.answer(&alert, || {
            let shown = alert.as_ref().map(tables::alert);
            shown.unwrap_or_else(|| "off\n".to_owned())
        })?,
        Reply::Notices(notices) => {
            printer.answer(&notices, || tables::notices(&notices))?;
            if notices.is_empty() {
                printer.hint(
                    "It was told nothing yet; `tollgate alerts set ID --below CREDITS` says when it is.",
                );
            }
        }
        Reply::Done => printer.answer(&json!({"done": true}), || "done\n".to_owned())?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
