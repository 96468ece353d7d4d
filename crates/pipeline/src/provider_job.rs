//! A call that a provider executes as a job, as one step of a job of the gateway: the step is
//! recorded, sent and polled. The outputs are stored before the step is recorded as done. A worker
//! that takes over the job continues from the recorded state. A [`ProviderJob`] implements the
//! differences between the kinds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_accounts::Vault;
use tollgate_jobs::{Progress, Work, sealed};
use tollgate_storage::{Job, NewJobEvent, Result, StorageError, StorageErrorKind};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Error, ErrorCode, StepState, Timestamp};
use tollgate_upstream::{
    GenerationState, JobCall, Submitted, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use crate::Pipeline;
use crate::dispatch::public_error;
use crate::generation::{SubmitFailure, classify_failure};
use crate::route::{Route, Routed};

/// Maximum number of attempts of a step. A submission is attempted again only if the provider
/// certainly did not execute it.
const MAX_ATTEMPTS: u32 = 3;
/// Maximum number of times that one submission is sent to a provider that supports idempotency
/// keys.
const MAX_SENDS: u32 = 3;
/// Base delay before a retry, unless the provider requests another delay.
pub const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum delay before a retry.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum delay before the first poll.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum delay before the first poll.
const MAX_FIRST_POLL_DELAY: Duration = Duration::from_secs(2);
/// Maximum delay between two polls of a submission whose age is at most
/// [`ProviderJob::MAX_DURATION`].
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Delay between two polls of an older submission.
const LATE_POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Age of a submission after which the gateway stops polling and releases the hold.
const ABANDON_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Minimum time for which one process polls a submission before the process abandons the
/// submission. The age alone is not reliable, because the clock may have been wrong when the
/// submission was recorded.
const MIN_WATCHED: Duration = Duration::from_secs(3600);

/// Parts of a provider's job that depend on its kind.
#[async_trait]
pub trait ProviderJob: Send + Sync {
    /// Call that the provider executes.
    type Call: JobCall;
    /// Outcome of the step, as recorded.
    type Outcome: Serialize + DeserializeOwned + Send;
    /// Timeout of the provider's response to a submission.
    const SUBMIT_TIMEOUT: Duration;
    /// Expected maximum duration of a submission. An older submission is polled less frequently.
    const MAX_DURATION: Duration;
    /// Parameter of the request that a provider may refuse for its content.
    const INPUT_PARAM: &'static str;

    /// Returns the pipeline of the job.
    fn pipeline(&self) -> &Pipeline;

    /// Returns the vault that encrypts the records of the step.
    fn vault(&self) -> &Vault;

    /// Returns the call, and the candidates that accept it.
    async fn routed(&self, job: &Job) -> std::result::Result<(Routed, Self::Call), Error>;

    /// Stores the output and returns the outcome to record.
    async fn store(
        &self,
        job: &Job,
        handle: &Handle,
        output: <Self::Call as JobCall>::Output,
    ) -> std::result::Result<Self::Outcome, OutputError>;

    /// Returns the outcome of an output that the provider withholds.
    fn withheld(&self, handle: &Handle) -> Self::Outcome;

    /// Returns the phase that the job shows in a state.
    fn phase(&self, state: ProviderJobState) -> String {
        match state {
            ProviderJobState::Submitting => "submitting".to_owned(),
            ProviderJobState::Queued(Some(ahead)) => format!("queued_upstream/{ahead}"),
            ProviderJobState::Queued(None) => "queued_upstream".to_owned(),
            ProviderJobState::Running => "running".to_owned(),
            ProviderJobState::Fetching => "fetching".to_owned(),
            ProviderJobState::Unknown => "unknown".to_owned(),
        }
    }
}

/// State of a provider's job while the gateway waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProviderJobState {
    /// The call is sent to the provider.
    Submitting,
    /// The job waits in the provider's queue, with this number of jobs ahead if it is known.
    Queued(Option<u32>),
    /// The job runs.
    Running,
    /// The gateway downloads and stores the output.
    Fetching,
    /// The job takes longer than expected, or the provider does not answer.
    Unknown,
}

/// Reason why an output could not be stored.
#[derive(Debug)]
pub enum OutputError {
    /// Storage failed; the attempt is repeated.
    Storage(StorageError),
    /// The provider did not deliver the output; the attempt is repeated.
    Missing(UpstreamError),
    /// The output, or the stored object that it extends, is unusable. The step fails without
    /// another attempt.
    Wrong(String),
}

