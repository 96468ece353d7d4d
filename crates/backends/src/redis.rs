//! [`Counters`] shared by several nodes, in Redis or Valkey.
//!
//! The server makes a decision with one script, by its own clock. Under limits of at least 3,000
//! per minute, a node borrows a part of the limit for one second, so that most requests need no
//! round trip. A loan counts until at least a minute after its last possible use, so that all nodes
//! together never exceed the limit in any minute. Corrections are sent in numbered batches, so that
//! a batch is applied only once even if its reply is lost.
//!
//! While the server is unavailable, each node decides locally: it divides the limit by the number
//! of nodes that were alive, and its earlier counts still apply. It reports its counts as soon as
//! the server is available again. A server that lost its data starts a new epoch. The nodes then
//! resend their counts, and decide locally for [`RedisConfig::settle`].
//!
//! Suggested reading order: window.lua, [`window`], [`RedisCounters`], [`node`], [`connection`].

mod connection;
mod link;
mod local_window;
mod node;
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
use script::{Answer, Kind, Scripts, WindowKey};

pub use link::ServerInfo;

/// Settings of shared counters: connection, key prefix and timeouts.
#[derive(Clone)]
pub struct RedisConfig {
    /// `redis://user:password@host:port/database`, or `rediss://` with TLS. Contains a secret.
    pub url: String,
    /// Prefix of every key. Installations with different prefixes share no counts.
    pub prefix: String,
    /// Number of this node, unique among the nodes of the installation.
    pub node: u64,
    /// Timeout of a decision by the server. After the timeout, the node decides locally.
    pub decision_timeout: Duration,
    /// Time for which nodes decide locally after the server was unavailable or lost its data, so
    /// that all nodes can report their counts. Nodes check the server every half second.
    pub settle: Duration,
    /// The clock that measures the windows.
    pub time: TimeSource,
}

/// The clock that measures the windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSource {
    /// The server's clock.
    Server,
    /// The monotonic time of the clock given to the counters, which all nodes must share. For
    /// tests.
    Local,
}

