//! The open sessions of this process. The registry limits the sessions of an account, and lets
//! operators list and end them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tollgate_accounts::{Caller, SecretCaller};
use tollgate_types::{AccountId, ClientSecretId, Clock, Credits, Principal, RequestId, Timestamp};

use super::MAX_SESSIONS;

/// Purpose of a session, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionLabel {
    /// Canonical id of the model of the handshake.
    pub model: Arc<str>,
    /// Kind of the session, such as `voice`.
    pub kind: &'static str,
    /// Way of serving the session, such as `cascade`.
    pub way: &'static str,
}

/// An open session, without anything that its messages contain.
pub struct SessionRecord {
    /// Request of the handshake.
    pub request: RequestId,
    /// Account that pays.
    pub account: AccountId,
    /// The key or member of the handshake, or of the creator of its client secret.
    pub principal: Principal,
    /// Client secret that opened the session.
    pub secret: Option<ClientSecretId>,
    /// Purpose of the session; `None` for sessions that operators do not list.
    pub label: Option<SessionLabel>,
    /// Time of the handshake.
    pub opened_at: Timestamp,
    clock: Arc<dyn Clock>,
    last_activity_micros: AtomicI64,
    settled: AtomicU64,
    charged_nanos: AtomicI64,
    end: CancellationToken,
}

impl SessionRecord {
    /// Creates the record of a handshake at this time.
    pub(super) fn new(
        request: RequestId,
        caller: &Caller,
        secret: Option<&SecretCaller>,
        label: Option<SessionLabel>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let now = clock.now();
        Self {
            request,
            account: caller.account_id(),
            principal: caller.principal,
            secret: secret.map(|secret| secret.id),
            label,
            opened_at: now,
            clock,
            last_activity_micros: AtomicI64::new(now.as_micros()),
            settled: AtomicU64::new(0),
            charged_nanos: AtomicI64::new(0),
            end: CancellationToken::new(),
        }
    }

    /// Returns the time of the last message in either direction; pings do not count.
    pub fn last_activity_at(&self) -> Timestamp {
        Timestamp::from_micros(self.last_activity_micros.load(Ordering::Relaxed))
    }

    /// Returns the number of charges so far, of zero credits too.
    pub fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Returns the sum of all charges so far.
    pub fn charged(&self) -> Credits {
        Credits::from_nanos(self.charged_nanos.load(Ordering::Relaxed))
    }

    /// Counts a charge of a response or of a block of audio.
    pub fn add_charge(&self, amount: Credits) {
        self.settled.fetch_add(1, Ordering::Relaxed);
        self.charged_nanos.fetch_add(amount.nanos(), Ordering::Relaxed);
    }

    /// Ends the session: its client receives a close frame with [`super::POLICY_VIOLATION`].
    pub fn end(&self) {
        self.end.cancel();
    }

    pub(super) fn note_activity(&self) {
        let now = self.clock.now().as_micros();
        self.last_activity_micros.store(now, Ordering::Relaxed);
    }

    pub(super) fn is_ended(&self) -> bool {
        self.end.is_cancelled()
    }

    /// Waits until [`SessionRecord::end`] is called.
    pub(super) async fn ended(&self) {
        self.end.cancelled().await;
    }
}

/// Records of all open sessions.
#[derive(Default)]
pub(super) struct Registry {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    by_account: HashMap<AccountId, usize>,
    records: BTreeMap<RequestId, Arc<SessionRecord>>,
}

impl Registry {
    /// Adds a session. Returns `None` if its account has [`MAX_SESSIONS`].
    pub(super) fn add(self: &Arc<Self>, record: SessionRecord) -> Option<SessionSlot> {
        let mut open = self.lock();
        let count = open.by_account.entry(record.account).or_default();
        if *count >= MAX_SESSIONS {
            return None;
        }
        *count += 1;
        let record = Arc::new(record);
        open.records.insert(record.request, record.clone());
        Some(SessionSlot {
            record,
            registry: self.clone(),
        })
    }

    /// Returns the open sessions, oldest first.
    pub(super) fn records(&self) -> Vec<Arc<SessionRecord>> {
        self.lock().records.values().cloned().collect()
    }

    /// Returns the session that this request opened.
    pub(super) fn get(&self, request: RequestId) -> Option<Arc<SessionRecord>> {
        self.lock().records.get(&request).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of an open session, which is counted and listed until the guard is dropped.
pub(super) struct SessionSlot {
    pub(super) record: Arc<SessionRecord>,
    registry: Arc<Registry>,
}

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut open = self.registry.lock();
        open.records.remove(&self.record.request);
        if let Some(count) = open.by_account.get_mut(&self.record.account) {
            *count -= 1;
            if *count == 0 {
                open.by_account.remove(&self.record.account);
            }
        }
    }
}
