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
//! Suggested reading order: window.lua, [`window`], [`RedisCounters`], [`node`], [`keep`].

mod keep;
mod link;
mod node;
mod own;
mod script;
mod window;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Client, IntoConnectionInfo};
use async_trait::async_trait;
use metrics::Counter;
use tokio::sync::oneshot;
use tollgate_storage::{Budget, Counters, Decision, Result, StorageError, StorageErrorKind};
use tollgate_types::{AccountId, Clock};

use node::Node;
use script::{Answer, Kind, Place, Scripts};

pub use link::ServerFound;

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
    let node = Arc::new(Node::new(config, client, clock));
    let stop = keep::start(&node)?;
    let meters = Meters::new();
    Ok(RedisCounters {
        node,
        meters,
        _stop: stop,
    })
}

/// Windows of one minute that several nodes share.
pub struct RedisCounters {
    node: Arc<Node>,
    meters: Meters,
    /// Dropped with the counters, which ends the thread that keeps the connection.
    _stop: oneshot::Sender<()>,
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
        let ready = tokio::time::timeout(at_most, self.node.link.wait_until_ready());
        ready.await.is_ok()
    }

    /// Whether the server decides, and not this node by itself.
    pub fn is_shared(&self) -> bool {
        self.node.link.ready().is_some()
    }

    /// Nodes that were alive when the server was last heard of, this one included.
    pub fn nodes(&self) -> u64 {
        self.node.link.nodes()
    }

    /// Tells the server what it does not know yet, gives back what is lent, and signs off.
    pub async fn close(&self) {
        self.node.sign_off().await;
    }

    async fn decide(&self, place: Place, wanted: u64, limit: u64) -> Decision {
        let node = &self.node;
        let now = node.now();
        let by_loan = node.with(place, now, |window| {
            window.use_loan(place.kind, wanted, limit, now)
        });
        if let Some(decision) = by_loan {
            self.meters.by_loan.increment(1);
            return decision;
        }
        if let Some(open) = node.link.ready()
            && let Some(decision) = node.ask(&open, place, wanted, limit).await
        {
            self.meters.by_store.increment(1);
            return decision;
        }
        self.meters.alone.increment(1);
        let (now, share) = (node.now(), node.share(limit));
        node.with(place, now, |window| {
            let decision = window.decide_alone(place.kind, wanted, limit, share, now);
            node.list_locked(place, window);
            decision
        })
    }

    async fn peek_one(&self, place: Place, limit: u64) -> Decision {
        let node = &self.node;
        if let Some(open) = node.link.ready() {
            let now = node.now();
            let ask = node.with(place, now, |window| window.look(limit, now, || node.number()));
            if let Some(Answer::Told(told)) = node.put(&open, place, &ask).await {
                return node.with(place, now, |window| {
                    window.learn(place.kind, &ask, &told, limit, now)
                });
            }
        }
        let (now, share) = (node.now(), node.share(limit));
        node.with(place, now, |window| window.peek_alone(limit, share, now))
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
        let (place, now) = (Place { account, kind }, self.node.now());
        self.node.with(place, now, |window| {
            window.correct(reserved, used, now);
            self.node.list_locked(place, window);
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
            .field("config", &self.node.config)
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
