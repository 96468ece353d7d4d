//! Responses whose callers do not wait: each is a job. Its one step is the call; what came of it is written down before the
//! response is kept and the job ends, so that a process that dies in between loses nothing and asks for nothing again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_formats::openai_responses::{Echo, Identity, encode_unfinished};
use tollgate_jobs::{Handler, Jobs, Ran, Work};
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

use super::events::Events;
use super::kept::{Kept, Turn, unavailable};
use super::recall::Recalled;
use super::recording;
use super::service::{self, Prepared, Told, prepare_recalled, seconds};
use crate::Inference;
use crate::admission::{self, admit};

/// The kind of these jobs.
const KIND: &str = "response";
/// The one step.
const CALL: u32 = 0;
/// How often a call is tried that the model's providers did not take.
const ATTEMPTS: u32 = 3;
/// How long a response waits until it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// How long it waits for its turn at the most.
const PATIENCE: Duration = Duration::from_hours(1);

/// Makes responses whose callers do not wait.
pub struct Background {
    /// Jobs.
    pub jobs: Arc<Jobs>,
    /// Makes calls.
    pub pipeline: Arc<Pipeline>,
    /// Keeps responses.
    pub kept: Arc<Kept>,
    /// Seals what is asked for.
    pub vault: Vault,
    /// Who asks.
    pub accounts: Arc<dyn AccountStore>,
    /// What was agreed.
    pub prices: Arc<dyn PriceStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
}

/// What is kept of a request until it is carried out.
#[derive(Serialize, Deserialize)]
struct Order {
    /// The request; it says everything itself.
    body: String,
    /// The items that it brought itself.
    input: Vec<Value>,
    previous: Option<ResponseId>,
    accepted_at: Timestamp,
    max_cost: Option<Credits>,
    mode: String,
    compat: String,
    /// Whether its events are written down.
    #[serde(default)]
    stream: bool,
}

/// What came of the call.
#[derive(Serialize, Deserialize)]
struct Made {
    turn: Turn,
    charge: Credits,
    overrun: Credits,
    usage: Usage,
    outcome: Outcome,
    estimated: bool,
    provider: String,
    first_at: Option<Timestamp>,
    ended_at: Timestamp,
    /// Events that are still to be written.
    #[serde(default)]
    rest: String,
}

/// Accepts a request: the response as it is now.
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
    let body = String::from_utf8(prepared.recalled.body.to_vec());
    let order = Order {
        body: body.map_err(|error| Error::internal(error.to_string()))?,
        input: prepared.recalled.take_own_items()?,
        previous: prepared.recalled.previous,
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
        body: seal(vault, caller.account_id(), id, &order)?,
        start_by: None,
        webhook: None,
    };
    let pipeline = pipeline.accepting(jobs.clone(), job);
    let admission = admit(&pipeline, ctx, prepared.routed, prepared.request).await?;
    admission.leave(&pipeline).await;
    let Told { identity, echo, .. } = &prepared.told;
    let response = encode_unfinished(identity, echo, "queued", None);
    Ok(Bytes::from(response.to_string()))
}

fn seal(vault: &Vault, account: AccountId, id: JobId, what: &impl Serialize) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(what).map_err(|error| Error::internal(error.to_string()))?;
    let sealed = vault.seal(account, id.as_u128(), &text);
    sealed.map_err(|error| Error::internal(error.to_string()))
}

/// What the call has brought.
struct Said {
    response: Result<Bytes, Error>,
    /// Events that are still to be written.
    rest: Vec<u8>,
    /// Whether any event was seen.
    has_begun: bool,
}

impl Said {
    fn whole(response: Result<Bytes, Error>) -> Self {
        Self {
            response,
            rest: Vec::new(),
            has_begun: false,
        }
    }
}

/// A call that can be made.
struct Ready {
    pipeline: Arc<Pipeline>,
    settled: Arc<Settled>,
    ctx: RequestContext,
    admission: Admission,
    told: Told,
}

