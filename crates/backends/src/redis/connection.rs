//! The task that maintains the connection and reports counts in the background. It runs on a
//! separate runtime: a connection belongs to the runtime that opened it, and callers' runtimes
//! start and stop.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Pipeline, RedisResult};
use futures_util::future::join_all;
use metrics::gauge;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tollgate_storage::{Result, StorageError, StorageErrorKind};

use super::TimeSource;
use super::link::{Heartbeat, OpenConnection};
use super::node::Node;
use super::script::{Answer, WindowKey};
use super::window::Window;
use crate::memory::{lock, shard_of};

/// Interval between heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Time without a heartbeat after which a node counts as dead, in microseconds.
const NODE_TTL_MICROS: u64 = 5_000_000;
/// Pause between connection attempts.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(250);
/// Consecutive heartbeats without a reply after which the connection is dropped.
const MAX_MISSED: u32 = 3;
/// Delay of a report, to collect changes.
const FLUSH_DELAY: Duration = Duration::from_millis(10);
/// Interval between checks for expired loans.
const LOAN_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of concurrent reports.
const MAX_CONCURRENT_REPORTS: usize = 64;
/// Timeout of [`Node::sign_off`].
const SIGN_OFF_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the thread of the connection. The thread ends when the returned sender is dropped.
pub(super) fn start(node: &Arc<Node>) -> Result<oneshot::Sender<()>> {
    let unavailable = |error| StorageError::new(StorageErrorKind::Unavailable, Box::new(error));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unavailable)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let node = node.clone();
    let maintain_connection = move || {
        runtime.block_on(async {
            tokio::select! {
                () = node.run_until_shutdown() => {}
                () = node.report() => {}
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("redis".to_owned());
    thread.spawn(maintain_connection).map_err(unavailable)?;
    Ok(stop)
}

/// State carried over from one connection to the next.
#[derive(Default)]
struct ConnectionHistory {
    run: String,
    epoch: String,
}

impl Node {
    /// Maintains the connection until shutdown. Afterwards this node sends no heartbeats, so that
    /// it does not count as alive any longer. Never returns.
    async fn run_until_shutdown(&self) {
        tokio::select! {
            () = self.maintain_connection() => {}
            () = self.shutdown.cancelled() => std::future::pending().await,
        }
    }

    /// Connects to the store, and reconnects when the connection ends.
    async fn maintain_connection(&self) {
        let (up, nodes) = (gauge!("tollgate_limit_store_up"), gauge!("tollgate_limit_nodes"));
        metrics::describe_gauge!("tollgate_limit_store_up", "1 while Redis decides limits, else 0");
        metrics::describe_gauge!(
            "tollgate_limit_nodes",
            "Number of nodes that share limits, as last reported by Redis"
        );
        up.set(0);
        let (mut history, mut reason) = (ConnectionHistory::default(), String::new());
        loop {
            let observe = |ready: bool| {
                up.set(f64::from(u8::from(ready)));
                nodes.set(f64::from(u32::try_from(self.link.nodes()).unwrap_or(u32::MAX)));
            };
            let Err(error) = self.serve_connection(&mut history, observe).await else {
                continue;
            };
            observe(false);
            let error = error.to_string();
            self.link.close(&error);
            // The reason is logged once, not for each attempt.
            if reason != error {
                tracing::warn!("cannot use Redis; this node enforces its share of the limits: {error}");
                reason = error;
            }
            sleep(RECONNECT_INTERVAL).await;
        }
    }

    /// Maintains one connection until it is dropped (`Ok`) or fails.
    async fn serve_connection(
        &self,
        history: &mut ConnectionHistory,
        observe: impl Fn(bool),
    ) -> RedisResult<()> {
        let (mut connection, number, run) = self.link.connect(&self.scripts).await?;
        let known = !history.epoch.is_empty();
        // A restarted server may have restored old data, with its old epoch.
        let restarted = known && run != history.run;
        let ended = if restarted {
            history.epoch.clone()
        } else {
            String::new()
        };
        history.run = run;
        let mut settled = known.then(|| Instant::now() + self.config.settle);
        let mut missed = 0;
        loop {
            let asked = self.now();
            let heartbeat = match self.heartbeat(&mut connection, &ended).await {
                Ok(heartbeat) => heartbeat,
                Err(error) if missed + 1 >= MAX_MISSED || !error.is_timeout() => return Err(error),
                Err(_) => {
                    missed += 1;
                    continue;
                }
            };
            missed = 0;
            self.note_time(heartbeat.now, asked);
            if heartbeat.epoch != history.epoch {
                if !history.epoch.is_empty() {
                    self.for_each_window(Window::resend_all);
                }
                if !history.epoch.is_empty() || Duration::from_micros(heartbeat.age) < self.config.settle {
                    settled = Some(Instant::now() + self.config.settle);
                }
                history.epoch.clone_from(&heartbeat.epoch);
            }
            let left = settled.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            let ready = left.is_zero();
            self.link.note_nodes(heartbeat.nodes, ready);
            self.link.publish(&connection, number, heartbeat.epoch, ready);
            self.flush.notify_one();
            observe(ready);
            let pause = if ready {
                HEARTBEAT_INTERVAL
            } else {
                HEARTBEAT_INTERVAL.min(left)
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.link.wait_for_change() => {}
            }
            if self.link.is_dropped(number) {
                return Ok(());
            }
        }
    }

    async fn heartbeat(&self, connection: &mut MultiplexedConnection, ended: &str) -> RedisResult<Heartbeat> {
        let now = match self.config.time {
            TimeSource::Server => 0,
            TimeSource::Local => self.clock.monotonic_micros(),
        };
        let pipeline = self.scripts.heartbeat(now, ended, &self.name(), NODE_TTL_MICROS);
        self.link.heartbeat(connection, &self.scripts, &pipeline).await
    }

    /// Ends expired loans, and reports changes while there is a connection. Never returns.
    async fn report(&self) {
        loop {
            tokio::select! {
                () = self.flush.notified() => sleep(FLUSH_DELAY).await,
                () = sleep(LOAN_CHECK_INTERVAL) => {}
            }
            self.end_loans(false);
            if let Some(open) = self.link.open() {
                self.report_all(&open).await;
            }
        }
    }

    /// Ends expired loans, or all loans, and queues the return of their unused parts.
    fn end_loans(&self, all: bool) {
        let mut loans = std::mem::take(&mut *lock(&self.loans));
        let now = self.now();
        loans.retain(|key| {
            let mut shard = lock(&self.shards[shard_of(key.account)]);
            let Some(window) = shard.windows.get_mut(key) else {
                return false;
            };
            if all {
                window.end_loan();
            }
            let over = window.end_loan_if_over(now);
            self.queue_report_locked(*key, window);
            !over
        });
        lock(&self.loans).extend(loans);
    }

    async fn report_all(&self, open: &OpenConnection) {
        let places = std::mem::take(&mut *lock(&self.unreported));
        for some in places.chunks(MAX_CONCURRENT_REPORTS) {
            join_all(some.iter().map(|key| self.report_one(open, *key))).await;
        }
    }

    async fn report_one(&self, open: &OpenConnection, key: WindowKey) {
        loop {
            let now = self.now();
            let ask = {
                let mut shard = lock(&self.shards[shard_of(key.account)]);
                let Some(window) = shard.windows.get_mut(&key) else {
                    return;
                };
                window.is_queued = false;
                if !window.has_unreported() {
                    return;
                }
                window.report(now, || self.number())
            };
            match self.send_query(open, key, &ask).await {
                Some(Answer::StoreReply(reply)) => {
                    self.with(key, now, |window| window.apply_report_reply(&ask, &reply));
                }
                Some(Answer::Lost { generation, .. }) => {
                    self.with(key, now, |window| window.mark_lost(generation))
                }
                Some(Answer::Late { .. }) | None => {
                    self.queue_report(key);
                    return;
                }
            }
        }
    }

    /// Reports remaining changes and removes this node from the list of live nodes.
    pub(super) async fn sign_off(&self) {
        self.shutdown.cancel();
        let Some(open) = self.link.open() else { return };
        let shutdown = async {
            self.end_loans(true);
            self.report_all(&open).await;
            let mut pipeline = Pipeline::new();
            pipeline
                .cmd("ZREM")
                .arg(self.scripts.nodes_key())
                .arg(self.scripts.node());
            self.link.call(&open, &self.scripts, &pipeline).await
        };
        let _ = tokio::time::timeout(SIGN_OFF_TIMEOUT, shutdown).await;
    }
}
