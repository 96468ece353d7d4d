//! Accepts research requests: parses and routes the request, checks the content policy and the
//! sources, and creates the job with a hold of its maximum cost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{FixedTerms, Hold, HoldRequest, ItemizedQuote};
use tollgate_catalog::ModelKind;
use tollgate_edge::{JobReference, RequestContext};
use tollgate_jobs::{quantities, sealed};
use tollgate_pipeline::Routed;
use tollgate_storage::{Job, NewJob};
use tollgate_types::{AccountId, Credits, Date, Error, ErrorCode, JobId, JobStatus};

use super::bounds::Bounds;
use super::effort::Effort;
use super::payload::{Head, Payload, ResponseSettings};
use super::read::{self, Request};
use super::relay::{self, RelayOrder};
use super::tariff::Tariff;
use super::wire::ResearchReport;
use super::{KIND, Research, report, sources};
use crate::responses::store::unavailable;

pub(crate) const ENDPOINT: &str = "/v1/research";
/// Default of `max_output_tokens` (contract, Deep research operation).
const DEFAULT_OUTPUT_TOKENS: u64 = 10_000;
/// Maximum time for which a request waits for its report.
pub(super) const SYNC_TIMEOUT: Duration = Duration::from_secs(240);

/// A request to any endpoint of research, not parsed, and its caller.
pub(crate) struct ResearchRequest<'a> {
    pub(crate) research: &'a Arc<Research>,
    pub(crate) ctx: &'a RequestContext,
    pub(crate) caller: Caller,
    /// Base URL of the gateway, as the caller addressed it.
    pub(crate) origin: String,
    pub(crate) body: Bytes,
}

/// A parsed research request and its caller.
pub(crate) struct Submission<'a> {
    pub(super) research: &'a Research,
    pub(super) ctx: &'a RequestContext,
    pub(super) caller: Caller,
    /// Base URL of the gateway, as the caller addressed it.
    pub(super) origin: String,
    /// Path of the endpoint, for the usage row.
    pub(super) endpoint: &'static str,
    pub(super) request: Request,
    /// Settings that the response repeats, for `/v1/responses`.
    pub(super) response: Option<ResponseSettings>,
}

impl<'a> Submission<'a> {
    /// Returns the submission of a request to `/v1/research`.
    pub(crate) fn read(request: ResearchRequest<'a>) -> Result<Self, Error> {
        let ResearchRequest {
            research,
            ctx,
            caller,
            origin,
            body,
        } = request;
        Ok(Self {
            research,
            ctx,
            caller,
            origin,
            endpoint: ENDPOINT,
            request: read::request(&body)?,
            response: None,
        })
    }
}

/// A validated request with its maximum cost.
struct Prepared {
    routed: Routed,
    tariff: Tariff,
    bounds: Bounds,
    /// Settings of a report that a provider's own model writes.
    relay: Option<RelayOrder>,
}

/// Returns the hold that [`create`] would take for the same request.
pub(crate) async fn quote(submission: Submission<'_>) -> Result<ItemizedQuote, Error> {
    let prepared = prepare(&submission).await?;
    let (hold, terms) = (prepared.hold(&submission), prepared.terms());
    let ledger = &*submission.research.pipeline.ledger;
    let amount = prepared.bounds.total();
    let spendable = Hold::preview_amount(ledger, &hold, &terms, amount).await?;
    let quote = ItemizedQuote {
        items: prepared.tariff.items(&prepared.bounds),
        public_model: hold.public_model,
        price_version: terms.price_version,
        amount,
        answers: 1,
        spendable,
        is_covered: amount <= spendable.total(),
    };
    Ok(quote.without_free_items())
}

/// Accepts a request and returns the reference of its job.
pub(super) async fn create(submission: Submission<'_>) -> Result<JobReference, Error> {
    let prepared = prepare(&submission).await?;
    let Submission { research, ctx, .. } = submission;
    let account = submission.caller.account_id();
    let (hold, terms, amount) = (
        prepared.hold(&submission),
        prepared.terms(),
        prepared.bounds.total(),
    );
    let id = JobId::from_u128(ctx.id.as_u128());
    let webhook = submission.request.webhook_url.as_ref();
    let webhook = webhook.map(|url| research.webhooks.address(account, id, url));
    let (origin, accepted_at) = (submission.origin.clone(), ctx.accepted_at);
    let body = prepared.payload(submission);
    let job = NewJob {
        id,
        kind: KIND.into(),
        body: sealed::seal(&research.vault, account, id, &body)?,
        webhook: webhook.transpose()?,
        start_by: None,
    };
    research
        .pipeline
        .accept_job(research.jobs.clone(), job, &hold, terms, amount)
        .await?;
    Ok(JobReference::new(
        &origin,
        id,
        KIND,
        JobStatus::Queued,
        accepted_at,
    ))
}

