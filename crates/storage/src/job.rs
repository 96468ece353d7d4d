//! Jobs: work that continues after the response to its request and survives process deaths.
//!
//! A job is accepted together with its hold and ends together with its settlement: the caller never
//! pays for a missing result, and never receives an unpaid one. A worker has a *lease* on each job
//! that it executes; its writes are refused once another worker has leased the job. A request to a
//! provider is a *step*: the step is stored before the provider is called, and stored again with
//! the provider's handle before the provider is polled. An intended step without a handle may have
//! been executed, and is not requested again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_types::{
    AccountId, Credits, Error, ErrorCode, HoldId, JobId, JobStatus, PriceVersion, Principal, RequestId,
    StepState, Timestamp, Usage, WorkerId,
};

use crate::{
    CLOCK_TOLERANCE, HoldOutcome, NewHold, Resolution, Result, Settlement, StorageError, StorageErrorKind,
    UsagePart,
};

/// Number of consecutive deaths, without progress of the job in between, after which the job is
/// abandoned. A death counts if the process worked on the job; the last death counts only if the
/// process worked on no other job ([`JobActivity::WorkingAlone`]).
pub const MAX_DEATHS: u32 = 3;

/// Number of deaths after which a job is a suspect: from then on, a process works on no other job
/// concurrently.
pub const SUSPECT_DEATHS: u32 = MAX_DEATHS - 1;

/// Current activity of a process for a leased job. The activity determines whether a death of the
/// process counts against the job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobActivity {
    /// The process waits for a provider, so that its death is unrelated to the job.
    Waiting,
    /// The process computes, renders, downloads or reads, possibly for other jobs too. A death
    /// counts, but is not sufficient to abandon the job.
    #[default]
    Working,
    /// Like [`Working`](Self::Working), but the process works on no other job.
    WorkingAlone,
}

impl JobActivity {
    /// All activities, for parsing.
    pub const ALL: [Self; 3] = [Self::Waiting, Self::Working, Self::WorkingAlone];

    /// Returns the name used in storage.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Working => "working",
            Self::WorkingAlone => "working_alone",
        }
    }

    /// Parses the name used in storage.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|activity| activity.as_str() == name)
    }
}

/// A job to be accepted. Account, request and API key are those of its hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Unique id of the job.
    pub id: JobId,
    /// Kind of work, such as `image.generation`.
    pub kind: Arc<str>,
    /// Parameters of the job, in the format of its handler; possibly encrypted.
    pub body: Vec<u8>,
    /// Deadline for the start of the job; `None` for no deadline.
    pub start_by: Option<Timestamp>,
    /// URL of the webhook that reports the end of the job; possibly encrypted.
    pub webhook: Option<Vec<u8>>,
}

/// Error of a failed job, as shown to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// Error code of the API.
    pub code: ErrorCode,
    /// Human-readable message without provider names.
    pub message: String,
    /// Name of the request parameter that caused the error.
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
        let mut converted = Error::new(error.code, error.message.clone());
        converted.param.clone_from(&error.param);
        converted
    }
}

/// A stored job with its state and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The job as it was accepted: id, kind, parameters, start deadline and webhook.
    pub terms: NewJob,
    /// Account that owns and pays for the job.
    pub account: AccountId,
    /// The API key or member that created the job; `None` for a job that no request created.
    pub principal: Option<Principal>,
    /// Request that created the job.
    pub request: RequestId,
    /// Hold that pays for the job.
    pub hold: HoldId,
    /// Amount of the hold.
    pub held: Credits,
    /// Price version of the model at acceptance.
    pub price_version: PriceVersion,
    /// Model name as sent in the request.
    pub model: Arc<str>,
    /// Current status of the job.
    pub status: JobStatus,
    /// Current phase, named by the handler; empty before the job starts.
    pub phase: Arc<str>,
    /// Progress in percent, if known.
    pub progress: Option<u8>,
    /// Result in the format of the handler; possibly encrypted.
    pub result: Option<Vec<u8>>,
    /// Reason why there is no result.
    pub error: Option<JobError>,
    /// Whether the caller requested a cancellation.
    pub cancel_requested: bool,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time of the first lease.
    pub started_at: Option<Timestamp>,
    /// Time when the job ended.
    pub completed_at: Option<Timestamp>,
    /// Charge of the job; `None` until it has ended.
    pub charge: Option<Credits>,
    /// Usage of the job, such as its tokens.
    pub usage: Usage,
    /// Sequence number of the last event; zero before the first.
    pub last_event: u64,
}