/// Result of an attempt to finish a step.
pub enum StepResult<T> {
    /// The step is done, with this outcome.
    Done(T),
    /// The step failed permanently.
    Failed(Error, Ending),
    /// The caller cancelled the job.
    Cancelled,
    /// The job pauses and continues after this time.
    Later(Duration),
}

/// Outcome of a submission that failed or was cancelled, as recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Recorded outcome of the call.
    pub ending: Ending,
    /// Error for the caller; `None` if the submission was cancelled.
    #[serde(rename = "told")]
    caller_error: Option<CallerError>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CallerError {
    code: String,
    message: String,
    param: Option<String>,
}

/// Reference to a submission at a provider, as recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handle {
    /// Name of the provider's configuration block.
    pub provider: String,
    /// Name of the model at the provider; empty in handles of older versions.
    #[serde(default)]
    pub upstream_model: String,
    /// Handle that the provider returned; empty until the provider has accepted the submission.
    pub handle: Vec<u8>,
    /// Time of the submission.
    pub submitted_at: Timestamp,
}

impl Handle {
    /// Returns the provider target of the submission, as `provider/model`.
    pub fn target(&self) -> String {
        match &*self.upstream_model {
            "" => self.provider.clone(),
            model => format!("{}/{model}", self.provider),
        }
    }
}

impl Failure {
    /// Returns a failure with the error for the caller.
    pub fn new(error: &Error, ending: Ending) -> Self {
        Self {
            ending,
            caller_error: Some(CallerError {
                code: error.code.as_str().to_owned(),
                message: error.message.clone(),
                param: error.param.clone(),
            }),
        }
    }

    /// Returns the failure of a cancelled submission.
    pub fn cancelled() -> Self {
        Self {
            ending: Ending::Cancelled,
            caller_error: None,
        }
    }

    /// Returns the error for the caller; `None` if the submission was cancelled.
    pub fn error(&self) -> Option<Error> {
        let caller_error = self.caller_error.as_ref()?;
        let code = ErrorCode::ALL
            .iter()
            .find(|code| code.as_str() == caller_error.code);
        let mut error = Error::new(
            code.copied().unwrap_or(ErrorCode::InternalError),
            &*caller_error.message,
        );
        error.param.clone_from(&caller_error.param);
        Some(error)
    }

    fn of<J: ProviderJob + ?Sized>(error: &UpstreamError) -> Self {
        Self::new(&public_error(error, J::INPUT_PARAM), ending(error))
    }
}

impl<T> From<Failure> for StepResult<T> {
    fn from(failure: Failure) -> Self {
        match failure.error() {
            Some(error) => StepResult::Failed(error, failure.ending),
            None => StepResult::Cancelled,
        }
    }
}

/// Continues a step from its recorded state until it ends or the job pauses.
pub async fn execute<J: ProviderJob + ?Sized>(
    provider_job: &J,
    work: &Work,
    number: u32,
) -> Result<StepResult<J::Outcome>> {
    Submission {
        provider_job,
        work,
        number,
    }
    .step()
    .await
}

/// One step of a job whose call a provider executes.
struct Submission<'a, J: ?Sized> {
    provider_job: &'a J,
    work: &'a Work,
    number: u32,
}

