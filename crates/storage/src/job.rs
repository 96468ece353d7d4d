//! Jobs: work that goes on after its request was answered, however often the process dies.
//!
//! A job is accepted together with its hold and ends together with its settlement, so nobody pays for what does not exist and
//! nothing that exists is free. A worker has a *lease* on each job that it carries out; what it writes is refused once another
//! has the job. What is asked of a provider is a *step*: it is written down before the provider is asked, and again with the
//! handle before the provider is asked how it goes. So a step that was intended and has no handle may have been carried out,
//! and is not asked for a second time.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, JobId, JobStatus, KeyId, PriceVersion, RequestId,
    StepState, Timestamp, Usage, WorkerId,
};

use crate::{
    HoldOutcome, NewHold, Resolution, Result, Settlement, StorageError, StorageErrorKind, UsagePart,
};

/// After so many deaths of a process that had it, in a row and without a step forward, a job is not tried again.
pub const MOST_DEATHS: u32 = 3;

/// A job to be accepted. Its hold says whose it is, for which request and with which key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Id.
    pub id: JobId,
    /// What kind of work it is, such as `image.generation`.
    pub kind: Arc<str>,
    /// What is asked for, as its handler reads it. It may be sealed.
    pub body: Vec<u8>,
    /// When it is too late to begin it.
    pub start_by: Option<Timestamp>,
    /// An address that is told when it has ended. It may be sealed.
    pub webhook: Option<Vec<u8>>,
}

/// Why a job has no result, as its callers are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// Code.
    pub code: ErrorCode,
    /// For people; it names no provider.
    pub message: String,
    /// Which parameter is meant.
    pub param: Option<String>,
}

impl From<&Error> for JobError {
    fn from(error: &Error) -> Self {
        Self {
            code: error.code,
            message: error.message.clone(),
            param: error.param.clone(),
        }
    }
}

impl From<&JobError> for Error {
    fn from(error: &JobError) -> Self {
        let mut told = Error::new(error.code, error.message.clone());
        told.param.clone_from(&error.param);
        told
    }
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What was accepted.
    pub terms: NewJob,
    /// Whose.
    pub account: AccountId,
    /// With which key.
    pub key: Option<KeyId>,
    /// For which request.
    pub request: RequestId,
    /// What pays for it.
    pub hold: HoldId,
    /// How much that is.
    pub held: Credits,
    /// The prices that were in force when it was accepted.
    pub price_version: PriceVersion,
    /// The model as the caller named it.
    pub model: Arc<str>,
    /// What it is.
    pub status: JobStatus,
    /// Where it is in its work, in a word of its handler; empty until it was begun.
    pub phase: Arc<str>,
    /// How much of it is done, in percent, where that is known.
    pub progress: Option<u8>,
    /// What came of it, as its handler writes it. It may be sealed.
    pub result: Option<Vec<u8>>,
    /// Why nothing came of it.
    pub error: Option<JobError>,
    /// Whether its caller does not want it any more.
    pub cancel_requested: bool,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it was begun.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// What it has cost; none until it has ended.
    pub charge: Option<Credits>,
    /// What it has consumed.
    pub usage: Usage,
    /// The number of its last event; zero before the first.
    pub last_event: u64,
}

/// What one provider was asked for, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStep {
    /// Its number within the job, from 0.
    pub number: u32,
    /// What it is.
    pub state: StepState,
    /// Which attempt this is, from 1. With the job it makes the key under which the provider is asked.
    pub attempt: u32,
    /// How the provider is asked for the result: what it answered, as the handler reads it. Of a step that is only intended, who
    /// is asked.
    pub handle: Vec<u8>,
    /// What came of it, as its handler reads it.
    pub outcome: Vec<u8>,
}

impl JobStep {
    /// `Conflict` unless this may follow what the step was before: the first attempt, what has become of it, or the next attempt.
    pub fn check_after(&self, before: Option<&JobStep>) -> Result<()> {
        let may_follow = match before {
            None => self.state == StepState::Intended && self.attempt == 1,
            Some(before) => {
                let next = if self.state == StepState::Intended { 1 } else { 0 };
                before.state.may_become(self.state) && self.attempt == before.attempt + next
            }
        };
        if may_follow {
            return Ok(());
        }
        let was = before.map_or("nothing", |before| before.state.as_str());
        let message = format!(
            "step {} was {was} and cannot be {}",
            self.number,
            self.state.as_str()
        );
        Err(StorageError::new(StorageErrorKind::Conflict, message))
    }
}

/// Something that happened to a job, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Its number within the job, from 1.
    pub sequence: u64,
    /// What happened, such as `job.completed`.
    pub kind: Arc<str>,
    /// More of it: JSON, as its handler writes it. It may be sealed.
    pub body: Vec<u8>,
    /// When.
    pub at: Timestamp,
}

/// An event to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJobEvent {
    /// What happened.
    pub kind: Arc<str>,
    /// More of it.
    pub body: Vec<u8>,
}

impl NewJobEvent {
    /// The kind of [`NewJobEvent::cancelling`].
    pub const CANCELLING: &'static str = "job.cancelling";

    /// What a job that was begun tells once, when its caller does not want it any more.
    pub fn cancelling() -> Self {
        Self {
            kind: Self::CANCELLING.into(),
            body: Vec::new(),
        }
    }

