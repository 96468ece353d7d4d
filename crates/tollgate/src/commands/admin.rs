//! Commands about people, what they changed, and prices.

use tollgate_server::control::view::Reply;
use tollgate_server::control::{self, Command};

use super::control::{KNOWN_ACCOUNTS, refused, send, unexpected};
use super::start;
use crate::cli::{Admins, Audit, Members, Place, Prices, Providers};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, admin as tables};

const KNOWN_ADMINS: &str = "`tollgate admins list` shows those that exist.";
const KNOWN_MEMBERS: &str = "`tollgate members list ID` shows an account's members with their ids.";

/// `admins …`.
pub fn admins(place: Place, command: Admins, printer: &Printer) -> Result<Exit, Failure> {
    let command = match command {
        Admins::Create { name, role } => Command::CreateAdmin {
            name,
            role: role.as_str().to_owned(),
        },
        Admins::List => Command::ListAdmins,
        Admins::Revoke { id } => Command::RevokeAdmin { id },
    };
    match send(place, command, KNOWN_ADMINS)? {
        Reply::CreatedAdmin(created) => {
            printer.answer(&created, || format!("{}\n", created.token))?;
            let whose = format!("This is the token of {} ({}).", created.name, created.id);
            printer.hint(&format!(
                "{whose} It is shown this once: keep it as you keep a password."
            ));
        }
        Reply::Admin(admin) => printer.answer(&admin, || tables::admins(std::slice::from_ref(&admin)))?,
        Reply::Admins(admins) => {
            printer.answer(&admins, || tables::admins(&admins))?;
            if admins.is_empty() {
                printer.hint("There are none; `tollgate admins create NAME --role ROLE` makes one.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `audit …`.
pub fn audit(place: Place, command: Audit, printer: &Printer) -> Result<Exit, Failure> {
    let Audit::List(query) = command;
    let command = Command::ListAudit {
        account: query.account,
        actor: query.actor,
        action: query.action,
        since: query.since,
        before: None,
        limit: query.limit,
    };
    match send(place, command, "")? {
        Reply::Audit(entries) => printer.answer(&entries, || tables::audit(&entries))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `members …`.
pub fn members(place: Place, command: Members, printer: &Printer) -> Result<Exit, Failure> {
    let (command, known) = match command {
        Members::Add { account, email, role } => {
            let role = role.as_str().to_owned();
            let command = Command::AddMember { account, email, role };
            (command, KNOWN_ACCOUNTS)
        }
        Members::List { account } => (Command::ListMembers { account }, KNOWN_ACCOUNTS),
        Members::SetRole { account, id, role } => {
            let role = role.as_str().to_owned();
            (Command::SetMemberRole { account, id, role }, KNOWN_MEMBERS)
        }
        Members::Remove { account, id } => (Command::RemoveMember { account, id }, KNOWN_MEMBERS),
    };
    match send(place, command, known)? {
        Reply::Member(member) => {
            printer.answer(&member, || tables::members(std::slice::from_ref(&member)))?
        }
        Reply::Members(members) => {
            printer.answer(&members, || tables::members(&members))?;
            if members.is_empty() {
                printer.hint("The account has none; `tollgate members add ID EMAIL --role owner` adds one.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `prices …`. A price that moves too far has the exit code of a check that found faults.
pub fn prices(place: Place, command: Prices, printer: &Printer) -> Result<Exit, Failure> {
    let reply = match command {
        Prices::List => send(place, Command::ListPrices, "")?,
        Prices::Show { model } => {
            let known = "`tollgate prices list` shows those that have.";
            send(place, Command::ShowPrices { model }, known)?
        }
        Prices::Check { force } => {
            let config = start(place)?;
            control::check_prices(&config, force).map_err(|error| refused(error, ""))?
        }
    };
    match reply {
        Reply::Prices(prices) => printer.answer(&prices, || tables::prices(&prices))?,
        Reply::PriceHistory(changes) => printer.answer(&changes, || tables::price_changes(&changes))?,
        Reply::PriceCheck(check) => {
            printer.answer(&check, || tables::price_check(&check))?;
            if check.changes.is_empty() {
                printer.hint("The prices of the settings are in force.");
            }
            let fine = check.clean || check.forced;
            return Ok(if fine { Exit::Fine } else { Exit::Faults });
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// `providers …`.
pub fn providers(place: Place, command: Providers, printer: &Printer) -> Result<Exit, Failure> {
    let Providers::List = command;
    match send(place, Command::ListProviders, "")? {
        Reply::Providers(providers) => {
            printer.answer(&providers, || tables::providers(&providers))?;
            if providers.is_empty() {
                printer.hint("Only a running server knows: `tollgate doctor` asks the providers themselves.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
