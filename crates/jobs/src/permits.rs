//! Permits to work on jobs in this process. Jobs work concurrently, except a suspect job, which
//! works alone: if the process dies then, its death does not count against other jobs.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tollgate_storage::JobActivity;

/// Permits of a process, granted in the order of requests.
#[derive(Clone, Default)]
pub(crate) struct WorkPermits(Arc<RwLock<()>>);

/// Permission to work on a job, until it is dropped.
pub(crate) enum WorkPermit {
    /// Permission to work concurrently with other jobs.
    Shared(
        #[expect(
            dead_code,
            reason = "the guard is never read; dropping it releases the permit"
        )]
        OwnedRwLockReadGuard<()>,
    ),
    /// Permission to work while no other job works.
    Alone(OwnedRwLockWriteGuard<()>),
}

impl WorkPermits {
    /// Waits for a permit; `alone` requests one that excludes other jobs.
    pub(crate) async fn take(&self, alone: bool) -> WorkPermit {
        match alone {
            true => WorkPermit::Alone(self.0.clone().write_owned().await),
            false => WorkPermit::Shared(self.0.clone().read_owned().await),
        }
    }
}

impl WorkPermit {
    /// Converts an exclusive permit to a shared one.
    pub(crate) fn share(self) -> Self {
        match self {
            Self::Alone(guard) => Self::Shared(guard.downgrade()),
            shared @ Self::Shared(_) => shared,
        }
    }

    pub(crate) fn activity(&self) -> JobActivity {
        match self {
            Self::Shared(_) => JobActivity::Working,
            Self::Alone(_) => JobActivity::WorkingAlone,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_suspect_works_alone() {
        let permits = WorkPermits::default();
        let (first, second) = (permits.take(false).await, permits.take(false).await);
        let mut alone = Box::pin(permits.take(true));
        assert!((&mut alone).now_or_never().is_none());
        drop(first);
        assert!((&mut alone).now_or_never().is_none());
        // A later shared request does not overtake the exclusive one.
        let mut late = Box::pin(permits.take(false));
        assert!((&mut late).now_or_never().is_none());
        drop(second);
        let alone = alone.await;
        assert_eq!(alone.activity(), JobActivity::WorkingAlone);
        assert!((&mut late).now_or_never().is_none());
        let shared = alone.share();
        assert_eq!(shared.activity(), JobActivity::Working);
        assert_eq!(late.await.activity(), JobActivity::Working);
    }
}
