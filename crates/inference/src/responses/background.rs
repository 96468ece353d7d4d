//! Background responses. Each one is a job with one step, the model call. The result of the call is
//! recorded before the response is stored and the job ends. If the process dies after that, another
//! one stores the response without repeating the call.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses::{Echo, Identity, encode_unfinished};
use tollgate_jobs::{Handler, JobOutcome, Jobs, Work, sealed};
use tollgate_pipeline::job::Settled;
use tollgate_pipeline::{Admission, Delivered, Pipeline};
use tollgate_storage::{
    AccountStore, Compat, Job, JobCancel, JobEnd, JobError, KeyMode, NewJob, NewJobEvent, PriceStore,
    Settlement, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome;
use tollgate_types::{
    AccountId, Clock, Credits, Error, ErrorCode, JobId, JobStatus, ResponseId, StepState, Timestamp, Usage,
};

use super::conversation::ResolvedRequest;
use super::event_log;
use super::events::Events;
use super::service::{self, Prepared, ResponseMeta, prepare_resolved, seconds};
use super::store::{Responses, Turn, unavailable};
use crate::Inference;
use crate::admission::{self, admit};

/// Job kind of background responses.
const KIND: &str = "response";
/// Number of the only step, the model call.
const CALL_STEP: u32 = 0;
/// Maximum number of attempts if the providers do not accept the call.
const MAX_ATTEMPTS: u32 = 3;
/// Delay before the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Age of a job from which its call is no longer retried.
const RETRY_TIMEOUT: Duration = Duration::from_hours(1);

/// Executes background responses as jobs.
pub struct Background {
    /// Queue of the background jobs.
    pub jobs: Arc<Jobs>,
    /// Routes, admits, meters and settles every model call.
    pub pipeline: Arc<Pipeline>,
    /// Stored objects of the Responses API.
    pub responses: Arc<Responses>,
    /// Encrypts requests and results of jobs.
    pub vault: Vault,
    /// Accounts of the callers.
    pub accounts: Arc<dyn AccountStore>,
    /// Price versions, to charge the prices at acceptance.
    pub prices: Arc<dyn PriceStore>,
    /// Clock for deadlines and event times.
    pub clock: Arc<dyn Clock>,
}

/// Stored request of a background response.
#[derive(Serialize, Deserialize)]
struct BackgroundPayload {
    /// The request body, with all references resolved.
    body: String,
    /// Input items of the request itself.
    input: Vec<Value>,
    previous: Option<ResponseId>,
    accepted_at: Timestamp,
    max_cost: Option<Credits>,
    mode: String,
    compat: String,
    /// Whether the events of the response are recorded.
    #[serde(default)]
    stream: bool,
}

/// Result of a finished call.
#[derive(Serialize, Deserialize)]
struct FinishedCall {
    turn: Turn,
    charge: Credits,
    overrun: Credits,
    usage: Usage,
    outcome: Outcome,
    estimated: bool,
    /// The target that served the call.
    #[serde(rename = "provider")]
    target: String,
    first_at: Option<Timestamp>,
    ended_at: Timestamp,
    /// Events that are not written yet.
    #[serde(default)]
    rest: String,
}

/// Accepts a request as a job and returns the queued response object.
pub(super) async fn accept(
    inference: &Inference,
    ctx: &RequestContext,
    mut prepared: Prepared,
) -> Result<Bytes, Error> {
    let Background {
        jobs,
        pipeline,
        vault,
        ..
    } = &*inference.background;
    let caller = &prepared.request.caller;
    let body = String::from_utf8(prepared.resolved.body.to_vec());
    let payload = BackgroundPayload {
        body: body.map_err(|error| Error::internal(error.to_string()))?,
        input: prepared.resolved.take_own_items()?,
        previous: prepared.resolved.previous,
        accepted_at: ctx.accepted_at,
        max_cost: ctx.max_cost.amount(),
        mode: caller.mode.as_str().to_owned(),
        compat: caller.compat.as_str().to_owned(),
        stream: prepared.stream,
    };
    let id = JobId::from_u128(ctx.id.as_u128());
    let job = NewJob {
        id,
        kind: Arc::from(KIND),
        body: sealed::seal(vault, caller.account_id(), id, &payload)?,
        start_by: None,
        webhook: None,
    };
    let pipeline = pipeline.accepting_job(jobs.clone(), job);
    let admission = admit(&pipeline, ctx, prepared.routed, prepared.request).await?;
    admission.defer_to_worker(&pipeline).await;
    let ResponseMeta { identity, echo, .. } = &prepared.meta;
    let response = encode_unfinished(identity, echo, "queued", None);
    Ok(Bytes::from(response.to_string()))
}

/// Outcome of one attempt.
struct CallResult {
    response: Result<Bytes, Error>,
    /// Events that are not written yet.
    rest: Vec<u8>,
    /// Whether any event was recorded.
    has_started: bool,
}

impl CallResult {
    fn whole(response: Result<Bytes, Error>) -> Self {
        Self {
            response,
            rest: Vec::new(),
            has_started: false,
        }
    }
}

/// An admitted call.
struct Ready {
    pipeline: Arc<Pipeline>,
    settled: Arc<Settled>,
    ctx: RequestContext,
    admission: Admission,
    meta: ResponseMeta,
}

impl Background {
    /// Returns a response that is unfinished or ended without a result. Returns `None` if the id
    /// belongs to no background response, or if the response is stored.
    pub(super) async fn unfinished(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let Some(job) = self.job(account, id).await? else {
            return Ok(None);
        };
        match job.status {
            JobStatus::Completed => Ok(None),
            _ => self.shown(&job).map(Some),
        }
    }

    /// Cancels a background response and returns it; `None` if the id belongs to no background
    /// response, or if the response has completed.
    pub(super) async fn cancel(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let Some(job) = self.job(account, id).await? else {
            return Ok(None);
        };
        let cancelled = self.jobs.cancel(account, job.terms.id, self.clock.now()).await;
        match cancelled.map_err(|error| unavailable(&error))? {
            JobCancel::Cancelled(job) => self.shown(&job).map(Some),
            JobCancel::Ended(job) if job.status != JobStatus::Completed => self.shown(&job).map(Some),
            JobCancel::Ended(_) => Ok(None),
            // Wait until the executing node has processed the cancellation.
            JobCancel::Requested(job) => {
                let waited = self.jobs.wait(account, job.terms.id, None, RETRY_INTERVAL).await;
                let now = waited.map_err(|error| unavailable(&error))?.unwrap_or(*job);
                self.shown(&now).map(Some)
            }
        }
    }

    pub(super) async fn job(&self, account: AccountId, id: &str) -> Result<Option<Job>, Error> {
        let Ok(id) = id.parse::<ResponseId>() else {
            return Ok(None);
        };
        let job = self.jobs.get(account, JobId::from_u128(id.as_u128())).await;
        let job = job.map_err(|error| unavailable(&error))?;
        Ok(job.filter(|job| &*job.terms.kind == KIND))
    }

    /// Returns the response object at its acceptance, with status `queued`.
    pub(super) fn accepted(&self, job: &Job) -> Result<Value, Error> {
        let payload = self.payload(job)?;
        let echo = Echo::of(payload.body.as_bytes())?;
        Ok(encode_unfinished(&payload.identity(job), &echo, "queued", None))
    }

    /// Returns the response object of a job that has not produced a response.
    pub(super) fn shown(&self, job: &Job) -> Result<Value, Error> {
        let payload = self.payload(job)?;
        let echo = Echo::of(payload.body.as_bytes())?;
        let status = match job.status {
            JobStatus::Queued => "queued",
            JobStatus::InProgress | JobStatus::Completed => "in_progress",
            JobStatus::Cancelled => "cancelled",
            JobStatus::Failed | JobStatus::Expired => "failed",
        };
        let error = job
            .error
            .as_ref()
            .map(|error| (openai_error_code(error.code), &*error.message));
        Ok(encode_unfinished(&payload.identity(job), &echo, status, error))
    }

    /// Whether the events of the response are recorded.
    pub(super) fn is_streamed(&self, job: &Job) -> Result<bool, Error> {
        Ok(self.payload(job)?.stream)
    }

    fn payload(&self, job: &Job) -> Result<BackgroundPayload, Error> {
        sealed::open(&self.vault, job, &job.terms.body)
    }

    /// Repeats all steps before the call, with the prices and the hold of the acceptance.
    async fn ready(&self, job: &Job, payload: &BackgroundPayload) -> Result<Ready, Error> {
        let mode = KeyMode::parse(&payload.mode).unwrap_or(KeyMode::Live);
        let compat = Compat::parse(&payload.compat).unwrap_or(Compat::Strict);
        let caller = Caller::of_job(&*self.accounts, job, mode, compat).await;
        let caller = caller.map_err(|error| unavailable(&error))?;
        let ctx = RequestContext::for_background(job.request, payload.accepted_at, payload.max_cost);
        let resolved = ResolvedRequest::whole(Bytes::from(payload.body.clone()), payload.previous);
        let (pipeline, settled) = self.pipeline.executing_job(job);
        let mut prepared = prepare_resolved(&pipeline, &ctx, caller, resolved)?;
        if prepared.routed.model.price_version != job.price_version {
            let agreed = self.prices.get(job.price_version).await;
            let agreed = agreed.map_err(|error| unavailable(&error))?;
            let agreed =
                agreed.ok_or_else(|| Error::internal("the price version of a response does not exist"))?;
            prepared
                .routed
                .use_agreed_prices(job.price_version, agreed.prices);
        }
        let admission = admit(&pipeline, &ctx, prepared.routed, prepared.request).await?;
        Ok(Ready {
            pipeline,
            settled,
            ctx,
            admission,
            meta: prepared.meta,
        })
    }

    /// Stores the response and ends the job. This operation is idempotent.
    async fn complete(&self, job: &Job, finished: FinishedCall) -> Result<JobOutcome, Error> {
        let (id, previous) = (job.terms.id.as_u128(), self.payload(job)?.previous);
        let saved = self
            .responses
            .save(job.account, ResponseId::from_u128(id), previous, &finished.turn);
        saved.await?;
        let events = self.last_events(job, finished.rest.as_bytes());
        Ok(JobOutcome::Ended(Box::new(JobEnd {
            status: JobStatus::Completed,
            result: None,
            error: None,
            settlement: Settlement {
                hold: job.hold,
                account: job.account,
                charge: finished.charge,
                overrun: finished.overrun,
                usage: finished.usage,
                outcome: finished.outcome,
                estimated: finished.estimated,
                target: finished.target.into(),
                first_at: finished.first_at,
                ended_at: finished.ended_at,
            },
            parts: Vec::new(),
            events: events.map_err(|error| unavailable(&error))?,
        })))
    }

    /// Returns the events that are written when the job ends.
    fn last_events(&self, job: &Job, rest: &[u8]) -> tollgate_storage::Result<Vec<NewJobEvent>> {
        match rest.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(vec![event_log::sealed(&self.vault, job, rest)?]),
        }
    }

    /// Ends the job without a response. Without a settlement, nothing is charged.
    fn without_response(
        &self,
        job: &Job,
        status: JobStatus,
        outcome: Outcome,
        error: Option<JobError>,
        settlement: Option<Settlement>,
    ) -> JobOutcome {
        let nothing = || Settlement::free(job.account, job.hold, outcome, self.clock.now());
        JobOutcome::Ended(Box::new(JobEnd {
            status,
            result: None,
            error,
            settlement: settlement.unwrap_or_else(nothing),
            parts: Vec::new(),
            events: Vec::new(),
        }))
    }

    fn failed(&self, job: &Job, error: &Error, settlement: Option<Settlement>) -> JobOutcome {
        self.without_response(
            job,
            JobStatus::Failed,
            Outcome::UpstreamError,
            Some(error.into()),
            settlement,
        )
    }

    /// Whether the call may be retried: the error is temporary, and the job is younger than
    /// `RETRY_TIMEOUT`.
    fn is_transient(&self, job: &Job, error: &Error) -> bool {
        let passes = matches!(
            error.code,
            ErrorCode::RateLimitExceeded | ErrorCode::Overloaded | ErrorCode::ModelUnavailable
        );
        passes && self.clock.now().since(job.created_at) < RETRY_TIMEOUT
    }

    /// Executes the call and records its events.
    async fn call_result(&self, work: &Work, ready: Ready) -> tollgate_storage::Result<CallResult> {
        let Ready {
            pipeline,
            ctx,
            admission,
            meta,
            ..
        } = ready;
        match admission::run(&pipeline, &ctx, admission).await {
            Ok(Delivered::Stream(chunks)) => {
                let events = Events::new(chunks, pipeline, meta, None);
                let logged = event_log::record(work, &self.vault, events).await?;
                Ok(CallResult {
                    response: logged.response,
                    rest: logged.rest,
                    has_started: logged.has_started,
                })
            }
            answer => Ok(CallResult::whole(
                answer.and_then(|answer| service::encode(&pipeline, answer, &meta)),
            )),
        }
    }

    /// Records the intention to make the call, then makes the call.
    async fn call(
        &self,
        work: &mut Work,
        payload: BackgroundPayload,
        ready: Ready,
    ) -> tollgate_storage::Result<JobOutcome> {
        let settled = ready.settled.clone();
        work.intend_and_pause(CALL_STEP, Vec::new()).await?;
        let cancelled = work.cancelled().clone();
        let call_result = tokio::select! {
            call_result = self.call_result(work, ready) => Some(call_result?),
            () = cancelled.cancelled() => None,
        };
        let job = work.job().clone();
        let Some(call_result) = call_result else {
            // The call ends without intervention, and the used tokens are charged.
            let settlement = settled.wait().await;
            let status = JobStatus::Cancelled;
            return Ok(self.without_response(&job, status, Outcome::Cancelled, None, Some(settlement)));
        };
        match (call_result.response, settled.get()) {
            (Ok(response), Some(settlement)) => {
                let rest = String::from_utf8_lossy(&call_result.rest).into_owned();
                let finished = finished(payload, &response, rest, settlement).map_err(Error::internal);
                let sealed_call = finished.and_then(|finished| {
                    Ok((
                        sealed::seal(&self.vault, job.account, job.terms.id, &finished)?,
                        finished,
                    ))
                });
                let (sealed, finished) = sealed_call.map_err(|error| corrupt(&error))?;
                work.record_outcome(CALL_STEP, StepState::Done, sealed).await?;
                self.complete(&job, finished).await.or_else(retry_later)
            }
            (Ok(_), None) => Ok(self.failed(&job, &Error::internal("a call was not settled"), None)),
            (Err(error), settlement) => {
                let is_free = settlement
                    .as_ref()
                    .is_none_or(|settlement| settlement.charge.is_zero());
                let attempt = work.step(CALL_STEP).map_or(MAX_ATTEMPTS, |step| step.attempt);
                // Do not retry if a client may have received events of this attempt.
                let may_try = is_free && attempt < MAX_ATTEMPTS && !call_result.has_started;
                if may_try && self.is_transient(&job, &error) {
                    work.record_outcome(CALL_STEP, StepState::Failed, Vec::new())
                        .await?;
                    return Ok(JobOutcome::Later(RETRY_INTERVAL));
                }
                let events = self.last_events(&job, &call_result.rest)?;
                Ok(with_events(self.failed(&job, &error, settlement), events))
            }
        }
    }
}

