//! The `tollgate top-ups` commands.

use serde_json::json;
use tollgate_operations::top_ups::{AutoView, PageView};
use tollgate_operations::{
    ListTopUps, OpenPortal, OpenTopUp, RemoveAutoTopUp, RunTopUps, SetAutoTopUp, ShowAutoTopUp,
};

use super::control::{KNOWN_ACCOUNTS, resolve_account, resolve_filter, send};
use super::start;
use crate::cli::{Place, TopUps};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

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
