//! Commands on administrators, the audit log and the members of accounts.

use serde_json::to_value;
use tollgate_storage::{AuditFilter, Member, MemberRole, Role, StorageErrorKind};
use tollgate_types::{AccountId, AdminId, AuditId, Error, ErrorCode, MemberId};

use crate::Operations;
use crate::accounts::{find, no_such_account};
use crate::audited::CommandResult;
use crate::view::Reply;
use crate::view::admin::{AdminView, AuditView, CreatedAdminView, MemberView};

fn invalid(param: &str, message: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, message).with_param(param)
}

pub(crate) async fn create_admin(operations: &Operations, name: String, role: &str) -> Result<Reply, Error> {
    let message = "'role' must be 'viewer', 'support', 'billing' or 'owner'.";
    let role = Role::parse(role).ok_or_else(|| invalid("role", message))?;
    let (admin, token) = operations.admins.create(&name, role).await?;
    Ok(Reply::CreatedAdmin(CreatedAdminView {
        id: admin.id,
        name: admin.name,
        role: admin.role.as_str().to_owned(),
        token: token.reveal().to_owned(),
    }))
}

pub(crate) async fn list_admins(operations: &Operations) -> Result<Reply, Error> {
    let admins = operations.admins.list().await?;
    Ok(Reply::Admins(admins.iter().map(AdminView::of).collect()))
}

pub(crate) async fn revoke_admin(operations: &Operations, id: AdminId) -> Result<Reply, Error> {
    let admin = operations.admins.revoke(id).await?;
    Ok(Reply::Admin(AdminView::of(&admin)))
}

/// Returns a page of the audit log, newest first.
pub(crate) async fn audit_log(
    operations: &Operations,
    filter: AuditFilter,
    before: Option<AuditId>,
    limit: u32,
) -> Result<Reply, Error> {
    let entries = operations.storage.audit_log.list(filter, before, limit).await;
    let entries = entries.map_err(Error::internal)?;
    Ok(Reply::Audit(entries.into_iter().map(AuditView::of).collect()))
}

pub(crate) async fn list_members(operations: &Operations, account: AccountId) -> Result<Reply, Error> {
    find(operations, account).await?;
    let members = operations
        .storage
        .members
        .list(account)
        .await
        .map_err(Error::internal)?;
    Ok(Reply::Members(members.iter().map(MemberView::of).collect()))
}

pub(crate) async fn add_member(
    operations: &Operations,
    account: AccountId,
    email: &str,
    role: &str,
) -> Result<Reply, Error> {
    let now = operations.clock.now();
    let member = Member {
        id: MemberId::from_u128(operations.ids.next(now)),
        account,
        email: address(email)?,
        role: member_role(role)?,
        created_at: now,
    };
    let added = operations.storage.members.add(member.clone()).await;
    added.map_err(|error| match error.kind {
        StorageErrorKind::Conflict => {
            let message = "The account already has a member with this address.";
            Error::new(ErrorCode::Conflict, message).with_param("email")
        }
        _ => no_such_account(error),
    })?;
    Ok(Reply::Member(MemberView::of(&member)))
}

pub(crate) async fn set_member_role(
    operations: &Operations,
    account: AccountId,
    id: MemberId,
    role: &str,
) -> Result<CommandResult, Error> {
    let role = member_role(role)?;
    let before = operations.storage.members.set_role(account, id, role).await;
    let before = before.map_err(not_changed)?;
    Ok(CommandResult {
        before: to_value(MemberView::of(&before)).ok(),
        is_gone: false,
        reply: Reply::Member(MemberView::of(&Member { role, ..before })),
    })
}

pub(crate) async fn remove_member(
    operations: &Operations,
    account: AccountId,
    id: MemberId,
) -> Result<CommandResult, Error> {
    let removed = operations.storage.members.remove(account, id).await;
    let removed = removed.map_err(not_changed)?;
    Ok(CommandResult {
        before: to_value(MemberView::of(&removed)).ok(),
        is_gone: true,
        reply: Reply::Member(MemberView::of(&removed)),
    })
}

fn not_changed(error: tollgate_storage::StorageError) -> Error {
    match error.kind {
        StorageErrorKind::NotFound => Error::new(ErrorCode::NotFound, "The account has no such member."),
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
            "'email' must be an address such as jo@example.com.",
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
