//! Permissions of administrators and of members: the tables of roles.

use tollgate_storage::{MemberRole, Role};
use tollgate_types::{Error, ErrorCode};

/// A permission that commands require.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Read any data except the settings of alerts, which contain a secret.
    Read,
    /// Suspend and reactivate accounts.
    Suspend,
    /// Create, change and revoke keys.
    Keys,
    /// Set limits of accounts.
    Limits,
    /// End open realtime sessions.
    Sessions,
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
    pub const ALL: [Permission; 12] = [
        Permission::Read,
        Permission::Suspend,
        Permission::Keys,
        Permission::Limits,
        Permission::Sessions,
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
        use Permission::{Grants, Keys, Limits, Plans, Prices, Read, Refunds, Sessions, Suspend};
        match role {
            Role::Viewer => &[Read],
            Role::Support => &[Read, Suspend, Keys, Limits, Sessions],
            Role::Billing => &[Read, Grants, Refunds, Plans, Prices],
            Role::Owner => &Permission::ALL,
        }
    }

    /// Returns the phrase that follows "may not" in error messages.
    const fn what(self) -> &'static str {
        match self {
            Permission::Read => "read data",
            Permission::Suspend => "suspend or resume accounts",
            Permission::Keys => "create, change or revoke keys",
            Permission::Limits => "change the limits of an account",
            Permission::Sessions => "end realtime sessions",
            Permission::Grants => "grant, withdraw or sell credits or set up automatic top-ups",
            Permission::Refunds => "refund charges",
            Permission::Plans => "create or change subscriptions",
            Permission::Prices => "force price changes",
            Permission::Accounts => {
                "create, rename or close accounts, advance test clocks, or read, change or send low-balance alerts"
            }
            Permission::Members => "add, change or remove members of an account",
            Permission::Admins => "create or revoke administrators",
        }
    }

    /// Checks that the role has all required permissions.
    pub(crate) fn check(role: Role, required: &[Permission]) -> Result<(), Error> {
        let has = Permission::of(role);
        let missing = required.iter().find(|required| !has.contains(required));
        missing.map_or(Ok(()), |missing| {
            let message = format!("The role '{}' may not {}.", role.as_str(), missing.what());
            Err(Error::new(ErrorCode::PermissionDenied, message))
        })
    }
}

/// A permission of a member within the member's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPermission {
    /// Read the account, its usage and its people, but no contents of calls.
    Read,
    /// Make calls, and read and change their results.
    Use,
    /// Buy credits and plans.
    Purchase,
    /// Change the account, its keys, and members below the role `admin`.
    Manage,
    /// Change administrators and owners of the account.
    Own,
}

impl MemberPermission {
    /// Returns the permissions of a role. docs/console.md documents this table.
    pub const fn of(role: MemberRole) -> &'static [MemberPermission] {
        use MemberPermission::{Manage, Own, Purchase, Read, Use};
        match role {
            MemberRole::Viewer => &[Read],
            MemberRole::Member => &[Read, Use],
            MemberRole::Billing => &[Read, Purchase],
            MemberRole::Admin => &[Read, Use, Purchase, Manage],
            MemberRole::Owner => &[Read, Use, Purchase, Manage, Own],
        }
    }

    /// Checks that the role has the permission. Returns `permission_denied` with the parameter
    /// `role` otherwise.
    pub fn check(self, role: MemberRole) -> Result<(), Error> {
        match MemberPermission::of(role).contains(&self) {
            true => Ok(()),
            false => Err(role_denied(role)),
        }
    }
}

/// Returns the error for a request that the role of a member does not permit.
pub(crate) fn role_denied(role: MemberRole) -> Error {
    let message = format!(
        "The role '{}' may not do this. Ask an owner of the account for another role.",
        role.as_str()
    );
    Error::new(ErrorCode::PermissionDenied, message).with_param("role")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_the_permissions_of_a_viewer() {
        for role in [Role::Viewer, Role::Support, Role::Billing, Role::Owner] {
            assert!(Permission::of(role).contains(&Permission::Read), "{role:?}");
        }
        for permission in Permission::ALL {
            assert!(Permission::of(Role::Owner).contains(&permission));
        }
    }
}
