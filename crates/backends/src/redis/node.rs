//! The windows of this node, and its queries to the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ::redis::{Client, Value, from_redis_value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tollgate_storage::Decision;
use tollgate_types::Clock;

use super::link::{Link, OpenConnection};
use super::script::{Answer, QueryTime, Scripts, StoreReply, WindowKey, WindowQuery};
use super::window::{Now, Window};
use super::{RedisConfig, TimeSource};
use crate::memory::{SHARDS, WINDOW, lock, shard_of};

const SECOND: u64 = 1_000_000;
/// Time after the caller's timeout during which the server still executes a query, in microseconds.
const DEADLINE_GRACE_MICROS: u64 = SECOND / 2;

/// The state of this node, shared by requests and the background task.
pub(super) struct Node {
    pub(super) config: RedisConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) scripts: Scripts,
    pub(super) link: Link,
    pub(super) shards: Box<[Mutex<Shard>]>,
    /// Offset of the store's clock from this node's monotonic clock, in microseconds.
    pub(super) clock_offset: AtomicI64,
    /// Last assigned number of a batch or name.
    pub(super) numbers: AtomicU64,
    /// Windows with unreported changes.
    pub(super) unreported: Mutex<Vec<WindowKey>>,
    /// Windows with a loan.
    pub(super) loans: Mutex<Vec<WindowKey>>,
    pub(super) flush: Notify,
    /// Cancelled by [`Node::sign_off`].
    pub(super) shutdown: CancellationToken,
}

#[derive(Default)]
pub(super) struct Shard {
    pub(super) windows: HashMap<WindowKey, Window>,
    next_cleaning: u64,
}

impl Node {
    pub(super) fn new(config: RedisConfig, client: Client, clock: Arc<dyn Clock>) -> Self {
        let clock_offset = match config.time {
            TimeSource::Server => clock.now().as_micros() - clock.monotonic_micros().cast_signed(),
            TimeSource::Local => 0,
        };
        Self {
            link: Link::new(client, config.decision_timeout),
            scripts: Scripts::new(&config.prefix, format!("{:016x}", config.node)),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            clock_offset: AtomicI64::new(clock_offset),
            clock,
            numbers: AtomicU64::new(0),
            unreported: Mutex::default(),
            loans: Mutex::default(),
            flush: Notify::new(),
            shutdown: CancellationToken::new(),
            config,
        }
    }

