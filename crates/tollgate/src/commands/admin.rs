//! Commands for administrators, members, providers, prices and the audit log.

use tollgate_operations::view::admin::MemberView;
use tollgate_operations::{
    AddMember, CreateAdmin, ListAdmins, ListAudit, ListMembers, ListPrices, ListProviders, RemoveMember,
    RevokeAdmin, SetMemberRole, ShowPrices,
};
use tollgate_server::control;

use super::control::{KNOWN_ACCOUNTS, refused, resolve_account, resolve_filter, send};
use super::start;
use crate::cli::{Admins, Audit, Members, Place, Prices, Providers};
use crate::failure::{Exit, Failure};
use crate::print::{Printer, admin as tables};

const KNOWN_ADMINS: &str = "`tollgate admins list` shows the existing administrators.";
const KNOWN_MEMBERS: &str = "`tollgate members list ID` shows an account's members with their ids.";

/// Runs `tollgate admins`.
pub fn admins(place: Place, command: Admins, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    match command {
        Admins::Create { name, role } => {
            let role = role.as_str().to_owned();
            let created = send(config, CreateAdmin { name, role }, KNOWN_ADMINS)?;
            printer.answer(&created, || format!("{}\n", created.token))?;
            let whose = format!("This is the token of {} ({}).", created.name, created.id);
            printer.hint(&format!("{whose} It is shown once; store it now."));
        }
        Admins::List => {
            let admins = send(config, ListAdmins, KNOWN_ADMINS)?;
            printer.answer(&admins, || tables::admins(&admins))?;
            if admins.is_empty() {
                printer.hint("No administrators. Create one with `tollgate admins create NAME --role ROLE`.");
            }
        }
        Admins::Revoke { id } => {
            let admin = send(config, RevokeAdmin { id }, KNOWN_ADMINS)?;
            printer.answer(&admin, || tables::admins(std::slice::from_ref(&admin)))?;
        }
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate audit`.
pub fn audit(place: Place, command: Audit, printer: &Printer) -> Result<Exit, Failure> {
    let Audit::List(query) = command;
    let config = &start(place)?;
    let command = ListAudit {
        account: resolve_filter(config, query.account.as_ref())?,
        actor: query.actor,
        action: query.action,
        since: query.since,
        before: None,
        limit: query.limit,
    };
    let entries = send(config, command, "")?;
    printer.answer(&entries, || tables::audit(&entries))?;
    Ok(Exit::Fine)
}

/// Runs `tollgate members`.
pub fn members(place: Place, command: Members, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let show =
        |member: MemberView| printer.answer(&member, || tables::members(std::slice::from_ref(&member)));
    match command {
        Members::Add { account, email, role } => {
            let account = resolve_account(config, &account)?;
            let role = role.as_str().to_owned();
            let command = AddMember { account, email, role };
            show(send(config, command, KNOWN_ACCOUNTS)?)?;
        }
        Members::List { account } => {
            let account = resolve_account(config, &account)?;
            let members = send(config, ListMembers { account }, KNOWN_ACCOUNTS)?;
            printer.answer(&members, || tables::members(&members))?;
            if members.is_empty() {
                printer.hint("No members. Add one with `tollgate members add ID EMAIL --role owner`.");
            }
        }
        Members::SetRole { account, id, role } => {
            let account = resolve_account(config, &account)?;
            let role = role.as_str().to_owned();
            let command = SetMemberRole { account, id, role };
            show(send(config, command, KNOWN_MEMBERS)?)?;
        }
        Members::Remove { account, id } => {
            let account = resolve_account(config, &account)?;
            show(send(config, RemoveMember { account, id }, KNOWN_MEMBERS)?)?;
        }
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate prices`. Returns [`Exit::Faults`] if a price changes too far without `--force`.
pub fn prices(place: Place, command: Prices, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    match command {
        Prices::List => {
            let prices = send(config, ListPrices, "")?;
            printer.answer(&prices, || tables::prices(&prices))?;
        }
        Prices::Show { model } => {
            let known = "`tollgate prices list` shows the models that have prices.";
            let changes = send(config, ShowPrices { model }, known)?;
            printer.answer(&changes, || tables::price_changes(&changes))?;
        }
        Prices::Check { force } => {
            let check = control::check_prices(config, force).map_err(|error| refused(error, ""))?;
            printer.answer(&check, || tables::price_check(&check))?;
            if check.changes.is_empty() {
                printer.hint("The prices in the settings are current.");
            }
            if !check.clean && !check.forced {
                return Ok(Exit::Faults);
            }
        }
    }
    Ok(Exit::Fine)
}

/// Runs `tollgate providers`.
pub fn providers(place: Place, command: Providers, printer: &Printer) -> Result<Exit, Failure> {
    let Providers::List = command;
    let providers = send(&start(place)?, ListProviders, "")?;
    printer.answer(&providers, || tables::providers(&providers))?;
    if providers.is_empty() {
        printer.hint("No running server found. With PostgreSQL, query each node with GET /admin/v1/providers. `tollgate doctor` connects to the providers directly.");
    }
    Ok(Exit::Fine)
}
