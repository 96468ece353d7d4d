//! Leases jobs and carries them out until it is told to stop.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_storage::job::MOST_DEATHS;
use tollgate_storage::{
    JobClaim, JobEnd, JobError, JobLease, LeasedJob, Result, Settlement, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{Clock, ErrorCode, JobStatus, WorkerId};

use crate::handler::{Handler, Ran, Work};
use crate::{Jobs, LOOK_AGAIN};

/// How much a worker does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Jobs that it carries out at once.
    pub concurrency: usize,
    /// Jobs of one account at once, on all workers together.
    pub per_account: u32,
    /// How long a lease lasts. It is prolonged three times as often.
    pub lease: Duration,
    /// How long jobs may go on after the worker was told to stop; then they are left to others.
    pub drain: Duration,
    /// How long a job is known after it has ended.
    pub retention: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: 256,
            per_account: 16,
            lease: Duration::from_secs(30),
            drain: Duration::from_secs(30),
            retention: Duration::from_hours(30 * 24),
        }
    }
}

/// How many jobs one pass expires or forgets at the most.
const BATCH: u32 = 100;
/// How long a job waits of which something failed that passes.
const PAUSE: Duration = Duration::from_secs(2);

/// A worker.
pub struct Worker {
    id: WorkerId,
    jobs: Arc<Jobs>,
    clock: Arc<dyn Clock>,
    handlers: HashMap<&'static str, Arc<dyn Handler>>,
    settings: WorkerSettings,
    room: Arc<Semaphore>,
    running: TaskTracker,
    /// Ends what runs, when it may not go on.
    abort: CancellationToken,
}

