//! Who may do what: one table of roles, and what each command asks for.

use tollgate_storage::Role;
use tollgate_types::{Error, ErrorCode};

use super::alerts::AlertCommand;
use super::{AccountWish, Command};

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// To look.
    Read,
    /// To suspend accounts and make them active.
    Suspend,
    /// To create, change and revoke keys.
    Keys,
    /// To set limits.
    Limits,
    /// To grant credits and to take back what was paid for.
    Grants,
    /// To give back charges.
    Refunds,
    /// To subscribe accounts to plans.
    Plans,
    /// To put prices in force that are far from those before.
    Prices,
    /// To create accounts and name them.
    Accounts,
    /// To say who belongs to an account.
    Members,
    /// To create and revoke administrators.
    Admins,
}

impl Permission {
    /// Every permission.
    pub const ALL: [Permission; 11] = [
        Permission::Read,
        Permission::Suspend,
        Permission::Keys,
        Permission::Limits,
        Permission::Grants,
        Permission::Refunds,
        Permission::Plans,
        Permission::Prices,
        Permission::Accounts,
        Permission::Members,
        Permission::Admins,
    ];

    /// What the role may do. The only such table; docs/admin.md shows it to people.
    pub const fn of(role: Role) -> &'static [Permission] {
        use Permission::{Grants, Keys, Limits, Plans, Prices, Read, Refunds, Suspend};
        match role {
            Role::Viewer => &[Read],
            Role::Support => &[Read, Suspend, Keys, Limits],
            Role::Billing => &[Read, Grants, Refunds, Plans, Prices],
            Role::Owner => &Permission::ALL,
        }
    }

    /// What a person reads who lacks it.
    const fn what(self) -> &'static str {
        match self {
            Permission::Read => "look at anything",
            Permission::Suspend => "suspend accounts",
            Permission::Keys => "create, change or revoke keys",
            Permission::Limits => "set limits",
            Permission::Grants => "grant credits or take them back",
            Permission::Refunds => "give back charges",
            Permission::Plans => "change subscriptions",
            Permission::Prices => "put prices in force",
            Permission::Accounts => "create accounts, name them or advance their clocks",
            Permission::Members => "change who belongs to an account",
            Permission::Admins => "create or revoke administrators",
        }
    }

    /// The failure of a role that has not what the command asks for.
    pub(super) fn check(role: Role, command: &Command) -> Result<(), Error> {
        let has = Permission::of(role);
        let lacking = wanted(command).into_iter().find(|wanted| !has.contains(wanted));
        lacking.map_or(Ok(()), |lacking| {
            let message = format!("The role '{}' may not {}.", role.as_str(), lacking.what());
            Err(Error::new(ErrorCode::PermissionDenied, message))
        })
    }
}

/// What the command asks for, all of it.
fn wanted(command: &Command) -> Vec<Permission> {
    match command {
        Command::ChangeAccount { change, .. } => of_change(change),
        Command::CreateAccount { .. } | Command::AdvanceClock { .. } => vec![Permission::Accounts],
        Command::CreateKey { .. } | Command::ChangeKey { .. } | Command::RevokeKey { .. } => {
            vec![Permission::Keys]
        }
        Command::Grant { .. } | Command::RefundGrant { .. } => vec![Permission::Grants],
        Command::Refund { .. } => vec![Permission::Refunds],
        Command::Subscribe { .. }
        | Command::OpenSubscription { .. }
        | Command::ChangeSubscription { .. }
        | Command::ChangePlan { .. } => vec![Permission::Plans],
        Command::TopUps { wish } if wish.changes() => vec![Permission::Grants],
        // The secret of an alert is shown with it.
        Command::Alerts { wish } if !matches!(wish, AlertCommand::List { .. }) => vec![Permission::Accounts],
        Command::AddMember { .. } | Command::SetMemberRole { .. } | Command::RemoveMember { .. } => {
            vec![Permission::Members]
        }
        Command::CreateAdmin { .. } | Command::RevokeAdmin { .. } => vec![Permission::Admins],
        Command::CheckPrices { force: true, .. } => vec![Permission::Prices],
        Command::ListAccounts { .. }
        | Command::ShowAccount { .. }
        | Command::ListKeys { .. }
        | Command::ListLots { .. }
        | Command::ListBatches { .. }
        | Command::ShowBatch { .. }
        | Command::ShowBalance { .. }
        | Command::ListPlans
        | Command::ListSubscriptions { .. }
        | Command::ShowSubscription { .. }
        | Command::ListTransfers { .. }
        | Command::ListUsage { .. }
        | Command::ShowStatement { .. }
        | Command::ListModels
        | Command::ListMembers { .. }
        | Command::ListAdmins
        | Command::ListPrices
        | Command::ListProviders
        | Command::ShowPrices { .. }
        | Command::CheckPrices { force: false, .. }
        | Command::ListAudit { .. }
        | Command::TopUps { .. }
        | Command::Alerts { .. }
        | Command::AuditLedger { .. }
        | Command::ShowReceipt { .. }
        | Command::CheckLedger { .. } => vec![Permission::Read],
    }
}

/// What a change of an account asks for: each part its own, and one that changes nothing the least of them.
fn of_change(change: &AccountWish) -> Vec<Permission> {
    let mut wanted = Vec::new();
    if change.name.is_some() {
        wanted.push(Permission::Accounts);
    }
    if change.suspended.is_some() {
        wanted.push(Permission::Suspend);
    }
    if change.sets_limits() || wanted.is_empty() {
        wanted.push(Permission::Limits);
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::NewLimit;
    use tollgate_types::AccountId;

    #[test]
    fn who_may_more_may_all_that_a_viewer_may() {
        for role in [Role::Viewer, Role::Support, Role::Billing, Role::Owner] {
            assert!(Permission::of(role).contains(&Permission::Read), "{role:?}");
        }
        for permission in Permission::ALL {
            assert!(Permission::of(Role::Owner).contains(&permission));
        }
    }

    #[test]
    fn each_part_of_a_change_is_asked_for() {
        let change = |name: bool, suspended: bool, limit: bool| Command::ChangeAccount {
            id: AccountId::from_u128(1),
            change: AccountWish {
                name: name.then(|| "x".to_owned()),
                suspended: suspended.then_some(true),
                rpm: limit.then_some(NewLimit::Default),
                ..AccountWish::default()
            },
        };
        for (name, suspended, limit, support, owner) in [
            (false, false, false, true, true),
            (true, false, false, false, true),
            (false, true, true, true, true),
            (true, true, true, false, true),
        ] {
            let command = change(name, suspended, limit);
            assert_eq!(Permission::check(Role::Support, &command).is_ok(), support);
            assert_eq!(Permission::check(Role::Owner, &command).is_ok(), owner);
            for role in [Role::Viewer, Role::Billing] {
                let error = Permission::check(role, &command).unwrap_err();
                assert_eq!(error.code, ErrorCode::PermissionDenied);
            }
        }
    }
}
