//! Commands for administrators, members, providers, prices and the audit log.

use clap::{Args, Subcommand, ValueEnum, value_parser};
use tollgate_operations::view::admin::MemberView;
use tollgate_operations::{
    AddMember, CreateAdmin, ListAdmins, ListAudit, ListMembers, ListPrices, ListProviders, RemoveMember,
    RevokeAdmin, SetMemberRole, ShowPrices,
};
use tollgate_server::control;
use tollgate_types::{AdminId, MemberId, Timestamp};

use super::arguments::{AccountArg, instant};
use super::send::{KNOWN_ACCOUNTS, refused, resolve_account, resolve_filter, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::{Printer, admin as tables};

const KNOWN_ADMINS: &str = "`tollgate admins list` shows the existing administrators.";

const KNOWN_MEMBERS: &str = "`tollgate members list ID` shows an account's members with their ids.";

/// Subcommands of `tollgate admins`.
#[derive(Debug, Subcommand)]
pub enum Admins {
    /// Create an administrator and print its token. The token is shown only once.
    #[command(
        after_help = "Examples:\n  tollgate admins create jo --role support\n  tollgate admins create jo@example.com --role viewer --json\n\nUse the token with the admin API: curl -H \"Authorization: Bearer TOKEN\" http://127.0.0.1:9464/admin/v1/accounts"
    )]
    Create {
        /// Name in the audit log (1–64 characters): lower-case letters, digits and . _ @ -
        name: String,
        /// Role of the administrator.
        #[arg(long, value_enum)]
        role: AdminRole,
    },
    /// List administrators, including revoked ones.
    #[command(after_help = "Examples:\n  tollgate admins list\n  tollgate admins list --json")]
    List,
    /// Revoke an administrator's access. The revocation takes effect immediately on all nodes and
    /// cannot be undone.
    #[command(after_help = "Examples:\n  tollgate admins revoke adm_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Revoke {
        /// Administrator id (adm_…).
        #[arg(value_parser = admin_id)]
        id: AdminId,
    },
}

/// Role of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdminRole {
    /// Read-only access, except to low-balance alerts.
    Viewer,
    /// Read; suspend accounts, manage keys, set limits.
    Support,
    /// Read; grant and refund credits, change subscriptions, accept prices.
    Billing,
    /// Full access to the admin API.
    Owner,
}

impl AdminRole {
    /// Returns the name that the storage backends use.
    pub fn as_str(self) -> &'static str {
        match self {
            AdminRole::Viewer => "viewer",
            AdminRole::Support => "support",
            AdminRole::Billing => "billing",
            AdminRole::Owner => "owner",
        }
    }
}

/// Subcommands of `tollgate audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// List the entries of the audit log (changes and refused changes), newest first.
    #[command(
        after_help = "Examples:\n  tollgate audit list --limit 20\n  tollgate audit list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --since 2026-11-01\n  tollgate audit list --actor cli --action credits.grant --json"
    )]
    List(AuditQuery),
}

/// Filters for audit log entries.
#[derive(Debug, Args)]
pub struct AuditQuery {
    /// Filter by account (default: all).
    #[arg(long, value_name = "ID|NAME")]
    pub account: Option<AccountArg>,
    /// Filter by actor: an administrator's name, `cli` (command line) or `settings` (settings
    /// file).
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Filter by action, such as credits.grant.
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Changes at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub since: Option<Timestamp>,
    /// Maximum number of entries to list, 1–1000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

/// Subcommands of `tollgate providers`.
#[derive(Debug, Subcommand)]
pub enum Providers {
    /// List the providers of a running server, one line per model.
    #[command(
        after_help = "Examples:\n  tollgate providers list\n  tollgate providers list --json\n\nThe command needs a running server. With PostgreSQL, query each node with GET /admin/v1/providers."
    )]
    List,
}

/// Subcommands of `tollgate prices`.
#[derive(Debug, Subcommand)]
pub enum Prices {
    /// List the current prices of all models, in credits per million units.
    #[command(after_help = "Examples:\n  tollgate prices list\n  tollgate prices list --json")]
    List,
    /// Show the price history of a model, newest first.
    #[command(after_help = "Examples:\n  tollgate prices show sim/chat")]
    Show {
        /// Model id, as in `models list`.
        model: String,
    },
    /// Compare the prices in the settings with the current prices.
    ///
    /// A start or reload refuses settings in which a price changes more than tenfold, or to or from
    /// zero. --force makes the prices in the settings current, so that the next start or reload
    /// accepts them.
    #[command(
        after_help = "Examples:\n  tollgate prices check\n  tollgate prices check --force\n\nExit code 3 when a start or reload would refuse the prices and --force is not set."
    )]
    Check {
        /// Accept the prices in the settings.
        #[arg(long)]
        force: bool,
    },
}

/// Subcommands of `tollgate members`.
#[derive(Debug, Subcommand)]
pub enum Members {
    /// Add a member to an account.
    #[command(
        after_help = "Examples:\n  tollgate members add acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a jo@example.com --role owner"
    )]
    Add {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        account: AccountArg,
        /// E-mail address, unique within the account.
        email: String,
        /// Role of the member in the console.
        #[arg(long, value_enum)]
        role: MemberRole,
    },
    /// List an account's members.
    #[command(after_help = "Examples:\n  tollgate members list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json")]
    List {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        account: AccountArg,
    },
    /// Change a member's role. The last owner must remain an owner.
    #[command(
        after_help = "Examples:\n  tollgate members set-role acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a mem_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b viewer"
    )]
    SetRole {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        account: AccountArg,
        /// Member id (mem_…).
        #[arg(value_parser = member_id)]
        id: MemberId,
        /// Role of the member.
        #[arg(value_enum)]
        role: MemberRole,
    },
    /// Remove a member from an account. The last owner cannot be removed.
    #[command(
        after_help = "Examples:\n  tollgate members remove acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a mem_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b"
    )]
    Remove {
        /// Account id, or account name if unique.
        #[arg(value_name = "ID|NAME")]
        account: AccountArg,
        /// Member id (mem_…).
        #[arg(value_parser = member_id)]
        id: MemberId,
        /// Let the keys that the member has created in the console continue to work. They are
        /// revoked by default.
        #[arg(long)]
        keep_keys: bool,
    },
}

/// Role of a member within an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemberRole {
    /// Full access to the account.
    Owner,
    /// Full access, except closing the account and changing owners.
    Admin,
    /// Calls, their results and own keys.
    Member,
    /// Read access, and purchases of credits and plans.
    Billing,
    /// Read access, without the contents of calls.
    Viewer,
}

impl MemberRole {
    /// Returns the name that the storage backends use.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberRole::Owner => "owner",
            MemberRole::Admin => "admin",
            MemberRole::Member => "member",
            MemberRole::Billing => "billing",
            MemberRole::Viewer => "viewer",
        }
    }
}

fn admin_id(text: &str) -> Result<AdminId, &'static str> {
    let advice = "expected an administrator id: adm_ and 32 hex digits; `tollgate admins list` shows the ids";
    text.parse().map_err(|_| advice)
}

pub(super) fn member_id(text: &str) -> Result<MemberId, &'static str> {
    let advice = "expected a member id: mem_ and 32 hex digits; `tollgate members list ID` shows the ids";
    text.parse().map_err(|_| advice)
}

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
        Members::Remove {
            account,
            id,
            keep_keys,
        } => {
            let account = resolve_account(config, &account)?;
            let command = RemoveMember {
                account,
                id,
                keep_keys,
            };
            show(send(config, command, KNOWN_MEMBERS)?)?;
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