/// A request to a provider, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStep {
    /// Number of the step within the job, from 0.
    pub number: u32,
    /// State of the step.
    pub state: StepState,
    /// Number of the attempt, from 1. Job id, step number and attempt determine the idempotency key
    /// at the provider.
    pub attempt: u32,
    /// Handle for polling the provider, in the format of the handler. While the step is intended,
    /// the provider that is called.
    pub handle: Vec<u8>,
    /// Outcome of the step, in the format of the handler.
    pub outcome: Vec<u8>,
}

impl JobStep {
    /// Returns a `Conflict` error unless this step may follow its earlier state: as the first
    /// attempt, as a result of the same attempt, or as the next attempt.
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
        let was = before.map_or("not stored", |before| before.state.as_str());
        let message = format!(
            "step {} is {was} and cannot become {} in attempt {}",
            self.number,
            self.state.as_str(),
            self.attempt
        );
        Err(StorageError::new(StorageErrorKind::Conflict, message))
    }
}

/// An event of a job. Events are numbered in order of occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEvent {
    /// Number of the event within the job, from 1.
    pub sequence: u64,
    /// Event type, such as `job.completed`.
    pub kind: Arc<str>,
    /// Event data: JSON in the format of the handler; possibly encrypted.
    pub body: Vec<u8>,
    /// Time of the event.
    pub at: Timestamp,
}

/// An event to be appended; the storage engine assigns its number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJobEvent {
    /// Event type, such as `job.completed`.
    pub kind: Arc<str>,
    /// Event data: JSON in the format of the handler; possibly encrypted.
    pub body: Vec<u8>,
}

impl NewJobEvent {
    /// The event type of [`NewJobEvent::cancelling`].
    pub const CANCELLING: &'static str = "job.cancelling";

    /// Returns the event of the first cancellation request for a started job.
    pub fn cancelling() -> Self {
        Self {
            kind: Self::CANCELLING.into(),
            body: Vec::new(),
        }
    }

    /// Returns the event of a new status: `job.queued`, `job.in_progress`, or the terminal status.
    pub fn status_changed(status: JobStatus) -> Self {
        Self {
            kind: format!("job.{}", status.as_str()).into(),
            body: Vec::new(),
        }
    }
}

/// The right of a worker to execute a job, until another worker leases the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobLease {
    /// Account that owns the job.
    pub account: AccountId,
    /// Job that is leased.
    pub job: JobId,
    /// Worker that holds the lease.
    pub worker: WorkerId,
    /// Fencing token: number of leases of the job so far. Writes with another number are refused.
    pub epoch: u64,
}

/// A leased job, with the state that its worker needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasedJob {
    /// The job to execute.
    pub job: Job,
    /// Steps of the job so far, sorted by number.
    pub steps: Vec<JobStep>,
    /// The worker's lease of the job.
    pub lease: JobLease,
    /// Number of consecutive processes that died while they worked on the job.
    pub deaths: u32,
    /// Activity in which the worker continues: [`JobActivity::Waiting`] or
    /// [`JobActivity::Working`].
    pub activity: JobActivity,
}

/// Maximum numbers of running jobs of one kind. Further jobs stay queued and delay no job of
/// another kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindCap {
    /// Kind of work, such as `research`.
    pub kind: Arc<str>,
    /// Maximum number of running jobs of this kind of one account, on all workers.
    pub per_account: u32,
    /// Maximum number of running jobs of this kind of one worker.
    pub per_worker: u32,
}

