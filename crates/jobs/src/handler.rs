//! The handler of a job kind, and the running job that the handler works on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tollgate_storage::job::SUSPECT_DEATHS;
use tollgate_storage::{
    Job, JobActivity, JobAdvance, JobEnd, JobError, JobLease, JobStep, LeasedJob, NewJobEvent, Result,
    StorageError, StorageErrorKind,
};
use tollgate_types::{Clock, Error, ErrorCode, JobId, StepState};

use crate::Jobs;
use crate::permits::{WorkPermit, WorkPermits};

/// Handler of the jobs of one kind.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Returns the name of the kind, such as `image.generation`. The name is stored with each job
    /// and must not change.
    fn kind(&self) -> &'static str;

    /// Runs a job from its recorded steps. Called again for the same job after a crash or a storage
    /// failure, so implementations must check the steps before each provider request. After a
    /// storage failure, the next worker that leases the job continues the job.
    async fn run(&self, work: &mut Work) -> Result<JobOutcome>;
}

/// Converts an error to the error that a failed job stores for its owner. Logs the cause of an
/// internal error.
pub fn job_error(job: &Job, error: &Error) -> JobError {
    if error.code == ErrorCode::InternalError {
        let cause = error.operator_message();
        tracing::error!(job.id = %job.terms.id, account.id = %job.account, cause, "a job failed");
    }
    JobError::from(error)
}

/// Result of a handler's run.
#[derive(Debug)]
pub enum JobOutcome {
    /// The job has ended with this result.
    Ended(Box<JobEnd>),
    /// The job is released and runs again after this delay.
    Later(Duration),
}

/// Progress of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Name of the current phase, one word.
    pub phase: Option<Arc<str>>,
    /// Progress in percent.
    pub percent: Option<u8>,
    /// Events to append to the job.
    pub events: Vec<NewJobEvent>,
}

/// A running job. Writes fail with `Conflict` once another worker has the lease. Clones share the
/// same job.
#[derive(Clone)]
pub struct Work {
    jobs: Arc<Jobs>,
    clock: Arc<dyn Clock>,
    leased: Arc<Leased>,
    cancelled: CancellationToken,
    listener: Option<Arc<dyn ProgressListener>>,
    /// Whether this handle counts among [`WorkState::workers`].
    is_working: Arc<AtomicBool>,
}

struct Leased {
    job: Job,
    lease: JobLease,
    steps: Mutex<Vec<JobStep>>,
    permits: WorkPermits,
    /// State of this process's work. The lock is never held across an `await`, because parts of a
    /// job may run in the same task.
    work_state: Mutex<WorkState>,
    /// Signal that a part has acquired the permit.
    taken: Notify,
}

/// This process's current work on a job.
struct WorkState {
    /// Number of parts that are working now; they share one permit.
    workers: u32,
    permit: Option<WorkPermit>,
    /// Whether a part is waiting for the permit.
    is_taking_permit: bool,
    /// Activity recorded in storage; `None` after a failed write.
    recorded: Option<JobActivity>,
    /// Whether at least [`SUSPECT_DEATHS`] processes died while they worked on the job, with no
    /// step recorded since.
    is_suspect: bool,
}

impl WorkState {
    fn activity(&self) -> JobActivity {
        self.permit
            .as_ref()
            .map_or(JobActivity::Waiting, WorkPermit::activity)
    }

    /// Ends the work of one handle. Releases the permit if no other handle is working.
    fn pause(&mut self, is_working: &AtomicBool) {
        if is_working.swap(false, Ordering::Relaxed) {
            self.workers = self.workers.saturating_sub(1);
        }
        if self.workers == 0 {
            self.permit = None;
        }
    }
}

/// Receiver of the progress of one part of a job. The owner of the job does not receive this
/// progress.
pub trait ProgressListener: Send + Sync {
    /// Processes the part's current progress.
    fn on_progress(&self, progress: Progress);
}

