//! Sessions of the console: creation, authentication and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
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
    /// Time in microseconds until which no use of a session is written, because a write waits for
    /// the storage or has failed.
    no_touch_until: AtomicI64,
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
            no_touch_until: AtomicI64::new(i64::MIN),
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
        if session.last_seen_at.plus(TOUCH_INTERVAL) <= now && self.touch(session.id, now).await {
            session.last_seen_at = now;
        }
        Ok(Some(session))
    }

    /// Writes the use of a session and returns whether it was written. While the storage can only
    /// be read, sessions remain valid, and at most one write per [`TOUCH_INTERVAL`] waits for it.
    async fn touch(&self, id: SessionId, now: Timestamp) -> bool {
        if now.as_micros() < self.no_touch_until.load(Ordering::Relaxed) {
            return false;
        }
        let again = now.plus(TOUCH_INTERVAL).as_micros();
        // Concurrent requests do not wait for this write.
        self.no_touch_until.store(again, Ordering::Relaxed);
        let is_written = self.store.touch(id, now).await.is_ok();
        if is_written {
            self.no_touch_until.store(i64::MIN, Ordering::Relaxed);
        }
        is_written
    }

    /// Whether an authenticated session still exists and is valid. The check does not count as a
    /// request.
    pub async fn is_current(&self, session: &Session) -> Result<bool, Error> {
        let found = self.store.find(digest_prefix(&session.digest)).await?;
        let now = self.clock.now();
        Ok(found.is_some_and(|found| found.id == session.id && self.is_valid(&found, now)))
    }

    /// Whether an owner has a session of this id that is valid. The check does not count as a
    /// request.
    pub(crate) async fn is_open(&self, owner: SessionOwner, id: SessionId) -> Result<bool, StorageError> {
        let sessions = self.store.list(owner).await?;
        let now = self.clock.now();
        let mut found = sessions.iter().filter(|session| session.id == id);
        Ok(found.any(|session| self.is_valid(session, now)))
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    use async_trait::async_trait;
    use tollgate_storage::StorageErrorKind;
    use tollgate_types::PersonId;
    use tollgate_types::clock::ManualClock;

    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_795_181_400_000_000);
    const HOUR: Duration = Duration::from_secs(60 * 60);

    /// A store with one session, which refuses writes while `is_full`.
    #[derive(Default)]
    struct Store {
        session: Mutex<Option<Session>>,
        touches: AtomicI64,
        is_full: AtomicBool,
    }

    #[async_trait]
    impl SessionStore for Store {
        async fn create(&self, session: Session, _: Option<SessionId>) -> Result<(), StorageError> {
            *self.session.lock().unwrap() = Some(session);
            Ok(())
        }

        async fn find(&self, _: [u8; 16]) -> Result<Option<Session>, StorageError> {
            Ok(self.session.lock().unwrap().clone())
        }

        async fn touch(&self, _: SessionId, at: Timestamp) -> Result<(), StorageError> {
            self.touches.fetch_add(1, Ordering::SeqCst);
            if self.is_full.load(Ordering::SeqCst) {
                return Err(StorageError::new(
                    StorageErrorKind::Unavailable,
                    "the disk is full",
                ));
            }
            self.session.lock().unwrap().as_mut().unwrap().last_seen_at = at;
            Ok(())
        }

        async fn list(&self, _: SessionOwner) -> Result<Vec<Session>, StorageError> {
            Ok(self.session.lock().unwrap().clone().into_iter().collect())
        }

        async fn delete(&self, _: SessionOwner, _: SessionId) -> Result<bool, StorageError> {
            Ok(self.session.lock().unwrap().take().is_some())
        }

        async fn delete_others(&self, _: SessionOwner, _: Option<SessionId>) -> Result<u64, StorageError> {
            Ok(0)
        }

        async fn sweep(&self, _: Timestamp, _: Timestamp, _: u32) -> Result<u64, StorageError> {
            Ok(0)
        }
    }

    #[tokio::test]
    async fn sessions_remain_valid_while_their_use_cannot_be_written() {
        let (store, clock) = (Arc::new(Store::default()), Arc::new(ManualClock::at(START)));
        let lifetimes = SessionLifetimes {
            idle: HOUR,
            max: 24 * HOUR,
        };
        let pepper = Pepper::new(&[7; 32]).unwrap();
        let ids = Arc::new(IdSource::new(1));
        let sessions = Sessions::new(store.clone(), pepper, clock.clone(), ids, lifetimes);
        let visitor = Visitor {
            client: "Firefox on Linux".to_owned(),
            address: "127.0.0.1".to_owned(),
            session: None,
        };
        let owner = SessionOwner::Person(PersonId::from_u128(1));
        let cookie = sessions.create(owner, &visitor).await.unwrap().token;
        let seen = async || {
            let found = sessions.authenticate(cookie.reveal()).await.unwrap();
            found.map(|session| session.last_seen_at)
        };
        let touches = || store.touches.load(Ordering::SeqCst);
        assert_eq!((seen().await, touches()), (Some(START), 0));
        clock.advance(TOUCH_INTERVAL);
        let used = START.plus(TOUCH_INTERVAL);
        assert_eq!((seen().await, touches()), (Some(used), 1));

        store.is_full.store(true, Ordering::SeqCst);
        clock.advance(TOUCH_INTERVAL);
        assert_eq!((seen().await, touches()), (Some(used), 2));
        assert_eq!((seen().await, touches()), (Some(used), 2));
        clock.advance(TOUCH_INTERVAL);
        assert_eq!((seen().await, touches()), (Some(used), 3));

        store.is_full.store(false, Ordering::SeqCst);
        clock.advance(TOUCH_INTERVAL);
        let again = START.plus(4 * TOUCH_INTERVAL);
        assert_eq!((seen().await, touches()), (Some(again), 4));
        store.is_full.store(true, Ordering::SeqCst);
        clock.advance(HOUR);
        assert_eq!(seen().await, None);
    }
}
