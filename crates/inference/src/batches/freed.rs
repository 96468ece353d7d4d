//! What the hold of a batch has beyond what is needed: for each line that has ended, what was held for it and not charged. It goes back
//! to credits in parts of some size, so that the books have a few transfers of a batch and not one for each line.

use std::sync::{Mutex, PoisonError};

use tollgate_storage::audit::MOST_EARLY;
use tollgate_storage::{Job, Result};
use tollgate_types::{Credits, Error};

use super::job::{Batches, Run};
use crate::responses::kept::unavailable;

/// Counts it.
pub(super) struct Freed {
    sums: Mutex<Sums>,
}

/// In nano-credits.
struct Sums {
    freed: i64,
    /// What of that was given back, or is about to be.
    returned: i64,
}

impl Freed {
    /// What the lines of a batch have left so far.
    pub(super) async fn new(batches: &Batches, job: &Job) -> std::result::Result<Self, Error> {
        let freed = batches.store.freed(job.account, job.terms.id).await;
        let freed = freed.map_err(|error| unavailable(&error))?.nanos();
        // What an earlier process has given back is known to the ledger, which gives nothing back twice.
        let sums = Mutex::new(Sums { freed, returned: 0 });
        Ok(Self { sums })
    }

    /// A line has ended that leaves so much: gives back what there is, if that is worth a transfer.
    pub(super) async fn add(&self, batches: &Batches, run: &Run<'_>, beyond: Credits) -> Result<()> {
        let held = run.job.held.nanos();
        let needed = {
            let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
            sums.freed = sums.freed.saturating_add(beyond.nanos());
            let waiting = sums.freed.saturating_sub(sums.returned);
            if waiting <= 0 || waiting < held / i64::from(MOST_EARLY) {
                return Ok(());
            }
            sums.returned = sums.freed;
            held.saturating_sub(sums.freed)
        };
        let (jobs, now) = (&batches.jobs, batches.clock.now());
        let needed = Credits::from_nanos(needed);
        jobs.shrink_hold(run.lease, needed, now).await.map(drop)
    }
}
