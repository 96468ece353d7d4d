//! Who may use the admin API. Only a keyed digest of a token is stored.

use async_trait::async_trait;
use tollgate_types::{AdminId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;
use crate::subscription::names;

names! {
    /// What an administrator may do.
    Role {
        /// Look at everything.
        Viewer = "viewer",
        /// Look, suspend accounts, create and revoke keys, set limits.
        Support = "support",
        /// Look, and move credits: grants, refunds, plans, prices.
        Billing = "billing",
        /// Everything, administrators included.
        Owner = "owner",
    }
}

/// Somebody who may use the admin API, by a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Id.
    pub id: AdminId,
    /// The name in the audit log. No two that are not revoked have the same.
    pub name: String,
    /// What the administrator may do.
    pub role: Role,
    /// Digest of the token.
    pub digest: KeyDigest,
    /// The token's last four characters.
    pub last4: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was revoked, for ever.
    pub revoked_at: Option<Timestamp>,
}

/// Stores administrators.
#[async_trait]
pub trait AdminStore: Send + Sync {
    /// Stores the administrator. `Conflict` when one that is not revoked has the name, or any has the id or digest.
    async fn create(&self, admin: Admin) -> Result<()>;

    /// The administrator whose token's digest has these first 16 bytes, revoked or not. The caller compares the whole
    /// digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Admin>>;

    /// Every administrator in order of id, those that are revoked included.
    async fn list(&self) -> Result<Vec<Admin>>;

    /// Revokes the administrator and answers it; the time of the first revocation stays. `NotFound` when there is none.
    async fn revoke(&self, id: AdminId, at: Timestamp) -> Result<Admin>;
}
