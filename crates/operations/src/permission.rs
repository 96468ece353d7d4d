//! Permissions: the table of roles, and the permissions that each command requires.

use tollgate_storage::Role;
use tollgate_types::{Error, ErrorCode};

use crate::alerts::AlertCommand;
use crate::{AccountUpdate, Command};

/// A permission that commands require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read any data.
    Read,
    /// Suspend and reactivate accounts.
    Suspend,
    /// Create, change and revoke keys.
    Keys,
    /// Set limits of accounts.
    Limits,
    /// Grant and withdraw credits, sell top-ups, and configure automatic top-ups.
    Grants,
    /// Refund the charges of calls.
    Refunds,
    /// Create and change subscriptions.
    Plans,
    /// Apply prices regardless of the size of the changes.
    Prices,
    /// Create, rename and close accounts, advance test clocks, and read, change and send alerts.
    Accounts,
    /// Add, change and remove members of accounts.
    Members,
    /// Create and revoke administrators.
    Admins,
}

impl Permission {
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

    /// Returns the permissions of a role. docs/admin.md documents this table.
    pub const fn of(role: Role) -> &'static [Permission] {
        use Permission::{Grants, Keys, Limits, Plans, Prices, Read, Refunds, Suspend};
        match role {
            Role::Viewer => &[Read],
            Role::Support => &[Read, Suspend, Keys, Limits],
            Role::Billing => &[Read, Grants, Refunds, Plans, Prices],
            Role::Owner => &Permission::ALL,
        }
    }

    /// Returns the phrase that follows "may not" in error messages.
    const fn what(self) -> &'static str {
        match self {
            Permission::Read => "read data",
            Permission::Suspend => "suspend accounts",
            Permission::Keys => "create, change or revoke keys",
            Permission::Limits => "set limits",
            Permission::Grants => "grant or withdraw credits",
            Permission::Refunds => "refund charges",
            Permission::Plans => "change subscriptions",
            Permission::Prices => "apply prices",
            Permission::Accounts => "create, rename or close accounts or advance their clocks",
            Permission::Members => "change the members of an account",
            Permission::Admins => "create or revoke administrators",
        }
    }

    /// Checks that the role has all permissions that the command requires.
    pub(crate) fn check(role: Role, command: &Command) -> Result<(), Error> {
        let has = Permission::of(role);
        let missing = required(command)
            .into_iter()
            .find(|required| !has.contains(required));
        missing.map_or(Ok(()), |missing| {
            let message = format!("The role '{}' may not {}.", role.as_str(), missing.what());
            Err(Error::new(ErrorCode::PermissionDenied, message))
        })
    }
}

/// Returns all permissions that the command requires.
fn required(command: &Command) -> Vec<Permission> {
    match command {
        Command::ChangeAccount { change, .. } => required_for_change(change),
        Command::CreateAccount { .. } | Command::AdvanceClock { .. } | Command::CloseAccount { .. } => {
            vec![Permission::Accounts]
        }
        Command::CreateKey { .. } | Command::ChangeKey { .. } | Command::RevokeKey { .. } => {
            vec![Permission::Keys]
        }
        Command::Grant { .. } | Command::RefundGrant { .. } => vec![Permission::Grants],
        Command::Refund { .. } => vec![Permission::Refunds],
        Command::Subscribe { .. }
        | Command::OpenSubscription { .. }
        | Command::ChangeSubscription { .. }
        | Command::ChangePlan { .. } => vec![Permission::Plans],
        Command::TopUps { action } if action.changes() => vec![Permission::Grants],
        // The replies to `Set` and `Show` contain the signing secret of the account's webhooks.
        Command::Alerts { action } if !matches!(action, AlertCommand::List { .. }) => {
            vec![Permission::Accounts]
        }
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
        | Command::ShowServer
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

/// Returns the permissions that an account update requires, one for each kind of changed field. An
/// empty update requires [`Permission::Limits`].
fn required_for_change(change: &AccountUpdate) -> Vec<Permission> {
    let mut required = Vec::new();
    if change.name.is_some() {
        required.push(Permission::Accounts);
    }
    if change.suspended.is_some() {
        required.push(Permission::Suspend);
    }
    if change.sets_limits() || required.is_empty() {
        required.push(Permission::Limits);
    }
    required
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewLimit;
    use tollgate_types::AccountId;

    #[test]
    fn every_role_has_the_permissions_of_a_viewer() {
        for role in [Role::Viewer, Role::Support, Role::Billing, Role::Owner] {
            assert!(Permission::of(role).contains(&Permission::Read), "{role:?}");
        }
        for permission in Permission::ALL {
            assert!(Permission::of(Role::Owner).contains(&permission));
        }
    }

    #[test]
    fn each_part_of_a_change_needs_its_permission() {
        let change = |name: bool, suspended: bool, limit: bool| Command::ChangeAccount {
            id: AccountId::from_u128(1),
            change: AccountUpdate {
                name: name.then(|| "x".to_owned()),
                suspended: suspended.then_some(true),
                rpm: limit.then_some(NewLimit::Default),
                ..AccountUpdate::default()
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