#[async_trait]
impl Handler for Background {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        let job = work.job().clone();
        match work.step(CALL_STEP) {
            Some(step) if step.state == StepState::Done => {
                let finished = sealed::open(&self.vault, &job, &step.outcome);
                let finished = finished.map_err(|error| corrupt(&error))?;
                return self.complete(&job, finished).await.or_else(retry_later);
            }
            Some(step) if step.state != StepState::Failed => {
                work.record_outcome(CALL_STEP, StepState::Unknown, Vec::new())
                    .await?;
                let message = "The gateway stopped while it generated the response. The response was not charged. \
                               Send the request again.";
                return Ok(self.failed(&job, &Error::new(ErrorCode::InternalError, message), None));
            }
            _ => {}
        }
        if work.cancelled().is_cancelled() {
            let (status, outcome) = (JobStatus::Cancelled, Outcome::Cancelled);
            return Ok(self.without_response(&job, status, outcome, None, None));
        }
        let payload = match self.payload(&job) {
            Ok(payload) => payload,
            Err(error) => return Ok(self.failed(&job, &error, None)),
        };
        match self.ready(&job, &payload).await {
            Ok(ready) => Box::pin(self.call(work, payload, ready)).await,
            Err(error) if self.is_transient(&job, &error) => Ok(JobOutcome::Later(RETRY_INTERVAL)),
            Err(error) => Ok(self.failed(&job, &error, None)),
        }
    }
}

