//! The `tollgate alerts` commands.

use serde_json::json;
use tollgate_operations::alerts::AlertView;
use tollgate_operations::{ListNotices, RemoveAlert, SendAlerts, SetAlert, ShowAlert};

use super::control::{KNOWN_ACCOUNTS, resolve_account, send};
use super::start;
use crate::cli::{Alerts, Place};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

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
