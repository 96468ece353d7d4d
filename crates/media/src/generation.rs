//! Executes image and video jobs, and the visual steps of compositions. Each step is a submission
//! to a provider: the step is recorded, sent and polled. The outputs are stored before the step is
//! recorded as done. A [`MediaGenerator`] implements the differences between the kinds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_jobs::webhooks::Webhooks;
use tollgate_jobs::{Handler, JobOutcome, Jobs, Progress, Work, sealed};
use tollgate_pipeline::generation::{SubmitFailure, classify_failure, public_media_error};
use tollgate_pipeline::{CallRequest, Conclusion, MediaCall, Pipeline, Route, Routed};
use tollgate_storage::{
    AccountStore, Compat, Job, JobEnd, JobError, NewJob, NewJobEvent, StorageError, StorageErrorKind,
};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Clock, Error, ErrorCode, JobId, JobStatus, StepState, Unit, Usage};
use tollgate_upstream::{Content, GenerationOutput, GenerationState, OutputItem, Submitted, UpstreamError};

use crate::compose::Recipes;
use crate::job_payload::{Failure, Handle, JobPayload, Outcome, Part, StoredMedia};
use crate::jobs::unavailable;
use crate::storage::MediaStorage;

/// Maximum number of attempts of a step. A submission is attempted again only if the provider
/// certainly did not execute it.
const MAX_ATTEMPTS: u32 = 3;
/// Maximum number of times that one submission is sent to a provider that supports idempotency
/// keys.
const MAX_SENDS: u32 = 3;
/// Base delay before a retry, unless the provider requests another delay.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum delay before a retry.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Minimum delay before the first poll.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum delay before the first poll.
const MAX_FIRST_POLL_DELAY: Duration = Duration::from_secs(2);
/// Maximum delay between two polls of a submission whose age is at most
/// [`MediaGenerator::MAX_DURATION`].
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);
/// Delay between two polls of an older submission.
const LATE_POLL_INTERVAL: Duration = Duration::from_secs(300);
/// Age of a submission after which the gateway stops polling and releases the hold.
const ABANDON_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Minimum time for which one process polls a submission before the process abandons the
/// submission. The age alone is not reliable, because the clock may have been wrong when the
/// submission was recorded.
const MIN_WATCHED: Duration = Duration::from_secs(3600);
/// Maximum number of attempts to fetch and store one output.
const MAX_FETCHES: u32 = 5;

/// Dependencies of the media job handlers.
pub struct MediaJobs {
    /// Routes, admits and bills provider calls.
    pub pipeline: Arc<Pipeline>,
    /// Job queue that stores accepted jobs.
    pub jobs: Arc<Jobs>,
    /// Registers the webhook URLs of jobs.
    pub webhooks: Arc<Webhooks>,
    /// Stores inputs and outputs.
    pub storage: Arc<MediaStorage>,
    /// Encrypts payloads, outcomes and results.
    pub vault: Vault,
    /// Accounts and keys of the callers.
    pub accounts: Arc<dyn AccountStore>,
    /// External programs for audio and video, such as ffmpeg.
    pub tools: tollgate_media_tools::Tools,
    /// Default settings of compositions.
    pub recipes: Recipes,
    /// Source of the current time.
    pub clock: Arc<dyn Clock>,
}

/// Parts of media generation that depend on the job kind.
#[async_trait]
pub(crate) trait MediaGenerator: Send + Sync + 'static {
    /// Generation parameters, as stored in the job payload.
    type Params: Serialize + DeserializeOwned + Clone + Send + Sync;
    /// Provider call built from the parameters.
    type Call: MediaCall;
    /// Job kind, such as `image.generation`.
    const KIND: &'static str;
    /// Timeout of the provider's response to a submission.
    const SUBMIT_TIMEOUT: Duration;
    /// Expected maximum duration of a submission. An older submission is polled less frequently.
    const MAX_DURATION: Duration;

    /// Builds the call of a submission that requests `count` outputs.
    async fn call(
        &self,
        media_jobs: &MediaJobs,
        job: &Job,
        payload: &JobPayload<Self::Params>,
        count: u32,
    ) -> Result<Self::Call, Error>;

    /// Validates and stores one output.
    async fn store(
        &self,
        media_jobs: &MediaJobs,
        job: &Job,
        payload: &JobPayload<Self::Params>,
        content: OutputContent,
    ) -> Result<StoredMedia, OutputError>;

    /// Returns the billable quantity of the stored outputs and of `withheld` outputs, which were
    /// generated but blocked.
    fn generated(&self, params: &Self::Params, stored: &[StoredMedia], withheld: u32) -> Usage;

    /// Whether the result contains the bytes of the outputs instead of URLs.
    fn is_inline(&self, params: &Self::Params) -> bool;
}

