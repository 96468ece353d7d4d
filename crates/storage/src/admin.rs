//! Administrators of the gateway. Only a keyed digest of a token is stored.

use async_trait::async_trait;
use tollgate_types::{AdminId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;
use crate::subscription::names;

names! {
    /// Permissions of an administrator.
    Role {
        /// Read access to everything.
        Viewer = "viewer",
        /// Read access; suspend accounts, create and revoke keys, set limits.
        Support = "support",
        /// Read access; move credits: grants, refunds, plans, prices.
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
    /// Stores the administrator. `Conflict` when one that is not revoked has the name, or any has
    /// the id or digest.
    async fn create(&self, admin: Admin) -> Result<()>;

    /// Finds the administrator whose token's digest has these first 16 bytes, revoked or not. The
    /// caller compares the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Admin>>;

    /// Lists all administrators in order of id, including revoked ones.
    async fn list(&self) -> Result<Vec<Admin>>;

    /// Revokes the administrator and returns it; the time of the first revocation stays. `NotFound`
    /// when it does not exist.
    async fn revoke(&self, id: AdminId, at: Timestamp) -> Result<Admin>;
}