impl RedisConfig {
    /// Returns settings for the server at this URL, with the prefix `tollgate`, 50 ms for a
    /// decision and 1.5 s to settle.
    pub fn new(url: impl Into<String>, node: u64) -> Self {
        Self {
            url: url.into(),
            prefix: "tollgate".to_owned(),
            node,
            decision_timeout: Duration::from_millis(50),
            settle: Duration::from_millis(1_500),
            time: TimeSource::Server,
        }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("prefix", &self.prefix)
            .field("node", &self.node)
            .field("decision_timeout", &self.decision_timeout)
            .field("settle", &self.settle)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

/// Checks a server URL. The error contains no part of the URL.
pub fn check_url(url: &str) -> std::result::Result<(), &'static str> {
    const SCHEMES: [&str; 2] = ["redis://", "rediss://"];
    let known = SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if known && url.into_connection_info().is_ok() {
        return Ok(());
    }
    Err("write redis://user:password@host:6379/0, or rediss:// for TLS")
}

/// Connects to a server and loads the scripts, with a timeout of two seconds.
///
/// Returns `Unavailable` if this fails.
pub async fn probe(url: &str) -> Result<ServerInfo> {
    let client = Client::open(url).map_err(unusable)?;
    let scripts = Scripts::new("", String::new());
    link::probe(&client, &scripts).await.map_err(unusable)
}

/// Creates counters and connects to the server in the background. While the server is unavailable,
/// the node decides locally and retries the connection. The counters can be created and used from
/// any number of runtimes.
///
/// Returns `Unavailable` if the URL is invalid or the background thread cannot start.
pub fn open(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<RedisCounters> {
    let client = Client::open(config.url.as_str()).map_err(unusable)?;
    let node = Arc::new(Node::new(config, client, clock));
    let stop = connection::start(&node)?;
    let meters = Meters::new();
    Ok(RedisCounters {
        node,
        meters,
        _stop: stop,
    })
}

/// Sliding windows of one minute, shared by several nodes.
pub struct RedisCounters {
    node: Arc<Node>,
    meters: Meters,
    /// Sender whose drop ends the connection's thread.
    _stop: oneshot::Sender<()>,
}

/// Number of decisions, by the component that decided.
struct Meters {
    by_store: Counter,
    by_loan: Counter,
    alone: Counter,
}

impl RedisCounters {
    /// Waits for at most `max_wait` until the server decides. Returns whether it does.
    pub async fn wait_until_shared(&self, max_wait: Duration) -> bool {
        let ready = tokio::time::timeout(max_wait, self.node.link.wait_until_ready());
        ready.await.is_ok()
    }

    /// Whether the server decides, rather than this node.
    pub fn is_shared(&self) -> bool {
        self.node.link.ready().is_some()
    }

    /// Returns the number of nodes that were alive at the last contact with the server, including
    /// this one.
    pub fn nodes(&self) -> u64 {
        self.node.link.nodes()
    }

    /// Sends unreported changes, returns loans and removes this node from the list of nodes.
    pub async fn close(&self) {
        self.node.sign_off().await;
    }

    async fn decide(&self, key: WindowKey, wanted: u64, limit: u64) -> Decision {
        let node = &self.node;
        let now = node.now();
        let by_loan = node.with(key, now, |window| window.use_loan(key.kind, wanted, limit, now));
        if let Some(decision) = by_loan {
            self.meters.by_loan.increment(1);
            return decision;
        }
        if let Some(open) = node.link.ready()
            && let Some(decision) = node.ask(&open, key, wanted, limit).await
        {
            self.meters.by_store.increment(1);
            return decision;
        }
        self.meters.alone.increment(1);
        let (now, share) = (node.now(), node.share(limit));
        node.with(key, now, |window| {
            let decision = window.decide_locally(key.kind, wanted, limit, share, now);
            node.queue_report_locked(key, window);
            decision
        })
    }

    async fn peek_one(&self, key: WindowKey, limit: u64) -> Decision {
        let node = &self.node;
        if let Some(open) = node.link.ready() {
            let now = node.now();
            let ask = node.with(key, now, |window| window.probe(limit, now, || node.number()));
            if let Some(Answer::StoreReply(reply)) = node.send_query(&open, key, &ask).await {
                return node.with(key, now, |window| {
                    window.apply_reply(key.kind, &ask, &reply, limit, now)
                });
            }
        }
        let (now, share) = (node.now(), node.share(limit));
        node.with(key, now, |window| window.peek_locally(limit, share, now))
    }
}

#[async_trait]
impl Counters for RedisCounters {
    async fn admit(&self, account: AccountId, budget: Budget, limit: u32) -> Result<Decision> {
        Ok(self.decide(requests(account, budget), 1, limit.into()).await)
    }

    async fn reserve(&self, account: AccountId, tokens: u64, limit: u64) -> Result<Decision> {
        let kind = Kind::Tokens;
        Ok(self.decide(WindowKey { account, kind }, tokens, limit).await)
    }

    /// Queues the correction for the server and returns without waiting.
    async fn correct(&self, account: AccountId, reserved: u64, used: u64) -> Result<()> {
        let kind = Kind::Tokens;
        let (key, now) = (WindowKey { account, kind }, self.node.now());
        self.node.with(key, now, |window| {
            window.correct(reserved, used, now);
            self.node.queue_report_locked(key, window);
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
        let tokens = self.peek_one(WindowKey { account, kind }, tpm);
        Ok(futures_util::join!(requests, tokens))
    }
}

impl Meters {
    fn new() -> Self {
        let name = "tollgate_limit_decisions_total";
        metrics::describe_counter!(name, "Decisions about shared limits, by deciding component");
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

fn requests(account: AccountId, budget: Budget) -> WindowKey {
    let kind = match budget {
        Budget::Work => Kind::Work,
        Budget::Control => Kind::Control,
    };
    WindowKey { account, kind }
}

fn unusable(error: ::redis::RedisError) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, Box::new(error))
}