    /// What every job tells when it becomes this: `job.queued`, `job.in_progress`, and how it ends.
    pub fn became(status: JobStatus) -> Self {
        Self {
            kind: format!("job.{}", status.as_str()).into(),
            body: Vec::new(),
        }
    }
}

/// The right of a worker to carry a job out. It is void when another has the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobLease {
    /// Whose job.
    pub account: AccountId,
    /// Which.
    pub job: JobId,
    /// Who has it.
    pub worker: WorkerId,
    /// How often it has been leased: an older number is refused.
    pub epoch: u64,
}

/// A job that is to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    /// The job.
    pub job: Job,
    /// Its steps so far, in their order.
    pub steps: Vec<JobStep>,
    /// The right to it.
    pub lease: JobLease,
    /// How many processes in a row have died with it.
    pub deaths: u32,
}

/// What a worker can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobClaim {
    /// Who asks.
    pub worker: WorkerId,
    /// The time.
    pub now: Timestamp,
    /// Until when the leases are.
    pub until: Timestamp,
    /// How many jobs.
    pub limit: u32,
    /// How many of one account may run at once, on all workers together.
    pub per_account: u32,
}

/// What is written of a job that is carried out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobAdvance {
    /// A step that has become something.
    pub step: Option<JobStep>,
    /// Where the work is now; as before when none.
    pub phase: Option<Arc<str>>,
    /// How much of it is done.
    pub progress: Option<u8>,
    /// What is told of it.
    pub events: Vec<NewJobEvent>,
}

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// What it becomes: a terminal status.
    pub status: JobStatus,
    /// What came of it.
    pub result: Option<Vec<u8>>,
    /// Why nothing came of it.
    pub error: Option<JobError>,
    /// How its hold is resolved.
    pub settlement: Settlement,
    /// What each model did of it, when several did: lines of its usage row, numbered as they are ordered.
    pub parts: Vec<UsagePart>,
    /// The last things that are told of it.
    pub events: Vec<NewJobEvent>,
}

/// What became of a wish to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobCancel {
    /// Nobody had begun it: it is cancelled and costs nothing.
    Cancelled(Box<Job>),
    /// Whoever carries it out is told.
    Requested(Box<Job>),
    /// It had ended before.
    Ended(Box<Job>),
}

/// Which jobs are listed: newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Of this kind.
    pub kind: Option<String>,
    /// With this status.
    pub status: Option<JobStatus>,
    /// Older than this one.
    pub before: Option<JobId>,
    /// Newer than this one: those next to it when there are more than are asked for.
    pub after: Option<JobId>,
}

/// Which jobs of any account operators look for: newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobSearch {
    /// Of this account.
    pub account: Option<AccountId>,
    /// With this id.
    pub id: Option<JobId>,
    /// Of this kind.
    pub kind: Option<String>,
    /// Older than this one.
    pub before: Option<JobId>,
}

/// Keeps jobs. Every method is atomic; a method that fails has written nothing.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Takes the hold and keeps the job, or neither. A denied one has written nothing. The hold has no end of its own: it lasts as
    /// long as the job. `NotFound` when there is no such account; `Conflict` when an id was used.
    async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome>;

    /// A job of an account.
    async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>>;

    /// Jobs of an account, newest first, at most `limit`.
    async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>>;

    /// Jobs of any account, newest first, at most `limit`. It is for operators: it may read all jobs.
    async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>>;

    /// Leases jobs that nobody carries out and that are due: those that were accepted and can still be begun, and those whose lease
    /// is over. Who has the fewest running comes first, then who has waited longest. A job that is leased for the first time is begun by that.
    async fn claim(&self, claim: JobClaim) -> Result<Vec<LeasedJob>>;

    /// Prolongs every lease of a worker; answers those of its jobs whose callers do not want them any more.
    async fn renew(&self, worker: WorkerId, until: Timestamp) -> Result<Vec<JobId>>;

    /// Writes down what has become of a job. `Conflict` when the lease is void, or a step cannot become that.
    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()>;

    /// Gives a job back before it has ended, to be carried on from `due`.
    async fn release(&self, lease: JobLease, due: Timestamp) -> Result<()>;

    /// Gives back to credits what the hold of a job has beyond what is `needed`, before the job ends: what its work cannot cost any
    /// more. What is of an allowance stays until then, and so does the rest once something went back [`crate::audit::MOST_EARLY`] times.
    /// Answers what is held now. `Conflict` when the lease is void.
    async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits>;

    /// Ends a job and resolves its hold. The same lease again answers the first result. `Conflict` when the lease is void.
    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution>;

    /// Cancels a job that nobody has begun, else asks whoever carries it out. The first to ask makes it tell
    /// [`NewJobEvent::cancelling`], at this time; to ask again changes nothing. `NotFound` when there is none.
    async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel>;

    /// What has happened to a job after the event of this number, at most `limit`.
    async fn events(&self, account: AccountId, id: JobId, after: u64, limit: u32) -> Result<Vec<JobEvent>>;

    /// Ends jobs that nobody has begun in time, at most `limit`; answers how many. They cost nothing.
    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Forgets jobs that have ended before then and of which nobody is to be told any more, at most `limit`; answers how many.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;

    /// Forgets one job that has ended, with what it was asked for and what came of it; what it has cost stays in the books. Whether
    /// there was one. `Conflict` when it has not ended, or somebody is still to be told.
    async fn forget(&self, account: AccountId, id: JobId) -> Result<bool>;
}
