//! The task that keeps the connection and tells the store what requests do not wait for, on a runtime of its own: the
//! connection belongs to the runtime that opened it, and the servers' workers come and go by themselves.

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

use super::Time;
use super::link::{Beat, Open};
use super::node::Node;
use super::script::{Answer, Place};
use super::window::Window;
use crate::memory::{lock, shard_of};

/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(500);
/// How long a node that is not heard of counts as alive, in microseconds.
const ALIVE: u64 = 5_000_000;
/// Between two attempts to reach the store.
const AGAIN: Duration = Duration::from_millis(250);
/// Signs of life in a row without an answer after which the connection is left.
const MISSED: u32 = 3;
/// How long changes are gathered before they are told.
const GATHERING: Duration = Duration::from_millis(10);
/// Between two looks for loans that are over.
const LOOKING: Duration = Duration::from_millis(250);
/// Windows that are told about at once.
const AT_ONCE: usize = 64;
/// How long signing off may take.
const SIGNING_OFF: Duration = Duration::from_secs(1);

/// Starts the thread. It ends when the sender is dropped.
pub(super) fn start(node: &Arc<Node>) -> Result<oneshot::Sender<()>> {
    let unavailable = |error| StorageError::new(StorageErrorKind::Unavailable, Box::new(error));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(unavailable)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let node = node.clone();
    let keep = move || {
        runtime.block_on(async {
            tokio::select! {
                () = node.keep_until_leaving() => {}
                () = node.tell() => {}
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("redis".to_owned());
    thread.spawn(keep).map_err(unavailable)?;
    Ok(stop)
}

/// What is remembered from one connection to the next.
#[derive(Default)]
struct Past {
    run: String,
    epoch: String,
}

impl Node {
    /// A node that leaves gives no sign of life any more, and is alive no longer than it must be.
    async fn keep_until_leaving(&self) {
        tokio::select! {
            () = self.keep() => {}
            () = self.leaving.cancelled() => std::future::pending().await,
        }
    }

    /// Looks for the store until it is there, and again when it is gone.
    async fn keep(&self) {
        let (up, nodes) = (gauge!("tollgate_limit_store_up"), gauge!("tollgate_limit_nodes"));
        metrics::describe_gauge!("tollgate_limit_store_up", "Whether limits are decided by Redis");
        metrics::describe_gauge!(
            "tollgate_limit_nodes",
            "Nodes that share limits, as Redis last knew them"
        );
        up.set(0);
        let (mut past, mut reason) = (Past::default(), String::new());
        loop {
            let observe = |ready: bool| {
                up.set(f64::from(u8::from(ready)));
                nodes.set(f64::from(u32::try_from(self.link.nodes()).unwrap_or(u32::MAX)));
            };
            let Err(error) = self.attend(&mut past, observe).await else {
                continue;
            };
            observe(false);
            let error = error.to_string();
            self.link.close(&error);
            // Said once, and not at each attempt.
            if reason != error {
                tracing::warn!("limits cannot be shared: Redis cannot be used: {error}");
                reason = error;
            }
            sleep(AGAIN).await;
        }
    }

    /// Keeps one connection until it is left (`Ok`) or fails.
    async fn attend(&self, past: &mut Past, observe: impl Fn(bool)) -> RedisResult<()> {
        let (mut connection, number, run) = self.link.connect(&self.scripts).await?;
        let known = !past.epoch.is_empty();
        // A server that was started again may have an old state of its data, with the epoch that it had.
        let restarted = known && run != past.run;
        let ended = if restarted {
            past.epoch.clone()
        } else {
            String::new()
        };
        past.run = run;
        let mut settled = known.then(|| Instant::now() + self.config.settle);
        let mut missed = 0;
        loop {
            let asked = self.now();
            let beat = match self.beat(&mut connection, &ended).await {
                Ok(beat) => beat,
                Err(error) if missed + 1 >= MISSED || !error.is_timeout() => return Err(error),
                Err(_) => {
                    missed += 1;
                    continue;
                }
            };
            missed = 0;
            self.note_time(beat.now, asked);
            if beat.epoch != past.epoch {
                if !past.epoch.is_empty() {
                    self.each(Window::retell);
                }
                if !past.epoch.is_empty() || Duration::from_micros(beat.age) < self.config.settle {
                    settled = Some(Instant::now() + self.config.settle);
                }
                past.epoch.clone_from(&beat.epoch);
            }
            let left = settled.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
            let ready = left.is_zero();
            self.link.note_nodes(beat.nodes, ready);
            self.link.publish(&connection, number, beat.epoch, ready);
            self.flush.notify_one();
            observe(ready);
            let pause = if ready { BEAT } else { BEAT.min(left) };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.link.disturbed() => {}
            }
            if self.link.is_left(number) {
                return Ok(());
            }
        }
    }

    async fn beat(&self, connection: &mut MultiplexedConnection, ended: &str) -> RedisResult<Beat> {
        let now = match self.config.time {
            Time::Server => 0,
            Time::Given => self.clock.monotonic_micros(),
        };
        let pipeline = self.scripts.beat(now, ended, &self.name(), ALIVE);
        self.link.beat(connection, &self.scripts, &pipeline).await
    }

    /// Tells what is to be told, as long as there is somebody to tell it to.
    async fn tell(&self) {
        loop {
            tokio::select! {
                () = self.flush.notified() => sleep(GATHERING).await,
                () = sleep(LOOKING) => {}
            }
            self.end_loans(false);
            if let Some(open) = self.link.open() {
                self.tell_all(&open).await;
            }
        }
    }

    /// Gives back what is left of loans that are over, or of all.
    fn end_loans(&self, all: bool) {
        let mut loans = std::mem::take(&mut *lock(&self.loans));
        let now = self.now();
        loans.retain(|place| {
            let mut shard = lock(&self.shards[shard_of(place.account)]);
            let Some(window) = shard.windows.get_mut(place) else {
                return false;
            };
            if all {
                window.end_loan();
            }
            let over = window.end_loan_if_over(now);
            self.list_locked(*place, window);
            !over
        });
        lock(&self.loans).extend(loans);
    }

    async fn tell_all(&self, open: &Open) {
        let places = std::mem::take(&mut *lock(&self.news));
        for some in places.chunks(AT_ONCE) {
            join_all(some.iter().map(|place| self.tell_one(open, *place))).await;
        }
    }

    async fn tell_one(&self, open: &Open, place: Place) {
        loop {
            let now = self.now();
            let ask = {
                let mut shard = lock(&self.shards[shard_of(place.account)]);
                let Some(window) = shard.windows.get_mut(&place) else {
                    return;
                };
                window.listed = false;
                if !window.has_news() {
                    return;
                }
                window.tell(now, || self.number())
            };
            match self.put(open, place, &ask).await {
                Some(Answer::Told(told)) => {
                    self.with(place, now, |window| window.learn_of(&ask, &told));
                }
                Some(Answer::Lost { life, .. }) => self.with(place, now, |window| window.lost(life)),
                Some(Answer::Late { .. }) | None => {
                    self.list(place);
                    return;
                }
            }
        }
    }

    /// Tells what is left to tell, and takes this node off the list of those that are alive.
    pub(super) async fn sign_off(&self) {
        self.leaving.cancel();
        let Some(open) = self.link.open() else { return };
        let leaving = async {
            self.end_loans(true);
            self.tell_all(&open).await;
            let mut pipeline = Pipeline::new();
            pipeline
                .cmd("ZREM")
                .arg(self.scripts.nodes_key())
                .arg(self.scripts.node());
            self.link.call(&open, &self.scripts, &pipeline).await
        };
        let _ = tokio::time::timeout(SIGNING_OFF, leaving).await;
    }
}