impl<J: ProviderJob + ?Sized> Submission<'_, J> {
    async fn step(&self) -> Result<StepResult<J::Outcome>> {
        let Some(step) = self.work.step(self.number) else {
            return self.submit().await;
        };
        match step.state {
            StepState::Done => Ok(StepResult::Done(self.opened(&step.outcome)?)),
            StepState::Failed | StepState::Unknown if !step.outcome.is_empty() => {
                let failure: Failure = self.opened(&step.outcome)?;
                Ok(failure.into())
            }
            StepState::Failed if step.attempt < MAX_ATTEMPTS => self.submit().await,
            StepState::Failed | StepState::Unknown => Ok(StepResult::Failed(interrupted(), Ending::Crashed)),
            StepState::Submitted => {
                let handle = self.opened(&step.handle)?;
                self.poll(handle, MIN_POLL_INTERVAL).await
            }
            StepState::Intended => {
                let handle: Handle = self.opened(&step.handle)?;
                let pipeline = self.provider_job.pipeline();
                if pipeline.is_idempotent::<J::Call>(&handle.provider) {
                    return self.send_again(&handle.provider).await;
                }
                let failure = Failure::new(&interrupted(), Ending::Crashed);
                self.fail(StepState::Unknown, failure).await
            }
        }
    }

    /// Records a failed submission and its reason. No worker sends the submission again, and the
    /// caller always receives the same error.
    async fn fail(&self, state: StepState, failure: Failure) -> Result<StepResult<J::Outcome>> {
        let sealed = self.sealed(&failure)?;
        self.work.record_outcome(self.number, state, sealed).await?;
        Ok(failure.into())
    }

    /// Returns the route and the call. If either is not available, the error is the result of the
    /// step.
    async fn ready(&self) -> std::result::Result<(Routed, J::Call), StepResult<J::Outcome>> {
        let routed = self.provider_job.routed(self.work.job()).await;
        routed.map_err(|error| match is_passing(&error) {
            true => StepResult::Later(RETRY_INTERVAL),
            false => StepResult::Failed(error, Ending::UpstreamError),
        })
    }

    async fn submit(&self) -> Result<StepResult<J::Outcome>> {
        let (work, number) = (self.work, self.number);
        if work.cancelled().is_cancelled() {
            return Ok(StepResult::Cancelled);
        }
        work.resume_work().await?;
        let (routed, call) = match self.ready().await {
            Ok(ready) => ready,
            Err(step_result) => return Ok(step_result),
        };
        let attempt = work.step(number).map_or(0, |step| step.attempt) + 1;
        let Some(route) = routed.candidate(attempt) else {
            return Ok(StepResult::Later(RETRY_INTERVAL));
        };
        let intent = self.sealed(&self.handle(route, Vec::new()))?;
        let key = match route.provider.is_simulated() {
            // The simulator generates in this process, so the job's working time continues.
            true => work.intend(number, intent).await?,
            false => work.intend_and_pause(number, intent).await?,
        };
        self.report(ProviderJobState::Submitting, None).await?;
        self.send(route, &call, &key).await
    }

    /// Repeats a submission that may have been sent. The provider supports idempotency keys, so it
    /// executes the submission only once.
    async fn send_again(&self, provider: &str) -> Result<StepResult<J::Outcome>> {
        let (routed, call) = match self.ready().await {
            Ok(ready) => ready,
            Err(step_result) => return Ok(step_result),
        };
        let Some(route) = routed.candidate_at(provider) else {
            let failure = Failure::new(&interrupted(), Ending::Crashed);
            return self.fail(StepState::Unknown, failure).await;
        };
        if !route.provider.is_simulated() {
            self.work.pause_work().await?;
        }
        let key = self.work.key(self.number);
        self.send(route, &call, &key).await
    }

    async fn send(&self, route: &Route, call: &J::Call, key: &str) -> Result<StepResult<J::Outcome>> {
        let (work, number) = (self.work, self.number);
        let pipeline = self.provider_job.pipeline();
        let provider = &*route.candidate.provider;
        let mut sends = 1;
        let error = loop {
            let submitted = pipeline.submit(work.job(), route, call, key, J::SUBMIT_TIMEOUT);
            let error = match submitted.await {
                Ok(Submitted::Completed(output)) => {
                    return self.store(&self.handle(route, Vec::new()), output).await;
                }
                Ok(Submitted::Accepted { handle, poll_after }) => {
                    let handle = self.handle(route, handle);
                    work.submitted(number, self.sealed(&handle)?).await?;
                    return self.poll(handle, poll_after).await;
                }
                Err(error) => error,
            };
            let may_send = classify_failure(&error) == SubmitFailure::Unknown
                && pipeline.is_idempotent::<J::Call>(provider);
            if !may_send || sends == MAX_SENDS {
                break error;
            }
            tokio::time::sleep(RETRY_INTERVAL * sends).await;
            sends += 1;
        };
        let attempt = work.step(number).map_or(MAX_ATTEMPTS, |step| step.attempt);
        match classify_failure(&error) {
            SubmitFailure::Retryable if attempt < MAX_ATTEMPTS => {
                work.record_outcome(number, StepState::Failed, Vec::new()).await?;
                let pause = error.retry_after.unwrap_or(RETRY_INTERVAL * attempt);
                Ok(StepResult::Later(pause.min(MAX_RETRY_INTERVAL)))
            }
            SubmitFailure::Retryable | SubmitFailure::Final => {
                self.fail(StepState::Failed, Failure::of::<J>(&error)).await
            }
            SubmitFailure::Unknown => self.fail(StepState::Unknown, Failure::of::<J>(&error)).await,
        }
    }

    /// Polls the provider until the submission ends. A cancellation is forwarded once. Outputs that
    /// are generated nevertheless are stored.
    async fn poll(&self, handle: Handle, first: Duration) -> Result<StepResult<J::Outcome>> {
        let work = self.work;
        work.pause_work().await?;
        let job = work.job();
        let pipeline = self.provider_job.pipeline();
        let (provider, provider_handle) = (&*handle.provider, &*handle.handle);
        let mut wait = first.clamp(MIN_POLL_INTERVAL, MAX_FIRST_POLL_DELAY);
        let mut is_withdrawn = false;
        let mut last_state = ProviderJobState::Running;
        let mut last = String::new();
        // The reported progress never decreases: a workflow has several steps, and some polls
        // return no progress.
        let mut max_percent = None;
        // From here on, the age is measured by the monotonic clock, so that a change of the wall
        // clock does not affect it.
        let clock = &pipeline.clock;
        let age_at_start = clock.now().since(handle.submitted_at);
        let start = clock.monotonic_micros();
        loop {
            let cancelled = work.cancelled().clone();
            let is_cancelled = tokio::select! {
                () = tokio::time::sleep(wait) => false,
                () = cancelled.cancelled(), if !is_withdrawn => true,
            };
            if is_cancelled {
                is_withdrawn = true;
                let cancelled = pipeline.cancel_generation::<J::Call>(job, provider, provider_handle);
                if let Err(error) = cancelled.await {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot cancel the submission");
                }
            }
            let watched = Duration::from_micros(clock.monotonic_micros().saturating_sub(start));
            let age = age_at_start + watched;
            let is_late = age > J::MAX_DURATION && watched > LATE_POLL_INTERVAL;
            let is_abandoned = age > ABANDON_AFTER && watched > MIN_WATCHED;
            let polled = pipeline.poll_generation::<J::Call>(job, provider, provider_handle);
            let (state, percent) = match polled.await {
                Ok(GenerationState::Completed(output)) => {
                    let stored = self.store(&handle, output).await;
                    if stored.is_err() && is_abandoned {
                        let failure = Failure::new(&not_stored(), Ending::Crashed);
                        return self.fail(StepState::Unknown, failure).await;
                    }
                    return stored;
                }
                Ok(GenerationState::Blocked) => return self.record_withheld(&handle).await,
                Ok(GenerationState::Failed(error)) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "provider failed to generate the output");
                    return self.fail(StepState::Failed, Failure::of::<J>(&error)).await;
                }
                Ok(GenerationState::Cancelled) => {
                    return self.fail(StepState::Failed, Failure::cancelled()).await;
                }
                // A provider may no longer know a cancelled submission.
                Ok(GenerationState::Lost) if is_withdrawn => {
                    return self.fail(StepState::Unknown, Failure::cancelled()).await;
                }
                Ok(GenerationState::Lost) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, "provider has lost the submission");
                    let failure = Failure::new(&lost_by_provider(), Ending::UpstreamError);
                    return self.fail(StepState::Unknown, failure).await;
                }
                Ok(_) | Err(_) if is_late => (ProviderJobState::Unknown, None),
                Ok(GenerationState::Waiting { ahead }) => (ProviderJobState::Queued(ahead), None),
                Ok(GenerationState::Running { percent }) => {
                    max_percent = max_percent.max(percent.map(|percent| percent.min(99)));
                    (ProviderJobState::Running, max_percent)
                }
                Err(error) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot poll the provider");
                    (last_state, None)
                }
            };
            if is_abandoned {
                tracing::error!(
                    job.id = %job.terms.id, %provider, hours = age.as_secs() / 3600,
                    "abandoned a submission that the provider has not ended"
                );
                let failure = Failure::new(&lost_by_provider(), Ending::Timeout);
                return self.fail(StepState::Unknown, failure).await;
            }
            last_state = state;
            let now = format!("{state:?} {percent:?}");
            if now != last {
                last = now;
                self.report(state, percent).await?;
            }
            wait = if is_late {
                LATE_POLL_INTERVAL
            } else {
                (wait * 3 / 2).min(MAX_POLL_INTERVAL)
            };
        }
    }

    /// Stores the outputs and then records the step as done.
    async fn store(
        &self,
        handle: &Handle,
        output: <J::Call as JobCall>::Output,
    ) -> Result<StepResult<J::Outcome>> {
        let (work, number) = (self.work, self.number);
        let job = work.job();
        let is_intended = work
            .step(number)
            .is_some_and(|step| step.state == StepState::Intended);
        work.resume_work().await?;
        self.report(ProviderJobState::Fetching, None).await?;
        let outcome = match self.provider_job.store(job, handle, output).await {
            Ok(outcome) => outcome,
            // Outputs that the response to a submission contained cannot be fetched again.
            Err(OutputError::Storage(error)) if is_intended => {
                tracing::error!(job.id = %job.terms.id, %error, "cannot store a generated output");
                let failure = Failure::new(&not_stored(), Ending::Crashed);
                return self.fail(StepState::Unknown, failure).await;
            }
            Err(OutputError::Storage(error)) => return Err(error),
            Err(OutputError::Missing(error)) => {
                return self.fail(StepState::Unknown, Failure::of::<J>(&error)).await;
            }
            Err(OutputError::Wrong(why)) => {
                tracing::warn!(job.id = %job.terms.id, provider = %handle.provider, why, "provider output does not match the request");
                let failure = Failure::new(&wrong_output(), Ending::UpstreamError);
                return self.fail(StepState::Failed, failure).await;
            }
        };
        self.record(outcome).await
    }

    async fn record_withheld(&self, handle: &Handle) -> Result<StepResult<J::Outcome>> {
        self.record(self.provider_job.withheld(handle)).await
    }

    async fn record(&self, outcome: J::Outcome) -> Result<StepResult<J::Outcome>> {
        let sealed = self.sealed(&outcome)?;
        self.work
            .record_outcome(self.number, StepState::Done, sealed)
            .await?;
        Ok(StepResult::Done(outcome))
    }

    async fn report(&self, state: ProviderJobState, percent: Option<u8>) -> Result<()> {
        report_progress(self.work, &self.provider_job.phase(state), percent).await
    }

    fn handle(&self, route: &Route, handle: Vec<u8>) -> Handle {
        Handle {
            provider: route.candidate.provider.to_string(),
            upstream_model: route.candidate.upstream_model.to_string(),
            handle,
            submitted_at: self.provider_job.pipeline().clock.now(),
        }
    }

    fn sealed(&self, what: &impl Serialize) -> Result<Vec<u8>> {
        let job = self.work.job();
        let sealed = sealed::seal(self.provider_job.vault(), job.account, job.terms.id, what);
        sealed.map_err(|error| corrupt(&error))
    }

    fn opened<T: DeserializeOwned>(&self, sealed: &[u8]) -> Result<T> {
        let opened = sealed::open(self.provider_job.vault(), self.work.job(), sealed);
        opened.map_err(|error| corrupt(&error))
    }
}

