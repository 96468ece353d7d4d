//! [`Counters`] that several nodes share, in Redis or Valkey.
//!
//! A decision is one script on the server, by the server's clock. From 3,000 a minute on a node is lent a part of the
//! limit for a second, which counts until a minute after the last moment at which it can be used: so no minute has more
//! than the limit over all nodes, and most requests need no round trip. Corrections are told in batches that are
//! numbered, so that one whose answer was lost is taken in once.
//!
//! When the server is away each node goes on by itself, under the limit divided by the nodes that were alive, and by
//! what it has counted before. What it counts is told to the server when that is back. A server that has lost its data
//! is noticed by the name of its epoch; the nodes tell it what they have counted, and go on by themselves meanwhile.
//!
//! Suggested reading order: window.lua, [`window`], [`RedisCounters`], [`keep`].

mod keep;
mod link;
mod own;
mod script;
mod window;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::redis::{Client, IntoConnectionInfo, Value, from_redis_value};
use async_trait::async_trait;
use metrics::Counter;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tollgate_storage::{Budget, Counters, Decision, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, Clock};

use crate::memory::{SHARDS, WINDOW, lock, shard_of};
use link::{Link, Open};
use script::{Answer, Ask, Kind, Place, Scripts, When};
use window::{Now, Window};

pub use link::ServerFound;

const SECOND: u64 = 1_000_000;
/// How much longer than its caller waited a question may be under way before the server leaves it alone.
const TOO_LATE: u64 = SECOND / 2;

/// How to reach the server, and how long to wait for what.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://user:password@host:port/database`, or `rediss://` with TLS. It holds a secret.
    pub url: String,
    /// What every key begins with: installations with different prefixes share nothing.
    pub prefix: String,
    /// A number that no other node has.
    pub node: u64,
    /// How long a request waits for a decision before it is decided here.
    pub patience: Duration,
    /// How long nodes go on by themselves after the server was away or has lost its data, so that all of them can tell
    /// it what they have counted. A node notices within half a second.
    pub settle: Duration,
    /// Whose clock measures the windows.
    pub time: Time,
}

/// Whose clock measures the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The server's.
    Server,
    /// The monotonic side of the clock that the counters are given, which all nodes then must have. For tests.
    Given,
}