/// Limits for leasing jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobClaim {
    /// Worker that requests the leases.
    pub worker: WorkerId,
    /// Time of the claim. Jobs that are due at this time are leased.
    pub now: Timestamp,
    /// Time when the leases expire.
    pub until: Timestamp,
    /// Maximum number of jobs to lease.
    pub limit: u32,
    /// Maximum number of running jobs of one account on all workers.
    pub per_account: u32,
    /// Lower limits of single kinds, each kind once.
    pub caps: Arc<[KindCap]>,
}

/// Maximum pause before a worker continues a job.
pub const MAX_PAUSE: Duration = Duration::from_secs(300);

impl JobClaim {
    /// Returns the latest valid due time of a job. A later due time was written while the clock was
    /// ahead: the job is due now.
    pub fn latest_due(&self) -> Timestamp {
        self.now.plus(MAX_PAUSE + CLOCK_TOLERANCE)
    }

    /// Returns the latest valid end of a lease. A later end was written while the clock was ahead:
    /// the lease then ends at `until`, so that a live worker can renew it first.
    pub fn latest_lease(&self) -> Timestamp {
        self.until.plus(self.until.since(self.now) + CLOCK_TOLERANCE)
    }
}

/// Progress of a running job; `None` leaves a field unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobAdvance {
    /// A step with a new state.
    pub step: Option<JobStep>,
    /// New phase of the work.
    pub phase: Option<Arc<str>>,
    /// Progress in percent.
    pub progress: Option<u8>,
    /// New activity of the process.
    pub activity: Option<JobActivity>,
    /// Events to append.
    pub events: Vec<NewJobEvent>,
}

/// The end of a job, with its settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// Final status of the job.
    pub status: JobStatus,
    /// Result in the format of the handler; possibly encrypted.
    pub result: Option<Vec<u8>>,
    /// Reason why there is no result.
    pub error: Option<JobError>,
    /// Settlement of the job's hold.
    pub settlement: Settlement,
    /// Usage of each model, if several models worked on the job. The usage row of the job has these
    /// parts, numbered in this order.
    pub parts: Vec<UsagePart>,
    /// Events to append at the end of the job.
    pub events: Vec<NewJobEvent>,
}

/// Outcome of a cancellation request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobCancel {
    /// The job was not started: it is cancelled without cost.
    Cancelled(Box<Job>),
    /// The job is running; its worker is notified.
    Requested(Box<Job>),
    /// The job had already ended.
    Ended(Box<Job>),
}

/// Filter for listing the jobs of an account, newest first; `None` matches all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Only jobs of this kind.
    pub kind: Option<String>,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// Only jobs older than this one.
    pub before: Option<JobId>,
    /// Only jobs newer than this one. If more jobs than the limit match, the oldest of them are
    /// returned.
    pub after: Option<JobId>,
}

/// Filter for operators, over the jobs of all accounts, newest first; `None` matches all.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct JobSearch {
    /// Only jobs of this account.
    pub account: Option<AccountId>,
    /// Only the job with this id.
    pub id: Option<JobId>,
    /// Only jobs of this kind.
    pub kind: Option<String>,
    /// Only jobs older than this one.
    pub before: Option<JobId>,
    /// Only jobs that have not ended.
    pub is_unfinished: bool,
}

/// The newest and the unfinished jobs of an account, without their contents.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OpenJobs {
    /// Newest job of the account, finished or not.
    pub newest: Option<JobId>,
    /// Unfinished jobs, oldest first, each with the number of its last event.
    pub unfinished: Vec<(JobId, u64)>,
}

