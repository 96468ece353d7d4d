//! Commands on administrators, the audit log and the members of accounts.

use serde::{Deserialize, Serialize};
use serde_json::to_value;
use tollgate_storage::{AuditFilter, Member, MemberRole, Role, StorageErrorKind};
use tollgate_types::{AccountId, AdminId, AuditId, Error, ErrorCode, MemberId, Timestamp};

use crate::accounts::{find, no_such_account};
use crate::credits::invalid;
use crate::operation::{Completed, Declaration, Operation};
use crate::permission::Permission;
use crate::view::admin::{AdminView, AuditView, CreatedAdminView, MemberView};
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
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let filter = AuditFilter {
            account: self.account,
            actor: self.actor,
            action: self.action,
            since: self.since,
        };
        let audit_log = &operations.storage.audit_log;
        let entries = audit_log.list(filter, self.before, self.limit).await;
        let entries = entries.map_err(Error::internal)?.into_iter();
        Ok(entries.map(AuditView::of).collect::<Vec<_>>().into())
    }
}

/// Lists the members of an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListMembers {
    pub account: AccountId,
}

impl Operation for ListMembers {
    const NAME: &'static str = "list_members";
    type Reply = Vec<MemberView>;

    fn declaration(&self) -> Declaration {
        Declaration::read().of_account(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        find(operations, self.account).await?;
        let members = operations.storage.members.list(self.account).await;
        let members = members.map_err(Error::internal)?;
        Ok(members.iter().map(MemberView::of).collect::<Vec<_>>().into())
    }
}

/// Adds a member to an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AddMember {
    pub account: AccountId,
    /// E-mail address of the member.
    pub email: String,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
}

impl Operation for AddMember {
    const NAME: &'static str = "add_member";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        Declaration::change("member.add", Permission::Members).extending(self.account)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let now = operations.clock.now();
        let member = Member {
            id: MemberId::from_u128(operations.ids.next(now)),
            account: self.account,
            email: address(&self.email)?,
            role: member_role(&self.role)?,
            created_at: now,
        };
        let added = operations.storage.members.add(member.clone()).await;
        added.map_err(|error| match error.kind {
            StorageErrorKind::Conflict => {
                let message = "The account already has a member with this e-mail address.";
                Error::new(ErrorCode::Conflict, message).with_param("email")
            }
            _ => no_such_account(error),
        })?;
        Ok(MemberView::of(&member).into())
    }
}

/// Changes the role of a member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetMemberRole {
    pub account: AccountId,
    /// Id of the member.
    pub id: MemberId,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
}

impl Operation for SetMemberRole {
    const NAME: &'static str = "set_member_role";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("member.change", Permission::Members);
        declared.of_account(self.account).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let role = member_role(&self.role)?;
        let before = operations
            .storage
            .members
            .set_role(self.account, self.id, role)
            .await;
        let before = before.map_err(not_changed)?;
        Ok(Completed {
            before: to_value(MemberView::of(&before)).ok(),
            is_removal: false,
            reply: MemberView::of(&Member { role, ..before }),
        })
    }
}

/// Removes a member from an account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RemoveMember {
    pub account: AccountId,
    /// Id of the member.
    pub id: MemberId,
}

impl Operation for RemoveMember {
    const NAME: &'static str = "remove_member";
    type Reply = MemberView;

    fn declaration(&self) -> Declaration {
        let declared = Declaration::change("member.remove", Permission::Members);
        declared.of_account(self.account).of_object(self.id)
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let removed = operations.storage.members.remove(self.account, self.id).await;
        let removed = removed.map_err(not_changed)?;
        Ok(Completed {
            before: to_value(MemberView::of(&removed)).ok(),
            is_removal: true,
            reply: MemberView::of(&removed),
        })
    }
}

fn not_changed(error: tollgate_storage::StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => {
            Error::new(ErrorCode::NotFound, "The account has no member with this id.")
        }
        StorageErrorKind::Conflict => {
            let message = "This member is the last owner of the account. Make another member an owner first.";
            Error::new(ErrorCode::Conflict, message)
        }
        _ => Error::internal(error),
    }
}

fn member_role(role: &str) -> Result<MemberRole, Error> {
    let message = "'role' must be 'owner', 'admin', 'member' or 'viewer'.";
    MemberRole::parse(role).ok_or_else(|| invalid("role", message))
}

/// Parses an e-mail address and returns it in lower case. Does not check whether the address
/// exists.
fn address(text: &str) -> Result<String, Error> {
    let text = text.trim();
    let plain = text
        .chars()
        .all(|c| c.is_ascii_graphic() && !"<>()[],;:\\\"".contains(c));
    let parts = text.split_once('@').filter(|(name, domain)| {
        let labels = domain.split('.').all(|label| !label.is_empty());
        !name.is_empty() && labels && !domain.contains('@')
    });
    if !plain || text.len() > 254 || parts.is_none() {
        return Err(invalid(
            "email",
            "'email' must be an ASCII e-mail address of at most 254 characters, such as jo@example.com.",
        ));
    }
    Ok(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_and_in_small_letters() {
        assert_eq!(address(" Jo+x@Example.COM ").unwrap(), "jo+x@example.com");
        let long = format!("{}@example.com", "a".repeat(250));
        for text in [
            "",
            "jo",
            "@example.com",
            "jo@",
            "jo@@example.com",
            "jo@a@b",
            "jo @example.com",
            "jo@example..com",
            "jo@.com",
            "<jo@example.com>",
            "jo\n@example.com",
            "jö@example.com",
            &long,
        ] {
            assert_eq!(
                address(text).unwrap_err().param.as_deref(),
                Some("email"),
                "{text}"
            );
        }
    }
}