/// The bytes of an output.
pub(crate) enum OutputContent {
    /// Complete bytes in memory.
    Whole(bytes::Bytes),
    /// Stream from the provider.
    Stream(tollgate_upstream::ContentStream),
}

/// Reason why an output could not be stored.
#[derive(Debug)]
pub(crate) enum OutputError {
    /// Storage failed; the attempt is repeated.
    Storage(StorageError),
    /// The provider did not deliver the output; the attempt is repeated.
    Missing(UpstreamError),
    /// The output, or the stored video that it extends, is unusable. The step fails without another
    /// attempt.
    Wrong(String),
}

/// Result of an attempt to finish a step.
pub(crate) enum StepResult {
    Done(Part),
    Failed(Error, Ending),
    Cancelled,
    Later(Duration),
}

impl Part {
    /// Returns the usage of a submission that requested `requested` outputs: the generated quantity
    /// and the tokens that the provider reported.
    pub(crate) fn consumed<C: MediaGenerator>(
        &self,
        generator: &C,
        params: &C::Params,
        requested: u32,
    ) -> Usage {
        let withheld = if self.is_blocked { requested } else { 0 };
        let generated = generator.generated(params, &self.items, withheld);
        let reported = self.reported.unwrap_or_default();
        Unit::NON_TOKENS
            .into_iter()
            .fold(reported, |usage, unit| usage.with(unit, generated.get(unit)))
    }
}

/// Executes the jobs of one generator.
pub(crate) struct GenerationHandler<C> {
    media_jobs: Arc<MediaJobs>,
    generator: C,
}

/// A validated request that is ready to be accepted as a job.
pub(crate) struct Acceptance<'a, C: MediaGenerator> {
    pub(crate) ctx: &'a RequestContext,
    pub(crate) routed: Routed,
    pub(crate) request: CallRequest<C::Call>,
    pub(crate) payload: JobPayload<C::Params>,
    /// URL that receives a webhook when the job has ended.
    pub(crate) webhook_url: Option<String>,
}

impl MediaJobs {
    /// Creates the hold and the job in one transaction.
    pub(crate) async fn accept<C: MediaGenerator>(
        &self,
        accepted: Acceptance<'_, C>,
    ) -> Result<JobId, Error> {
        let Acceptance {
            ctx,
            routed,
            request,
            payload,
            webhook_url,
        } = accepted;
        let id = JobId::from_u128(ctx.id.as_u128());
        let account = request.caller.account_id();
        let webhook = webhook_url.map(|url| self.webhooks.address(account, id, &url));
        let job = NewJob {
            id,
            kind: Arc::from(C::KIND),
            body: sealed::seal(&self.vault, account, id, &payload)?,
            webhook: webhook.transpose()?,
            start_by: None,
        };
        let pipeline = self.pipeline.accepting_job(self.jobs.clone(), job);
        let admitted = pipeline.admit(routed, request, |_| Vec::new()).await;
        let (admission, tokens) = admitted.map_err(|refused| {
            if let Some(tokens) = refused.tokens {
                ctx.note_tokens(tokens);
            }
            refused.error
        })?;
        ctx.note_tokens(tokens);
        admission.defer_to_worker(&pipeline).await;
        Ok(id)
    }

    pub(crate) async fn caller(
        &self,
        job: &Job,
        order_mode: tollgate_storage::KeyMode,
    ) -> Result<Caller, Error> {
        let caller = Caller::of_job(&*self.accounts, job, order_mode, Compat::Strict).await;
        caller.map_err(|error| unavailable(&error))
    }
}

impl From<Failure> for StepResult {
    fn from(failure: Failure) -> Self {
        match failure.error() {
            Some(error) => StepResult::Failed(error, failure.ending),
            None => StepResult::Cancelled,
        }
    }
}

