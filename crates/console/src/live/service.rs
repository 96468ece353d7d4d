//! Reads the state of accounts while streams follow them: once per account and node, regardless of
//! the number of streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_edge::session::{MemberSession, SessionGate};
use tollgate_edge::sse;
use tollgate_storage::Storage;
use tollgate_types::error::Retry;
use tollgate_types::{AccountId, Error, ErrorCode};

use super::wire::{
    BalanceEvent, ChatsEvent, JobsEvent, KeysEvent, LimitsEvent, TOPICS, TopicState, Versions, event,
};
use crate::SavedChats;

/// Interval in which the state of an account with open streams is read.
const READ_INTERVAL: Duration = Duration::from_secs(2);
/// Minimum pause between two reads, as a multiple of the duration of a read. Accounts with many
/// keys are read less often.
const IDLE_FACTOR: u32 = 20;
/// Interval in which a stream checks that its session is still valid.
const SESSION_INTERVAL: Duration = Duration::from_secs(4);
/// Time without an event after which a stream sends a comment.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of streams of one account on this node.
const MAX_STREAMS: usize = 100;
/// Time after which a client that was refused may try again.
const FULL_RETRY: Duration = Duration::from_secs(30);
/// Maximum number of unfinished jobs that are compared.
const MAX_JOBS: u32 = 200;

/// State of an account by topic, in the order of [`TOPICS`]; `None` before the first read.
type State = Option<[TopicState; TOPICS.len()]>;

/// Service that follows the state of accounts.
pub struct Live {
    storage: Storage,
    chats: SavedChats,
    gate: Arc<SessionGate>,
    tasks: TaskTracker,
    /// Cancelled at the shutdown, which ends all streams.
    stop: CancellationToken,
    followed: Mutex<HashMap<AccountId, watch::Sender<State>>>,
}

impl Live {
    /// Creates the service. `stop` ends all streams.
    pub fn new(
        storage: Storage,
        chats: SavedChats,
        gate: Arc<SessionGate>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            storage,
            chats,
            gate,
            tasks,
            stop,
            followed: Mutex::default(),
        }
    }

    fn followed(&self) -> MutexGuard<'_, HashMap<AccountId, watch::Sender<State>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Streams the changes of the session's account since the versions in `received`.
    pub(super) fn stream(
        self: &Arc<Self>,
        session: MemberSession,
        received: Versions,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, Error> {
        let now = Instant::now();
        let subscription = Subscription {
            state: self.subscribe(session.account.id)?,
            live: self.clone(),
            session,
            received,
            next_check: now + SESSION_INTERVAL,
            last_sent: now,
        };
        Ok(Box::pin(stream::unfold(subscription, Subscription::next)))
    }

    fn subscribe(self: &Arc<Self>, account: AccountId) -> Result<watch::Receiver<State>, Error> {
        let mut followed = self.followed();
        if let Some(sender) = followed.get(&account) {
            if sender.receiver_count() >= MAX_STREAMS {
                let message = format!(
                    "The account has {MAX_STREAMS} open event streams. Close some pages of the console."
                );
                return Err(
                    Error::new(ErrorCode::RateLimitExceeded, message).with_retry(Retry::After(FULL_RETRY))
                );
            }
            return Ok(sender.subscribe());
        }
        let (sender, receiver) = watch::channel(None);
        followed.insert(account, sender.clone());
        self.tasks.spawn(self.clone().follow(account, sender));
        Ok(receiver)
    }

    /// Reads the state of an account until its last stream has ended.
    async fn follow(self: Arc<Self>, account: AccountId, sender: watch::Sender<State>) {
        loop {
            let started = Instant::now();
            match self.read(account).await {
                Ok(state) => {
                    sender.send_if_modified(|known| {
                        let is_changed = known.as_ref() != Some(&state);
                        *known = Some(state);
                        is_changed
                    });
                }
                Err(error) => tracing::debug!(%account, %error, "cannot read the state of the account"),
            }
            tokio::select! {
                () = sleep(READ_INTERVAL.max(started.elapsed() * IDLE_FACTOR)) => {}
                () = sender.closed() => {}
                () = self.stop.cancelled() => {}
            }
            let mut followed = self.followed();
            if sender.receiver_count() == 0 || self.stop.is_cancelled() {
                followed.remove(&account);
                return;
            }
        }
    }

    async fn read(&self, id: AccountId) -> Result<[TopicState; TOPICS.len()], Error> {
        let Storage {
            accounts,
            ledger,
            subscriptions,
            jobs,
            keys,
            chats,
            ..
        } = &self.storage;
        let account = accounts.get(id).await?;
        let account =
            account.ok_or_else(|| Error::new(ErrorCode::NotFound, "The account does not exist."))?;
        let balance = ledger.balance(id).await?;
        let allowance = subscriptions.allowance(id).await?;
        let jobs = jobs.open_jobs(id, MAX_JOBS).await?;
        let keys = keys.list(id).await?;
        let count = chats.count(id).await?;
        let latest = chats.list(id, None, 1).await?;
        let latest = latest
            .first()
            .map(|chat| (chat.id, chat.revision, chat.updated_at));
        let limit = self.chats.limit(&account);
        Ok([
            TopicState::new(
                &(balance, allowance),
                BalanceEvent {
                    credits: balance.credits,
                    held: balance.held,
                    allowance,
                },
            )?,
            TopicState::new(
                &jobs,
                JobsEvent {
                    unfinished: jobs.unfinished.len(),
                    newest: jobs.newest,
                },
            )?,
            TopicState::new(&keys, KeysEvent { count: keys.len() })?,
            TopicState::new(&(count, limit, latest), ChatsEvent { count, limit })?,
            TopicState::new(
                &(account.state, &account.name, account.limits),
                LimitsEvent {
                    state: account.state.as_str(),
                },
            )?,
        ])
    }
}

/// One stream of events.
struct Subscription {
    live: Arc<Live>,
    session: MemberSession,
    state: watch::Receiver<State>,
    received: Versions,
    next_check: Instant,
    last_sent: Instant,
}

impl Subscription {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        loop {
            if self.live.stop.is_cancelled() {
                return None;
            }
            if Instant::now() >= self.next_check {
                self.next_check = Instant::now() + SESSION_INTERVAL;
                // The client connects again, and gets the reason as an error.
                if !self.live.gate.is_current(&self.session).await.ok()? {
                    return None;
                }
            }
            let event = match self.change() {
                None if self.last_sent.elapsed() >= PING_INTERVAL => Some(sse::PING),
                change => change,
            };
            if let Some(event) = event {
                self.last_sent = Instant::now();
                return Some((event, self));
            }
            tokio::select! {
                changed = self.state.changed() => changed.ok()?,
                () = sleep_until(self.next_check) => {}
                () = self.live.stop.cancelled() => {}
            }
        }
    }

    /// Returns the event of the first topic whose version the client has not received.
    fn change(&mut self) -> Option<Bytes> {
        let state = self.state.borrow_and_update();
        let topics = TOPICS.iter().zip(state.as_ref()?).zip(&mut self.received.0);
        let mut changed = topics.filter(|(((_, permission), topic), received)| {
            **received != topic.version && permission.check(self.session.member.role).is_ok()
        });
        let (((name, _), topic), received) = changed.next()?;
        *received = topic.version;
        drop(changed);
        Some(event(name, self.received, &topic.data))
    }
}
