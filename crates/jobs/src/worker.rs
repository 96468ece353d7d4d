//! Worker that leases jobs and executes them until it is stopped.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_storage::job::{MAX_DEATHS, MAX_PAUSE};
use tollgate_storage::{
    JobActivity, JobClaim, JobEnd, JobError, JobLease, KindCap, LeasedJob, Result, Settlement, StorageError,
    StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{Clock, ErrorCode, JobStatus, WorkerId};

use crate::handler::{Handler, JobOutcome, Work};
use crate::permits::WorkPermits;
use crate::{Jobs, POLL_INTERVAL};

/// Limits and durations of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Maximum number of concurrent jobs of this worker.
    pub concurrency: usize,
    /// Maximum number of concurrent jobs of one account, on all workers together.
    pub per_account: u32,
    /// Lower limits of single kinds of jobs.
    pub caps: Arc<[KindCap]>,
    /// Duration of a lease. The worker renews the lease each time that a third of the duration has
    /// passed.
    pub lease: Duration,
    /// Maximum time that running jobs have to finish after a stop; then they are released to other
    /// workers.
    pub drain: Duration,
    /// Time for which ended jobs are stored.
    pub retention: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: 256,
            per_account: 16,
            caps: Arc::default(),
            lease: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            retention: Duration::from_hours(30 * 24),
        }
    }
}

/// Maximum number of jobs that one pass expires, and that it deletes.
const BATCH: u32 = 100;
/// Delay of a job after a transient failure.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Worker for the jobs of the registered handlers.
pub struct Worker {
    id: WorkerId,
    jobs: Arc<Jobs>,
    clock: Arc<dyn Clock>,
    handlers: HashMap<&'static str, Arc<dyn Handler>>,
    settings: WorkerSettings,
    slots: Arc<Semaphore>,
    permits: WorkPermits,
    running: TaskTracker,
    /// Token whose cancellation aborts the running jobs and releases them.
    abort: CancellationToken,
}

impl Worker {
    /// Creates a worker. Its id must be unique among all processes, earlier ones included.
    pub fn new(
        id: WorkerId,
        jobs: Arc<Jobs>,
        clock: Arc<dyn Clock>,
        handlers: Vec<Arc<dyn Handler>>,
        settings: WorkerSettings,
    ) -> Arc<Self> {
        let handlers = handlers.into_iter().map(|handler| (handler.kind(), handler));
        Arc::new(Self {
            id,
            jobs,
            clock,
            handlers: handlers.collect(),
            slots: Arc::new(Semaphore::new(settings.concurrency)),
            permits: WorkPermits::default(),
            settings,
            running: TaskTracker::new(),
            abort: CancellationToken::new(),
        })
    }

