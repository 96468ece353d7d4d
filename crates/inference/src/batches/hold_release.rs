//! Releases the unused part of a batch's hold while the batch runs: the amounts that ended lines
//! held but did not use. These amounts are accumulated, so that the ledger has a few transfers per
//! batch instead of one per line.

use std::sync::{Mutex, PoisonError};

use tollgate_storage::audit::MAX_EARLY_RELEASES;
use tollgate_storage::{Job, Result};
use tollgate_types::{Credits, Error};

use super::job::{BatchRun, Batches};
use crate::responses::store::unavailable;

/// Unused and released amounts of a batch that is running.
pub(super) struct HoldRelease {
    totals: Mutex<ReleaseTotals>,
}

/// Totals in nano-credits.
struct ReleaseTotals {
    unused_hold: i64,
    /// Part of the unused hold that was released or is about to be.
    returned: i64,
}

impl HoldRelease {
    /// Loads the unused hold of the lines that have ended so far.
    pub(super) async fn new(batches: &Batches, job: &Job) -> std::result::Result<Self, Error> {
        let unused_hold = batches.store.unused_hold(job.account, job.terms.id).await;
        let unused_hold = unused_hold.map_err(|error| unavailable(&error))?.nanos();
        // The ledger records the amount that an earlier process released, so no amount is released
        // twice.
        let totals = Mutex::new(ReleaseTotals {
            unused_hold,
            returned: 0,
        });
        Ok(Self { totals })
    }

    /// Adds the unused amount of an ended line. Releases the accumulated amount when it reaches the
    /// hold divided by [`MAX_EARLY_RELEASES`].
    pub(super) async fn add(&self, batches: &Batches, run: &BatchRun<'_>, excess: Credits) -> Result<()> {
        let held = run.job.held.nanos();
        let needed = {
            let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
            totals.unused_hold = totals.unused_hold.saturating_add(excess.nanos());
            let waiting = totals.unused_hold.saturating_sub(totals.returned);
            if waiting <= 0 || waiting < held / i64::from(MAX_EARLY_RELEASES) {
                return Ok(());
            }
            totals.returned = totals.unused_hold;
            held.saturating_sub(totals.unused_hold)
        };
        let (jobs, now) = (&batches.jobs, batches.clock.now());
        let needed = Credits::from_nanos(needed);
        jobs.shrink_hold(run.lease, needed, now).await.map(drop)
    }
}
