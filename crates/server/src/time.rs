//! The clock of an installation. Nodes with a shared database follow the database's time, so that
//! they agree on the end of holds, lots and weeks. Other installations use the clock of the
//! machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_storage::Engine;
use tollgate_types::Clock;
use tollgate_types::clock::{SteadyClock, Timestamp};

/// Interval between synchronizations of the clock.
const SYNC_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum correction of the clock that is not a time jump. A time jump is logged.
const JUMP_THRESHOLD: Duration = Duration::from_secs(10);
/// Maximum difference between the machine's clock and the database at which the machine's clock is
/// used, in addition to the duration of the query. Machines are synchronized more precisely than a
/// query with its latency allows.
const MAX_DRIFT: Duration = Duration::from_millis(500);
/// Maximum duration of a time query. The result of a slower query is ignored because it is too
/// imprecise.
const MAX_QUERY_TIME: Duration = Duration::from_secs(2);
/// Metric: lead of this machine's clock over the installation's time, in seconds.
const CLOCK_AHEAD_METRIC: &str = "tollgate_clock_ahead_seconds";

/// The installation's clock and its synchronization.
#[derive(Debug)]
pub struct ClockSync {
    clock: Arc<SteadyClock>,
    /// Maximum time between the hold and the settlement of a call.
    longest_call: Duration,
    /// Monotonic time in microseconds until which calls from before a jump may still run.
    untrusted_until: AtomicU64,
}

impl ClockSync {
    /// Creates a clock with the machine's time. `longest_call` is the maximum time between a hold
    /// and its settlement.
    pub fn new(longest_call: Duration) -> Self {
        metrics::describe_gauge!(
            CLOCK_AHEAD_METRIC,
            metrics::Unit::Seconds,
            "How far this machine's clock is ahead of the installation's time"
        );
        Self {
            clock: Arc::default(),
            longest_call,
            untrusted_until: AtomicU64::new(0),
        }
    }

    /// Returns the installation's clock, which follows later synchronizations.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Synchronizes the clock for the first time, before other code uses it.
    pub async fn start(&self, engine: &dyn Engine) {
        if let Some(now) = self.query_time(engine).await {
            self.clock.set(now);
            self.record_ahead();
        }
    }

    /// Synchronizes the clock periodically. Never returns.
    pub async fn follow(&self, engine: &dyn Engine) {
        loop {
            tokio::time::sleep(SYNC_INTERVAL).await;
            self.sync_once(engine).await;
        }
    }

    async fn sync_once(&self, engine: &dyn Engine) {
        let Some(now) = self.query_time(engine).await else {
            return;
        };
        let forward = self.clock.set(now);
        if Duration::from_micros(forward.unsigned_abs()) > JUMP_THRESHOLD {
            let longest = u64::try_from(self.longest_call.as_micros()).unwrap_or(u64::MAX);
            let until = self.clock.monotonic_micros().saturating_add(longest);
            self.untrusted_until.store(until, Ordering::Relaxed);
            let seconds = forward / 1_000_000;
            tracing::warn!(
                seconds,
                "the time jumped; expired holds are not released until the calls from before the jump have ended"
            );
        }
        self.record_ahead();
    }

    /// Returns whether no running call can have started before a time jump. Only then is an expired
    /// hold certain not to belong to a running call.
    pub fn is_trusted(&self) -> bool {
        self.clock.monotonic_micros() >= self.untrusted_until.load(Ordering::Relaxed)
    }

    /// Returns the lead of this machine's clock over the installation's time, in microseconds;
    /// negative if the clock is behind.
    pub fn ahead(&self) -> i64 {
        self.clock.machine().as_micros() - self.clock.now().as_micros()
    }

    async fn query_time(&self, engine: &dyn Engine) -> Option<Timestamp> {
        let asked_at = self.clock.monotonic_micros();
        match engine.time().await {
            Ok(Some(shared)) => {
                let took = Duration::from_micros(self.clock.monotonic_micros() - asked_at);
                let (shared, machine) = (shared.plus(took / 2), self.clock.machine());
                let difference = Duration::from_micros(shared.as_micros().abs_diff(machine.as_micros()));
                let now = if difference <= MAX_DRIFT + took {
                    machine
                } else {
                    shared
                };
                (took < MAX_QUERY_TIME).then_some(now)
            }
            Ok(None) => Some(self.clock.machine()),
            // Without a result, the clock continues unsynchronized.
            Err(_) => None,
        }
    }

    fn record_ahead(&self) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "microseconds do not matter in differences of many years"
        )]
        metrics::gauge!(CLOCK_AHEAD_METRIC).set(self.ahead() as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tollgate_storage::{Engine, Result};
    use tollgate_types::clock::Timestamp;

    use super::ClockSync;

    /// A database with an adjustable time.
    struct Database(Mutex<Timestamp>);

    #[async_trait::async_trait]
    impl Engine for Database {
        fn name(&self) -> &'static str {
            "postgres"
        }

        async fn ping(&self) -> Result<()> {
            Ok(())
        }

        async fn time(&self) -> Result<Option<Timestamp>> {
            Ok(Some(*self.0.lock().unwrap()))
        }

        async fn flush(&self) -> Result<()> {
            Ok(())
        }

        async fn close(&self) -> Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_clock_follows_the_database() {
        let noon = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let (database, clock_sync) = (
            Database(Mutex::new(noon)),
            ClockSync::new(Duration::from_secs(60)),
        );
        let clock = clock_sync.clock();
        clock_sync.start(&database).await;
        let soon = Duration::from_secs(5);
        assert!(clock.now() >= noon && clock.now().since(noon) < soon);
        assert!(clock_sync.is_trusted(), "no call is running yet");
        let follow = async |at: Timestamp| {
            *database.0.lock().unwrap() = at;
            clock_sync.sync_once(&database).await;
            clock.now().as_micros() - at.as_micros()
        };
        assert!((0..5_000_000).contains(&follow(noon.plus(soon)).await));
        assert!(clock_sync.is_trusted(), "small corrections are no jump");
        assert!((0..5_000_000).contains(&follow(noon.minus(Duration::from_secs(7_200))).await));
        assert!(!clock_sync.is_trusted());
    }
}
