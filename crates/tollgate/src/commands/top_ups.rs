//! The `tollgate top-ups` commands.

use serde_json::json;
use tollgate_operations::Command;
use tollgate_operations::top_ups::TopUpAction;
use tollgate_operations::view::Reply;

use super::control::{KNOWN_ACCOUNTS, resolve_account, resolve_filter, send, unexpected};
use super::start;
use crate::cli::{Place, TopUps};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// Runs `tollgate top-ups`.
pub fn top_ups(place: Place, command: TopUps, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let account = |id| resolve_account(config, &id);
    let action = match command {
        TopUps::Open { id, credits } => TopUpAction::Open {
            account: account(id)?,
            credits,
        },
        TopUps::Portal { id } => TopUpAction::Portal {
            account: account(id)?,
        },
        TopUps::FillUp => TopUpAction::FillUp,
        TopUps::List { account } => TopUpAction::List {
            account: resolve_filter(config, account.as_ref())?,
            before: None,
            limit: None,
        },
        TopUps::Auto { id, off: true, .. } => TopUpAction::StopAuto {
            account: account(id)?,
        },
        TopUps::Auto {
            id,
            below: Some(below),
            add: Some(amount),
            monthly_limit: Some(monthly_limit),
            ..
        } => TopUpAction::SetAuto {
            account: account(id)?,
            below,
            amount,
            monthly_limit,
        },
        TopUps::Auto { id, .. } => TopUpAction::ShowAuto {
            account: account(id)?,
        },
    };
    match send(config, Command::TopUps { action }, KNOWN_ACCOUNTS)? {
        // Prints only the URL, for shell substitution.
        Reply::Page(page) => printer.answer(&page, || format!("{}\n", page.url))?,
        Reply::TopUps(found) => {
            printer.answer(&found, || tables::top_ups(&found))?;
            if found.is_empty() {
                printer.hint("No top-ups. `tollgate top-ups open ID CREDITS` creates a checkout page.");
            }
        }
        Reply::AutoTopUp(auto) => {
            printer.answer(&auto, || {
                auto.as_ref()
                    .map_or_else(|| "off\n".to_owned(), tables::auto_top_up)
            })?;
            if auto.is_some_and(|auto| auto.failures >= 3) {
                printer.hint("Paused after three failed charges. Add another card, then set it again.");
            }
        }
        Reply::Done => printer.answer(&json!({"done": true}), || "done\n".to_owned())?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
