//! Commands on administrators and the audit log.

use serde::{Deserialize, Serialize};
use tollgate_storage::{AuditFilter, Role};
use tollgate_types::{AccountId, AdminId, AuditId, Error, Timestamp};

use crate::credits::invalid;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::{MemberPermission, Permission};
use crate::view::admin::{AdminView, AuditView, CreatedAdminView};
use crate::{Actor, Operations};

/// Creates an administrator and returns its token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CreateAdmin {
    /// Name of the administrator, which the audit log records.
    pub name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    pub role: String,
}

impl Operation for CreateAdmin {
    const NAME: &'static str = "create_admin";
    const NEEDS_DATA: bool = false;

    type Reply = CreatedAdminView;

    fn declaration(&self) -> Declaration {
        let name: String = self.name.chars().take(64).collect();
        Declaration::change("admin.create", Permission::Admins).of_object(name)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let message = "'role' must be 'viewer', 'support', 'billing' or 'owner'.";
        let role = Role::parse(&self.role).ok_or_else(|| invalid("role", message))?;
        let (admin, token) = operations.admins.create(&self.name, role).await?;
        let view = CreatedAdminView {
            id: admin.id,
            name: admin.name,
            role: admin.role.as_str().to_owned(),
            token: token.reveal().to_owned(),
        };
        Ok(view.into())
    }
}

/// Lists the administrators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListAdmins;

impl Operation for ListAdmins {
    const NAME: &'static str = "list_admins";
    type Reply = Vec<AdminView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let admins = operations.admins.list().await?;
        Ok(admins.iter().map(AdminView::of).collect::<Vec<_>>().into())
    }
}

/// Revokes an administrator permanently.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RevokeAdmin {
    pub id: AdminId,
}

impl Operation for RevokeAdmin {
    const NAME: &'static str = "revoke_admin";
    type Reply = AdminView;

    fn declaration(&self) -> Declaration {
        Declaration::change("admin.revoke", Permission::Admins).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let admin = operations.admins.revoke(self.id).await?;
        Ok(AdminView::of(&admin).into())
    }
}

/// Returns a page of the audit log, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListAudit {
    /// Account that the entries concern; `None` for all.
    pub account: Option<AccountId>,
    /// Name of the actor; `None` for all.
    pub actor: Option<String>,
    /// Action, such as `credits.grant`; `None` for all.
    pub action: Option<String>,
    /// Start of the time range, inclusive.
    pub since: Option<Timestamp>,
    /// Last entry of the previous page.
    pub before: Option<AuditId>,
    /// Maximum number of entries to return.
    pub limit: u32,
}

impl Operation for ListAudit {
    const NAME: &'static str = "list_audit";
    type Reply = Vec<AuditView>;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::read();
        match self.account {
            Some(account) => declared.for_members(MemberPermission::Manage).of_account(account),
            None => declared,
        }
    }

    async fn execute(self, operations: &Operations, actor: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let filter = AuditFilter {
            account: self.account,
            actor: self.actor,
            action: self.action,
            since: self.since,
        };
        let audit_log = &operations.storage.audit_log;
        let entries = audit_log.list(filter, self.before, self.limit).await;
        let entries = entries.map_err(Error::internal)?.into_iter();
        let view = |entry| match actor.member_id() {
            Some(_) => AuditView::for_members(entry),
            None => AuditView::of(entry),
        };
        Ok(entries.map(view).collect::<Vec<_>>().into())
    }
}
