//! What carries a job of one kind out, and what it is given for that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tollgate_storage::{
    Job, JobAdvance, JobEnd, JobLease, JobStep, LeasedJob, NewJobEvent, Result, StorageError,
    StorageErrorKind,
};
use tollgate_types::{Clock, JobId, StepState};

use crate::Jobs;

/// Carries out the jobs of one kind.
#[async_trait]
pub trait Handler: Send + Sync {
    /// The name of the kind, such as `image.generation`. It is kept with each job and must not change.
    fn kind(&self) -> &'static str;

    /// Carries a job on from where its steps say it is. It is called again for the same job after the process has died or
    /// storage has failed, so before anything is asked of a provider the steps are looked at. A failure of storage leaves
    /// the job to the next who leases it.
    async fn run(&self, work: &mut Work) -> Result<Ran>;
}

/// What became of a run.
#[derive(Debug)]
pub enum Ran {
    /// The job has ended in this way.
    Ended(Box<JobEnd>),
    /// It is to be carried on after so long.
    Later(Duration),
}

/// Where a job is in its work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// In a word.
    pub phase: Option<Arc<str>>,
    /// In percent.
    pub percent: Option<u8>,
    /// What is told of it.
    pub events: Vec<NewJobEvent>,
}

/// A job that is carried out. Everything that is written of it is refused once another has the job. Clones are the same work.
#[derive(Clone)]
pub struct Work {
    jobs: Arc<Jobs>,
    clock: Arc<dyn Clock>,
    leased: Arc<Leased>,
    cancelled: CancellationToken,
    heard: Option<Arc<dyn Heard>>,
}

struct Leased {
    job: Job,
    lease: JobLease,
    steps: Mutex<Vec<JobStep>>,
}

/// Hears how far a part of a job is, which its owner is not told as it is.
pub trait Heard: Send + Sync {
    /// The part is there now.
    fn hear(&self, progress: Progress);
}

impl Work {
    pub(crate) fn new(
        jobs: Arc<Jobs>,
        clock: Arc<dyn Clock>,
        leased: LeasedJob,
        cancelled: CancellationToken,
    ) -> Self {
        let LeasedJob {
            job, steps, lease, ..
        } = leased;
        Self {
            jobs,
            clock,
            leased: Arc::new(Leased {
                job,
                lease,
                steps: Mutex::new(steps),
            }),
            cancelled,
            heard: None,
        }
    }

    /// The same work for one of several parts that are carried out side by side: what it tells goes to `heard` alone.
    pub fn part(&self, heard: Arc<dyn Heard>) -> Self {
        Self {
            heard: Some(heard),
            ..self.clone()
        }
    }

    /// The job as it was leased.
    pub fn job(&self) -> &Job {
        &self.leased.job
    }

    /// The right to it.
    pub fn lease(&self) -> JobLease {
        self.leased.lease
    }

    /// Becomes ready when the caller does not want the job any more.
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// What is known of the step of this number.
    pub fn step(&self, number: u32) -> Option<JobStep> {
        self.steps().iter().find(|step| step.number == number).cloned()
    }

    /// Writes down that a provider is asked next, and which one as its handler reads it; answers the key under which it is to be
    /// asked, which is another one for each attempt. `Conflict` when it may have been asked already.
    pub async fn intend(&self, number: u32, whom: Vec<u8>) -> Result<String> {
        let attempt = self.step(number).map_or(1, |step| step.attempt + 1);
        let step = JobStep {
            number,
            state: StepState::Intended,
            attempt,
            handle: whom,
            outcome: Vec::new(),
        };
        self.write(step).await?;
        Ok(key(self.leased.lease.job, number, attempt))
    }

    /// The key of the last attempt at a step, under which it may be asked for once more where that is carried out once.
    pub fn key(&self, number: u32) -> String {
        let attempt = self.step(number).map_or(1, |step| step.attempt);
        key(self.leased.lease.job, number, attempt)
    }

    /// Writes down how the provider is asked for the result.
    pub async fn submitted(&self, number: u32, handle: Vec<u8>) -> Result<()> {
        let step = self.known(number)?;
        self.write(JobStep {
            state: StepState::Submitted,
            handle,
            ..step
        })
        .await
    }

    /// Writes down what came of a step: [`StepState::Done`], [`StepState::Failed`] or [`StepState::Unknown`].
    pub async fn became(&self, number: u32, state: StepState, outcome: Vec<u8>) -> Result<()> {
        let step = self.known(number)?;
        self.write(JobStep {
            state,
            outcome,
            ..step
        })
        .await
    }

    /// Tells how far the job is.
    pub async fn tell(&self, progress: Progress) -> Result<()> {
        if let Some(heard) = &self.heard {
            heard.hear(progress);
            return Ok(());
        }
        let advance = JobAdvance {
            step: None,
            phase: progress.phase,
            progress: progress.percent,
            events: progress.events,
        };
        self.jobs
            .advance(self.leased.lease, advance, self.clock.now())
            .await
    }

    fn known(&self, number: u32) -> Result<JobStep> {
        self.step(number).ok_or_else(|| {
            StorageError::new(
                StorageErrorKind::Conflict,
                format!("step {number} was never intended"),
            )
        })
    }

    async fn write(&self, step: JobStep) -> Result<()> {
        let advance = JobAdvance {
            step: Some(step.clone()),
            ..JobAdvance::default()
        };
        let at = self.clock.now();
        self.jobs.advance(self.leased.lease, advance, at).await?;
        let mut steps = self.steps();
        steps.retain(|known| known.number != step.number);
        steps.push(step);
        Ok(())
    }

    fn steps(&self) -> MutexGuard<'_, Vec<JobStep>> {
        self.leased.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that is the same for one attempt at one step, whoever makes it.
fn key(job: JobId, number: u32, attempt: u32) -> String {
    let digest = Sha256::new()
        .chain_update(job.as_u128().to_be_bytes())
        .chain_update(number.to_be_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
