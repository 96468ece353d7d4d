//! The audit log: what operators changed, one line for each change. It only grows, and it holds no secrets.

use async_trait::async_trait;
use tollgate_types::{AccountId, AdminId, AuditId, RequestId, Timestamp};

use crate::Result;

/// A change, or an attempt to make one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Id; later entries have higher ones.
    pub id: AuditId,
    /// When.
    pub at: Timestamp,
    /// Whose name: an administrator's, `cli` for the command line, `settings` for the settings file.
    pub actor: String,
    /// Which administrator.
    pub actor_id: Option<AdminId>,
    /// The role that counted.
    pub role: String,
    /// What was done, such as `account.change`.
    pub action: String,
    /// The account that it was about.
    pub account: Option<AccountId>,
    /// What it was about: an id or a name; may be empty.
    pub object: String,
    /// What it was before, as a JSON object.
    pub before: Option<String>,
    /// What it became, as a JSON object.
    pub after: Option<String>,
    /// The request by which it came.
    pub request: Option<RequestId>,
    /// `done`, or the error code of what was refused or failed.
    pub outcome: String,
}

/// Which entries; what is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Those about this account.
    pub account: Option<AccountId>,
    /// Those of this name.
    pub actor: Option<String>,
    /// Those that did this.
    pub action: Option<String>,
    /// Those at or after this instant.
    pub since: Option<Timestamp>,
}

/// Stores the audit log.
#[async_trait]
pub trait AuditLog: Send + Sync {
    /// Appends an entry, durably when it returns. `Conflict` when the id exists.
    async fn append(&self, entry: AuditEntry) -> Result<()>;

    /// Entries in descending order of id, those before `before`, at most `limit`.
    async fn list(&self, filter: AuditFilter, before: Option<AuditId>, limit: u32)
    -> Result<Vec<AuditEntry>>;
}
