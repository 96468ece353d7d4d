//! Commands for the console.

use clap::{ArgGroup, Args, Subcommand};
use tollgate_operations::{CreateSignInLink, SignInTarget};
use tollgate_types::MemberId;

use super::admin::member_id;
use super::arguments::AccountArg;
use super::send::{resolve_account, send};
use super::start;
use crate::cli::Place;
use crate::failure::{Exit, Failure};
use crate::print::Printer;

const KNOWN: &str = "`tollgate members list ID` shows the members of an account, `tollgate admins list` the \
                     administrators.";

/// Subcommands of `tollgate console`.
#[derive(Debug, Subcommand)]
pub enum Console {
    /// Print a link that signs in to the console once. Anyone with the link can use it.
    #[command(
        after_help = "Examples:\n  tollgate console link --account acme\n  tollgate console link --member mem_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a\n  tollgate console link --admin jo --minutes 60"
    )]
    Link(LinkArgs),
}

/// Arguments of `tollgate console link`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("identity").required(true))]
pub struct LinkArgs {
    /// Account id, or account name if unique. Signs in its first owner; if it has none, the visitor
    /// becomes its owner.
    #[arg(long, value_name = "ID|NAME", group = "identity")]
    account: Option<AccountArg>,
    /// Member id (mem_…). Signs in this member.
    #[arg(long, value_name = "ID", group = "identity", value_parser = member_id)]
    member: Option<MemberId>,
    /// Name of an administrator. Signs in to the operators' console on the admin listener.
    #[arg(long, value_name = "NAME", group = "identity")]
    admin: Option<String>,
    /// Lifetime of the link, in minutes (1–1440).
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
}

/// Runs `tollgate console`.
pub fn console(place: Place, command: Console, printer: &Printer) -> Result<Exit, Failure> {
    let config = &start(place)?;
    let Console::Link(arguments) = command;
    let target = match (arguments.account, arguments.member, arguments.admin) {
        (Some(account), ..) => SignInTarget::Account(resolve_account(config, &account)?),
        (None, Some(member), _) => SignInTarget::Member(member),
        (None, None, admin) => SignInTarget::Admin(admin.unwrap_or_default()),
    };
    let command = CreateSignInLink {
        target,
        lifetime_seconds: arguments.minutes * 60,
    };
    let link = send(config, command, KNOWN)?;
    printer.answer(&link, || format!("{}\n", link.url))?;
    printer.hint("The link works once.");
    Ok(Exit::Fine)
}