/// Waits for a report, at most `timeout`. `None` if the job has not ended then, or was cancelled.
/// Returns the error of a failed job.
pub(super) async fn wait(
    research: &Research,
    account: AccountId,
    id: &str,
    timeout: Duration,
) -> Result<Option<ResearchReport>, Error> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let waited = research.jobs.wait(account, id, None, timeout).await;
    let Some(job) = waited.map_err(|error| unavailable(&error))? else {
        return Ok(None);
    };
    if let Some(error) = &job.error {
        return Err(Error::from(error));
    }
    let Some(sealed) = job.result.as_ref().filter(|_| job.status == JobStatus::Completed) else {
        return Ok(None);
    };
    Ok(Some(ResearchReport {
        object: "research.report",
        job_id: job.terms.id.to_string(),
        model: job.model.to_string(),
        created_at: job.created_at.to_rfc3339(),
        usage: quantities(&job.usage),
        cost: job.charge.map(|charge| charge.to_string()),
        result: sealed::open(&research.vault, &job, sealed)?,
    }))
}

/// Waits for the end of an accepted job and returns the job. Fails after `timeout`.
pub(super) async fn ended(
    research: &Research,
    account: AccountId,
    id: JobId,
    timeout: Duration,
) -> Result<Job, Error> {
    let waited = research.jobs.wait(account, id, None, timeout).await;
    let job = waited.map_err(|error| unavailable(&error))?;
    let job = job.ok_or_else(|| Error::internal("an accepted job does not exist"))?;
    match job.status.is_terminal() {
        true => Ok(job),
        false => {
            let message = format!(
                "The report is not complete after {} minutes. It continues: GET /v1/jobs/{id} returns it.",
                timeout.as_secs() / 60
            );
            Err(Error::new(ErrorCode::UpstreamTimeout, message))
        }
    }
}

/// Whether a request body names a research model that the caller may use. Other endpoints call this
/// for requests that they refuse.
pub(crate) fn names_research_model(research: &Research, caller: &Caller, body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        model: String,
    }
    let Ok(named) = serde_json::from_slice::<Named>(body) else {
        return false;
    };
    let routed = research.pipeline.route(caller, &named.model);
    routed.is_ok_and(|routed| routed.model.kind == ModelKind::Research)
}

/// Returns the stored text of a source, or the part from `start` to `end` in code points.
pub(super) async fn source_text(
    research: &Research,
    account: AccountId,
    (job, source): (&str, &str),
    (start, end): (Option<u64>, Option<u64>),
) -> Result<String, Error> {
    let not_found = || {
        let message = "This source does not exist. Texts of sources are deleted 30 days after the request.";
        Error::new(ErrorCode::NotFound, message).with_param("source_id")
    };
    let job: JobId = job.parse().map_err(|_| not_found())?;
    let number = report::source_number(source).ok_or_else(not_found)?;
    let text = sources::text(research, account, sources::media_id(job, number)).await;
    let text = text.map_err(|error| unavailable(&error))?.ok_or_else(not_found)?;
    span(text, start, end)
}

fn span(text: String, start: Option<u64>, end: Option<u64>) -> Result<String, Error> {
    if start.is_none() && end.is_none() {
        return Ok(text);
    }
    let length = text.chars().count() as u64;
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(length));
    let refused = |name: &str| {
        let message =
            format!("'start' and 'end' must be within the text, which has {length} characters, in order.");
        Err(Error::new(ErrorCode::InvalidParameter, message).with_param(name))
    };
    if start > length {
        return refused("start");
    }
    if end > length || end < start {
        return refused("end");
    }
    let characters = text.chars().skip(usize::try_from(start).unwrap_or(usize::MAX));
    let count = usize::try_from(end - start).unwrap_or(usize::MAX);
    Ok(characters.take(count).collect())
}

