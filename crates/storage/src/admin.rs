//! Administrators of the gateway. Of each token, only a keyed digest and the last four characters
//! are stored.

use async_trait::async_trait;
use tollgate_types::{AdminId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;
use crate::subscription::names;

names! {
    /// Permissions of an administrator.
    Role {
        /// Read access to all resources.
        Viewer = "viewer",
        /// Read access, and permission to suspend accounts, create and revoke keys, and set limits.
        Support = "support",
        /// Read access, and permission to move credits: grants, refunds, plans and prices.
        Billing = "billing",
        /// All permissions, including the management of administrators.
        Owner = "owner",
    }
}

/// A user of the admin API, identified by a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Unique id of the administrator.
    pub id: AdminId,
    /// Name in the audit log, unique among the administrators that are not revoked.
    pub name: String,
    /// Permissions of the administrator.
    pub role: Role,
    /// Digest of the token.
    pub digest: KeyDigest,
    /// The token's last four characters.
    pub last4: String,
    /// Time when the administrator was created.
    pub created_at: Timestamp,
    /// Time of the revocation, which is permanent.
    pub revoked_at: Option<Timestamp>,
}

/// Stores administrators and their token digests.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Stores the administrator. `Conflict` if an unrevoked administrator has the name, or any
    /// administrator has the id or the digest.
    async fn create(&self, admin: Admin) -> Result<()>;

    /// Returns the administrator whose token digest begins with these 16 bytes, revoked or not;
    /// `None` if there is none. The caller must compare the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Admin>>;

    /// Lists all administrators, including revoked ones, sorted by id.
    async fn list(&self) -> Result<Vec<Admin>>;

    /// Revokes the administrator and returns it. Revoking it again retains the time of the first
    /// revocation. `NotFound` if it does not exist.
    async fn revoke(&self, id: AdminId, at: Timestamp) -> Result<Admin>;
}
