//! Creates and shows research jobs in Perplexity's asynchronous format.

use serde_json::{Value, json};
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_edge::members::{Members, number};
use tollgate_storage::{Job, JobFilter};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, JobStatus, Retry, Timestamp, Unit};

use super::super::answer::Ending;
use super::super::chat::{Identity, read};
use super::super::service::{self, Submission};
use super::super::{KIND, Research};
use super::costs;
use super::wire::{AsyncChatCompletion, AsyncChatCompletions, PageQuery};
use crate::conversion::with_param_name;
use crate::responses::store::unavailable;

const ENDPOINT: &str = "/v1/async/chat/completions";
/// Default and maximum number of items on a page.
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;

pub(super) async fn create(
    research: &Research,
    ctx: &RequestContext,
    caller: Caller,
    origin: String,
    body: &[u8],
) -> Result<AsyncChatCompletion, Error> {
    let mut members = Members::read(body)?;
    let Some(request) = members.take("request") else {
        let message = "'request' is missing. Send the body of a chat completion request.";
        return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("request"));
    };
    // The middleware of idempotency keys has read and checked the key.
    members.take("idempotency_key");
    let (request, output_cap) = read::asynchronous(request)?;
    members.end()?;
    let account = caller.account_id();
    let submission = Submission {
        research,
        ctx,
        caller,
        origin,
        endpoint: ENDPOINT,
        request,
        response: None,
    };
    let created = service::create(submission).await;
    let reference = created.map_err(|error| below_request(error, output_cap))?;
    let record = get(research, account, &reference.job_id).await;
    // A repeated request would create another job.
    record.map_err(|error| error.with_retry(Retry::Never))
}

/// Converts the path of a parameter to its path in the body.
fn below_request(error: Error, output_cap: &str) -> Error {
    match error.param.as_deref() {
        None | Some("x-max-cost") => error,
        Some("max_output_tokens") => with_param_name(error, |_| format!("request.{output_cap}")),
        Some(_) => with_param_name(error, |param| format!("request.{param}")),
    }
}

pub(super) async fn get(
    research: &Research,
    account: AccountId,
    id: &str,
) -> Result<AsyncChatCompletion, Error> {
    let not_found = || {
        let message = "The asynchronous chat completion does not exist.";
        Error::new(ErrorCode::NotFound, message)
    };
    let id: JobId = id.parse().map_err(|_| not_found())?;
    let job = research.jobs.get(account, id).await;
    let job = job
        .map_err(|error| unavailable(&error))?
        .filter(|job| &*job.terms.kind == KIND)
        .ok_or_else(not_found)?;
    let mut record = record(&job);
    if !job.status.is_terminal() {
        return Ok(record);
    }
    match Ending::of(research, &job)?.into_answer() {
        Ok(answer) if job.status == JobStatus::Completed => {
            let mut completion = Identity::of(&job).completion(&job, answer.as_ref());
            // The type of Perplexity's clients requires a delta as well.
            completion["choices"][0]["delta"] = json!({"role": "assistant", "content": ""});
            completion["status"] = "COMPLETED".into();
            let usage = &mut completion["usage"];
            usage["reasoning_tokens"] = job.usage.get(Unit::Reasoning).into();
            usage["cost"] = costs::of(research, &job)
                .await
                .map_err(|error| unavailable(&error))?;
            record.response = Some(completion);
        }
        Ok(_) => record.error_message = job.error.map(|error| error.message),
        Err(error) => record.error_message = Some(error.message),
    }
    Ok(record)
}

pub(super) async fn list(
    research: &Research,
    account: AccountId,
    query: &PageQuery,
) -> Result<AsyncChatCompletions, Error> {
    let limit = match query.limit {
        Some(limit) => number("limit", &Value::from(limit), 1, MAX_LIMIT.into())?,
        None => DEFAULT_LIMIT.into(),
    };
    let limit = u32::try_from(limit).unwrap_or(MAX_LIMIT);
    let before = query.next_token.as_deref().map(str::parse).transpose();
    let before = before.map_err(|_| {
        let message = "'next_token' must be the 'next_token' of a page.";
        Error::new(ErrorCode::InvalidParameter, message).with_param("next_token")
    })?;
    let filter = JobFilter {
        kind: Some(KIND.to_owned()),
        before,
        ..JobFilter::default()
    };
    let listed = research.jobs.list(account, filter, limit + 1).await;
    let mut jobs = listed.map_err(|error| unavailable(&error))?;
    let has_more = jobs.len() > limit as usize;
    jobs.truncate(limit as usize);
    Ok(AsyncChatCompletions {
        next_token: jobs
            .last()
            .filter(|_| has_more)
            .map(|job| job.terms.id.to_string()),
        requests: jobs.iter().map(record).collect(),
    })
}

/// Returns the record of a job without its response.
fn record(job: &Job) -> AsyncChatCompletion {
    let ended_at = job.completed_at.map(Timestamp::as_seconds);
    let is_complete = job.status == JobStatus::Completed;
    AsyncChatCompletion {
        id: job.terms.id.to_string(),
        model: job.model.to_string(),
        created_at: job.created_at.as_seconds(),
        started_at: job.started_at.map(Timestamp::as_seconds),
        completed_at: ended_at.filter(|_| is_complete),
        failed_at: ended_at.filter(|_| !is_complete),
        error_message: job.error.as_ref().map(|error| error.message.clone()),
        status: match job.status {
            JobStatus::Queued => "CREATED",
            JobStatus::InProgress => "IN_PROGRESS",
            JobStatus::Completed => "COMPLETED",
            JobStatus::Failed | JobStatus::Cancelled | JobStatus::Expired => "FAILED",
        },
        response: None,
    }
}
