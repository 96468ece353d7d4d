//! Sessions of the console. Of each session's cookie, only a keyed digest is stored.

use async_trait::async_trait;
use tollgate_types::{AdminId, PersonId, SessionId, Timestamp};

use crate::Result;
use crate::key::KeyDigest;

/// The identity that a session signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionOwner {
    /// A person, on the public listener.
    Person(PersonId),
    /// An administrator, on the admin listener.
    Admin(AdminId),
}

/// A signed-in browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Unique id of the session.
    pub id: SessionId,
    /// Digest of the cookie.
    pub digest: KeyDigest,
    /// The identity that the session signs in.
    pub owner: SessionOwner,
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Time of the last request, accurate to one minute.
    pub last_seen_at: Timestamp,
    /// Time after which the session is invalid even if it is in use.
    pub expires_at: Timestamp,
    /// Time of the last sign-in or step-up, which proved the identity.
    pub proved_at: Timestamp,
    /// Name of the browser and the system, such as `Firefox on Linux`, for the list of sessions.
    pub client: String,
    /// IP address of the sign-in.
    pub address: String,
}

/// Stores sessions by digest.
#[async_trait]
pub trait SessionStore: Send + Sync {
    /// Stores the session and deletes the session `replaces`, if there is one, in one atomic step.
    /// `NotFound` if the owner does not exist, `Conflict` if another session has the id or digest.
    async fn create(&self, session: Session, replaces: Option<SessionId>) -> Result<()>;

    /// Returns the session whose digest begins with these 16 bytes, expired or not. The caller must
    /// compare the whole digest in constant time.
    async fn find(&self, digest_prefix: [u8; 16]) -> Result<Option<Session>>;

    /// Sets [`Session::last_seen_at`]. A later stored time is retained. A session that does not
    /// exist is ignored.
    async fn touch(&self, id: SessionId, at: Timestamp) -> Result<()>;

    /// Lists the sessions of an owner, sorted by id.
    async fn list(&self, owner: SessionOwner) -> Result<Vec<Session>>;

    /// Deletes a session of this owner and returns whether it existed.
    async fn delete(&self, owner: SessionOwner, id: SessionId) -> Result<bool>;

    /// Deletes all sessions of this owner except `keep`, and returns their number.
    async fn delete_others(&self, owner: SessionOwner, keep: Option<SessionId>) -> Result<u64>;

    /// Deletes at most `limit` sessions that expired before `expired` or were last used before
    /// `idle`, and returns their number.
    async fn sweep(&self, expired: Timestamp, idle: Timestamp, limit: u32) -> Result<u64>;
}
