//! The connection to the store: one for all threads of the process, maintained by a separate task.
//! No request waits for a missing connection. A failing connection is dropped before many requests
//! have waited for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, Client, ErrorKind, InfoDict, Pipeline, RedisError, RedisResult, ServerErrorKind,
    Value, from_redis_value,
};
use arc_swap::ArcSwapOption;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::script::Scripts;

/// Timeout of a connection attempt, including its setup.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Consecutive query timeouts after which the connection is dropped. Concurrent queries count once:
/// a pause of the server is one timeout, no matter how many queries wait.
const MAX_MISSED: u32 = 3;

/// A connection and the known state of its store.
pub(super) struct OpenConnection {
    connection: MultiplexedConnection,
    number: u64,
    /// Name of the store's epoch; it changes when the store loses data.
    pub(super) epoch: String,
    /// Whether the store decides requests. Before that it only receives reports.
    pub(super) ready: bool,
}

/// Holder of the current connection, shared by all requests.
pub(super) struct Link {
    client: Client,
    decision_timeout: Duration,
    current: ArcSwapOption<OpenConnection>,
    missed: AtomicU32,
    /// Time of the last counted timeout, in microseconds since the start.
    missed_at: AtomicU64,
    start: Instant,
    connections: AtomicU64,
    nodes: AtomicU64,
    ready: watch::Sender<bool>,
    wake: Notify,
}

/// The reply to a heartbeat.
pub(super) struct Heartbeat {
    pub(super) epoch: String,
    /// Age of the epoch in microseconds.
    pub(super) age: u64,
    pub(super) nodes: u64,
    /// The store's time in microseconds.
    pub(super) now: u64,
}

impl Link {
    pub(super) fn new(client: Client, decision_timeout: Duration) -> Self {
        Self {
            client,
            decision_timeout,
            current: ArcSwapOption::empty(),
            missed: AtomicU32::new(0),
            missed_at: AtomicU64::new(0),
            start: Instant::now(),
            connections: AtomicU64::new(0),
            nodes: AtomicU64::new(0),
            ready: watch::Sender::new(false),
            wake: Notify::new(),
        }
    }

    /// Returns the connection, if any.
    pub(super) fn open(&self) -> Option<Arc<OpenConnection>> {
        self.current.load_full()
    }

    /// Returns the connection, if the store decides requests.
    pub(super) fn ready(&self) -> Option<Arc<OpenConnection>> {
        self.open().filter(|open| open.ready)
    }

    /// Waits until the store decides requests.
    pub(super) async fn wait_until_ready(&self) {
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Returns the number of nodes that were alive at the last contact with the store, including
    /// this one.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed).max(1)
    }