impl Background {
    /// A response that is not there yet, or will not be; none when it is no such response, or is kept.
    pub(super) async fn unfinished(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let Some(job) = self.job(account, id).await? else {
            return Ok(None);
        };
        match job.status {
            JobStatus::Completed => Ok(None),
            _ => self.shown(&job).map(Some),
        }
    }

    /// The response as it is when its caller does not want it any more; none when there is none to cancel.
    pub(super) async fn cancel(&self, account: AccountId, id: &str) -> Result<Option<Value>, Error> {
        let Some(job) = self.job(account, id).await? else {
            return Ok(None);
        };
        let cancelled = self.jobs.cancel(account, job.terms.id, self.clock.now()).await;
        match cancelled.map_err(|error| unavailable(&error))? {
            JobCancel::Cancelled(job) => self.shown(&job).map(Some),
            JobCancel::Ended(job) if job.status != JobStatus::Completed => self.shown(&job).map(Some),
            JobCancel::Ended(_) => Ok(None),
            // Whoever makes it hears of it soon.
            JobCancel::Requested(job) => {
                let waited = self.jobs.wait(account, job.terms.id, None, PAUSE).await;
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

    /// The response as it was when it was accepted.
    pub(super) fn accepted(&self, job: &Job) -> Result<Value, Error> {
        let order = self.order(job)?;
        let echo = Echo::of(order.body.as_bytes())?;
        Ok(encode_unfinished(&order.identity(job), &echo, "queued", None))
    }

    /// The response as it is before it is there, or when it will not be.
    pub(super) fn shown(&self, job: &Job) -> Result<Value, Error> {
        let order = self.order(job)?;
        let echo = Echo::of(order.body.as_bytes())?;
        let status = match job.status {
            JobStatus::Queued => "queued",
            JobStatus::InProgress | JobStatus::Completed => "in_progress",
            JobStatus::Cancelled => "cancelled",
            JobStatus::Failed | JobStatus::Expired => "failed",
        };
        let error = job
            .error
            .as_ref()
            .map(|error| (word(error.code), &*error.message));
        Ok(encode_unfinished(&order.identity(job), &echo, status, error))
    }

    /// Whether its events are written down.
    pub(super) fn is_streamed(&self, job: &Job) -> Result<bool, Error> {
        Ok(self.order(job)?.stream)
    }

    fn order(&self, job: &Job) -> Result<Order, Error> {
        self.opened(job, &job.terms.body)
    }

    fn opened<T: serde::de::DeserializeOwned>(&self, job: &Job, sealed: &[u8]) -> Result<T, Error> {
        let text = self.vault.open(job.account, job.terms.id.as_u128(), sealed);
        let text = text.ok_or_else(|| Error::internal(format!("{} cannot be opened", job.terms.id)))?;
        serde_json::from_slice(&text)
            .map_err(|error| Error::internal(format!("{} cannot be read: {error}", job.terms.id)))
    }

    /// Goes through everything up to the call once more, with the prices and the hold that were agreed.
    async fn ready(&self, job: &Job, order: &Order) -> Result<Ready, Error> {
        let mode = KeyMode::parse(&order.mode).unwrap_or(KeyMode::Live);
        let compat = Compat::parse(&order.compat).unwrap_or(Compat::Strict);
        let caller = Caller::of_job(&*self.accounts, job, mode, compat).await;
        let caller = caller.map_err(|error| unavailable(&error))?;
        let ctx = RequestContext::of_accepted(job.request, order.accepted_at, order.max_cost);
        let recalled = Recalled::whole(Bytes::from(order.body.clone()), order.previous);
        let (pipeline, settled) = self.pipeline.carrying_out(job);
        let mut prepared = prepare_recalled(&pipeline, &ctx, caller, recalled)?;
        if prepared.routed.model.price_version != job.price_version {
            let agreed = self.prices.get(job.price_version).await;
            let agreed = agreed.map_err(|error| unavailable(&error))?;
            let agreed = agreed.ok_or_else(|| Error::internal("a price version is not recorded"))?;
            prepared.routed.agree(job.price_version, agreed.prices);
        }
        let admission = admit(&pipeline, &ctx, prepared.routed, prepared.request).await?;
        Ok(Ready {
            pipeline,
            settled,
            ctx,
            admission,
            told: prepared.told,
        })
    }

    /// Keeps the response and ends the job. It may be done again.
    async fn complete(&self, job: &Job, made: Made) -> Result<Ran, Error> {
        let (id, previous) = (job.terms.id.as_u128(), self.order(job)?.previous);
        let kept = self
            .kept
            .keep(job.account, ResponseId::from_u128(id), previous, &made.turn);
        kept.await?;
        let events = self.last_events(job, made.rest.as_bytes());
        Ok(Ran::Ended(Box::new(JobEnd {
            status: JobStatus::Completed,
            result: None,
            error: None,
            settlement: Settlement {
                hold: job.hold,
                account: job.account,
                charge: made.charge,
                overrun: made.overrun,
                usage: made.usage,
                outcome: made.outcome,
                estimated: made.estimated,
                provider: made.provider.into(),
                first_at: made.first_at,
                ended_at: made.ended_at,
            },
            parts: Vec::new(),
            events: events.map_err(|error| unavailable(&error))?,
        })))
    }

    /// What is still to be written when the job ends.
    fn last_events(&self, job: &Job, rest: &[u8]) -> tollgate_storage::Result<Vec<NewJobEvent>> {
        match rest.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(vec![recording::sealed(&self.vault, job, rest)?]),
        }
    }

    /// An end without a response; it costs what was used, if anything was.
    fn without_response(
        &self,
        job: &Job,
        status: JobStatus,
        outcome: Outcome,
        error: Option<JobError>,
        settlement: Option<Settlement>,
    ) -> Ran {
        let nothing = || Settlement::free(job.account, job.hold, outcome, self.clock.now());
        Ran::Ended(Box::new(JobEnd {
            status,
            result: None,
            error,
            settlement: settlement.unwrap_or_else(nothing),
            parts: Vec::new(),
            events: Vec::new(),
        }))
    }

    fn failed(&self, job: &Job, error: &Error, settlement: Option<Settlement>) -> Ran {
        self.without_response(
            job,
            JobStatus::Failed,
            Outcome::UpstreamError,
            Some(error.into()),
            settlement,
        )
    }

    /// Whether it may work later what does not work now.
    fn is_passing(&self, job: &Job, error: &Error) -> bool {
        let passes = matches!(
            error.code,
            ErrorCode::RateLimitExceeded | ErrorCode::Overloaded | ErrorCode::ModelUnavailable
        );
        passes && self.clock.now().since(job.created_at) < PATIENCE
    }

    /// Goes through the call.
    async fn said(&self, work: &Work, ready: Ready) -> tollgate_storage::Result<Said> {
        let Ready {
            pipeline,
            ctx,
            admission,
            told,
            ..
        } = ready;
        match admission::run(&pipeline, &ctx, admission).await {
            Ok(Delivered::Stream(pieces)) => {
                let events = Events::new(pieces, pipeline, told, None);
                let recorded = recording::record(work, &self.vault, events).await?;
                Ok(Said {
                    response: recorded.response,
                    rest: recorded.rest,
                    has_begun: recorded.has_begun,
                })
            }
            answer => Ok(Said::whole(
                answer.and_then(|answer| service::encode(&pipeline, answer, &told)),
            )),
        }
    }

    /// Makes the call, whose intention is written down.
    async fn call(&self, work: &mut Work, order: Order, ready: Ready) -> tollgate_storage::Result<Ran> {
        let settled = ready.settled.clone();
        work.intend(CALL, Vec::new()).await?;
        let cancelled = work.cancelled().clone();
        let said = tokio::select! {
            said = self.said(work, ready) => Some(said?),
            () = cancelled.cancelled() => None,
        };
        let job = work.job().clone();
        let Some(said) = said else {
            // The call ends by itself, and what it has used is paid.
            let settlement = settled.wait().await;
            let status = JobStatus::Cancelled;
            return Ok(self.without_response(&job, status, Outcome::Cancelled, None, Some(settlement)));
        };
        match (said.response, settled.get()) {
            (Ok(response), Some(settlement)) => {
                let rest = String::from_utf8_lossy(&said.rest).into_owned();
                let made = made(order, &response, rest, settlement).map_err(Error::internal);
                let kept =
                    made.and_then(|made| Ok((seal(&self.vault, job.account, job.terms.id, &made)?, made)));
                let (sealed, made) = kept.map_err(|error| corrupt(&error))?;
                work.became(CALL, StepState::Done, sealed).await?;
                self.complete(&job, made).await.or_else(later)
            }
            (Ok(_), None) => Ok(self.failed(&job, &Error::internal("a call was not settled"), None)),
            (Err(error), settlement) => {
                let is_free = settlement
                    .as_ref()
                    .is_none_or(|settlement| settlement.charge.is_zero());
                let attempt = work.step(CALL).map_or(ATTEMPTS, |step| step.attempt);
                // What was seen of an attempt cannot be taken back by another.
                let may_try = is_free && attempt < ATTEMPTS && !said.has_begun;
                if may_try && self.is_passing(&job, &error) {
                    work.became(CALL, StepState::Failed, Vec::new()).await?;
                    return Ok(Ran::Later(PAUSE));
                }
                let events = self.last_events(&job, &said.rest)?;
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

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<Ran> {
        let job = work.job().clone();
        match work.step(CALL) {
            Some(step) if step.state == StepState::Done => {
                let made = self.opened(&job, &step.outcome);
                let made = made.map_err(|error| corrupt(&error))?;
                return self.complete(&job, made).await.or_else(later);
            }
            Some(step) if step.state != StepState::Failed => {
                work.became(CALL, StepState::Unknown, Vec::new()).await?;
                let message = "The gateway was stopped while the response was made. It was not charged.";
                return Ok(self.failed(&job, &Error::new(ErrorCode::InternalError, message), None));
            }
            _ => {}
        }
        if work.cancelled().is_cancelled() {
            let (status, outcome) = (JobStatus::Cancelled, Outcome::Cancelled);
            return Ok(self.without_response(&job, status, outcome, None, None));
        }
        let order = match self.order(&job) {
            Ok(order) => order,
            Err(error) => return Ok(self.failed(&job, &error, None)),
        };
        match self.ready(&job, &order).await {
            Ok(ready) => Box::pin(self.call(work, order, ready)).await,
            Err(error) if self.is_passing(&job, &error) => Ok(Ran::Later(PAUSE)),
            Err(error) => Ok(self.failed(&job, &error, None)),
        }
    }
}

impl Order {
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

fn made(order: Order, response: &[u8], rest: String, settlement: Settlement) -> Result<Made, String> {
    let response = serde_json::from_slice(response).map_err(|error| error.to_string())?;
    Ok(Made {
        turn: Turn {
            input: order.input,
            response,
        },
        charge: settlement.charge,
        overrun: settlement.overrun,
        usage: settlement.usage,
        outcome: settlement.outcome,
        estimated: settlement.estimated,
        provider: settlement.provider.to_string(),
        first_at: settlement.first_at,
        ended_at: settlement.ended_at,
        rest,
    })
}

/// The end with these events told before it.
fn with_events(ran: Ran, events: Vec<NewJobEvent>) -> Ran {
    match ran {
        Ran::Ended(end) => Ran::Ended(Box::new(JobEnd { events, ..*end })),
        later @ Ran::Later(_) => later,
    }
}

/// What cannot be kept now is kept later.
fn later(error: Error) -> tollgate_storage::Result<Ran> {
    tracing::warn!(%error, "a response is kept later");
    Ok(Ran::Later(PAUSE))
}

fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.to_string())
}

/// The format's word for what went wrong.
fn word(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::RateLimitExceeded => "rate_limit_exceeded",
        ErrorCode::ContentPolicyViolation | ErrorCode::OutputBlocked => "invalid_prompt",
        _ => "server_error",
    }
}
