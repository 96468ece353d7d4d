//! Executes image and video jobs, and the visual steps of compositions. Each step is a submission
//! to a provider: the step is recorded, sent and polled. The outputs are stored before the step is
//! recorded as done. A [`MediaGenerator`] implements the differences between the kinds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_accounts::{Caller, Vault};
use tollgate_edge::RequestContext;
use tollgate_jobs::webhooks::Webhooks;
use tollgate_jobs::{Handler, JobOutcome, Jobs, Work, sealed};
use tollgate_pipeline::provider_job::{
    self, Handle, OutputError, ProviderJob, RETRY_INTERVAL, StepResult, corrupt,
};
use tollgate_pipeline::{CallRequest, Conclusion, Pipeline, ReferencesMedia, Routed};
use tollgate_storage::{AccountStore, Compat, Job, JobEnd, JobError, NewJob};
use tollgate_types::usage::Outcome as Ending;
use tollgate_types::{Clock, Error, ErrorCode, JobId, JobStatus, Unit, Usage};
use tollgate_upstream::{Content, GenerationOutput, JobCall, OutputItem, UpstreamError};

use crate::compose::Recipes;
use crate::job_payload::{JobPayload, Outcome, Part, StoredMedia};
use crate::jobs::unavailable;
use crate::storage::MediaStorage;

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
    type Call: JobCall<Output = GenerationOutput> + ReferencesMedia;
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
    ) -> tollgate_storage::Result<StepResult<Part>> {
        let media_step = MediaStep {
            handler: self,
            payload,
            count,
        };
        provider_job::execute(&media_step, work, number).await
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

/// One submission of a generation job, which requests `count` outputs.
struct MediaStep<'a, C: MediaGenerator> {
    handler: &'a GenerationHandler<C>,
    payload: &'a JobPayload<C::Params>,
    count: u32,
}

#[async_trait]
impl<C: MediaGenerator> ProviderJob for MediaStep<'_, C> {
    type Call = C::Call;
    type Outcome = Part;
    const SUBMIT_TIMEOUT: Duration = C::SUBMIT_TIMEOUT;
    const MAX_DURATION: Duration = C::MAX_DURATION;
    const INPUT_PARAM: &'static str = "prompt";

    fn pipeline(&self) -> &Pipeline {
        &self.handler.media_jobs.pipeline
    }

    fn vault(&self) -> &Vault {
        &self.handler.media_jobs.vault
    }

    async fn routed(&self, job: &Job) -> Result<(Routed, C::Call), Error> {
        let media_jobs = &*self.handler.media_jobs;
        let head = &self.payload.head;
        let caller = media_jobs.caller(job, head.key_mode()).await?;
        let model = head.model.as_deref().unwrap_or(&job.model);
        let mut routed = media_jobs.pipeline.route(&caller, model)?;
        let generator = &self.handler.generator;
        let call = generator.call(media_jobs, job, self.payload, self.count).await?;
        routed.retain_job_providers(&call)?;
        Ok((routed, call))
    }

    async fn store(&self, job: &Job, handle: &Handle, output: GenerationOutput) -> Result<Part, OutputError> {
        let first_at = self.handler.media_jobs.clock.now();
        let mut items = Vec::with_capacity(output.items.len());
        for item in output.items {
            let stored = self.handler.item(job, self.payload, &handle.provider, item);
            items.push(stored.await?);
        }
        Ok(Part {
            target: handle.target(),
            is_blocked: false,
            items,
            reported: output.usage,
            first_at,
        })
    }

    fn withheld(&self, handle: &Handle) -> Part {
        Part {
            target: handle.target(),
            items: Vec::new(),
            reported: None,
            is_blocked: true,
            first_at: self.handler.media_jobs.clock.now(),
        }
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

pub(crate) fn blocked() -> Error {
    let message =
        "The content policy blocked the output. The request was charged. Change the prompt and try again.";
    Error::new(ErrorCode::OutputBlocked, message)
}