impl RedisConfig {
    /// The server at this address, with the prefix `tollgate`, 50 ms for a decision and a second and a half to settle.
    pub fn new(url: impl Into<String>, node: u64) -> Self {
        Self {
            url: url.into(),
            prefix: "tollgate".to_owned(),
            node,
            patience: Duration::from_millis(50),
            settle: Duration::from_millis(1_500),
            time: Time::Server,
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("prefix", &self.prefix)
            .field("node", &self.node)
            .field("patience", &self.patience)
            .field("settle", &self.settle)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// Whether this is an address of a server; what is wrong with it otherwise, without what it holds.
pub fn check_url(url: &str) -> std::result::Result<(), &'static str> {
    const SCHEMES: [&str; 2] = ["redis://", "rediss://"];
    let known = SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if known && url.into_connection_info().is_ok() {
        return Ok(());
    }
    Err("write redis://user:password@host:6379/0, or rediss:// for TLS")
}

/// Connects to a server and tries whether limits can be counted there. Takes two seconds at the most.
pub async fn look(url: &str) -> Result<ServerFound> {
    let client = Client::open(url).map_err(unusable)?;
    let scripts = Scripts::new("", String::new());
    link::look(&client, &scripts).await.map_err(unusable)
}

/// Starts to count at this server. It need not be there: it is looked for until it is, and until then the node counts
/// for itself. Can be called, and the counters used, from any number of runtimes.
///
/// `Unavailable` when the address is none.
pub fn open(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<RedisCounters> {
    let client = Client::open(config.url.as_str()).map_err(unusable)?;
    let node = format!("{:016x}", config.node);
    let core = Arc::new(Core {
        link: Link::new(client, config.patience),
        scripts: Scripts::new(&config.prefix, node),
        shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        ahead: AtomicI64::new(match config.time {
            Time::Server => clock.now().as_micros() - clock.monotonic_micros().cast_signed(),
            Time::Given => 0,
        }),
        clock,
        numbers: AtomicU64::new(0),
        news: Mutex::default(),
        loans: Mutex::default(),
        flush: Notify::new(),
        leaving: CancellationToken::new(),
        meters: Meters::new(),
        config,
    });
    let stop = keep::start(&core)?;
    Ok(RedisCounters { core, _stop: stop })
}

/// Windows of one minute that several nodes share.
pub struct RedisCounters {
    core: Arc<Core>,
    /// Dropped with the counters, which ends the thread that keeps the connection.
    _stop: oneshot::Sender<()>,
}

struct Core {
    config: RedisConfig,
    clock: Arc<dyn Clock>,
    scripts: Scripts,
    link: Link,
    shards: Box<[Mutex<Shard>]>,
    /// The store's clock before this node's, in microseconds.
    ahead: AtomicI64,
    /// Batches and other things that need a number of their own.
    numbers: AtomicU64,
    /// Windows that have something to tell.
    news: Mutex<Vec<Place>>,
    /// Windows with a loan.
    loans: Mutex<Vec<Place>>,
    flush: Notify,
    /// Said when the process ends.
    leaving: CancellationToken,
    meters: Meters,
}

#[derive(Default)]
struct Shard {
    windows: HashMap<Place, Window>,
    next_cleaning: u64,
}

/// How decisions were made.
struct Meters {
    by_store: Counter,
    by_loan: Counter,
    alone: Counter,
}

impl RedisCounters {
    /// Waits until the server decides, or for this long; answers whether it does.
    pub async fn wait_until_shared(&self, at_most: Duration) -> bool {
        let ready = tokio::time::timeout(at_most, self.core.link.wait_until_ready());
        ready.await.is_ok()
    }

    /// Whether the server decides, and not this node by itself.
    pub fn is_shared(&self) -> bool {
        self.core.link.ready().is_some()
    }

    /// Nodes that were alive when the server was last heard of, this one included.
    pub fn nodes(&self) -> u64 {
        self.core.link.nodes()
    }

    /// Tells the server what it does not know yet, gives back what is lent, and signs off.
    pub async fn close(&self) {
        self.core.sign_off().await;
    }

    async fn decide(&self, place: Place, wanted: u64, limit: u64) -> Decision {
        let core = &self.core;
        let now = core.now();
        let by_loan = core.with(place, now, |window| {
            window.use_loan(place.kind, wanted, limit, now)
        });
        if let Some(decision) = by_loan {
            core.meters.by_loan.increment(1);
            return decision;
        }
        if let Some(open) = core.link.ready()
            && let Some(decision) = core.ask(&open, place, wanted, limit).await
        {
            core.meters.by_store.increment(1);
            return decision;
        }
        core.meters.alone.increment(1);
        let (now, share) = (core.now(), core.share(limit));
        core.with(place, now, |window| {
            let decision = window.decide_alone(place.kind, wanted, limit, share, now);
            core.list_locked(place, window);
            decision
        })
    }

    async fn peek_one(&self, place: Place, limit: u64) -> Decision {
        let core = &self.core;
        if let Some(open) = core.link.ready() {
            let now = core.now();
            let ask = core.with(place, now, |window| window.look(limit, now, || core.number()));
            if let Some(Answer::Told(told)) = core.put(&open, place, &ask).await {
                return core.with(place, now, |window| {
                    window.learn(place.kind, &ask, &told, limit, now)
                });
            }
        }
        let (now, share) = (core.now(), core.share(limit));
        core.with(place, now, |window| window.peek_alone(limit, share, now))
    }
}

impl Core {
    fn now(&self) -> Now {
        let here = self.clock.monotonic_micros();
        let there = here
            .cast_signed()
            .saturating_add(self.ahead.load(Ordering::Relaxed));
        Now {
            here,
            there: there.max(0).cast_unsigned(),
        }
    }

    fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A name that nothing else has.
    fn name(&self) -> String {
        format!("{}-{}", self.scripts.node(), self.number())
    }

    /// What this node may admit by itself.
    fn share(&self, limit: u64) -> u64 {
        (limit / self.link.nodes()).max(limit.min(1))
    }

    fn with<T>(&self, place: Place, now: Now, call: impl FnOnce(&mut Window) -> T) -> T {
        let mut shard = lock(&self.shards[shard_of(place.account)]);
        shard.clean(now);
        call(shard.windows.entry(place).or_default())
    }

    /// Has every window that is remembered changed in this way, and told to the store.
    fn each(&self, mut change: impl FnMut(&mut Window)) {
        for shard in &self.shards {
            let mut shard = lock(shard);
            for (place, window) in &mut shard.windows {
                change(window);
                self.list_locked(*place, window);
            }
        }
    }

    /// Notes that a window has something to tell.
    fn list(&self, place: Place) {
        let mut shard = lock(&self.shards[shard_of(place.account)]);
        if let Some(window) = shard.windows.get_mut(&place) {
            self.list_locked(place, window);
        }
    }

    fn list_locked(&self, place: Place, window: &mut Window) {
        if window.has_news() && !std::mem::replace(&mut window.listed, true) {
            lock(&self.news).push(place);
            self.flush.notify_one();
        }
    }

    /// Asks for a decision; nothing when there is none in time.
    async fn ask(&self, open: &Open, place: Place, wanted: u64, limit: u64) -> Option<Decision> {
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
    async fn put(&self, open: &Open, place: Place, ask: &Ask) -> Option<Answer> {
        let asked = self.now();
        let when = self.when();
        let pipeline = self.scripts.ask(place, ask, when, &self.name());
        let mut values = self.link.call(open, &self.scripts, &pipeline).await?.into_iter();
        let answer = Answer::read(values.next()?).ok()?;
        let (Answer::Told(script::Told { now, .. }) | Answer::Lost { now, .. } | Answer::Late { now }) =
            &answer;
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
    fn note_time(&self, there: u64, asked: Now) {
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

#[async_trait]
impl Counters for RedisCounters {
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision> {
        Ok(self.decide(requests(account, budget), 1, limit.into()).await)
    }

    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision> {
        let kind = Kind::Tokens;
        Ok(self.decide(Place { account, kind }, tokens, limit).await)
    }

    /// Never waits for the server.
    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()> {
        let kind = Kind::Tokens;
        let (place, now) = (Place { account, kind }, self.core.now());
        self.core.with(place, now, |window| {
            window.correct(reserved, used, now);
            self.core.list_locked(place, window);
        });
        Ok(())
    }

    async fn peek(
        &self,
        account: AccountId,
        budget: Budget,
        rpm: u32,
        tpm: u64,
    ) -> Result<(Decision, Decision)> {
        let kind = Kind::Tokens;
        let requests = self.peek_one(requests(account, budget), rpm.into());
        let tokens = self.peek_one(Place { account, kind }, tpm);
        Ok(futures_util::join!(requests, tokens))
    }
}

impl Meters {
    fn new() -> Self {
        let name = "tollgate_limit_decisions_total";
        metrics::describe_counter!(name, "Decisions by limits that nodes share, by who made them");
        Self {
            by_store: metrics::counter!(name, "by" => "store"),
            by_loan: metrics::counter!(name, "by" => "loan"),
            alone: metrics::counter!(name, "by" => "node"),
        }
    }
}

impl fmt::Debug for RedisCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCounters")
            .field("config", &self.core.config)
            .field("is_shared", &self.is_shared())
            .finish_non_exhaustive()
    }
}

fn requests(account: AccountId, budget: Budget) -> Place {
    let kind = match budget {
        Budget::Work => Kind::Work,
        Budget::Control => Kind::Control,
    };
    Place { account, kind }
}

fn unusable(error: ::redis::RedisError) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, Box::new(error))
}
