//! The time of an installation: its database's where nodes share one, so that they agree on when a hold, a lot or a week is over
//! whatever their own clocks show; else the machine's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_storage::Engine;
use tollgate_types::Clock;
use tollgate_types::clock::{SteadyClock, Timestamp};

/// Between two looks at what the time is.
const FOLLOW_EVERY: Duration = Duration::from_secs(10);
/// By how much a clock is corrected without a word.
const CORRECTION: Duration = Duration::from_secs(10);
/// How far the machine's clock may be from the database's to be taken for right: nodes are kept in step by better means than
/// a question whose way takes a while.
const AGREEMENT: Duration = Duration::from_millis(500);
/// An answer that took longer says too little about the time.
const PROMPT: Duration = Duration::from_secs(2);
/// How far this machine's clock is ahead of the time of the installation, in seconds.
const AHEAD: &str = "tollgate_clock_ahead_seconds";

/// The clock, and what sets it.
#[derive(Debug)]
pub struct TimeKeeper {
    clock: Arc<SteadyClock>,
    /// How long a call may be between its hold and its settlement.
    longest_call: Duration,
    /// Until when, by the monotonic clock, calls may run that began before the time jumped.
    unsure_until: AtomicU64,
}

impl TimeKeeper {
    /// Starts with the machine's time.
    pub fn new(longest_call: Duration) -> Self {
        metrics::describe_gauge!(
            AHEAD,
            metrics::Unit::Seconds,
            "How far the clock of this machine is ahead of the time that the installation goes by"
        );
        Self {
            clock: Arc::default(),
            longest_call,
            unsure_until: AtomicU64::new(0),
        }
    }

    /// The time.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Sets the clock before anything goes by it.
    pub async fn start(&self, engine: &dyn Engine) {
        if let Some(now) = self.ask(engine).await {
            self.clock.set(now);
            self.tell_ahead();
        }
    }

    /// Sets the clock again and again. Never returns.
    pub async fn follow(&self, engine: &dyn Engine) {
        loop {
            tokio::time::sleep(FOLLOW_EVERY).await;
            self.look(engine).await;
        }
    }

    async fn look(&self, engine: &dyn Engine) {
        let Some(now) = self.ask(engine).await else { return };
        let forward = self.clock.set(now);
        if Duration::from_micros(forward.unsigned_abs()) > CORRECTION {
            let longest = u64::try_from(self.longest_call.as_micros()).unwrap_or(u64::MAX);
            let until = self.clock.monotonic_micros().saturating_add(longest);
            self.unsure_until.store(until, Ordering::Relaxed);
            let seconds = forward / 1_000_000;
            tracing::warn!(
                seconds,
                "the time has jumped; holds are released later for a while"
            );
        }
        self.tell_ahead();
    }

    /// Whether a hold whose time is over cannot be that of a call that runs: none began before the time jumped.
    pub fn is_sure(&self) -> bool {
        self.clock.monotonic_micros() >= self.unsure_until.load(Ordering::Relaxed)
    }

    /// How far this machine's clock is ahead, in microseconds.
    pub fn ahead(&self) -> i64 {
        self.clock.machine().as_micros() - self.clock.now().as_micros()
    }

    async fn ask(&self, engine: &dyn Engine) -> Option<Timestamp> {
        let asked_at = self.clock.monotonic_micros();
        match engine.time().await {
            Ok(Some(shared)) => {
                let took = Duration::from_micros(self.clock.monotonic_micros() - asked_at);
                let (shared, machine) = (shared.plus(took / 2), self.clock.machine());
                let apart = Duration::from_micros(shared.as_micros().abs_diff(machine.as_micros()));
                let now = if apart <= AGREEMENT + took {
                    machine
                } else {
                    shared
                };
                (took < PROMPT).then_some(now)
            }
            Ok(None) => Some(self.clock.machine()),
            // The clock goes on.
            Err(_) => None,
        }
    }

    fn tell_ahead(&self) {
        #[expect(
            clippy::cast_precision_loss,
            reason = "nobody looks at microseconds of many years"
        )]
        metrics::gauge!(AHEAD).set(self.ahead() as f64 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use tollgate_storage::{Engine, Result};
    use tollgate_types::clock::Timestamp;

    use super::TimeKeeper;

    /// A database whose time is set by hand.
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
    async fn the_time_is_the_databases() {
        let noon = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let (database, keeper) = (
            Database(Mutex::new(noon)),
            TimeKeeper::new(Duration::from_secs(60)),
        );
        let clock = keeper.clock();
        keeper.start(&database).await;
        let soon = Duration::from_secs(5);
        assert!(clock.now() >= noon && clock.now().since(noon) < soon);
        assert!(keeper.is_sure(), "nothing runs yet");
        let follow = async |at: Timestamp| {
            *database.0.lock().unwrap() = at;
            keeper.look(&database).await;
            clock.now().as_micros() - at.as_micros()
        };
        assert!((0..5_000_000).contains(&follow(noon.plus(soon)).await));
        assert!(keeper.is_sure(), "that was a correction");
        assert!((0..5_000_000).contains(&follow(noon.minus(Duration::from_secs(7_200))).await));
        assert!(!keeper.is_sure());
    }
}
