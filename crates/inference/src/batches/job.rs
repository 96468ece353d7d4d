//! Executes batches as jobs. Each line is recorded before its call and again with its result. If a
//! process takes over a batch, started lines without a result are not repeated, because their calls
//! may have been made. The charge of the batch is the sum of its lines.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_jobs::{Handler, JobOutcome, Jobs, Webhooks, Work, sealed};
use tollgate_pipeline::Pipeline;
use tollgate_storage::{
    AccountStore, BatchLine, BatchStore, Compat, FileRecord, Job, JobLease, KeyMode, LineState, NewJobEvent,
    PriceStore, StorageError, StorageErrorKind,
};
use tollgate_types::id::IdSource;
use tollgate_types::{AccountId, Clock, Error, ErrorCode, Prices, RequestId, Timestamp};

use super::hold_release::HoldRelease;
use super::lines::{Line, Lines};
use super::native::SubmittedChunks;
use super::outputs::{self, LineCost, Place, line_of};
use super::payload::{BatchPayload, KIND, MESSAGES_KIND, Outcome};
use super::request::{NamedRequest, Reading};
use crate::files::Files;
use crate::responses::store::unavailable;

/// Maximum number of concurrent lines of an account on a node, over all its batches.
pub(super) const MAX_CONCURRENT_LINES: usize = 16;
/// Maximum number of concurrent lines of a node.
const MAX_CONCURRENT_LINES_PER_NODE: usize = 128;
/// Maximum number of batches per node that submit lines to a provider or read results.
const MAX_CONCURRENT_SUBMISSIONS: usize = 2;
/// Maximum number of attempts per line if the providers do not accept the call.
const MAX_ATTEMPTS: u32 = 3;
/// Delay between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of job events per query.
const EVENTS_PAGE_SIZE: u32 = 100;

/// Executes file batches as jobs of kind `batch`.
pub struct Batches {
    /// Queue of the batch jobs.
    pub jobs: Arc<Jobs>,
    /// Stored lines of the batches.
    pub store: Arc<dyn BatchStore>,
    /// Input and result files.
    pub files: Arc<Files>,
    /// Routes, admits, meters and settles every model call.
    pub pipeline: Arc<Pipeline>,
    /// Encrypts requests and results.
    pub vault: Vault,
    /// Accounts of the callers.
    pub accounts: Arc<dyn AccountStore>,
    /// Price versions, to charge the prices at acceptance.
    pub prices: Arc<dyn PriceStore>,
    /// Delivers webhooks when batches end.
    pub webhooks: Arc<Webhooks>,
    /// Default limit on the estimated tokens of the unfinished batches of an account.
    pub max_open_tokens: u64,
    /// Source of request ids.
    pub ids: Arc<IdSource>,
    /// Clock for deadlines and event times.
    pub clock: Arc<dyn Clock>,
    /// Limits on concurrent lines.
    pub slots: LineSlots,
}

/// Semaphores that limit the concurrent lines of a node and of each account.
pub struct LineSlots {
    node: Arc<Semaphore>,
    /// Limits the batches that submit lines or read results, because the lines and results are held
    /// in memory.
    pub(super) submission: Semaphore,
    accounts: Mutex<HashMap<AccountId, Arc<Semaphore>>>,
}

impl Default for LineSlots {
    fn default() -> Self {
        Self {
            node: Arc::new(Semaphore::new(MAX_CONCURRENT_LINES_PER_NODE)),
            submission: Semaphore::new(MAX_CONCURRENT_SUBMISSIONS),
            accounts: Mutex::default(),
        }
    }
}

impl LineSlots {
    fn of(&self, account: AccountId) -> Arc<Semaphore> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove the semaphores that no batch uses.
        accounts.retain(|_, slots| Arc::strong_count(slots) > 1);
        let slots = accounts.entry(account);
        slots
            .or_insert_with(|| Arc::new(Semaphore::new(MAX_CONCURRENT_LINES)))
            .clone()
    }
}

/// Reason why no more lines are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// All lines were started.
    End,
    Expired,
    Cancelled,
    /// The process is shutting down.
    ShuttingDown,
}

/// Data that all lines of a batch share.
pub(super) struct BatchRun<'w> {
    pub(super) job: &'w Job,
    pub(super) lease: JobLease,
    pub(super) payload: &'w BatchPayload,
    pub(super) reading: Reading,
    pub(super) caller: Caller,
    pub(super) agreed: Prices,
    slots: Arc<Semaphore>,
    /// Whether a line has ended in this run.
    has_progressed: AtomicBool,
    /// Releases the part of the hold that is no longer needed.
    hold_release: HoldRelease,
}

