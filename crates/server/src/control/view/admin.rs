//! Answers about those who administer, what they did, and who belongs to accounts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Member};
use tollgate_types::{AccountId, AdminId, AuditId, MemberId, RequestId, Timestamp};
use utoipa::ToSchema;

/// An administrator who was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedAdminView {
    /// Id.
    #[schema(value_type = String)]
    pub id: AdminId,
    /// The name in the audit log.
    pub name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    pub role: String,
    /// The token itself: this is the only time that it is shown.
    pub token: String,
}

/// An administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdminView {
    /// Id.
    #[schema(value_type = String)]
    pub id: AdminId,
    /// The name in the audit log.
    pub name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    pub role: String,
    /// The token's last four characters.
    pub last4: String,
    /// `active` or `revoked`.
    pub state: String,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339; null while it is active.
    pub revoked_at: Option<String>,
}

impl AdminView {
    /// An administrator without the token.
    pub fn of(admin: &Admin) -> Self {
        let state = if admin.revoked_at.is_some() {
            "revoked"
        } else {
            "active"
        };
        Self {
            id: admin.id,
            name: admin.name.clone(),
            role: admin.role.as_str().to_owned(),
            last4: admin.last4.clone(),
            state: state.to_owned(),
            created_at: admin.created_at.to_rfc3339(),
            revoked_at: admin.revoked_at.map(Timestamp::to_rfc3339),
        }
    }
}

/// A line of the audit log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// Id; later lines have higher ones.
    #[schema(value_type = String)]
    pub id: AuditId,
    /// When, RFC 3339.
    pub at: String,
    /// An administrator's name, `cli` for the command line, `settings` for the settings file.
    pub actor: String,
    /// Which administrator.
    #[schema(value_type = Option<String>)]
    pub actor_id: Option<AdminId>,
    /// The role that counted.
    pub role: String,
    /// What was done, such as `account.change`.
    pub action: String,
    /// The account that it was about.
    #[schema(value_type = Option<String>)]
    pub account: Option<AccountId>,
    /// What it was about: an id or a name.
    pub object: String,
    /// What it was before.
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// What it became.
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
    /// The request by which it came.
    #[schema(value_type = Option<String>)]
    pub request_id: Option<RequestId>,
    /// `done`, or the error code of what was refused or failed.
    pub outcome: String,
}

impl AuditView {
    /// A line as it is stored.
    pub fn of(entry: AuditEntry) -> Self {
        let value = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            id: entry.id,
            at: entry.at.to_rfc3339(),
            actor: entry.actor,
            actor_id: entry.actor_id,
            role: entry.role,
            action: entry.action,
            account: entry.account,
            object: entry.object,
            before: value(entry.before),
            after: value(entry.after),
            request_id: entry.request,
            outcome: entry.outcome,
        }
    }
}

/// Somebody who belongs to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Id.
    #[schema(value_type = String)]
    pub id: MemberId,
    /// Which account.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Address, in small letters.
    pub email: String,
    /// `owner`, `admin`, `member` or `viewer`.
    pub role: String,
    /// RFC 3339.
    pub created_at: String,
}

impl MemberView {
    /// A member.
    pub fn of(member: &Member) -> Self {
        Self {
            id: member.id,
            account: member.account,
            email: member.email.clone(),
            role: member.role.as_str().to_owned(),
            created_at: member.created_at.to_rfc3339(),
        }
    }
}