/// Stores jobs. Every method is atomic: a method that fails has written nothing.
#[async_trait]
pub trait JobStore: Send + Sync {
    /// Places the hold and stores the job, or does neither. A denied hold writes nothing. The hold
    /// does not expire before the job ends. `NotFound` if the account does not exist, `Conflict` if
    /// an id was used.
    async fn accept(&self, job: NewJob, hold: NewHold) -> Result<HoldOutcome>;

    /// Returns the account's job with this id; `None` if it does not exist.
    async fn get(&self, account: AccountId, id: JobId) -> Result<Option<Job>>;

    /// Lists up to `limit` jobs of an account, newest first.
    async fn list(&self, account: AccountId, filter: JobFilter, limit: u32) -> Result<Vec<Job>>;

    /// Returns the newest job of an account and up to `limit` unfinished jobs.
    async fn open_jobs(&self, account: AccountId, limit: u32) -> Result<OpenJobs>;

    /// Lists up to `limit` jobs of any account, newest first. For operators: the call may read all
    /// jobs.
    async fn search(&self, search: JobSearch, limit: u32) -> Result<Vec<Job>>;

    /// Leases due jobs without a worker: accepted jobs that can still start, and jobs whose lease
    /// has expired. Jobs of the accounts with the fewest running jobs come first, then the jobs
    /// that have waited longest. Jobs beyond a [`KindCap`] stay, and later jobs of other kinds or
    /// accounts are leased before them. The first lease starts a job. An expired lease that was not
    /// released means that its process has died. The death counts if the process worked on the job:
    /// up to [`SUSPECT_DEATHS`] deaths in any case, further deaths only if the process worked on
    /// the job alone.
    async fn claim(&self, claim: JobClaim) -> Result<Vec<LeasedJob>>;

    /// Extends all leases of a worker; returns those of its jobs that have a cancellation request.
    async fn renew(&self, worker: WorkerId, until: Timestamp) -> Result<Vec<JobId>>;

    /// Records progress of a job. `Conflict` if the lease is void, or if a step cannot change to
    /// the new state.
    async fn advance(&self, lease: JobLease, advance: JobAdvance, at: Timestamp) -> Result<()>;

    /// Releases a job that has not ended; a worker continues the work from `due` on.
    async fn release(&self, lease: JobLease, due: Timestamp) -> Result<()>;

    /// Releases the credits of a job's hold beyond `needed` before the job ends. Held allowance
    /// remains held until the end. After [`crate::audit::MAX_EARLY_RELEASES`] releases, further
    /// calls release nothing. Returns the amount that is still held. `Conflict` if the lease is
    /// void.
    async fn shrink_hold(&self, lease: JobLease, needed: Credits, at: Timestamp) -> Result<Credits>;

    /// Ends a job and settles its hold. If repeated with the same lease, the call returns the first
    /// result. `Conflict` if the lease is void.
    async fn finish(&self, lease: JobLease, end: JobEnd) -> Result<Resolution>;

    /// Cancels a job that was not started; otherwise requests its cancellation. The first request
    /// appends [`NewJobEvent::cancelling`] at this time; later requests change nothing. `NotFound`
    /// if the job does not exist.
    async fn cancel(&self, account: AccountId, id: JobId, at: Timestamp) -> Result<JobCancel>;

    /// Lists up to `limit` events of a job with a number greater than `after`, in order.
    async fn events(&self, account: AccountId, id: JobId, after: u64, limit: u32) -> Result<Vec<JobEvent>>;

    /// Ends up to `limit` jobs that were not started in time, without a charge, and returns their
    /// number.
    async fn expire(&self, now: Timestamp, limit: u32) -> Result<u64>;

    /// Deletes up to `limit` jobs that ended before this time and have no pending webhook, and
    /// returns their number.
    async fn sweep(&self, before: Timestamp, limit: u32) -> Result<u64>;

    /// Deletes an ended job with its parameters and result; its charge remains in the ledger.
    /// Returns whether the job existed. `Conflict` if it has not ended or its webhook is pending.
    async fn forget(&self, account: AccountId, id: JobId) -> Result<bool>;
}