impl BatchRun<'_> {
    pub(super) fn place<'p>(&'p self, number: u32, custom_id: &'p str) -> Place<'p> {
        Place {
            batch: self.job,
            endpoint: self.payload.endpoint,
            number,
            custom_id,
        }
    }
}

type Running<'r> = Pin<Box<dyn Future<Output = tollgate_storage::Result<()>> + Send + 'r>>;

impl Batches {
    pub(super) fn payload(&self, job: &Job) -> Result<BatchPayload, Error> {
        sealed::open(&self.vault, job, &job.terms.body)
    }

    pub(super) fn outcome(&self, job: &Job) -> Result<Option<Outcome>, Error> {
        let sealed = job.result.as_deref();
        sealed
            .map(|sealed| sealed::open(&self.vault, job, sealed))
            .transpose()
    }

    /// Returns the caller of the batch and the prices at its acceptance.
    async fn agreed(&self, job: &Job, payload: &BatchPayload) -> Result<(Caller, Prices), Error> {
        let mode = KeyMode::parse(&payload.mode).unwrap_or(KeyMode::Live);
        let compat = Compat::parse(&payload.compat).unwrap_or(Compat::Strict);
        let caller = Caller::of_job(&*self.accounts, job, mode, compat).await;
        let caller = caller.map_err(|error| unavailable(&error))?;
        let agreed = self.prices.get(job.price_version).await;
        let agreed = agreed.map_err(|error| unavailable(&error))?;
        let agreed = agreed.ok_or_else(|| Error::internal("the price version of a batch does not exist"))?;
        Ok((caller, agreed.prices))
    }

    pub(super) fn stop(&self, work: &Work, payload: &BatchPayload) -> Option<StopReason> {
        if work.cancelled().is_cancelled() {
            Some(StopReason::Cancelled)
        } else if self.clock.now() >= payload.expires_at() {
            Some(StopReason::Expired)
        } else if self.pipeline.calls.is_closed() {
            Some(StopReason::ShuttingDown)
        } else {
            None
        }
    }

    /// Executes the lines that were not started yet.
    async fn lines(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        file: &FileRecord,
        started: &HashSet<u32>,
    ) -> tollgate_storage::Result<StopReason> {
        let content = self
            .files
            .open(file, None)
            .await
            .map_err(|error| to_storage_error(&error))?;
        let (mut lines, mut next) = (Lines::new(content), 0);
        let mut running: FuturesUnordered<Running<'_>> = FuturesUnordered::new();
        let mut stop = None;
        loop {
            while stop.is_none() && running.len() < MAX_CONCURRENT_LINES {
                stop = self.stop(work, run.payload);
                if stop.is_some() {
                    break;
                }
                match lines.next().await? {
                    None => stop = Some(StopReason::End),
                    Some(line) => {
                        let number = next;
                        next += 1;
                        if !started.contains(&number) {
                            running.push(Box::pin(self.line(run, number, line)));
                        }
                    }
                }
            }
            match (running.next().await, stop) {
                (Some(ended), _) => ended?,
                (None, Some(stop)) => return Ok(stop),
                (None, None) => {}
            }
        }
    }

    /// Executes one line within the limits on concurrent lines, and records its result.
    async fn line(&self, run: &BatchRun<'_>, number: u32, line: Line) -> tollgate_storage::Result<()> {
        let _permits = (
            run.slots.acquire().await.map_err(slots_closed)?,
            self.slots.node.acquire().await.map_err(slots_closed)?,
        );
        let (job, version) = (run.job, run.job.price_version);
        let now = self.clock.now();
        if !self.store.begin(run.lease, number, version, now).await? {
            return Ok(());
        }
        let named = line
            .text
            .as_deref()
            .map(|text| NamedRequest::read(text, run.payload.endpoint));
        let (content, state, cost) = match named {
            Some(Ok(named)) => self.answer(run, number, &named).await,
            _ => {
                let error = Error::internal("a validated line is malformed");
                let content = outputs::failed(&run.place(number, ""), self.request(), &error);
                (content, LineState::Failed, LineCost::default())
            }
        };
        let sealed = self.sealed(job, &content)?;
        self.ended(run, line_of(job, number, state, sealed, &cost)).await
    }

