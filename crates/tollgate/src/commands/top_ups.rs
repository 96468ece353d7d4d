//! `top-ups …`.

use serde_json::json;
use tollgate_server::control::Command;
use tollgate_server::control::top_ups::TopUpWish;
use tollgate_server::control::view::Reply;

use super::control::{KNOWN_ACCOUNTS, send, unexpected};
use crate::cli::{Place, TopUps};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, tables};

/// `top-ups …`.
pub fn top_ups(place: Place, command: TopUps, printer: &Printer) -> Result<Exit, Failure> {
    let wish = match command {
        TopUps::Open { id, credits } => TopUpWish::Open { account: id, credits },
        TopUps::Portal { id } => TopUpWish::Portal { account: id },
        TopUps::FillUp => TopUpWish::FillUp,
        TopUps::List { account } => TopUpWish::List { account },
        TopUps::Auto { id, off: true, .. } => TopUpWish::StopAuto { account: id },
        TopUps::Auto {
            id,
            below: Some(below),
            add: Some(amount),
            monthly_limit: Some(monthly_limit),
            ..
        } => TopUpWish::SetAuto {
            account: id,
            below,
            amount,
            monthly_limit,
        },
        TopUps::Auto { id, .. } => TopUpWish::ShowAuto { account: id },
    };
    match send(place, Command::TopUps { wish }, KNOWN_ACCOUNTS)? {
        // Nothing but the address, so that a shell can take it.
        Reply::Page(page) => printer.answer(&page, || format!("{}\n", page.url))?,
        Reply::TopUps(found) => {
            printer.answer(&found, || tables::top_ups(&found))?;
            if found.is_empty() {
                printer
                    .hint("There are none yet; `tollgate top-ups open ID CREDITS` opens a page to pay on.");
            }
        }
        Reply::AutoTopUp(auto) => {
            printer.answer(&auto, || {
                auto.as_ref()
                    .map_or_else(|| "off\n".to_owned(), tables::auto_top_up)
            })?;
            if auto.is_some_and(|auto| auto.failures >= 3) {
                printer
                    .hint("Three charges in a row failed; set it again once the account has another card.");
            }
        }
        Reply::Done => printer.answer(&json!({"done": true}), || "done\n".to_owned())?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