    pub(super) fn now(&self) -> Now {
        let local_micros = self.clock.monotonic_micros();
        let store_micros = local_micros
            .cast_signed()
            .saturating_add(self.clock_offset.load(Ordering::Relaxed));
        Now {
            local_micros,
            store_micros: store_micros.max(0).cast_unsigned(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns a name unique among all nodes.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.scripts.node(), self.number())
    }

    /// Returns this node's share of a limit while it decides locally; at least 1 unless the
    /// limit is 0.
    pub(super) fn share(&self, limit: u64) -> u64 {
        (limit / self.link.nodes()).max(limit.min(1))
    }

    pub(super) fn with<T>(&self, key: WindowKey, now: Now, call: impl FnOnce(&mut Window) -> T) -> T {
        let mut shard = lock(&self.shards[shard_of(key.account)]);
        shard.clean(now);
        call(shard.windows.entry(key).or_default())
    }

    /// Applies a change to every window and queues reports of the changed counts.
    pub(super) fn for_each_window(&self, mut change: impl FnMut(&mut Window)) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for (key, window) in &mut shard.windows {
                change(window);
                self.queue_report_locked(*key, window);
            }
        }
    }

    /// Queues a report of a window, if the window has unreported changes.
    pub(super) fn queue_report(&self, key: WindowKey) {
        let mut shard = lock(&self.shards[shard_of(key.account)]);
        if let Some(window) = shard.windows.get_mut(&key) {
            self.queue_report_locked(key, window);
        }
    }

    pub(super) fn queue_report_locked(&self, key: WindowKey, window: &mut Window) {
        if window.has_unreported() && !std::mem::replace(&mut window.is_queued, true) {
            lock(&self.unreported).push(key);
            self.flush.notify_one();
        }
    }

    /// Requests a decision from the store. Returns `None` if the store does not decide in time.
    pub(super) async fn ask(
        &self,
        open: &OpenConnection,
        key: WindowKey,
        wanted: u64,
        limit: u64,
    ) -> Option<Decision> {
        // The second attempt follows a lost window: it resends the counts of this node.
        for _ in 0..2 {
            let asked = self.now();
            let ask = self.with(key, asked, |window| {
                window.ask(key.kind, wanted, limit, asked, || self.number())
            });
            match self.send_query(open, key, &ask).await? {
                Answer::StoreReply(reply) => {
                    let decision = self.with(key, asked, |window| {
                        window.apply_reply(key.kind, &ask, &reply, limit, asked)
                    });
                    if reply.granted > ask.wanted {
                        lock(&self.loans).push(key);
                    }
                    return Some(decision);
                }
                Answer::Lost { generation, .. } => {
                    self.with(key, asked, |window| window.mark_lost(generation))
                }
                Answer::Late { .. } => return None,
            }
        }
        None
    }

    /// Sends a query to the store and returns its reply. Returns `None` if there is no reply or the
    /// store's epoch has changed.
    pub(super) async fn send_query(
        &self,
        open: &OpenConnection,
        key: WindowKey,
        ask: &WindowQuery,
    ) -> Option<Answer> {
        let asked = self.now();
        let query_time = self.query_time();
        let pipeline = self.scripts.ask(key, ask, query_time, &self.name());
        let mut values = self.link.call(open, &self.scripts, &pipeline).await?.into_iter();
        let answer = Answer::read(values.next()?).ok()?;
        let (Answer::StoreReply(StoreReply { now, .. }) | Answer::Lost { now, .. } | Answer::Late { now }) =
            &answer;
        self.note_time(*now, asked);
        let epoch: Option<String> = from_redis_value(values.next().unwrap_or(Value::Nil)).ok()?;
        if epoch.as_ref() != Some(&open.epoch) {
            self.link.mark_stale(open);
            return None;
        }
        Some(answer)
    }

    /// Returns the time and the deadline of a query, for the script.
    fn query_time(&self) -> QueryTime {
        match self.config.time {
            TimeSource::Local => QueryTime {
                now: self.clock.monotonic_micros(),
                deadline: 0,
            },
            TimeSource::Server => {
                let decision_timeout =
                    u64::try_from(self.config.decision_timeout.as_micros()).unwrap_or(u64::MAX);
                let deadline = self
                    .now()
                    .store_micros
                    .saturating_add(decision_timeout)
                    .saturating_add(DEADLINE_GRACE_MICROS);
                QueryTime { now: 0, deadline }
            }
        }
    }

    /// Adjusts the clock offset: the store's clock showed `store_micros` between `asked` and now.
    /// If the offset changes by more than a second, all counts restart, because their times are
    /// unknown.
    pub(super) fn note_time(&self, store_micros: u64, asked: Now) {
        let local_micros = self.clock.monotonic_micros();
        let lower = store_micros
            .cast_signed()
            .saturating_sub(local_micros.cast_signed());
        let upper = store_micros
            .cast_signed()
            .saturating_sub(asked.local_micros.cast_signed());
        let before = self.clock_offset.load(Ordering::Relaxed);
        let clock_offset = before.clamp(lower, upper.max(lower));
        self.clock_offset.store(clock_offset, Ordering::Relaxed);
        if clock_offset.abs_diff(before) > SECOND {
            let now = self.now();
            self.for_each_window(|window| window.restart(now));
        }
    }
}

impl Shard {
    /// Removes idle windows, at most once a minute.
    fn clean(&mut self, now: Now) {
        if now.local_micros < self.next_cleaning {
            return;
        }
        self.next_cleaning = now.local_micros.saturating_add(WINDOW);
        self.windows.retain(|_, window| !window.is_idle(now));
        self.windows.shrink_to(self.windows.len() * 2);
    }
}