    /// Records the result of a line and adds its unused part of the hold to [`HoldRelease`]. The
    /// first result of a run resets the number of process deaths of the job.
    pub(super) async fn ended(&self, run: &BatchRun<'_>, line: BatchLine) -> tollgate_storage::Result<()> {
        let excess = line.held.saturating_sub(line.charge);
        self.store.end(run.lease, line, self.clock.now()).await?;
        run.hold_release.add(self, run, excess).await?;
        match run.has_progressed.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => self.store.reset_deaths(run.lease).await,
        }
    }

    async fn answer(
        &self,
        run: &BatchRun<'_>,
        number: u32,
        named: &NamedRequest,
    ) -> (Vec<u8>, LineState, LineCost) {
        let place = run.place(number, &named.custom_id);
        let mut attempt = 1;
        loop {
            let request = self.request();
            let ctx = RequestContext::for_background(request, self.clock.now(), None);
            let (pipeline, settled) = self.pipeline.executing_batch_line(run.job);
            let result = match named.prepare(&pipeline, &ctx, &run.caller, &run.reading) {
                Ok(call) => call.make(&pipeline, &ctx, run.job, run.agreed).await,
                Err(error) => Err(error),
            };
            let cost = LineCost::from(&*settled);
            let error = match result {
                Ok(body) => {
                    let content = outputs::answered(&place, request, &body);
                    return (content, LineState::Done, cost);
                }
                Err(error) => error,
            };
            let is_free = cost
                .settlement
                .as_ref()
                .is_none_or(|settled| settled.charge.is_zero());
            if is_free && attempt < MAX_ATTEMPTS && is_transient(&error) {
                attempt += 1;
                tokio::time::sleep(RETRY_INTERVAL).await;
                continue;
            }
            let content = outputs::failed(&place, request, &error);
            return (content, LineState::Failed, cost);
        }
    }

    pub(super) fn request(&self) -> RequestId {
        RequestId::from_u128(self.ids.next(self.clock.now()))
    }

    pub(super) fn sealed(&self, job: &Job, content: &[u8]) -> tollgate_storage::Result<Vec<u8>> {
        let sealed = self.vault.seal(job.account, job.terms.id.as_u128(), content);
        sealed.map_err(|error| StorageError::new(StorageErrorKind::Corrupt, error.to_string()))
    }

    /// Fails lines that an earlier process started and did not finish. Their calls may have been
    /// made, and they are not charged.
    async fn end_abandoned(
        &self,
        run: &BatchRun<'_>,
        file: &FileRecord,
        abandoned: &HashSet<u32>,
    ) -> tollgate_storage::Result<()> {
        if abandoned.is_empty() {
            return Ok(());
        }
        let content = self
            .files
            .open(file, None)
            .await
            .map_err(|error| to_storage_error(&error))?;
        let (mut lines, mut number) = (Lines::new(content), 0);
        while let Some(line) = lines.next().await? {
            if abandoned.contains(&number) {
                let named = line
                    .text
                    .and_then(|text| NamedRequest::read(&text, run.payload.endpoint).ok());
                let custom_id = named.map(|named| named.custom_id).unwrap_or_default();
                let message = "The gateway stopped while it executed the request. The request was not charged. \
                               Send it again in a new batch.";
                let error = Error::new(ErrorCode::InternalError, message);
                let content = outputs::failed(&run.place(number, &custom_id), self.request(), &error);
                let sealed = self.sealed(run.job, &content)?;
                let ended = line_of(run.job, number, LineState::Failed, sealed, &LineCost::default());
                self.store.end(run.lease, ended, self.clock.now()).await?;
            }
            number += 1;
        }
        Ok(())
    }

    async fn execute(&self, work: &mut Work) -> Result<JobOutcome, Error> {
        let job = work.job().clone();
        let payload = self.payload(&job)?;
        if let Some(fault) = payload.faults.first() {
            let error = Error::new(ErrorCode::InvalidParameter, fault.message.clone());
            return Ok(self.failed(&job, &error));
        }
        let file = self.files.find(job.account, payload.input).await?;
        let Some(file) = file else {
            let message = "The input file no longer exists. Upload it again and create a new batch.";
            let states = self.store.counts(job.account, job.terms.id).await;
            let counts = states.map_err(|error| unavailable(&error))?;
            if counts.done + counts.failed + counts.started == 0 {
                return Ok(self.failed(&job, &Error::new(ErrorCode::NotFound, message)));
            }
            return self.finalize(work, &payload, None, StopReason::Expired).await;
        };
        let (caller, agreed) = self.agreed(&job, &payload).await?;
        let run = BatchRun {
            job: &job,
            lease: work.lease(),
            payload: &payload,
            reading: payload.reading(),
            caller,
            agreed,
            slots: self.slots.of(job.account),
            has_progressed: AtomicBool::new(false),
            hold_release: HoldRelease::new(self, &job).await?,
        };
        work.pause_work().await.map_err(|error| unavailable(&error))?;
        let (stop, pause) = self.all_lines(work, &run, &file).await?;
        match (stop, pause) {
            (StopReason::ShuttingDown, _) => Ok(JobOutcome::Later(Duration::ZERO)),
            (_, Some(pause)) => Ok(JobOutcome::Later(pause)),
            (stop, None) => {
                work.resume_work().await.map_err(|error| unavailable(&error))?;
                self.finalize(work, &payload, Some(&file), stop).await
            }
        }
    }

    /// Executes all lines, in native batches of the provider or one by one. Returns the reason why
    /// no more lines are started, and the delay until the next run if lines remain unsettled.
    async fn all_lines(
        &self,
        work: &Work,
        run: &BatchRun<'_>,
        file: &FileRecord,
    ) -> Result<(StopReason, Option<Duration>), Error> {
        let states = self.store.states(run.job.account, run.job.terms.id).await;
        let states = states.map_err(|error| unavailable(&error))?;
        let mut started: HashSet<u32> = states.iter().map(|(number, _)| *number).collect();
        // The results of submitted lines can still be fetched from the provider.
        let submitted = SubmittedChunks::of(work)?.lines();
        let is_abandoned =
            |(number, state): &&(u32, LineState)| *state == LineState::Started && !submitted.contains(number);
        let abandoned = states.iter().filter(is_abandoned).map(|(number, _)| *number);
        let abandoned = self.end_abandoned(run, file, &abandoned.collect()).await;
        abandoned.map_err(|error| unavailable(&error))?;
        let later = self.submit_chunks(work, run, file, &started).await?;
        let submitted = SubmittedChunks::of(work)?;
        started.extend(submitted.lines());
        let is_complete = started.len() as u64 >= u64::from(run.payload.total);
        let stop = match self.stop(work, run.payload) {
            Some(StopReason::ShuttingDown) => return Ok((StopReason::ShuttingDown, None)),
            // The remaining lines are submitted later.
            None if later.is_some() => StopReason::End,
            stop if is_complete && !submitted.is_empty() => stop.unwrap_or(StopReason::End),
            _ => {
                let stop = self.lines(work, run, file, &started).await;
                stop.map_err(|error| unavailable(&error))?
            }
        };
        let pause = match stop {
            StopReason::ShuttingDown => None,
            stop => self.poll_chunks(work, run, file, stop).await?,
        };
        let later = later.filter(|_| stop == StopReason::End);
        Ok((stop, pause.into_iter().chain(later).min()))
    }

    /// Returns the time of the first event of this kind.
    pub(super) async fn first_event_at(&self, job: &Job, kind: &str) -> Result<Option<Timestamp>, Error> {
        let mut read = 0;
        loop {
            let events = self
                .jobs
                .events(job.account, job.terms.id, read, EVENTS_PAGE_SIZE)
                .await;
            let events = events.map_err(|error| unavailable(&error))?;
            let Some(last) = events.last() else {
                return Ok(None);
            };
            read = last.sequence;
            if let Some(event) = events.iter().find(|event| &*event.kind == kind) {
                return Ok(Some(event.at));
            }
        }
    }

    /// Returns the time at which cancellation was requested.
    pub(super) async fn cancelling_at(
        &self,
        job: &Job,
        outcome: Option<&Outcome>,
    ) -> Result<Option<Timestamp>, Error> {
        let known = outcome.and_then(|outcome| outcome.cancelling_at);
        if known.is_some() || !job.cancel_requested {
            return Ok(known);
        }
        // A batch that had not started was cancelled immediately.
        let requested_at = self.first_event_at(job, NewJobEvent::CANCELLING).await?;
        Ok(requested_at.or(job.completed_at))
    }
}

#[async_trait]
impl Handler for Batches {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        match self.execute(work).await {
            Ok(ran) => Ok(ran),
            Err(error) => {
                tracing::warn!(%error, job.id = %work.job().terms.id, "cannot execute a batch, will retry");
                Ok(JobOutcome::Later(RETRY_INTERVAL))
            }
        }
    }
}

/// Executes message batches in the same way as file batches.
pub struct MessageBatches(pub Arc<Batches>);

#[async_trait]
impl Handler for MessageBatches {
    fn kind(&self) -> &'static str {
        MESSAGES_KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        self.0.run(work).await
    }
}

/// Whether a later attempt may succeed.
fn is_transient(error: &Error) -> bool {
    matches!(
        error.code,
        ErrorCode::RateLimitExceeded | ErrorCode::Overloaded | ErrorCode::ModelUnavailable
    )
}

fn to_storage_error(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, error.to_string())
}

fn slots_closed(_: tokio::sync::AcquireError) -> StorageError {
    StorageError::new(StorageErrorKind::Unavailable, "the semaphore for lines is closed")
}