    /// Leases and executes jobs until `stop` is cancelled, then waits for the running jobs for at
    /// most `drain`. Jobs that are still running are released.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let work = async {
            self.lease(&stop).await;
            self.running.close();
            tokio::select! {
                () = self.running.wait() => return,
                () = tokio::time::sleep(self.settings.drain) => self.abort.cancel(),
                () = self.abort.cancelled() => {}
            }
            self.running.wait().await;
        };
        tokio::select! { () = work => {}, () = self.renew() => {} }
    }

    /// Releases the running jobs immediately; other workers continue them.
    pub fn release_jobs(&self) {
        self.abort.cancel();
    }

    /// Expires jobs that did not start in time, and deletes ended jobs past their retention.
    pub async fn tidy(&self) {
        let now = self.clock.now();
        let store = &*self.jobs.store;
        let ended = async {
            let expired = store.expire(now, BATCH).await?;
            if expired > 0 {
                self.jobs.watch.due.notify_one();
            }
            let forgotten = store.sweep(now.minus(self.settings.retention), BATCH).await?;
            Ok::<_, StorageError>((expired, forgotten))
        };
        match ended.await {
            Ok((0, 0)) => {}
            Ok((expired, forgotten)) => tracing::info!(expired, forgotten, "expired and deleted old jobs"),
            Err(error) => tracing::warn!(%error, "cannot expire or delete old jobs"),
        }
    }

    /// Claims jobs for the free slots, then waits for more.
    async fn lease(self: &Arc<Self>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            // A finished job frees a slot.
            tokio::select! { _ = self.slots.acquire() => {}, () = stop.cancelled() => return }
            let slots = self.slots.available_permits();
            let claimed = self.claim(slots).await;
            let has_more = claimed.len() == slots;
            for leased in claimed {
                self.start(leased).await;
            }
            if has_more {
                continue;
            }
            tokio::select! {
                () = self.jobs.watch.accepted.notified() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn claim(&self, slots: usize) -> Vec<LeasedJob> {
        let now = self.clock.now();
        let claim = JobClaim {
            worker: self.id,
            now,
            until: now.plus(self.settings.lease),
            limit: u32::try_from(slots).unwrap_or(u32::MAX),
            per_account: self.settings.per_account,
            caps: self.settings.caps.clone(),
        };
        match self.jobs.store.claim(claim).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "cannot lease jobs");
                Vec::new()
            }
        }
    }

    /// Renews the leases of the running jobs.
    async fn renew(&self) {
        loop {
            tokio::time::sleep(self.settings.lease / 3).await;
            if self.running.is_empty() {
                continue;
            }
            let until = self.clock.now().plus(self.settings.lease);
            match self.jobs.store.renew(self.id, until).await {
                Ok(cancelled) => cancelled.into_iter().for_each(|job| self.jobs.watch.cancel(job)),
                Err(error) => tracing::warn!(%error, "cannot renew the leases of jobs"),
            }
        }
    }

    async fn start(self: &Arc<Self>, leased: LeasedJob) {
        let Ok(permit) = self.slots.clone().acquire_owned().await else {
            return;
        };
        let worker = self.clone();
        self.running.spawn(async move {
            let id = leased.lease.job;
            let has_cap = worker.has_cap(&leased.job.terms.kind);
            let cancelled = worker.jobs.watch.run(id);
            if leased.job.cancel_requested {
                cancelled.cancel();
            }
            worker.execute(leased, cancelled).await;
            worker.jobs.watch.stop(id);
            drop(permit);
            if has_cap {
                // A job of the same kind may wait for this slot.
                worker.jobs.watch.accepted.notify_one();
            }
        });
    }

    fn has_cap(&self, kind: &str) -> bool {
        self.settings.caps.iter().any(|cap| *cap.kind == *kind)
    }

    async fn execute(&self, leased: LeasedJob, cancelled: CancellationToken) {
        let (lease, has_webhook) = (leased.lease, leased.job.terms.webhook.is_some());
        let outcome = tokio::select! {
            outcome = self.run_handler(leased, cancelled) => outcome,
            () = self.abort.cancelled() => Ok(JobOutcome::Later(Duration::ZERO)),
        };
        let written = match outcome {
            Ok(JobOutcome::Ended(end)) => self.finish(lease, has_webhook, *end).await,
            Ok(JobOutcome::Later(pause)) => self.release(lease, pause).await,
            Err(error) if error.kind == StorageErrorKind::Conflict => Err(error),
            Err(error) => {
                tracing::warn!(job.id = %lease.job, %error, "a job will be retried");
                self.release(lease, RETRY_DELAY).await
            }
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind == StorageErrorKind::Conflict => {
                tracing::info!(job.id = %lease.job, "another worker has the job");
            }
            Err(error) => {
                tracing::warn!(job.id = %lease.job, %error, "cannot store the result of a job or release its lease; a worker resumes the job after the lease expires")
            }
        }
    }

    async fn run_handler(&self, leased: LeasedJob, cancelled: CancellationToken) -> Result<JobOutcome> {
        let (id, kind) = (leased.lease.job, leased.job.terms.kind.clone());
        let Some(handler) = self.handlers.get(&*kind) else {
            tracing::error!(job.id = %id, kind = %kind, "no handler runs jobs of this kind");
            return Ok(JobOutcome::Later(self.settings.lease));
        };
        if leased.deaths >= MAX_DEATHS {
            tracing::error!(job.id = %id, deaths = leased.deaths, "a job repeatedly ended the process; giving up");
            return Ok(JobOutcome::Ended(Box::new(self.abandoned(&leased))));
        }
        let abandoned = self.abandoned(&leased);
        let is_at_work = leased.activity != JobActivity::Waiting;
        let (jobs, clock, permits) = (self.jobs.clone(), self.clock.clone(), self.permits.clone());
        let mut work = Work::new(jobs, clock, leased, permits, cancelled);
        if is_at_work {
            work.resume_work().await?;
        }
        match AssertUnwindSafe(handler.run(&mut work)).catch_unwind().await {
            Ok(outcome) => outcome,
            Err(_) => {
                tracing::error!(job.id = %id, "the handler of a job panicked");
                Ok(JobOutcome::Ended(Box::new(abandoned)))
            }
        }
    }

    /// Returns the end of a job that failed permanently, with a charge of zero.
    fn abandoned(&self, leased: &LeasedJob) -> JobEnd {
        JobEnd {
            status: JobStatus::Failed,
            result: None,
            error: Some(JobError {
                code: ErrorCode::InternalError,
                message: "The job could not be completed. It was not charged.".to_owned(),
                param: None,
            }),
            settlement: Settlement::free(
                leased.job.account,
                leased.job.hold,
                Outcome::Crashed,
                self.clock.now(),
            ),
            parts: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Records the end of a job. Retries while storage is unavailable, until the lease is lost or
    /// the worker aborts.
    async fn finish(&self, lease: JobLease, has_webhook: bool, end: JobEnd) -> Result<()> {
        loop {
            match self.jobs.finish(lease, end.clone()).await {
                Ok(_) => {
                    self.jobs.watch.ended(has_webhook);
                    return Ok(());
                }
                Err(error)
                    if matches!(
                        error.kind,
                        StorageErrorKind::Unavailable | StorageErrorKind::Timeout
                    ) && !self.abort.is_cancelled() =>
                {
                    tracing::warn!(job.id = %lease.job, %error, "cannot store the result of a job; retrying");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn release(&self, lease: JobLease, pause: Duration) -> Result<()> {
        let due = self.clock.now().plus(pause.min(MAX_PAUSE));
        self.jobs.store.release(lease, due).await?;
        self.jobs.watch.notify(lease.job);
        Ok(())
    }
}
