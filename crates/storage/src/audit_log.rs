//! The audit log: one entry for each change, and each attempted change, by an operator. The log is
//! append-only and contains no secrets.

use async_trait::async_trait;
use tollgate_types::{AccountId, AdminId, AuditId, MemberId, RequestId, Timestamp};

use crate::Result;

/// A change, or an attempt to make a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Unique id; later entries have greater ids.
    pub id: AuditId,
    /// Time of the change.
    pub at: Timestamp,
    /// Name of the actor: an administrator's, a member's e-mail address, `cli` for the command
    /// line, `settings` for the settings file.
    pub actor: String,
    /// Id of the administrator; `None` for other actors.
    pub actor_id: Option<AdminId>,
    /// Id of the member; `None` for other actors.
    pub member: Option<MemberId>,
    /// Role under which the action was authorized.
    pub role: String,
    /// Action, such as `account.change`.
    pub action: String,
    /// Account that the change concerns.
    pub account: Option<AccountId>,
    /// Id or name of the changed object; may be empty.
    pub object: String,
    /// State of the object before the change, as a JSON object.
    pub before: Option<String>,
    /// State of the object after the change, as a JSON object.
    pub after: Option<String>,
    /// Id of the request that made the change.
    pub request: Option<RequestId>,
    /// `done`, or the error code of a refused or failed change.
    pub outcome: String,
}

/// Filter for audit entries; `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only entries about this account.
    pub account: Option<AccountId>,
    /// Only entries of the actor with this name.
    pub actor: Option<String>,
    /// Only entries with this action.
    pub action: Option<String>,
    /// Only entries at or after this time.
    pub since: Option<Timestamp>,
}

/// Stores the audit log, append-only.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends an entry; the entry is durable when the call returns. `Conflict` if the id exists.
    async fn append(&self, entry: AuditEntry) -> Result<()>;

    /// Lists up to `limit` entries with an id less than `before`, in descending order of id.
    async fn list(&self, filter: AuditFilter, before: Option<AuditId>, limit: u32)
    -> Result<Vec<AuditEntry>>;
}