async fn prepare(submission: &Submission<'_>) -> Result<Prepared, Error> {
    let Submission {
        research,
        ctx,
        caller,
        request,
        ..
    } = submission;
    if let Some(url) = &request.webhook_url {
        research.webhooks.check(url)?;
    }
    let routed = research.pipeline.route(caller, &request.model)?;
    if routed.model.kind != ModelKind::Research {
        let message =
            "This model does not write research reports. GET /v1/models lists the endpoints of each model.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    check_question(&routed, request)?;
    let mut routed = routed;
    let effort = effort(&routed, request)?;
    let max_output_tokens = output_tokens(&routed, request)?;
    let limits = routed.model.report;
    let relay = limits.map(|limits| RelayOrder::new(request, effort, limits));
    let backends = match &relay {
        Some(order) => {
            relay::check_sources(&request.sources)?;
            let instructions = request.instructions.as_ref();
            let call = relay::call(&request.messages, instructions, &request.filters, order);
            routed.retain_job_providers(&call)?;
            Vec::new()
        }
        None => {
            let sources = &request.sources;
            research
                .backends(caller.account_id(), &routed.model, sources)
                .await?
        }
    };
    check_policy(research, ctx, request).await?;
    let caps = effort.caps().limited(request.max_searches, request.max_pages);
    let max_cost = [request.max_cost, ctx.max_cost.amount()]
        .into_iter()
        .flatten()
        .min();
    let named: Vec<_> = backends
        .iter()
        .map(|one| (one.backend.name().to_owned(), one.terms.clone()))
        .collect();
    let tariff = match &relay {
        Some(order) => Tariff::of_relay(&routed, order),
        None => Tariff::new(&research.pipeline, caller, &routed, &named)?,
    };
    let bounds = tariff
        .fit(caps, max_output_tokens, max_cost)
        .map_err(|minimum| too_expensive(request, ctx.max_cost.amount(), minimum))?;
    Ok(Prepared {
        routed,
        tariff,
        bounds,
        relay,
    })
}

/// Returns an error if the provider of the model refuses the question.
fn check_question(routed: &Routed, request: &Request) -> Result<(), Error> {
    let provider = routed.first_provider().and_then(|provider| provider.research());
    let question = request.messages.last().map_or("", |message| &message.text);
    let checked = provider.map_or(Ok(()), |provider| provider.check(question));
    checked.map_err(|error| error.with_param(request.question_param.clone()))
}

async fn check_policy(research: &Research, ctx: &RequestContext, request: &Request) -> Result<(), Error> {
    let Some(policy) = research
        .pipeline
        .policy()
        .filter(|policy| policy.inspects_input())
    else {
        return Ok(());
    };
    let messages = request.messages.iter().map(|message| &message.text);
    let texts: Vec<String> = messages.chain(&request.instructions).cloned().collect();
    policy.check_input(ctx.id, &texts).await
}

fn effort(routed: &Routed, request: &Request) -> Result<Effort, Error> {
    let modes = &routed.model.media.entry.modes;
    let effort = request.effort.unwrap_or_default();
    match request.effort.is_none() || modes.is_empty() || modes.iter().any(|mode| mode == effort.as_str()) {
        true => Ok(effort),
        false => {
            let message = format!(
                "'reasoning_effort' of this model must be one of {}.",
                modes.join(", ")
            );
            Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("reasoning_effort"))
        }
    }
}

fn output_tokens(routed: &Routed, request: &Request) -> Result<u64, Error> {
    let ceiling = routed.model.output_ceiling().unwrap_or(u64::MAX);
    match request.max_output_tokens {
        None => Ok(DEFAULT_OUTPUT_TOKENS.min(ceiling)),
        Some(tokens) if tokens <= ceiling => Ok(tokens),
        Some(_) => {
            let message = format!("'max_output_tokens' of this model must be at most {ceiling}.");
            Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("max_output_tokens"))
        }
    }
}

/// Names the lower limit in the error: `max_cost`, or the amount of the header.
fn too_expensive(request: &Request, header: Option<Credits>, minimum: Credits) -> Error {
    let name = match request.max_cost {
        Some(max) if header.is_none_or(|header| max <= header) => "max_cost",
        _ => "x-max-cost",
    };
    let message = format!("'{name}' must be at least {minimum}: the smallest report can cost this amount.");
    Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name)
}

impl Prepared {
    fn terms(&self) -> FixedTerms {
        FixedTerms {
            price_version: self.routed.model.price_version,
            not_covered_by: self.tariff.not_covered_by.clone(),
        }
    }

    fn hold(&self, submission: &Submission<'_>) -> HoldRequest {
        let caller = &submission.caller;
        HoldRequest {
            account: caller.account_id(),
            principal: caller.principal,
            request: submission.ctx.id,
            hold: None,
            public_model: self.routed.public_model.clone(),
            endpoint: submission.endpoint,
            max_cost: submission.ctx.max_cost.amount(),
            accepted_at: submission.ctx.accepted_at,
            ahead: caller.account.test_clock.unwrap_or_default(),
            // The hold of a job has no lifetime: it ends with the job.
            lifetime: Duration::ZERO,
        }
    }

    fn payload(self, submission: Submission<'_>) -> Payload {
        let request = submission.request;
        let accepted_at = submission.ctx.accepted_at;
        let today = Date::of(accepted_at);
        let recency = request.filters.recency;
        Payload {
            head: Head {
                origin: submission.origin,
                mode: submission.caller.mode.as_str().to_owned(),
                ahead: submission.caller.account.test_clock.unwrap_or_default(),
                metadata: request.metadata,
                response: submission.response,
            },
            recent_after: recency
                .zip(today)
                .map(|(recency, today)| today.minus_days(recency.days())),
            messages: request.messages,
            instructions: request.instructions,
            cast: self.tariff.cast,
            bounds: self.bounds,
            filters: request.filters,
            disable_formatting: request.disable_formatting,
            marks_unverified: request.marks_unverified,
            sources: request.sources,
            relay: self.relay,
            accepted_at,
        }
    }
}
