//! Sessions of the console: creation, authentication and end.

use std::sync::Arc;
use std::time::Duration;

use tollgate_storage::{Session, SessionOwner, SessionStore, StorageError};
use tollgate_types::id::IdSource;
use tollgate_types::{Clock, Error, ErrorCode, SessionId, Timestamp};

use crate::secret::{Pepper, RandomToken, digest_prefix, same_digest};

/// Interval in which [`Session::last_seen_at`] is written.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);
/// Time after a sign-in or step-up in which the session may change sensitive settings.
pub const STEP_UP_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Maximum length of the stored names of clients, in characters.
const MAX_CLIENT_CHARS: usize = 100;

/// The two periods after which a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLifetimes {
    /// Time without a request after which a session ends.
    pub idle: Duration,
    /// Time after the sign-in after which a session ends.
    pub max: Duration,
}

/// The browser that signs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Name of the browser and the system, for the list of sessions.
    pub client: String,
    /// IP address, for the list of sessions.
    pub address: String,
    /// The session that the browser already has. The new session replaces it.
    pub session: Option<Session>,
}

/// A session that was just created, with the token of its cookie.
#[derive(Debug)]
pub struct SignedIn {
    /// The created session.
    pub session: Session,
    /// Token of the session's cookie.
    pub token: RandomToken,
}

/// Service that creates, authenticates and ends sessions.
pub struct Sessions {
    pub(super) store: Arc<dyn SessionStore>,
    pub(super) pepper: Pepper,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<IdSource>,
    lifetimes: SessionLifetimes,
}

impl Sessions {
    /// Creates the service over `store`.
    pub fn new(
        store: Arc<dyn SessionStore>,
        pepper: Pepper,
        clock: Arc<dyn Clock>,
        ids: Arc<IdSource>,
        lifetimes: SessionLifetimes,
    ) -> Self {
        Self {
            store,
            pepper,
            clock,
            ids,
            lifetimes,
        }
    }

    /// Returns the session of a cookie; `None` if it is malformed, unknown or expired. Nothing is
    /// cached, so the end of a session takes effect immediately on every node.
    pub async fn authenticate(&self, cookie: &str) -> Result<Option<Session>, Error> {
        if !RandomToken::fits(cookie) {
            return Ok(None);
        }
        let digest = self.pepper.digest(cookie);
        let found = self.store.find(digest_prefix(&digest)).await?;
        let now = self.clock.now();
        let valid =
            found.filter(|session| same_digest(&session.digest, &digest) && self.is_valid(session, now));
        let Some(mut session) = valid else {
            return Ok(None);
        };
        if session.last_seen_at.plus(TOUCH_INTERVAL) <= now {
            self.store.touch(session.id, now).await?;
            session.last_seen_at = now;
        }
        Ok(Some(session))
    }

    /// Whether an authenticated session still exists and is valid. The check does not count as a
    /// request.
    pub async fn is_current(&self, session: &Session) -> Result<bool, Error> {
        let found = self.store.find(digest_prefix(&session.digest)).await?;
        let now = self.clock.now();
        Ok(found.is_some_and(|found| found.id == session.id && self.is_valid(&found, now)))
    }

    fn is_valid(&self, session: &Session, now: Timestamp) -> bool {
        now < session.expires_at && now < session.last_seen_at.plus(self.lifetimes.idle)
    }

    /// Creates a session of this owner, which replaces the visitor's session.
    pub async fn create(&self, owner: SessionOwner, visitor: &Visitor) -> Result<SignedIn, Error> {
        let created = self.prepare(owner, visitor)?;
        let replaced = visitor.session.as_ref().map(|session| session.id);
        self.store.create(created.session.clone(), replaced).await?;
        Ok(created)
    }

    /// Replaces a session by one with the same expiry whose owner was just authenticated again.
    pub async fn renew_proof(&self, session: &Session) -> Result<SignedIn, Error> {
        let now = self.clock.now();
        let token = RandomToken::generate()?;
        let renewed = Session {
            id: SessionId::from_u128(self.ids.next(now)),
            digest: self.pepper.digest(token.reveal()),
            last_seen_at: now,
            proved_at: now,
            ..session.clone()
        };
        self.store.create(renewed.clone(), Some(session.id)).await?;
        Ok(SignedIn {
            session: renewed,
            token,
        })
    }

    /// Returns a session that is not stored, with the token of its cookie.
    pub(super) fn prepare(&self, owner: SessionOwner, visitor: &Visitor) -> Result<SignedIn, Error> {
        let now = self.clock.now();
        let token = RandomToken::generate()?;
        let session = Session {
            id: SessionId::from_u128(self.ids.next(now)),
            digest: self.pepper.digest(token.reveal()),
            owner,
            created_at: now,
            last_seen_at: now,
            expires_at: now.plus(self.lifetimes.max),
            proved_at: now,
            client: visitor.client.chars().take(MAX_CLIENT_CHARS).collect(),
            address: visitor.address.clone(),
        };
        Ok(SignedIn { session, token })
    }

    /// Whether the owner of the session was authenticated less than [`STEP_UP_LIFETIME`] ago.
    pub fn is_proof_recent(&self, session: &Session) -> bool {
        self.clock.now() < session.proved_at.plus(STEP_UP_LIFETIME)
    }

    /// Returns the valid sessions of an owner, the newest first.
    pub async fn list(&self, owner: SessionOwner) -> Result<Vec<Session>, Error> {
        let now = self.clock.now();
        let mut sessions = self.store.list(owner).await?;
        sessions.retain(|session| self.is_valid(session, now));
        sessions.reverse();
        Ok(sessions)
    }

    /// Ends a session of this owner. Returns `not_found` if the owner has no such session.
    pub async fn end(&self, owner: SessionOwner, id: SessionId) -> Result<(), Error> {
        match self.store.delete(owner, id).await? {
            true => Ok(()),
            false => Err(Error::new(ErrorCode::NotFound, "The session does not exist.")),
        }
    }

    /// Ends all sessions of this owner except `keep`, and returns their number.
    pub async fn end_others(&self, owner: SessionOwner, keep: SessionId) -> Result<u64, Error> {
        Ok(self.store.delete_others(owner, Some(keep)).await?)
    }

    /// Deletes at most `limit` invalid sessions.
    pub async fn sweep(&self, limit: u32) -> Result<u64, StorageError> {
        let now = self.clock.now();
        self.store.sweep(now, now.minus(self.lifetimes.idle), limit).await
    }
}
