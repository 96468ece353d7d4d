//! Executes research jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tollgate_accounts::Caller;
use tollgate_jobs::{Handler, JobOutcome, Work, sealed};
use tollgate_pipeline::provider_job::is_passing;
use tollgate_pipeline::{Purse, Routed};
use tollgate_storage::{Compat, Job, JobEnd, KeyMode, Settlement, StorageError, StorageErrorKind};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Credits, Error, ErrorCode, JobStatus, StepState};

use super::bounds::add;
use super::engine::{CALLS, Engine, ModelCalls, PAGES, Stop, spent};
use super::payload::{Note, PageRead, Payload, StepOutcome};
use super::{KIND, Research, relay, report};
use crate::responses::store::unavailable;

/// Header and idle timeout of one call.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Delay before the next attempt at a job that cannot start at the moment.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Counter of the statements of reports.
const CLAIMS: &str = "tollgate_research_claims_total";

/// Handler of research jobs.
pub struct ResearchHandler(Arc<Research>);

impl ResearchHandler {
    /// Creates the handler and describes its metrics.
    pub fn new(research: Arc<Research>) -> Self {
        metrics::describe_counter!(CALLS, "Calls of research jobs, by stage and outcome");
        metrics::describe_counter!(PAGES, "Web pages of research jobs, by outcome");
        metrics::describe_counter!(CLAIMS, "Statements of research reports, by verification");
        Self(research)
    }
}

/// Result of an attempt to complete a job.
enum Executed {
    Ended(Ended),
    /// The job pauses and continues after this time.
    Later(Duration),
}

/// End of a job without a settlement.
struct Ended {
    status: JobStatus,
    ending: Ending,
    result: Option<Value>,
    error: Option<Error>,
    is_charged: bool,
}

#[async_trait]
impl Handler for ResearchHandler {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        let research = &*self.0;
        let job = work.job().clone();
        let payload: Payload = match sealed::open(&research.vault, &job, &job.terms.body) {
            Ok(payload) => payload,
            Err(error) => return research.failed(&job, error),
        };
        let (caller, routed) = match research.routed(&job, &payload).await {
            Ok(found) => found,
            Err(error) if is_passing(&error) => return Ok(JobOutcome::Later(RETRY_DELAY)),
            Err(error) => return research.failed(&job, error),
        };
        work.resume_work().await?;
        match Box::pin(research.execute(work, &payload, caller, &routed)).await {
            Ok(Executed::Ended(ended)) => research.settled(work, &payload, ended),
            Ok(Executed::Later(pause)) => Ok(JobOutcome::Later(pause)),
            Err(error) => Err(error),
        }
    }
}

impl Research {
    /// Returns the caller of a job, and its model with its agreed prices.
    pub(super) async fn routed(&self, job: &Job, payload: &Payload) -> Result<(Caller, Routed), Error> {
        let mode = KeyMode::parse(&payload.head.mode).unwrap_or(KeyMode::Live);
        let caller = Caller::of_job(&*self.accounts, job, mode, Compat::Strict).await;
        let caller = caller.map_err(|error| unavailable(&error))?;
        let mut routed = self.pipeline.route(&caller, &job.model)?;
        if routed.model.price_version != job.price_version {
            let agreed = self.prices.get(job.price_version).await;
            let agreed = agreed.map_err(|error| unavailable(&error))?;
            let agreed =
                agreed.ok_or_else(|| Error::internal("the price version of a report does not exist"))?;
            routed.use_agreed_prices(job.price_version, agreed.prices);
        }
        Ok((caller, routed))
    }

