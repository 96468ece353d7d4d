//! What this node knows of all windows, and how it asks about them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ::redis::{Client, Value, from_redis_value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tollgate_storage::Decision;
use tollgate_types::Clock;

use super::link::{Link, Open};
use super::script::{Answer, Ask, Place, Scripts, Told, When};
use super::window::{Now, Window};
use super::{RedisConfig, Time};
use crate::memory::{SHARDS, WINDOW, lock, shard_of};

const SECOND: u64 = 1_000_000;
/// How much longer than its caller waited a question may be under way before the server leaves it alone.
const TOO_LATE: u64 = SECOND / 2;

/// This node.
pub(super) struct Node {
    pub(super) config: RedisConfig,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) scripts: Scripts,
    pub(super) link: Link,
    pub(super) shards: Box<[Mutex<Shard>]>,
    /// The store's clock before this node's, in microseconds.
    pub(super) ahead: AtomicI64,
    /// Batches and other things that need a number of their own.
    pub(super) numbers: AtomicU64,
    /// Windows that have something to tell.
    pub(super) news: Mutex<Vec<Place>>,
    /// Windows with a loan.
    pub(super) loans: Mutex<Vec<Place>>,
    pub(super) flush: Notify,
    /// Said when the process ends.
    pub(super) leaving: CancellationToken,
}

#[derive(Default)]
pub(super) struct Shard {
    pub(super) windows: HashMap<Place, Window>,
    next_cleaning: u64,
}

impl Node {
    pub(super) fn new(config: RedisConfig, client: Client, clock: Arc<dyn Clock>) -> Self {
        let ahead = match config.time {
            Time::Server => clock.now().as_micros() - clock.monotonic_micros().cast_signed(),
            Time::Given => 0,
        };
        Self {
            link: Link::new(client, config.patience),
            scripts: Scripts::new(&config.prefix, format!("{:016x}", config.node)),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            ahead: AtomicI64::new(ahead),
            clock,
            numbers: AtomicU64::new(0),
            news: Mutex::default(),
            loans: Mutex::default(),
            flush: Notify::new(),
            leaving: CancellationToken::new(),
            config,
        }
    }

    pub(super) fn now(&self) -> Now {
        let here = self.clock.monotonic_micros();
        let there = here
            .cast_signed()
            .saturating_add(self.ahead.load(Ordering::Relaxed));
        Now {
            here,
            there: there.max(0).cast_unsigned(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A name that nothing else has.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.scripts.node(), self.number())
    }

    /// What this node may admit by itself.
    pub(super) fn share(&self, limit: u64) -> u64 {
        (limit / self.link.nodes()).max(limit.min(1))
    }

    pub(super) fn with<T>(&self, place: Place, now: Now, call: impl FnOnce(&mut Window) -> T) -> T {
        let mut shard = lock(&self.shards[shard_of(place.account)]);
        shard.clean(now);
        call(shard.windows.entry(place).or_default())
    }

    /// Has every window that is remembered changed in this way, and told to the store.
    pub(super) fn each(&self, mut change: impl FnMut(&mut Window)) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for (place, window) in &mut shard.windows {
                change(window);
                self.list_locked(*place, window);
            }
        }
    }

    /// Notes that a window has something to tell.
    pub(super) fn list(&self, place: Place) {
        let mut shard = lock(&self.shards[shard_of(place.account)]);
        if let Some(window) = shard.windows.get_mut(&place) {
            self.list_locked(place, window);
        }
    }

    pub(super) fn list_locked(&self, place: Place, window: &mut Window) {
        if window.has_news() && !std::mem::replace(&mut window.listed, true) {
            lock(&self.news).push(place);
            self.flush.notify_one();
        }
    }

    /// Asks for a decision; nothing when there is none in time.
    pub(super) async fn ask(&self, open: &Open, place: Place, wanted: u64, limit: u64) -> Option<Decision> {
        // A second time when the store has lost the window: the question then tells it what was counted here.
        for _ in 0..2 {
            let asked = self.now();
            let ask = self.with(place, asked, |window| {
                window.ask(place.kind, wanted, limit, asked, || self.number())
            });
            match self.put(open, place, &ask).await? {
                Answer::Told(told) => {
                    let decision = self.with(place, asked, |window| {
                        window.learn(place.kind, &ask, &told, limit, asked)
                    });
                    if told.granted > ask.wanted {
                        lock(&self.loans).push(place);
                    }
                    return Some(decision);
                }
                Answer::Lost { life, .. } => self.with(place, asked, |window| window.lost(life)),
                Answer::Late { .. } => return None,
            }
        }
        None
    }

    /// Puts a question to the store; nothing when there is no answer that can be believed.
    pub(super) async fn put(&self, open: &Open, place: Place, ask: &Ask) -> Option<Answer> {
        let asked = self.now();
        let when = self.when();
        let pipeline = self.scripts.ask(place, ask, when, &self.name());
        let mut values = self.link.call(open, &self.scripts, &pipeline).await?.into_iter();
        let answer = Answer::read(values.next()?).ok()?;
        let (Answer::Told(Told { now, .. }) | Answer::Lost { now, .. } | Answer::Late { now }) = &answer;
        self.note_time(*now, asked);
        let epoch: Option<String> = from_redis_value(values.next().unwrap_or(Value::Nil)).ok()?;
        if epoch.as_ref() != Some(&open.epoch) {
            self.link.doubt(open);
            return None;
        }
        Some(answer)
    }

    /// When a question is asked, for the script.
    fn when(&self) -> When {
        match self.config.time {
            Time::Given => When {
                now: self.clock.monotonic_micros(),
                deadline: 0,
            },
            Time::Server => {
                let patience = u64::try_from(self.config.patience.as_micros()).unwrap_or(u64::MAX);
                let deadline = self.now().there.saturating_add(patience).saturating_add(TOO_LATE);
                When { now: 0, deadline }
            }
        }
    }

    /// Follows the store's clock, which showed this some time between that moment and now. When it was set, nothing is
    /// known any more of when something was counted.
    pub(super) fn note_time(&self, there: u64, asked: Now) {
        let here = self.clock.monotonic_micros();
        let least = there.cast_signed().saturating_sub(here.cast_signed());
        let most = there.cast_signed().saturating_sub(asked.here.cast_signed());
        let before = self.ahead.load(Ordering::Relaxed);
        let ahead = before.clamp(least, most.max(least));
        self.ahead.store(ahead, Ordering::Relaxed);
        if ahead.abs_diff(before) > SECOND {
            let now = self.now();
            self.each(|window| window.restart(now));
        }
    }
}

impl Shard {
    /// Once a minute, forgets the windows that are empty.
    fn clean(&mut self, now: Now) {
        if now.here < self.next_cleaning {
            return;
        }
        self.next_cleaning = now.here.saturating_add(WINDOW);
        self.windows.retain(|_, window| !window.is_idle(now));
        self.windows.shrink_to(self.windows.len() * 2);
    }
}