impl Failure {
    fn of(error: &UpstreamError) -> Self {
        Self::new(&public_media_error(error), ending(error))
    }
}

impl<C: MediaGenerator> GenerationHandler<C> {
    pub(crate) fn new(media_jobs: Arc<MediaJobs>, generator: C) -> Self {
        Self {
            media_jobs,
            generator,
        }
    }

    /// Continues a step from its recorded state until it ends or the job pauses.
    pub(crate) async fn step(
        &self,
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        count: u32,
    ) -> tollgate_storage::Result<StepResult> {
        let job = work.job().clone();
        let Some(step) = work.step(number) else {
            return self.submit(work, payload, number, count).await;
        };
        match step.state {
            StepState::Done => {
                let part = sealed::open(&self.media_jobs.vault, &job, &step.outcome);
                Ok(StepResult::Done(part.map_err(|error| corrupt(&error))?))
            }
            StepState::Failed | StepState::Unknown if !step.outcome.is_empty() => {
                let failure: Failure = sealed::open(&self.media_jobs.vault, &job, &step.outcome)
                    .map_err(|error| corrupt(&error))?;
                Ok(failure.into())
            }
            StepState::Failed if step.attempt < MAX_ATTEMPTS => {
                self.submit(work, payload, number, count).await
            }
            StepState::Failed | StepState::Unknown => Ok(StepResult::Failed(interrupted(), Ending::Crashed)),
            StepState::Submitted => {
                let handle = sealed::open(&self.media_jobs.vault, &job, &step.handle);
                let handle = handle.map_err(|error| corrupt(&error))?;
                self.poll(work, payload, number, handle, MIN_POLL_INTERVAL).await
            }
            StepState::Intended => {
                let handle: Handle = sealed::open(&self.media_jobs.vault, &job, &step.handle)
                    .map_err(|error| corrupt(&error))?;
                if self
                    .media_jobs
                    .pipeline
                    .is_idempotent::<C::Call>(&handle.provider)
                {
                    return self
                        .send_again(work, payload, number, count, &handle.provider)
                        .await;
                }
                let failure = Failure::new(&interrupted(), Ending::Crashed);
                self.fail_step(work, number, StepState::Unknown, failure).await
            }
        }
    }

    /// Records a failed submission and its reason. No worker sends the submission again, and the
    /// caller always receives the same error.
    async fn fail_step(
        &self,
        work: &Work,
        number: u32,
        state: StepState,
        failure: Failure,
    ) -> tollgate_storage::Result<StepResult> {
        let sealed = self.sealed(work.job(), &failure)?;
        work.record_outcome(number, state, sealed).await?;
        Ok(failure.into())
    }

    /// Returns the route and the call. If either is not available, the error is the result of the
    /// step.
    async fn ready(
        &self,
        job: &Job,
        payload: &JobPayload<C::Params>,
        count: u32,
    ) -> Result<(Routed, C::Call), StepResult> {
        self.routed(job, payload, count)
            .await
            .map_err(|error| match is_passing(&error) {
                true => StepResult::Later(RETRY_INTERVAL),
                false => StepResult::Failed(error, Ending::UpstreamError),
            })
    }

    async fn routed(
        &self,
        job: &Job,
        payload: &JobPayload<C::Params>,
        count: u32,
    ) -> Result<(Routed, C::Call), Error> {
        let media_jobs = &*self.media_jobs;
        let caller = media_jobs.caller(job, payload.head.key_mode()).await?;
        let mut routed = media_jobs
            .pipeline
            .route(&caller, payload.head.model.as_deref().unwrap_or(&job.model))?;
        let call = self.generator.call(media_jobs, job, payload, count).await?;
        routed.retain_media_providers(&call)?;
        Ok((routed, call))
    }

    async fn submit(
        &self,
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        count: u32,
    ) -> tollgate_storage::Result<StepResult> {
        if work.cancelled().is_cancelled() {
            return Ok(StepResult::Cancelled);
        }
        work.resume_work().await?;
        let job = work.job().clone();
        let (routed, call) = match self.ready(&job, payload, count).await {
            Ok(ready) => ready,
            Err(step_result) => return Ok(step_result),
        };
        let attempt = work.step(number).map_or(0, |step| step.attempt) + 1;
        let Some(route) = routed.candidate(attempt) else {
            return Ok(StepResult::Later(RETRY_INTERVAL));
        };
        let intent = self.sealed(&job, &self.handle(route, Vec::new()))?;
        let key = match route.provider.is_simulated() {
            // The simulator generates in this process, so the job's working time continues.
            true => work.intend(number, intent).await?,
            false => work.intend_and_pause(number, intent).await?,
        };
        report_progress(work, "submitting", None).await?;
        self.send(work, payload, number, route, &call, &key).await
    }

