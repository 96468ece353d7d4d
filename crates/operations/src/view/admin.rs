//! Replies about administrators, the audit log and the members of accounts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_storage::{Admin, AuditEntry, Member};
use tollgate_types::{AccountId, AdminId, AuditId, MemberId, RequestId, Timestamp};
use utoipa::ToSchema;

/// A new administrator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedAdminView {
    /// Id of the administrator: `adm_…`.
    #[schema(value_type = String)]
    pub id: AdminId,
    /// Name of the administrator, which the audit log records.
    pub name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    pub role: String,
    /// The token itself. It is returned only once.
    pub token: String,
}

/// An administrator, without the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdminView {
    /// Id of the administrator: `adm_…`.
    #[schema(value_type = String)]
    pub id: AdminId,
    /// Name of the administrator, which the audit log records.
    pub name: String,
    /// `viewer`, `support`, `billing` or `owner`.
    pub role: String,
    /// Last four characters of the token.
    pub last4: String,
    /// `active` or `revoked`.
    pub state: String,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Revocation time, RFC 3339; null while the administrator is active.
    pub revoked_at: Option<String>,
}

impl AdminView {
    /// Returns the view of an administrator without the token.
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

/// An entry of the audit log: one action of an administrator, the command line or the settings
/// file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditView {
    /// Id of the entry: `aud_…`. Later entries have greater ids.
    #[schema(value_type = String)]
    pub id: AuditId,
    /// Time of the action, RFC 3339.
    pub at: String,
    /// Name of the administrator, e-mail address of the member, `cli` for the command line, or
    /// `settings` for the settings file.
    pub actor: String,
    /// Id of the administrator; null for other actors.
    #[schema(value_type = Option<String>)]
    pub actor_id: Option<AdminId>,
    /// Id of the member of the account; null for other actors.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub member_id: Option<MemberId>,
    /// Role of the actor at the time of the action.
    pub role: String,
    /// Name of the action, such as `account.change`.
    pub action: String,
    /// Account that the action concerned; null if it concerned none.
    #[schema(value_type = Option<String>)]
    pub account: Option<AccountId>,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// Id or name of the object of the action.
    pub object: String,
    /// The object before the action, without secrets; null if it is unknown or the object is new.
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// The object after the action, without secrets; null if the action removed it or failed.
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
    /// The `x-request-id` of the admin API request; null for the command line and the settings
    /// file.
    #[schema(value_type = Option<String>)]
    pub request_id: Option<RequestId>,
    /// `done`, or the error code of a refused or failed action.
    pub outcome: String,
}

impl AuditView {
    /// Returns the view that members of the account may read. It omits names of administrators, and
    /// what they changed, which may contain notes for operators.
    pub fn for_members(entry: AuditEntry) -> Self {
        match entry.member {
            Some(_) => Self::of(entry),
            None => Self {
                actor: "operator".to_owned(),
                actor_id: None,
                role: "operator".to_owned(),
                before: None,
                after: None,
                request_id: None,
                ..Self::of(entry)
            },
        }
    }

    /// Returns the view of a stored entry. The name of the account is filled in later.
    pub fn of(entry: AuditEntry) -> Self {
        let value = |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok());
        Self {
            id: entry.id,
            at: entry.at.to_rfc3339(),
            actor: entry.actor,
            actor_id: entry.actor_id,
            member_id: entry.member,
            role: entry.role,
            action: entry.action,
            account: entry.account,
            account_name: None,
            object: entry.object,
            before: value(entry.before),
            after: value(entry.after),
            request_id: entry.request,
            outcome: entry.outcome,
        }
    }
}

/// A member of an account: a person with one role in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberView {
    /// Id of the member: `mem_…`.
    #[schema(value_type = String)]
    pub id: MemberId,
    /// Account that the member belongs to.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// E-mail address in lower case; empty until the first owner of the account has entered it.
    pub email: String,
    /// Name of the person; empty if it is unknown.
    #[serde(default)]
    pub name: String,
    /// `owner`, `admin`, `billing`, `member` or `viewer`.
    pub role: String,
    /// `active` if the person has signed in as this member; otherwise `invited`, or `expired` if
    /// the last invitation has expired or none was sent.
    #[serde(default)]
    pub status: String,
    /// Time when the member was added, RFC 3339.
    pub created_at: String,
    /// Time when the last invitation expires, RFC 3339; null for active members and without an
    /// invitation.
    #[serde(default)]
    pub invitation_expires_at: Option<String>,
}

impl MemberView {
    /// Returns the view of a member. `name` is the name of its person, `invitation` the expiry of
    /// its last invitation.
    pub fn of(member: &Member, name: &str, invitation: Option<Timestamp>, now: Timestamp) -> Self {
        let status = match (member.person, invitation) {
            (Some(_), _) => "active",
            (None, Some(expires_at)) if now < expires_at => "invited",
            (None, _) => "expired",
        };
        Self {
            id: member.id,
            account: member.account,
            email: member.email.clone(),
            name: name.to_owned(),
            role: member.role.as_str().to_owned(),
            status: status.to_owned(),
            created_at: member.created_at.to_rfc3339(),
            invitation_expires_at: invitation
                .filter(|_| member.person.is_none())
                .map(Timestamp::to_rfc3339),
        }
    }
}

/// An invitation to an account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvitationView {
    /// The invited member.
    pub member: MemberView,
    /// The link that accepts the invitation. It is returned only once.
    pub url: String,
    /// Time after which the link is invalid, RFC 3339.
    pub expires_at: String,
    /// Whether the gateway has sent the link to the e-mail address.
    pub mailed: bool,
}

/// A link that signs in to the console.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInLinkView {
    /// The link, which signs in once.
    pub url: String,
    /// Time after which the link is invalid, RFC 3339.
    pub expires_at: String,
}