    async fn execute(
        &self,
        work: &Work,
        payload: &Payload,
        caller: Caller,
        routed: &Routed,
    ) -> tollgate_storage::Result<Executed> {
        let job = work.job();
        let calls = spent(&self.vault, job, work).map_err(|error| corrupt(&error))?;
        let calls = calls
            .iter()
            .map(|(stage, spent)| payload.cast.cost(*stage, spent));
        let spent = calls.fold(Credits::ZERO, add);
        let models = (!payload.cast.stages.is_empty()).then_some(ModelCalls {
            research: self,
            job,
            payload,
            caller,
        });
        let backends = match payload.relay {
            Some(_) => Ok(Vec::new()),
            None => self.backends(job.account, &routed.model, &payload.sources).await,
        };
        let backends = match backends {
            Ok(backends) => backends,
            Err(error) => return Ok(Executed::Ended(Ended::failed(error, Ending::UpstreamError))),
        };
        let engine = Engine {
            research: self,
            work,
            payload,
            routed,
            backends,
            models,
            conversation: payload.conversation(),
            purse: Purse::new(job.held, spent, payload.bounds.write_reserve()),
            ctx: self.pipeline.research_context(job, CALL_TIMEOUT),
        };
        let result = match &payload.relay {
            Some(order) => Box::pin(relay::execute(&engine, order)).await,
            None => Box::pin(engine.run())
                .await
                .map(|outcome| report::result(payload, &outcome)),
        };
        if let Ok(result) = &result {
            count_claims(result);
        }
        Ok(Executed::Ended(match result {
            Ok(result) => Ended {
                status: JobStatus::Completed,
                ending: Ending::Ok,
                result: Some(result),
                error: None,
                is_charged: true,
            },
            Err(Stop::Storage(error)) => return Err(error),
            Err(Stop::Later(pause)) => return Ok(Executed::Later(pause)),
            Err(Stop::Cancelled) => Ended {
                status: JobStatus::Cancelled,
                ending: Ending::Cancelled,
                result: Some(self.partial(work)?),
                error: None,
                is_charged: true,
            },
            Err(Stop::Blocked) => Ended {
                is_charged: true,
                ..Ended::failed(blocked(), Ending::BlockedOutput)
            },
            Err(Stop::Failed(error, ending)) => Ended::failed(error, ending),
        }))
    }

    /// Returns the sources and notes of the recorded steps.
    fn partial(&self, work: &Work) -> tollgate_storage::Result<Value> {
        let (mut sources, mut notes) = (Vec::new(), Vec::<Note>::new());
        let mut steps = work.recorded_steps();
        steps.retain(|step| step.state == StepState::Done);
        steps.sort_by_key(|step| step.number);
        for step in steps {
            let outcome = || -> Option<Value> {
                let outcome: StepOutcome<Value> =
                    sealed::open(&self.vault, work.job(), &step.outcome).ok()?;
                Some(outcome.value)
            };
            let Some(value) = outcome() else { continue };
            if let Ok(PageRead::Stored(source)) = serde_json::from_value(value.clone()) {
                sources.push(*source);
            } else if let Ok(found) = serde_json::from_value::<Vec<Note>>(value) {
                notes.extend(found);
            }
        }
        Ok(report::partial(&sources, &notes))
    }

    fn settled(&self, work: &Work, payload: &Payload, ended: Ended) -> tollgate_storage::Result<JobOutcome> {
        let job = work.job();
        let parts = match ended.is_charged {
            true => spent(&self.vault, job, work).and_then(|calls| payload.cast.parts(calls)),
            false => Ok(Vec::new()),
        };
        let parts = parts.map_err(|error| corrupt(&error))?;
        let ahead = payload.head.ahead;
        let settlement = self
            .pipeline
            .conclude_parts(job, &parts, ended.ending, None, ahead);
        let seal = |result: &Value| sealed::seal(&self.vault, job.account, job.terms.id, result);
        let result = ended.result.as_ref().map(seal).transpose();
        Ok(JobOutcome::Ended(Box::new(JobEnd {
            status: ended.status,
            result: result.map_err(|error| corrupt(&error))?,
            error: ended.error.map(|error| tollgate_jobs::job_error(job, &error)),
            settlement,
            parts,
            events: Vec::new(),
        })))
    }

    /// Ends a job that cannot be executed, without a charge.
    fn failed(&self, job: &Job, error: Error) -> tollgate_storage::Result<JobOutcome> {
        Ok(JobOutcome::Ended(Box::new(JobEnd {
            status: JobStatus::Failed,
            result: None,
            error: Some(tollgate_jobs::job_error(job, &error)),
            settlement: Settlement::free(job.account, job.hold, Ending::UpstreamError, self.clock.now()),
            parts: Vec::new(),
            events: Vec::new(),
        })))
    }
}

impl Ended {
    /// Returns the end of a job that failed without a charge.
    fn failed(error: Error, ending: Ending) -> Self {
        Self {
            status: JobStatus::Failed,
            ending,
            result: None,
            error: Some(error),
            is_charged: false,
        }
    }
}

/// Counts the statements of a report by the result of their verification.
fn count_claims(result: &Value) {
    for claim in result["claims"].as_array().into_iter().flatten() {
        let status = claim["status"].as_str().unwrap_or_default().to_owned();
        metrics::counter!(CLAIMS, "status" => status).increment(1);
    }
}

fn blocked() -> Error {
    let message = "The content policy blocked a section of the report. The report was charged.";
    Error::new(ErrorCode::OutputBlocked, message)
}

fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.operator_message())
}