impl BackgroundPayload {
    fn identity(&self, job: &Job) -> Identity {
        Identity {
            number: job.request.as_u128(),
            created_at: seconds(self.accepted_at),
            model: job.model.to_string(),
            store: true,
            background: true,
            previous_response_id: self.previous.map(|id| id.to_string()),
        }
    }
}

fn finished(
    payload: BackgroundPayload,
    response: &[u8],
    rest: String,
    settlement: Settlement,
) -> Result<FinishedCall, String> {
    let response = serde_json::from_slice(response).map_err(|error| error.to_string())?;
    Ok(FinishedCall {
        turn: Turn {
            input: payload.input,
            response,
        },
        charge: settlement.charge,
        overrun: settlement.overrun,
        usage: settlement.usage,
        outcome: settlement.outcome,
        estimated: settlement.estimated,
        target: settlement.target.to_string(),
        first_at: settlement.first_at,
        ended_at: settlement.ended_at,
        rest,
    })
}

/// Adds these events to the end of a job.
fn with_events(ran: JobOutcome, events: Vec<NewJobEvent>) -> JobOutcome {
    match ran {
        JobOutcome::Ended(end) => JobOutcome::Ended(Box::new(JobEnd { events, ..*end })),
        retry_later @ JobOutcome::Later(_) => retry_later,
    }
}

/// Logs that the response could not be stored, and schedules a retry of the job.
fn retry_later(error: Error) -> tollgate_storage::Result<JobOutcome> {
    tracing::warn!(%error, "cannot store a response, will retry");
    Ok(JobOutcome::Later(RETRY_INTERVAL))
}

fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.to_string())
}

/// Converts an error code to the corresponding code of OpenAI's format.
pub(crate) fn openai_error_code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::RateLimitExceeded => "rate_limit_exceeded",
        ErrorCode::ContentPolicyViolation | ErrorCode::OutputBlocked => "invalid_prompt",
        _ => "server_error",
    }
}
