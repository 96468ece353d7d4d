//! Commands about people, what they changed, and prices.

use clap::{Args, Subcommand, ValueEnum, value_parser};
use tollgate_types::{AccountId, AdminId, MemberId, Timestamp};

use super::{account_id, instant};

/// `admins`.
#[derive(Debug, Subcommand)]
pub enum Admins {
    /// Makes an administrator and prints the token. It is shown this once and cannot be read again.
    #[command(
        after_help = "Examples:\n  tollgate admins create jo --role support\n  tollgate admins create jo@example.com --role viewer --json\n\nThe token opens the admin API: curl -H \"Authorization: Bearer TOKEN\" http://127.0.0.1:9464/admin/v1/accounts"
    )]
    Create {
        /// The name in the audit log: small letters, digits, and any of . _ @ -
        name: String,
        /// What the administrator may do.
        #[arg(long, value_enum)]
        role: AdminRole,
    },
    /// Lists administrators, those that are revoked, too.
    #[command(after_help = "Examples:\n  tollgate admins list\n  tollgate admins list --json")]
    List,
    /// Revokes an administrator for ever, at once on every node.
    #[command(after_help = "Examples:\n  tollgate admins revoke adm_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a")]
    Revoke {
        /// The administrator's id.
        #[arg(value_parser = admin_id)]
        id: AdminId,
    },
}

/// What an administrator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AdminRole {
    /// Look at everything.
    Viewer,
    /// Look, suspend accounts, create and revoke keys, set limits.
    Support,
    /// Look, grant and give back credits, change subscriptions.
    Billing,
    /// Everything.
    Owner,
}

impl AdminRole {
    /// The name in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            AdminRole::Viewer => "viewer",
            AdminRole::Support => "support",
            AdminRole::Billing => "billing",
            AdminRole::Owner => "owner",
        }
    }
}

/// `audit`.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Lists changes and attempts to make one, newest first.
    #[command(
        after_help = "Examples:\n  tollgate audit list --limit 20\n  tollgate audit list --account acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --since 2026-11-01\n  tollgate audit list --actor cli --action credits.grant --json"
    )]
    List(AuditQuery),
}

/// Which changes are listed.
#[derive(Debug, Args)]
pub struct AuditQuery {
    /// Those about this account.
    #[arg(long, value_name = "ID", value_parser = account_id)]
    pub account: Option<AccountId>,
    /// Those of this name: an administrator's, `cli` for the command line, `settings` for the settings file.
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Those that did this, such as credits.grant.
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Those at or after this time: RFC 3339, or a date in UTC.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub since: Option<Timestamp>,
    /// How many at the most.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = value_parser!(u32).range(1..=1000))]
    pub limit: u32,
}

/// `providers`.
#[derive(Debug, Subcommand)]
pub enum Providers {
    /// Lists the providers that a running server uses, a line for each of their models.
    #[command(
        after_help = "Examples:\n  tollgate providers list\n  tollgate providers list --json\n\nOnly a running server knows. With PostgreSQL, ask each node: GET /admin/v1/providers."
    )]
    List,
}

/// `prices`.
#[derive(Debug, Subcommand)]
pub enum Prices {
    /// Lists the prices in force, in credits per million, of every model that ever had any.
    #[command(after_help = "Examples:\n  tollgate prices list\n  tollgate prices list --json")]
    List,
    /// Shows the changes of a model's prices, newest first.
    #[command(after_help = "Examples:\n  tollgate prices show sim/chat")]
    Show {
        /// The model's id.
        model: String,
    },
    /// Compares the prices of the settings with those in force.
    ///
    /// A start or a reload refuses settings in which a price moves more than tenfold, or becomes nothing or something.
    /// With --force the prices of the settings are in force from now on, and the next start or reload takes them.
    #[command(
        after_help = "Examples:\n  tollgate prices check\n  tollgate prices check --force\n\nExit code 3 when a price moves more than tenfold and it was not forced."
    )]
    Check {
        /// Says that they are meant.
        #[arg(long)]
        force: bool,
    },
}

/// `members`.
#[derive(Debug, Subcommand)]
pub enum Members {
    /// Adds a member to an account.
    #[command(
        after_help = "Examples:\n  tollgate members add acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a jo@example.com --role owner"
    )]
    Add {
        /// The account's id.
        #[arg(value_parser = account_id)]
        account: AccountId,
        /// The member's address; once in an account.
        email: String,
        /// What the member may do with the account.
        #[arg(long, value_enum)]
        role: MemberRole,
    },
    /// Lists the members of an account.
    #[command(after_help = "Examples:\n  tollgate members list acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a --json")]
    List {
        /// The account's id.
        #[arg(value_parser = account_id)]
        account: AccountId,
    },
    /// Changes what a member may do. The last owner stays one.
    #[command(
        after_help = "Examples:\n  tollgate members set-role acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a mem_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b viewer"
    )]
    SetRole {
        /// The account's id.
        #[arg(value_parser = account_id)]
        account: AccountId,
        /// The member's id.
        #[arg(value_parser = member_id)]
        id: MemberId,
        /// What the member may do with the account.
        #[arg(value_enum)]
        role: MemberRole,
    },
    /// Removes a member from an account. The last owner stays.
    #[command(
        after_help = "Examples:\n  tollgate members remove acct_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a mem_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3b"
    )]
    Remove {
        /// The account's id.
        #[arg(value_parser = account_id)]
        account: AccountId,
        /// The member's id.
        #[arg(value_parser = member_id)]
        id: MemberId,
    },
}

/// What a member may do with the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemberRole {
    /// Everything.
    Owner,
    /// Everything but to close the account or to change owners.
    Admin,
    /// Use it.
    Member,
    /// Look at it.
    Viewer,
}

impl MemberRole {
    /// The name in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            MemberRole::Owner => "owner",
            MemberRole::Admin => "admin",
            MemberRole::Member => "member",
            MemberRole::Viewer => "viewer",
        }
    }
}

fn admin_id(text: &str) -> Result<AdminId, &'static str> {
    let advice = "an administrator's id is adm_ and 32 characters; `tollgate admins list` shows them";
    text.parse().map_err(|_| advice)
}

fn member_id(text: &str) -> Result<MemberId, &'static str> {
    let advice = "a member's id is mem_ and 32 characters; `tollgate members list ID` shows them";
    text.parse().map_err(|_| advice)
}