impl Work {
    pub(crate) fn new(
        jobs: Arc<Jobs>,
        clock: Arc<dyn Clock>,
        leased: LeasedJob,
        permits: WorkPermits,
        cancelled: CancellationToken,
    ) -> Self {
        let LeasedJob {
            job,
            steps,
            lease,
            deaths,
            activity,
        } = leased;
        Self {
            jobs,
            clock,
            leased: Arc::new(Leased {
                job,
                lease,
                steps: Mutex::new(steps),
                permits,
                work_state: Mutex::new(WorkState {
                    workers: 0,
                    permit: None,
                    is_taking_permit: false,
                    recorded: Some(activity),
                    is_suspect: deaths >= SUSPECT_DEATHS,
                }),
                taken: Notify::new(),
            }),
            cancelled,
            listener: None,
            is_working: Arc::default(),
        }
    }

    /// Returns a handle for one of several concurrent parts; only `listener` receives its progress.
    pub fn part(&self, listener: Arc<dyn ProgressListener>) -> Self {
        Self {
            listener: Some(listener),
            is_working: Arc::default(),
            ..self.clone()
        }
    }

    /// Marks this process as working on the job, such as rendering or fetching. If the process dies
    /// then, its death counts against the job. Waits while a suspect job of this process works
    /// alone; a suspect job waits until no other job of this process is working. The next write
    /// records the activity; for a suspect job, this call writes it.
    pub async fn resume_work(&self) -> Result<()> {
        if !self.is_working.swap(true, Ordering::Relaxed) {
            self.work_state().workers += 1;
        }
        self.take_permit().await;
        let activity = self.work_state().activity();
        match activity {
            JobActivity::WorkingAlone => self.advance(JobAdvance::default()).await,
            JobActivity::Working | JobActivity::Waiting => Ok(()),
        }
    }

    /// Waits until the job has the permit. One part acquires it for all parts.
    async fn take_permit(&self) {
        loop {
            let taken = self.leased.taken.notified();
            let alone = {
                let mut work_state = self.work_state();
                if work_state.permit.is_some() {
                    return;
                }
                (!std::mem::replace(&mut work_state.is_taking_permit, true)).then_some(work_state.is_suspect)
            };
            let Some(alone) = alone else {
                taken.await;
                continue;
            };
            let permit = self.leased.permits.take(alone).await;
            let mut work_state = self.work_state();
            work_state.is_taking_permit = false;
            work_state.permit = Some(permit);
            drop(work_state);
            self.leased.taken.notify_waiters();
            return;
        }
    }

    /// Marks this process as waiting, for example for a provider that it polls: its death does not
    /// count against the job.
    pub async fn pause_work(&self) -> Result<()> {
        self.work_state().pause(&self.is_working);
        self.advance(JobAdvance::default()).await
    }

    fn work_state(&self) -> MutexGuard<'_, WorkState> {
        self.leased
            .work_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the job at the time of the lease.
    pub fn job(&self) -> &Job {
        &self.leased.job
    }

    /// Returns the lease of the job.
    pub fn lease(&self) -> JobLease {
        self.leased.lease
    }

    /// Returns a token that is cancelled when the caller cancels the job.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Returns the recorded state of a step, if it has been recorded.
    pub fn step(&self, number: u32) -> Option<JobStep> {
        self.steps().iter().find(|step| step.number == number).cloned()
    }

    /// Records the next provider request and returns its idempotency key, which is new for each
    /// attempt. `provider_handle` identifies the provider that receives the request, in a format
    /// that the handler defines. `Conflict` if the request may have been sent already.
    pub async fn intend(&self, number: u32, provider_handle: Vec<u8>) -> Result<String> {
        let attempt = self.step(number).map_or(1, |step| step.attempt + 1);
        let step = JobStep {
            number,
            state: StepState::Intended,
            attempt,
            handle: provider_handle,
            outcome: Vec::new(),
        };
        self.write(step).await?;
        Ok(key(self.leased.lease.job, number, attempt))
    }

    /// Combines [`Work::intend`] and [`Work::pause_work`] in one write.
    pub async fn intend_and_pause(&self, number: u32, provider_handle: Vec<u8>) -> Result<String> {
        self.work_state().pause(&self.is_working);
        self.intend(number, provider_handle).await
    }

