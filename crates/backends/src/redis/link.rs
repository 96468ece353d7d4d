//! The connection to the store: one for all threads of the process, kept by a task of its own. Nobody waits for one that
//! is not there, and one that fails is left before many have waited for it.

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

/// How long it may take until a connection stands and is ready for use.
const CONNECTING: Duration = Duration::from_secs(2);
/// Questions in a row without an answer in time after which the connection is left. Of those that wait at once one
/// counts: a pause of the server is one pause, however many wait for its end.
const MISSED: u32 = 3;

/// A connection, and what is known of the store behind it.
pub(super) struct Open {
    connection: MultiplexedConnection,
    number: u64,
    /// The time since the store last lost something, by its name.
    pub(super) epoch: String,
    /// Whether requests are decided by it. Before that it is only told things.
    pub(super) ready: bool,
}

/// Where requests find the connection.
pub(super) struct Link {
    client: Client,
    patience: Duration,
    current: ArcSwapOption<Open>,
    missed: AtomicU32,
    /// When the last of them was given up, in microseconds from the start.
    missed_at: AtomicU64,
    start: Instant,
    connections: AtomicU64,
    nodes: AtomicU64,
    ready: watch::Sender<bool>,
    wake: Notify,
}

/// What a sign of life is answered with.
pub(super) struct Beat {
    pub(super) epoch: String,
    /// Microseconds.
    pub(super) age: u64,
    pub(super) nodes: u64,
    /// The store's time in microseconds.
    pub(super) now: u64,
}