    /// Repeats a submission that may have been sent. The provider supports idempotency keys, so it
    /// executes the submission only once.
    async fn send_again(
        &self,
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        count: u32,
        provider: &str,
    ) -> tollgate_storage::Result<StepResult> {
        let job = work.job().clone();
        let (routed, call) = match self.ready(&job, payload, count).await {
            Ok(ready) => ready,
            Err(step_result) => return Ok(step_result),
        };
        let Some(route) = routed.candidate_at(provider) else {
            let failure = Failure::new(&interrupted(), Ending::Crashed);
            return self.fail_step(work, number, StepState::Unknown, failure).await;
        };
        if !route.provider.is_simulated() {
            work.pause_work().await?;
        }
        let key = work.key(number);
        self.send(work, payload, number, route, &call, &key).await
    }

    async fn send(
        &self,
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        route: &Route,
        call: &C::Call,
        key: &str,
    ) -> tollgate_storage::Result<StepResult> {
        let job = work.job().clone();
        let pipeline = &self.media_jobs.pipeline;
        let provider = &*route.candidate.provider;
        let mut sends = 1;
        let error = loop {
            let error = match pipeline.submit(&job, route, call, key, C::SUBMIT_TIMEOUT).await {
                Ok(Submitted::Completed(generated)) => {
                    let handle = self.handle(route, Vec::new());
                    return self.store(work, payload, number, &handle, generated).await;
                }
                Ok(Submitted::Accepted { handle, poll_after }) => {
                    let handle = self.handle(route, handle);
                    work.submitted(number, self.sealed(&job, &handle)?).await?;
                    return self.poll(work, payload, number, handle, poll_after).await;
                }
                Err(error) => error,
            };
            let may_send = classify_failure(&error) == SubmitFailure::Unknown
                && pipeline.is_idempotent::<C::Call>(provider);
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
                self.fail_step(work, number, StepState::Failed, Failure::of(&error))
                    .await
            }
            SubmitFailure::Unknown => {
                self.fail_step(work, number, StepState::Unknown, Failure::of(&error))
                    .await
            }
        }
    }

    /// Polls the provider until the submission ends. A cancellation is forwarded once. Outputs that
    /// are generated nevertheless are stored.
    async fn poll(
        &self,
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        handle: Handle,
        first: Duration,
    ) -> tollgate_storage::Result<StepResult> {
        work.pause_work().await?;
        let job = work.job().clone();
        let pipeline = &self.media_jobs.pipeline;
        let (provider, provider_handle) = (handle.provider.clone(), handle.handle.clone());
        let mut wait = first.clamp(MIN_POLL_INTERVAL, MAX_FIRST_POLL_DELAY);
        let mut is_withdrawn = false;
        let mut last = String::new();
        // The reported progress never decreases: a workflow has several steps, and some polls
        // return no progress.
        let mut max_percent = None;
        // From here on, the age is measured by the monotonic clock, so that a change of the wall
        // clock does not affect it.
        let clock = &self.media_jobs.clock;
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
                if let Err(error) = pipeline
                    .cancel_generation::<C::Call>(&job, &provider, &provider_handle)
                    .await
                {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot cancel the submission");
                }
            }
            let watched = Duration::from_micros(clock.monotonic_micros().saturating_sub(start));
            let age = age_at_start + watched;
            let is_late = age > C::MAX_DURATION && watched > LATE_POLL_INTERVAL;
            let is_abandoned = age > ABANDON_AFTER && watched > MIN_WATCHED;
            let (phase, percent) = match pipeline
                .poll_generation::<C::Call>(&job, &provider, &provider_handle)
                .await
            {
                Ok(GenerationState::Completed(generated)) => {
                    let stored = self.store(work, payload, number, &handle, generated).await;
                    if stored.is_err() && is_abandoned {
                        let failure = Failure::new(&not_stored(), Ending::Crashed);
                        return self.fail_step(work, number, StepState::Unknown, failure).await;
                    }
                    return stored;
                }
                Ok(GenerationState::Blocked) => return self.withheld(work, number, handle.target()).await,
                Ok(GenerationState::Failed(error)) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "provider failed to generate the output");
                    let failure = Failure::of(&error);
                    return self.fail_step(work, number, StepState::Failed, failure).await;
                }
                Ok(GenerationState::Cancelled) => {
                    let failure = Failure::cancelled();
                    return self.fail_step(work, number, StepState::Failed, failure).await;
                }
                // A provider may no longer know a cancelled submission.
                Ok(GenerationState::Lost) if is_withdrawn => {
                    let failure = Failure::cancelled();
                    return self.fail_step(work, number, StepState::Unknown, failure).await;
                }
                Ok(GenerationState::Lost) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, "provider has lost the submission");
                    let failure = Failure::new(&lost_by_provider(), Ending::UpstreamError);
                    return self.fail_step(work, number, StepState::Unknown, failure).await;
                }
                Ok(_) | Err(_) if is_late => ("unknown".to_owned(), None),
                Ok(GenerationState::Waiting { ahead: Some(ahead) }) => {
                    (format!("queued_upstream/{ahead}"), None)
                }
                Ok(GenerationState::Waiting { ahead: None }) => ("queued_upstream".to_owned(), None),
                Ok(GenerationState::Running { percent }) => {
                    max_percent = max_percent.max(percent.map(|percent| percent.min(99)));
                    ("running".to_owned(), max_percent)
                }
                Err(error) => {
                    tracing::warn!(job.id = %job.terms.id, %provider, %error, "cannot poll the provider");
                    (last.split(' ').next().unwrap_or("running").to_owned(), None)
                }
            };
            if is_abandoned {
                tracing::error!(
                    job.id = %job.terms.id, %provider, hours = age.as_secs() / 3600,
                    "abandoned a submission that the provider has not ended"
                );
                let failure = Failure::new(&lost_by_provider(), Ending::Timeout);
                return self.fail_step(work, number, StepState::Unknown, failure).await;
            }
            let now = format!("{phase} {percent:?}");
            if now != last {
                last = now;
                report_progress(work, &phase, percent).await?;
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
        work: &Work,
        payload: &JobPayload<C::Params>,
        number: u32,
        handle: &Handle,
        generated: GenerationOutput,
    ) -> tollgate_storage::Result<StepResult> {
        let job = work.job().clone();
        let is_intended = work
            .step(number)
            .is_some_and(|step| step.state == StepState::Intended);
        work.resume_work().await?;
        report_progress(work, "fetching", None).await?;
        let first_at = self.media_jobs.clock.now();
        let mut items = Vec::with_capacity(generated.items.len());
        for item in generated.items {
            match self.item(&job, payload, &handle.provider, item).await {
                Ok(stored) => items.push(stored),
                // Outputs that the response to a submission contained cannot be fetched again.
                Err(OutputError::Storage(error)) if is_intended => {
                    tracing::error!(job.id = %job.terms.id, %error, "cannot store a generated output");
                    let failure = Failure::new(&not_stored(), Ending::Crashed);
                    return self.fail_step(work, number, StepState::Unknown, failure).await;
                }
                Err(OutputError::Storage(error)) => return Err(error),
                Err(OutputError::Missing(error)) => {
                    let failure = Failure::of(&error);
                    return self.fail_step(work, number, StepState::Unknown, failure).await;
                }
                Err(OutputError::Wrong(why)) => {
                    tracing::warn!(job.id = %job.terms.id, provider = %handle.provider, why, "provider output does not match the request");
                    let failure = Failure::new(&wrong_output(), Ending::UpstreamError);
                    return self.fail_step(work, number, StepState::Failed, failure).await;
                }
            }
        }
        let part = Part {
            target: handle.target(),
            is_blocked: false,
            items,
            reported: generated.usage,
            first_at,
        };
        work.record_outcome(number, StepState::Done, self.sealed(&job, &part)?)
            .await?;
        Ok(StepResult::Done(part))
    }

    async fn withheld(
        &self,
        work: &Work,
        number: u32,
        target: String,
    ) -> tollgate_storage::Result<StepResult> {
        let part = Part {
            target,
            items: Vec::new(),
            reported: None,
            is_blocked: true,
            first_at: self.media_jobs.clock.now(),
        };
        let sealed = self.sealed(work.job(), &part)?;
        work.record_outcome(number, StepState::Done, sealed).await?;
        Ok(StepResult::Done(part))
    }

    /// Fetches and stores one output, in at most [`MAX_FETCHES`] attempts, because the gateway has
    /// already paid the provider for the output. Unusable outputs are not retried.
    async fn item(
        &self,
        job: &Job,
        payload: &JobPayload<C::Params>,
        provider: &str,
        item: OutputItem,
    ) -> Result<StoredMedia, OutputError> {
        let mut tries = 1;
        loop {
            let stored = match self.output(job, provider, &item.content).await {
                Ok(output) => self.generator.store(&self.media_jobs, job, payload, output).await,
                Err(error) => Err(OutputError::Missing(error)),
            };
            match stored {
                Ok(stored) => {
                    return Ok(StoredMedia {
                        revised_prompt: item.revised_prompt,
                        ..stored
                    });
                }
                Err(OutputError::Wrong(why)) => return Err(OutputError::Wrong(why)),
                Err(output_error) if tries == MAX_FETCHES => return Err(output_error),
                Err(output_error) => {
                    tracing::warn!(job.id = %job.terms.id, ?output_error, "cannot store an output yet")
                }
            }
            tokio::time::sleep(RETRY_INTERVAL * tries).await;
            tries += 1;
        }
    }

    async fn output(
        &self,
        job: &Job,
        provider: &str,
        content: &Content,
    ) -> Result<OutputContent, UpstreamError> {
        let pipeline = &self.media_jobs.pipeline;
        match content {
            Content::Bytes(bytes) => Ok(OutputContent::Whole(bytes.clone())),
            Content::Upstream(own) => Ok(OutputContent::Stream(
                pipeline.fetch_output::<C::Call>(job, provider, own).await?,
            )),
            Content::Address(url) => {
                let fetched = pipeline.fetch_public_output(url).await?;
                Ok(OutputContent::Whole(fetched))
            }
        }
    }

    fn handle(&self, route: &Route, handle: Vec<u8>) -> Handle {
        Handle {
            provider: route.candidate.provider.to_string(),
            upstream_model: route.candidate.upstream_model.to_string(),
            handle,
            submitted_at: self.media_jobs.clock.now(),
        }
    }

    fn sealed(&self, job: &Job, what: &impl Serialize) -> tollgate_storage::Result<Vec<u8>> {
        let sealed = sealed::seal(&self.media_jobs.vault, job.account, job.terms.id, what);
        sealed.map_err(|error| corrupt(&error))
    }

    /// Builds the outcome of a job with at least one finished step.
    fn completed(
        &self,
        job: &Job,
        payload: &JobPayload<C::Params>,
        parts: Vec<Part>,
    ) -> tollgate_storage::Result<JobOutcome> {
        let params = &payload.params;
        let requested: u32 = payload.parts.iter().sum();
        let target: Arc<str> = parts.first().map_or("", |part| &*part.target).into();
        let first_at = parts.iter().map(|part| part.first_at).min();
        let mut reported = Usage::ZERO;
        for usage in parts.iter().filter_map(|part| part.reported.as_ref()) {
            for (unit, quantity) in usage.iter() {
                reported = reported.with(unit, reported.get(unit).saturating_add(quantity));
            }
        }
        let items: Vec<StoredMedia> = parts.into_iter().flat_map(|part| part.items).collect();
        let is_blocked = items.is_empty();
        let withheld = if is_blocked { requested } else { 0 };
        let generated = self.generator.generated(params, &items, withheld);
        let usage = Unit::NON_TOKENS
            .into_iter()
            .fold(reported, |usage, unit| usage.with(unit, generated.get(unit)));
        let conclusion = Conclusion {
            usage,
            outcome: if is_blocked {
                Ending::BlockedOutput
            } else {
                Ending::Ok
            },
            target,
            first_at,
            ahead: payload.head.ahead,
        };
        let settlement = self
            .media_jobs
            .pipeline
            .conclude(job, &payload.head.agreed(), conclusion);
        let outcome = Outcome {
            created_at: self.media_jobs.clock.now(),
            inline: self.generator.is_inline(params),
            items,
        };
        let end = JobEnd {
            status: if is_blocked {
                JobStatus::Failed
            } else {
                JobStatus::Completed
            },
            result: match is_blocked {
                true => None,
                false => Some(self.sealed(job, &outcome)?),
            },
            error: is_blocked.then(|| JobError::from(&blocked())),
            settlement,
            parts: Vec::new(),
            events: Vec::new(),
        };
        Ok(JobOutcome::Ended(Box::new(end)))
    }

    /// Builds the outcome of a job without outputs, which costs nothing.
    fn end_without_output(
        &self,
        job: &Job,
        payload: Option<&JobPayload<C::Params>>,
        status: JobStatus,
        error: Option<&Error>,
        ending: Ending,
    ) -> JobOutcome {
        let conclusion = Conclusion {
            usage: Usage::ZERO,
            outcome: ending,
            target: "".into(),
            first_at: None,
            ahead: payload.map(|payload| payload.head.ahead).unwrap_or_default(),
        };
        let prices = payload.map(|payload| payload.head.agreed()).unwrap_or_default();
        JobOutcome::Ended(Box::new(JobEnd {
            status,
            result: None,
            error: error.map(|error| tollgate_jobs::job_error(job, error)),
            settlement: self.media_jobs.pipeline.conclude(job, &prices, conclusion),
            parts: Vec::new(),
            events: Vec::new(),
        }))
    }
}