    /// Returns the idempotency key of a step's last attempt. A provider that supports idempotency
    /// keys accepts it again.
    pub fn key(&self, number: u32) -> String {
        let attempt = self.step(number).map_or(1, |step| step.attempt);
        key(self.leased.lease.job, number, attempt)
    }

    /// Records that the provider accepted the request; `handle` is used to query its result.
    pub async fn submitted(&self, number: u32, handle: Vec<u8>) -> Result<()> {
        let step = self.require_step(number)?;
        self.write(JobStep {
            state: StepState::Submitted,
            handle,
            ..step
        })
        .await
    }

    /// Records the outcome of a step: [`StepState::Done`], [`StepState::Failed`] or
    /// [`StepState::Unknown`].
    pub async fn record_outcome(&self, number: u32, state: StepState, outcome: Vec<u8>) -> Result<()> {
        let step = self.require_step(number)?;
        self.write(JobStep {
            state,
            outcome,
            ..step
        })
        .await
    }

    /// Records that a step is done, together with progress for the owner of the job.
    pub async fn record_done(&self, number: u32, outcome: Vec<u8>, progress: Progress) -> Result<()> {
        let step = JobStep {
            state: StepState::Done,
            outcome,
            ..self.require_step(number)?
        };
        self.write_with(step, progress).await
    }

    /// Returns the recorded steps, in no particular order.
    pub fn recorded_steps(&self) -> Vec<JobStep> {
        self.steps().clone()
    }

    /// Reports progress to the listener of a part, or to the owner of the job.
    pub async fn report_progress(&self, progress: Progress) -> Result<()> {
        if let Some(listener) = &self.listener {
            listener.on_progress(progress);
            return self.advance(JobAdvance::default()).await;
        }
        let advance = JobAdvance {
            phase: progress.phase,
            progress: progress.percent,
            events: progress.events,
            ..JobAdvance::default()
        };
        self.advance(advance).await
    }

    /// Writes an update of the job, with this process's activity if it differs from the recorded
    /// one.
    async fn advance(&self, mut advance: JobAdvance) -> Result<()> {
        {
            let mut work_state = self.work_state();
            if advance.step.is_some() {
                // A recorded step clears the suspicion.
                work_state.is_suspect = false;
                work_state.permit = work_state.permit.take().map(WorkPermit::share);
            }
            let activity = work_state.activity();
            advance.activity = (work_state.recorded != Some(activity)).then_some(activity);
            work_state.recorded = Some(activity);
        }
        if advance == JobAdvance::default() {
            return Ok(());
        }
        let has_activity = advance.activity.is_some();
        let written = self
            .jobs
            .advance(self.leased.lease, advance, self.clock.now())
            .await;
        if written.is_err() && has_activity {
            self.work_state().recorded = None;
        }
        written
    }

    fn require_step(&self, number: u32) -> Result<JobStep> {
        self.step(number).ok_or_else(|| {
            StorageError::new(
                StorageErrorKind::Conflict,
                format!("step {number} was not recorded before"),
            )
        })
    }

    async fn write(&self, step: JobStep) -> Result<()> {
        self.write_with(step, Progress::default()).await
    }

    async fn write_with(&self, step: JobStep, progress: Progress) -> Result<()> {
        let advance = JobAdvance {
            step: Some(step.clone()),
            phase: progress.phase,
            progress: progress.percent,
            events: progress.events,
            ..JobAdvance::default()
        };
        self.advance(advance).await?;
        let mut steps = self.steps();
        steps.retain(|require_step| require_step.number != step.number);
        steps.push(step);
        Ok(())
    }

    fn steps(&self) -> MutexGuard<'_, Vec<JobStep>> {
        self.leased.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the idempotency key of one attempt at a step; it is the same for each call.
fn key(job: JobId, number: u32, attempt: u32) -> String {
    let digest = Sha256::new()
        .chain_update(job.as_u128().to_be_bytes())
        .chain_update(number.to_be_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