/// Records the progress of a job and emits a `job.progress` event. `phase` may contain a queue
/// position, as in `queued_upstream/3`.
pub async fn report_progress(work: &Work, phase: &str, percent: Option<u8>) -> Result<()> {
    let (word, position) = phase.split_once('/').unwrap_or((phase, ""));
    let body = json!({"phase": word, "progress": percent, "queue_position": position.parse::<u32>().ok()});
    work.report_progress(Progress {
        phase: Some(Arc::from(phase)),
        percent,
        events: vec![NewJobEvent {
            kind: Arc::from("job.progress"),
            body: body.to_string().into_bytes(),
        }],
    })
    .await
}

fn ending(error: &UpstreamError) -> Ending {
    match (error.kind, error.cause) {
        (UpstreamErrorKind::ContentBlocked, _) => Ending::BlockedInput,
        (_, UpstreamCause::Timeout) => Ending::Timeout,
        _ => Ending::UpstreamError,
    }
}

/// Whether the error may be gone after a pause.
pub fn is_passing(error: &Error) -> bool {
    matches!(error.code, ErrorCode::Overloaded | ErrorCode::ModelUnavailable)
}

/// Returns the error of a submission whose outcome the gateway does not know.
pub fn interrupted() -> Error {
    let message =
        "The gateway stopped while it waited for the model. The request was not charged. Send it again.";
    Error::new(ErrorCode::InternalError, message)
}

fn not_stored() -> Error {
    let message = "The output could not be stored. It was not charged. Send the request again later.";
    Error::new(ErrorCode::InternalError, message)
}

fn lost_by_provider() -> Error {
    let message = "The provider did not complete the job. It was not charged. Send the request again.";
    Error::new(ErrorCode::UpstreamError, message)
}

fn wrong_output() -> Error {
    let message =
        "The output of the model does not match the request. It was not charged. Send the request again.";
    Error::new(ErrorCode::UpstreamError, message)
}

/// Returns the error of stored data that cannot be decrypted or parsed.
pub fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.to_string())
}