impl Link {
    pub(super) fn new(client: Client, patience: Duration) -> Self {
        Self {
            client,
            patience,
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

    /// The connection, when there is one.
    pub(super) fn open(&self) -> Option<Arc<Open>> {
        self.current.load_full()
    }

    /// The connection, when requests are decided by it.
    pub(super) fn ready(&self) -> Option<Arc<Open>> {
        self.open().filter(|open| open.ready)
    }

    /// Waits until requests are decided by the store.
    pub(super) async fn wait_until_ready(&self) {
        let _ = self.ready.subscribe().wait_for(|ready| *ready).await;
    }

    /// Nodes that were alive when the store was last heard of, this one included.
    pub(super) fn nodes(&self) -> u64 {
        self.nodes.load(Ordering::Relaxed).max(1)
    }

    /// Asks something, and waits no longer than a request may wait.
    pub(super) async fn call(
        &self,
        open: &Open,
        scripts: &Scripts,
        pipeline: &Pipeline,
    ) -> Option<Vec<Value>> {
        let mut connection = open.connection.clone();
        let asked = self.elapsed();
        match timeout(self.patience, query(&mut connection, scripts, pipeline)).await {
            Ok(Ok(values)) => {
                self.missed.store(0, Ordering::Relaxed);
                Some(values)
            }
            Ok(Err(error)) => {
                self.leave(open, &error.to_string());
                None
            }
            Err(_) => {
                self.miss(open, asked);
                None
            }
        }
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A question was given up that was asked then.
    fn miss(&self, open: &Open, asked: u64) {
        if asked < self.missed_at.load(Ordering::Relaxed) {
            return;
        }
        self.missed_at.store(self.elapsed(), Ordering::Relaxed);
        if self.missed.fetch_add(1, Ordering::Relaxed) + 1 >= MISSED {
            self.leave(open, "it does not answer in time");
        }
    }

    /// Lets nobody use this connection any more.
    fn leave(&self, open: &Open, reason: &str) {
        if self.open().is_some_and(|current| current.number == open.number) {
            self.close(reason);
            self.wake.notify_one();
        }
    }

    /// Takes the connection away.
    pub(super) fn close(&self, reason: &str) {
        if self.current.swap(None).is_some_and(|open| open.ready) {
            let nodes = self.nodes();
            tracing::warn!(
                nodes,
                "Redis is left, and limits are counted here, by this node's share of them: {reason}"
            );
        }
        self.missed.store(0, Ordering::Relaxed);
        self.ready.send_replace(false);
    }

    /// The store has another epoch than is known: requests are not decided by it until that is looked into.
    pub(super) fn doubt(&self, open: &Open) {
        if self
            .open()
            .is_some_and(|current| current.number == open.number && current.ready)
        {
            self.publish(&open.connection, open.number, open.epoch.clone(), false);
            self.wake.notify_one();
        }
    }

    /// Makes the connection the one that is used.
    pub(super) fn publish(
        &self,
        connection: &MultiplexedConnection,
        number: u64,
        epoch: String,
        ready: bool,
    ) {
        let before = self.open();
        let same = |open: &Arc<Open>| open.number == number && open.epoch == epoch && open.ready == ready;
        if before.as_ref().is_some_and(same) {
            return;
        }
        if ready {
            tracing::info!("limits are shared through Redis");
        } else if before.is_some_and(|open| open.ready) {
            tracing::warn!(
                "Redis has lost what it had, and limits are counted here until all nodes have told it again"
            );
        }
        let connection = connection.clone();
        self.current.store(Some(Arc::new(Open {
            connection,
            number,
            epoch,
            ready,
        })));
        self.ready.send_replace(ready);
    }

    /// Notes how many nodes are alive. While the store is being told, some of them may not be there yet.
    pub(super) fn note_nodes(&self, nodes: u64, ready: bool) {
        if ready {
            self.nodes.store(nodes, Ordering::Relaxed);
        } else {
            self.nodes.fetch_max(nodes, Ordering::Relaxed);
        }
    }

    /// Whether this connection was left.
    pub(super) fn is_left(&self, number: u64) -> bool {
        self.open().is_none_or(|open| open.number != number)
    }

    /// Until somebody leaves or doubts the connection.
    pub(super) async fn disturbed(&self) {
        self.wake.notified().await;
    }

    /// A new connection, with its number, with the scripts in place, and the name of the server's run if it tells.
    pub(super) async fn connect(
        &self,
        scripts: &Scripts,
    ) -> RedisResult<(MultiplexedConnection, u64, String)> {
        let connecting = async {
            let mut connection = connect(&self.client).await?;
            load(&mut connection, scripts).await?;
            let run = server_of(&mut connection)
                .await
                .ok()
                .and_then(|info| info.get("run_id"));
            Ok((connection, run.unwrap_or_default()))
        };
        let (connection, run) = in_time(CONNECTING, connecting).await?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((connection, number, run))
    }

    /// Gives a sign of life.
    pub(super) async fn beat(
        &self,
        connection: &mut MultiplexedConnection,
        scripts: &Scripts,
        pipeline: &Pipeline,
    ) -> RedisResult<Beat> {
        let answer = in_time(self.patience, query(connection, scripts, pipeline)).await?;
        let answer = answer.into_iter().next().unwrap_or(Value::Nil);
        let (epoch, age, nodes, now) = from_redis_value(answer)?;
        Ok(Beat {
            epoch,
            age,
            nodes,
            now,
        })
    }
}

/// A connection whose time-outs are the caller's affair.
async fn connect(client: &Client) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    client.get_multiplexed_async_connection_with_config(&config).await
}

async fn in_time<T>(time: Duration, work: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
    let late = |_| {
        RedisError::from(io::Error::new(
            io::ErrorKind::TimedOut,
            "it does not answer in time",
        ))
    };
    timeout(time, work).await.map_err(late)?
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

async fn server_of(connection: &mut MultiplexedConnection) -> RedisResult<InfoDict> {
    ::redis::cmd("INFO")
        .arg("everything")
        .query_async(connection)
        .await
}

/// What a look at a server found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFound {
    /// Its version, if it tells.
    pub version: Option<String>,
    /// Whether it throws things away when its memory is full; nothing when it does not tell.
    pub evicts: Option<bool>,
}

/// Connects and tries whether limits can be counted there.
pub(super) async fn look(client: &Client, scripts: &Scripts) -> RedisResult<ServerFound> {
    let looking = async {
        let mut connection = connect(client).await?;
        load(&mut connection, scripts).await?;
        let info = server_of(&mut connection).await.ok();
        let of = |name: &str| info.as_ref().and_then(|info| info.get::<String>(name));
        Ok(ServerFound {
            version: of("valkey_version").or_else(|| of("redis_version")),
            evicts: of("maxmemory_policy").map(|policy| policy != "noeviction"),
        })
    };
    in_time(CONNECTING, looking).await
}