    /// Runs a query with the timeout of a decision. Returns `None` if the query fails or times out.
    pub(super) async fn call(
        &self,
        open: &OpenConnection,
        scripts: &Scripts,
        pipeline: &Pipeline,
    ) -> Option<Vec<Value>> {
        let mut connection = open.connection.clone();
        let asked = self.elapsed();
        match timeout(self.decision_timeout, query(&mut connection, scripts, pipeline)).await {
            Ok(Ok(values)) => {
                self.missed.store(0, Ordering::Relaxed);
                Some(values)
            }
            Ok(Err(error)) => {
                self.drop_connection(open, &error.to_string());
                None
            }
            Err(_) => {
                self.record_timeout(open, asked);
                None
            }
        }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Counts the timeout of a query that was sent at `asked`.
    fn record_timeout(&self, open: &OpenConnection, asked: u64) {
        if asked < self.missed_at.load(Ordering::Relaxed) {
            return;
        }
        self.missed_at.store(self.elapsed(), Ordering::Relaxed);
        if self.missed.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_MISSED {
            self.drop_connection(open, "Redis did not respond in time");
        }
    }

    /// Drops this connection, if it is the current one.
    fn drop_connection(&self, open: &OpenConnection, reason: &str) {
        if self.open().is_some_and(|current| current.number == open.number) {
            self.close(reason);
            self.wake.notify_one();
        }
    }

    /// Drops the current connection.
    pub(super) fn close(&self, reason: &str) {
        if self.current.swap(None).is_some_and(|open| open.ready) {
            let nodes = self.nodes();
            tracing::warn!(
                nodes,
                "lost the connection to Redis; this node enforces its share of the limits: {reason}"
            );
        }
        self.missed.store(0, Ordering::Relaxed);
        self.ready.send_replace(false);
    }

    /// Records that the store reported another epoch. The store decides no requests until the task
    /// has checked the epoch.
    pub(super) fn mark_stale(&self, open: &OpenConnection) {
        if self
            .open()
            .is_some_and(|current| current.number == open.number && current.ready)
        {
            self.publish(&open.connection, open.number, open.epoch.clone(), false);
            self.wake.notify_one();
        }
    }

    /// Makes this the current connection.
    pub(super) fn publish(
        &self,
        connection: &MultiplexedConnection,
        number: u64,
        epoch: String,
        ready: bool,
    ) {
        let before = self.open();
        let same =
            |open: &Arc<OpenConnection>| open.number == number && open.epoch == epoch && open.ready == ready;
        if before.as_ref().is_some_and(same) {
            return;
        }
        if ready {
            tracing::info!("limits are shared through Redis");
        } else if before.is_some_and(|open| open.ready) {
            tracing::warn!(
                "Redis lost its data; this node enforces its share of the limits until all nodes report again"
            );
        }
        let connection = connection.clone();
        self.current.store(Some(Arc::new(OpenConnection {
            connection,
            number,
            epoch,
            ready,
        })));
        self.ready.send_replace(ready);
    }

    /// Stores the number of live nodes. Until the store is ready, the number only increases,
    /// because some nodes may not have reported yet.
    pub(super) fn note_nodes(&self, nodes: u64, ready: bool) {
        if ready {
            self.nodes.store(nodes, Ordering::Relaxed);
        } else {
            self.nodes.fetch_max(nodes, Ordering::Relaxed);
        }
    }

    /// Whether this connection was dropped.
    pub(super) fn is_dropped(&self, number: u64) -> bool {
        self.open().is_none_or(|open| open.number != number)
    }

    /// Waits until the connection is dropped or marked stale.
    pub(super) async fn wait_for_change(&self) {
        self.wake.notified().await;
    }

    /// Opens a connection and loads the scripts. Returns the connection, its number, and the run id
    /// of the server, which is empty if unknown.
    pub(super) async fn connect(
        &self,
        scripts: &Scripts,
    ) -> RedisResult<(MultiplexedConnection, u64, String)> {
        let connecting = async {
            let mut connection = connect(&self.client).await?;
            load(&mut connection, scripts).await?;
            let run = server_info(&mut connection)
                .await
                .ok()
                .and_then(|info| info.get("run_id"));
            Ok((connection, run.unwrap_or_default()))
        };
        let (connection, run) = with_timeout(CONNECT_TIMEOUT, connecting).await?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((connection, number, run))
    }

    /// Sends a heartbeat.
    pub(super) async fn heartbeat(
        &self,
        connection: &mut MultiplexedConnection,
        scripts: &Scripts,
        pipeline: &Pipeline,
    ) -> RedisResult<Heartbeat> {
        let answer = with_timeout(self.decision_timeout, query(connection, scripts, pipeline)).await?;
        let answer = answer.into_iter().next().unwrap_or(Value::Nil);
        let (epoch, age, nodes, now) = from_redis_value(answer)?;
        Ok(Heartbeat {
            epoch,
            age,
            nodes,
            now,
        })
    }
}

/// Opens a connection without timeouts; callers set their own.
async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

async fn with_timeout<T>(time: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let timed_out = |_| {
        RedisError::from(io::Error::new(
            io::ErrorKind::TimedOut,
            "Redis did not respond in time",
        ))
    };
    timeout(time, work).await.map_err(timed_out)?
}

async fn load(connection: &mut MultiplexedConnection, scripts: &Scripts) -> RedisResult<()> {
    for script in scripts.all() {
        script.load_async(connection).await?;
    }
    Ok(())
}

async fn query(
    connection: &mut MultiplexedConnection,
    scripts: &Scripts,
    pipeline: &Pipeline,
) -> RedisResult<Vec<Value>> {
    match pipeline.query_async(connection).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            load(connection, scripts).await?;
            pipeline.query_async(connection).await
        }
        answer => answer,
    }
}

async fn server_info(connection: &mut MultiplexedConnection) -> RedisResult<InfoDict> {
    ::redis::cmd("INFO")
        .arg("everything")
        .query_async(connection)
        .await
}

/// Properties of a probed server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Server version, if reported.
    pub version: Option<String>,
    /// Whether the server evicts keys when its memory is full; `None` if not reported.
    pub evicts: Option<bool>,
}

/// Connects, loads the scripts and returns the properties of the server.
pub(super) async fn probe(client: &Client, scripts: &Scripts) -> RedisResult<ServerInfo> {
    let probing = async {
        let mut connection = connect(client).await?;
        load(&mut connection, scripts).await?;
        let info = server_info(&mut connection).await.ok();
        let of = |name: &str| info.as_ref().and_then(|info| info.get::<String>(name));
        Ok(ServerInfo {
            version: of("valkey_version").or_else(|| of("redis_version")),
            evicts: of("maxmemory_policy").map(|policy| policy != "noeviction"),
        })
    };
    with_timeout(CONNECT_TIMEOUT, probing).await
}