impl Worker {
    /// A worker with this id, which no other process has or had.
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
            room: Arc::new(Semaphore::new(settings.concurrency)),
            settings,
            running: TaskTracker::new(),
            abort: CancellationToken::new(),
        })
    }

    /// Works until it is told to stop, and then for as long as what it has begun may still take. What has not ended by then is
    /// given back.
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

    /// What runs is given back at once, for another worker to go on with.
    pub fn give_back(&self) {
        self.abort.cancel();
    }

    /// Ends jobs that nobody has begun in time, and forgets those that have ended long ago.
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
            Ok((expired, forgotten)) => tracing::info!(expired, forgotten, "jobs were tidied up"),
            Err(error) => tracing::warn!(%error, "cannot tidy up jobs"),
        }
    }

    /// Takes what there is as long as there is room, and then waits until there is more.
    async fn lease(self: &Arc<Self>, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            // When there is no room, the end of a job makes some.
            tokio::select! { _ = self.room.acquire() => {}, () = stop.cancelled() => return }
            let room = self.room.available_permits();
            let claimed = self.claim(room).await;
            let may_be_more = claimed.len() == room;
            for leased in claimed {
                self.start(leased).await;
            }
            if may_be_more {
                continue;
            }
            tokio::select! {
                () = self.jobs.watch.accepted.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    async fn claim(&self, room: usize) -> Vec<LeasedJob> {
        let now = self.clock.now();
        let claim = JobClaim {
            worker: self.id,
            now,
            until: now.plus(self.settings.lease),
            limit: u32::try_from(room).unwrap_or(u32::MAX),
            per_account: self.settings.per_account,
        };
        match self.jobs.store.claim(claim).await {
            Ok(claimed) => claimed,
            Err(error) => {
                tracing::warn!(%error, "cannot lease jobs");
                Vec::new()
            }
        }
    }

    /// Prolongs the leases of what runs.
    async fn renew(&self) {
        loop {
            tokio::time::sleep(self.settings.lease / 3).await;
            if self.running.is_empty() {
                continue;
            }
            let until = self.clock.now().plus(self.settings.lease);
            match self.jobs.store.renew(self.id, until).await {
                Ok(cancelled) => cancelled.into_iter().for_each(|job| self.jobs.watch.cancel(job)),
                Err(error) => tracing::warn!(%error, "cannot prolong the leases of jobs"),
            }
        }
    }

    async fn start(self: &Arc<Self>, leased: LeasedJob) {
        let Ok(permit) = self.room.clone().acquire_owned().await else {
            return;
        };
        let worker = self.clone();
        self.running.spawn(async move {
            let id = leased.lease.job;
            let cancelled = worker.jobs.watch.run(id);
            if leased.job.cancel_requested {
                cancelled.cancel();
            }
            worker.carry_out(leased, cancelled).await;
            worker.jobs.watch.stop(id);
            drop(permit);
        });
    }

    async fn carry_out(&self, leased: LeasedJob, cancelled: CancellationToken) {
        let (lease, tells) = (leased.lease, leased.job.terms.webhook.is_some());
        let ran = tokio::select! {
            ran = self.handled(leased, cancelled) => ran,
            () = self.abort.cancelled() => Ok(Ran::Later(Duration::ZERO)),
        };
        let written = match ran {
            Ok(Ran::Ended(end)) => self.finish(lease, tells, *end).await,
            Ok(Ran::Later(pause)) => self.release(lease, pause).await,
            Err(error) if error.kind == StorageErrorKind::Conflict => Err(error),
            Err(error) => {
                tracing::warn!(job.id = %lease.job, %error, "a job goes on later");
                self.release(lease, PAUSE).await
            }
        };
        match written {
            Ok(()) => {}
            Err(error) if error.kind == StorageErrorKind::Conflict => {
                tracing::info!(job.id = %lease.job, "another worker has the job");
            }
            Err(error) => tracing::warn!(job.id = %lease.job, %error, "a job goes on when its lease is over"),
        }
    }

    async fn handled(&self, leased: LeasedJob, cancelled: CancellationToken) -> Result<Ran> {
        let (id, kind) = (leased.lease.job, leased.job.terms.kind.clone());
        let Some(handler) = self.handlers.get(&*kind) else {
            tracing::error!(job.id = %id, kind = %kind, "no handler carries out jobs of this kind");
            return Ok(Ran::Later(self.settings.lease));
        };
        if leased.deaths >= MOST_DEATHS {
            tracing::error!(job.id = %id, deaths = leased.deaths, "a job ends processes: it is given up");
            return Ok(Ran::Ended(Box::new(self.given_up(&leased))));
        }
        let given_up = self.given_up(&leased);
        let mut work = Work::new(self.jobs.clone(), self.clock.clone(), leased, cancelled);
        match AssertUnwindSafe(handler.run(&mut work)).catch_unwind().await {
            Ok(ran) => ran,
            Err(_) => {
                tracing::error!(job.id = %id, "the handler of a job panicked");
                Ok(Ran::Ended(Box::new(given_up)))
            }
        }
    }

    /// The end of a job that cannot be carried out: it costs nothing.
    fn given_up(&self, leased: &LeasedJob) -> JobEnd {
        JobEnd {
            status: JobStatus::Failed,
            result: None,
            error: Some(JobError {
                code: ErrorCode::InternalError,
                message: "The job could not be carried out. It was not charged.".to_owned(),
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

    /// What has ended is written down, however long storage is away: as long as the lease lasts it is tried again.
    async fn finish(&self, lease: JobLease, tells: bool, end: JobEnd) -> Result<()> {
        loop {
            match self.jobs.finish(lease, end.clone()).await {
                Ok(_) => {
                    self.jobs.watch.ended(tells);
                    return Ok(());
                }
                Err(error)
                    if matches!(
                        error.kind,
                        StorageErrorKind::Unavailable | StorageErrorKind::Timeout
                    ) && !self.abort.is_cancelled() =>
                {
                    tracing::warn!(job.id = %lease.job, %error, "cannot write down how a job ended; trying again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn release(&self, lease: JobLease, pause: Duration) -> Result<()> {
        let due = self.clock.now().plus(pause);
        self.jobs.store.release(lease, due).await?;
        self.jobs.watch.tell(lease.job);
        Ok(())
    }
}