#[async_trait]
impl<C: MediaGenerator> Handler for GenerationHandler<C> {
    fn kind(&self) -> &'static str {
        C::KIND
    }

    async fn run(&self, work: &mut Work) -> tollgate_storage::Result<JobOutcome> {
        let job = work.job().clone();
        let payload: JobPayload<C::Params> = match sealed::open(&self.media_jobs.vault, &job, &job.terms.body)
        {
            Ok(payload) => payload,
            Err(error) => {
                return Ok(self.end_without_output(
                    &job,
                    None,
                    JobStatus::Failed,
                    Some(&error),
                    Ending::Crashed,
                ));
            }
        };
        let mut parts = Vec::with_capacity(payload.parts.len());
        let mut failure = None;
        for (number, count) in payload.parts.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            match self.step(work, &payload, number, *count).await? {
                StepResult::Done(part) => parts.push(part),
                StepResult::Later(pause) => return Ok(JobOutcome::Later(pause)),
                StepResult::Failed(error, ending) => {
                    failure = Some((JobStatus::Failed, Some(error), ending));
                    break;
                }
                StepResult::Cancelled => {
                    failure = Some((JobStatus::Cancelled, None, Ending::Cancelled));
                    break;
                }
            }
        }
        // Stored outputs are delivered and charged, even if other steps failed.
        let has_some = parts.iter().any(|part: &Part| !part.items.is_empty());
        match failure {
            Some((status, error, ending)) if !has_some => {
                Ok(self.end_without_output(&job, Some(&payload), status, error.as_ref(), ending))
            }
            _ => self.completed(&job, &payload, parts),
        }
    }
}

/// Records the progress of a job and emits a `job.progress` event. `phase` may contain a queue
/// position, as in `queued_upstream/3`.
pub(crate) async fn report_progress(
    work: &Work,
    phase: &str,
    percent: Option<u8>,
) -> tollgate_storage::Result<()> {
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
        (tollgate_upstream::UpstreamErrorKind::ContentBlocked, _) => Ending::BlockedInput,
        (_, tollgate_upstream::UpstreamCause::Timeout) => Ending::Timeout,
        _ => Ending::UpstreamError,
    }
}

pub(crate) fn is_passing(error: &Error) -> bool {
    matches!(error.code, ErrorCode::Overloaded | ErrorCode::ModelUnavailable)
}

pub(crate) fn blocked() -> Error {
    let message =
        "The content policy blocked the output. The request was charged. Change the prompt and try again.";
    Error::new(ErrorCode::OutputBlocked, message)
}

pub(crate) fn interrupted() -> Error {
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

pub(crate) fn corrupt(error: &Error) -> StorageError {
    StorageError::new(StorageErrorKind::Corrupt, error.to_string())
}
