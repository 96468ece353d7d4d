//! Commands for administrators, members, providers, prices and the audit log.

use tollgate_operations::Command;
use tollgate_operations::view::Reply;
use tollgate_server::control;

use super::control::{KNOWN_ACCOUNTS, refused, resolve_account, resolve_filter, send, unexpected};
use super::start;
use crate::cli::{Admins, Audit, Members, Place, Prices, Providers};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, admin as tables};

const KNOWN_ADMINS: &str = "`tollgate admins list` shows the existing administrators.";
const KNOWN_MEMBERS: &str = "`tollgate members list ID` shows an account's members with their ids.";

/// Runs `tollgate admins`.
pub fn admins(place: Place, command: Admins, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let command = match command {
        Admins::Create { name, role } => Command::CreateAdmin {
            name,
            role: role.as_str().to_owned(),
        },
        Admins::List => Command::ListAdmins,
        Admins::Revoke { id } => Command::RevokeAdmin { id },
    };
    match send(config, command, KNOWN_ADMINS)? {
        Reply::CreatedAdmin(created) => {
            printer.answer(&created, || format!("{}\n", created.token))?;
            let whose = format!("This is the token of {} ({}).", created.name, created.id);
            printer.hint(&format!("{whose} It is shown once; store it now."));
        }
        Reply::Admin(admin) => printer.answer(&admin, || tables::admins(std::slice::from_ref(&admin)))?,
        Reply::Admins(admins) => {
            printer.answer(&admins, || tables::admins(&admins))?;
            if admins.is_empty() {
                printer.hint("No administrators. Create one with `tollgate admins create NAME --role ROLE`.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate audit`.
pub fn audit(place: Place, command: Audit, printer: &Printer) -> Result<Exit, Failure> {
    let Audit::List(query) = command;
    let config = &start(place)?;
    let command = Command::ListAudit {
        account: resolve_filter(config, query.account.as_ref())?,
        actor: query.actor,
        action: query.action,
        since: query.since,
        before: None,
        limit: query.limit,
    };
    match send(config, command, "")? {
        Reply::Audit(entries) => printer.answer(&entries, || tables::audit(&entries))?,
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate members`.
pub fn members(place: Place, command: Members, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let (command, known) = match command {
        Members::Add { account, email, role } => {
            let account = resolve_account(config, &account)?;
            let role = role.as_str().to_owned();
            let command = Command::AddMember { account, email, role };
            (command, KNOWN_ACCOUNTS)
        }
        Members::List { account } => {
            let account = resolve_account(config, &account)?;
            (Command::ListMembers { account }, KNOWN_ACCOUNTS)
        }
        Members::SetRole { account, id, role } => {
            let account = resolve_account(config, &account)?;
            let role = role.as_str().to_owned();
            (Command::SetMemberRole { account, id, role }, KNOWN_MEMBERS)
        }
        Members::Remove { account, id } => {
            let account = resolve_account(config, &account)?;
            (Command::RemoveMember { account, id }, KNOWN_MEMBERS)
        }
    };
    match send(config, command, known)? {
        Reply::Member(member) => {
            printer.answer(&member, || tables::members(std::slice::from_ref(&member)))?
        }
        Reply::Members(members) => {
            printer.answer(&members, || tables::members(&members))?;
            if members.is_empty() {
                printer.hint("No members. Add one with `tollgate members add ID EMAIL --role owner`.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate prices`. Returns [`Exit::Faults`] if a price changes too far without `--force`.
pub fn prices(place: Place, command: Prices, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let reply = match command {
        Prices::List => send(config, Command::ListPrices, "")?,
        Prices::Show { model } => {
            let known = "`tollgate prices list` shows the models that have prices.";
            send(config, Command::ShowPrices { model }, known)?
        }
        Prices::Check { force } => {
            control::check_prices(config, force).map_err(|error| refused(error, ""))?
        }
    };
    match reply {
        Reply::Prices(prices) => printer.answer(&prices, || tables::prices(&prices))?,
        Reply::PriceHistory(changes) => printer.answer(&changes, || tables::price_changes(&changes))?,
        Reply::PriceCheck(check) => {
            printer.answer(&check, || tables::price_check(&check))?;
            if check.changes.is_empty() {
                printer.hint("The prices in the settings are current.");
            }
            let fine = check.clean || check.forced;
            return Ok(if fine { Exit::Fine } else { Exit::Faults });
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate providers`.
pub fn providers(place: Place, command: Providers, printer: &Printer) -> Result<Exit, Failure> {
    let Providers::List = command;
    match send(&start(place)?, Command::ListProviders, "")? {
        Reply::Providers(providers) => {
            printer.answer(&providers, || tables::providers(&providers))?;
            if providers.is_empty() {
                printer.hint("No running server found. With PostgreSQL, query each node with GET /admin/v1/providers. `tollgate doctor` connects to the providers directly.");
            }
        }
        other => return Err(unexpected(&other)),
    }
    Ok(Exit::Fine)
}
