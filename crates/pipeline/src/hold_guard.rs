//! Guard of a hold until its call runs. If the caller disconnects before, or a task panics, the
//! guard releases the credits immediately; otherwise they would be blocked until the hold expires.
//! The sweep releases the holds of processes that died.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tollgate_storage::{LedgerStore, Settlement};
use tollgate_types::usage::Outcome;
use tollgate_types::{AccountId, Clock, HoldId};

/// A guard that releases the hold of a call that does not run.
pub(crate) struct HoldGuard(Option<Release>);

/// Data for the release.
struct Release {
    ledger: Arc<dyn LedgerStore>,
    clock: Arc<dyn Clock>,
    calls: TaskTracker,
    account: AccountId,
    hold: HoldId,
}

impl HoldGuard {
    /// Creates a guard that releases the hold when it is dropped, on the runtime that is current
    /// then.
    pub(crate) fn new(
        ledger: Arc<dyn LedgerStore>,
        clock: Arc<dyn Clock>,
        calls: TaskTracker,
        account: AccountId,
        hold: HoldId,
    ) -> Self {
        Self(Some(Release {
            ledger,
            clock,
            calls,
            account,
            hold,
        }))
    }

    /// Creates a guard that releases nothing, because a job owns the hold.
    pub(crate) fn for_job() -> Self {
        Self(None)
    }

    /// Disarms the guard, because the code that runs the call resolves the hold.
    pub(crate) fn run(&mut self) {
        self.0 = None;
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        let (Some(release), Ok(runtime)) = (self.0.take(), Handle::try_current()) else {
            return;
        };
        let outcome = match std::thread::panicking() {
            true => Outcome::Crashed,
            false => Outcome::ClientGone,
        };
        let calls = release.calls.clone();
        calls.spawn_on(release.settle(outcome), &runtime);
    }
}

impl Release {
    async fn settle(self, outcome: Outcome) {
        let settlement = Settlement::free(self.account, self.hold, outcome, self.clock.now());
        if let Err(error) = self.ledger.settle(settlement).await {
            tracing::error!(hold.id = %self.hold, %error, "cannot release a hold; the sweep will release it");
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
    use tollgate_storage::{
        AuditVisitor, Balance, Grant, HoldOutcome, NewHold, Resolution, Result, Spendable, StorageError,
        StorageErrorKind,
    };
    use tollgate_types::clock::SystemClock;
    use tollgate_types::{Credits, Timestamp};

    use super::*;

    /// A ledger that sends the outcome of each settlement to a channel. Other operations return an
    /// error.
    struct Settlements(UnboundedSender<Outcome>);

    fn unused() -> StorageError {
        StorageError::new(StorageErrorKind::Conflict, "not used here")
    }

    #[async_trait]
    impl LedgerStore for Settlements {
        async fn hold(&self, _: NewHold) -> Result<HoldOutcome> {
            Err(unused())
        }

        async fn settle(&self, settlement: Settlement) -> Result<Resolution> {
            let _ = self.0.send(settlement.outcome);
            Ok(Resolution {
                charge: Credits::ZERO,
                first: true,
                available: Credits::ZERO,
            })
        }

        async fn grant(&self, _: Grant) -> Result<Balance> {
            Err(unused())
        }

        async fn spendable(&self, _: AccountId, _: Arc<[Arc<str>]>, _: Timestamp) -> Result<Spendable> {
            Err(unused())
        }

        async fn balance(&self, _: AccountId) -> Result<Balance> {
            Err(unused())
        }

        async fn sweep(&self, _: Timestamp, _: u32) -> Result<u64> {
            Err(unused())
        }

        async fn audit(&self, _: Option<AccountId>, _: &mut dyn AuditVisitor) -> Result<()> {
            Err(unused())
        }
    }

    #[tokio::test]
    async fn holds_of_calls_that_do_not_run_are_released() {
        let (settled, mut settlements) = unbounded_channel();
        let ledger: Arc<dyn LedgerStore> = Arc::new(Settlements(settled));
        let (clock, calls) = (Arc::new(SystemClock::default()), TaskTracker::new());
        let (account, hold) = (AccountId::from_u128(1), HoldId::from_u128(2));
        let hold_guard = || HoldGuard::new(ledger.clone(), clock.clone(), calls.clone(), account, hold);
        drop(hold_guard());
        assert_eq!(settlements.recv().await, Some(Outcome::ClientGone));
        let guarded = hold_guard();
        let panics = calls.spawn(async move {
            let _guarded = guarded;
            panic!("on purpose");
        });
        assert!(panics.await.is_err());
        assert_eq!(settlements.recv().await, Some(Outcome::Crashed));
        let mut runs = hold_guard();
        runs.run();
        drop(runs);
        drop(HoldGuard::for_job());
        calls.close();
        calls.wait().await;
        assert!(
            settlements.try_recv().is_err(),
            "the task that runs the call settles it"
        );
    }
}
