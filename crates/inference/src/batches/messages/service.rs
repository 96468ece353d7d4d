//! Use cases of message batches: create, get, list, cancel, delete and results.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_accounts::Caller;
use tollgate_edge::RequestContext;
use tollgate_storage::blob::{BlobContent, whole};
use tollgate_storage::{FilePurpose, Job, JobCancel, JobFilter, LineCounts};
use tollgate_types::{AccountId, Error, ErrorCode, JobId, MessageBatchId};

use super::wire::{BatchView, DeletedMessageBatch, Edges, MessageBatch};
use crate::batches::job::Batches;
use crate::batches::payload::{BatchPayload, MESSAGES_KIND};
use crate::batches::request::{Endpoint, Fault, Reading};
use crate::batches::service::{accept, examine};
use crate::files::{ChunkSource, Label};
use crate::responses::store::unavailable;

/// Retention of the stored requests, longer than the maximum duration of a batch.
const INPUT_RETENTION: Duration = Duration::from_hours(2 * 24);

/// Request body before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct RawBatch<'b> {
    #[serde(borrow)]
    requests: Option<Vec<RawRequest<'b>>>,
}

/// One request of the body before validation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct RawRequest<'b> {
    custom_id: Option<String>,
    #[serde(borrow)]
    params: Option<&'b RawValue>,
}

/// Encoded lines that become the content of the input file.
struct Requests(std::vec::IntoIter<Bytes>);

impl ChunkSource for Requests {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.0.next())
    }
}

/// Creates a batch. An error in one request rejects the whole batch.
pub(super) async fn create(
    batches: &Batches,
    ctx: &RequestContext,
    caller: Caller,
    reading: Reading,
    body: &Bytes,
) -> Result<Job, Error> {
    caller.check_scope(reading.endpoint.scope())?;
    let written: RawBatch<'_> = serde_json::from_slice(body).map_err(|error| {
        let message = format!(
            "The body must be a JSON object with 'requests', each with 'custom_id' and 'params': {error}."
        );
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let requests = written.requests.ok_or_else(|| missing("requests".to_owned()))?;
    if requests.is_empty() {
        let message = "'requests' must have at least one request.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("requests"));
    }
    let lines = requests.iter().enumerate();
    let lines: Vec<Bytes> = lines
        .map(|(place, request)| line(place, request))
        .collect::<Result<_, _>>()?;
    let account = caller.account_id();
    let label = Label {
        filename: "requests.jsonl".to_owned(),
        purpose: FilePurpose::Batch,
        expires_after: Some(INPUT_RETENTION),
    };
    let id = batches.files.next_id();
    let mut chunks = Requests(lines.into_iter());
    let file = batches.files.make(account, id, &mut chunks, label).await?;
    let accepted = async {
        let examined = examine(batches, ctx, &caller, &reading, &file).await?;
        if let Some(fault) = examined.faults.first() {
            return Err(refusal(fault));
        }
        let payload = BatchPayload {
            input: file.id,
            endpoint: Endpoint::Messages,
            version: Some(reading.version.as_str().to_owned()),
            previews: reading
                .betas
                .forwarded
                .iter()
                .map(|&name| name.to_owned())
                .collect(),
            total: examined.total,
            tokens: examined.tokens,
            metadata: None,
            retention_seconds: None,
            mode: caller.mode.as_str().to_owned(),
            compat: caller.compat.as_str().to_owned(),
            accepted_at: ctx.accepted_at,
            faults: Vec::new(),
        };
        accept(batches, ctx, &caller, (MESSAGES_KIND, None), &payload, examined).await
    };
    match accepted.await {
        Ok(job) => Ok(job),
        Err(error) => {
            batches.files.delete(account, file.id).await?;
            Err(error)
        }
    }
}

/// Writes a request as one line, without line breaks.
fn line(place: usize, request: &RawRequest<'_>) -> Result<Bytes, Error> {
    let absent = |name: &str| missing(format!("requests[{place}].{name}"));
    let name = request.custom_id.as_deref().ok_or_else(|| absent("custom_id"))?;
    let params = request.params.ok_or_else(|| absent("params"))?;
    let params = params.get().replace(['\n', '\r'], " ");
    let name = serde_json::Value::from(name);
    let line =
        format!("{{\"custom_id\":{name},\"method\":\"POST\",\"url\":\"/v1/messages\",\"body\":{params}}}\n");
    Ok(Bytes::from(line))
}

fn missing(param: String) -> Error {
    let message = format!("'{param}' is missing.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(param)
}

/// Converts the error of a line to an error with the path of its request in the body.
fn refusal(fault: &Fault) -> Error {
    let code = ErrorCode::parse(&fault.code).unwrap_or(ErrorCode::InvalidParameter);
    let within = fault
        .param
        .as_deref()
        .map(|param| match param.strip_prefix("body") {
            Some(rest) => format!("params{rest}"),
            None => param.to_owned(),
        });
    let param = match (fault.line, within) {
        (Some(line), Some(within)) => format!("requests[{}].{within}", line.saturating_sub(1)),
        (Some(line), None) => format!("requests[{}]", line.saturating_sub(1)),
        _ => "requests".to_owned(),
    };
    Error::new(code, fault.message.clone()).with_param(param)
}

async fn find(batches: &Batches, account: AccountId, id: &str) -> Result<Job, Error> {
    let not_found = || {
        let message = "No such batch. List the batches of the account with GET /v1/messages/batches.";
        Error::new(ErrorCode::NotFound, message).with_param("message_batch_id")
    };
    let id: MessageBatchId = id.parse().map_err(|_| not_found())?;
    let job = batches.jobs.get(account, JobId::from_u128(id.as_u128())).await;
    let job = job.map_err(|error| unavailable(&error))?;
    job.filter(|job| &*job.terms.kind == MESSAGES_KIND)
        .ok_or_else(not_found)
}

/// Returns a batch of the account. Fails with 404 if it does not exist.
pub(super) async fn get(
    batches: &Batches,
    account: AccountId,
    id: &str,
    origin: &str,
) -> Result<MessageBatch, Error> {
    let job = find(batches, account, id).await?;
    show(batches, &job, origin).await
}

/// Lists batches that are older than one id or newer than another, newest first. Also returns
/// whether more follow.
pub(super) async fn list(
    batches: &Batches,
    account: AccountId,
    (older, newer): Edges,
    limit: u32,
    origin: &str,
) -> Result<(Vec<MessageBatch>, bool), Error> {
    let job = |id: MessageBatchId| JobId::from_u128(id.as_u128());
    let filter = JobFilter {
        kind: Some(MESSAGES_KIND.to_owned()),
        status: None,
        before: older.map(job),
        after: newer.map(job),
    };
    let listed = batches.jobs.list(account, filter, limit.saturating_add(1)).await;
    let mut listed = listed.map_err(|error| unavailable(&error))?;
    let max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = listed.len() > max;
    // The extra batch is the first one of a list of newer batches, else the last one.
    match newer {
        Some(_) => drop(listed.drain(..listed.len().saturating_sub(max))),
        None => listed.truncate(max),
    }
    let mut view = Vec::with_capacity(listed.len());
    for job in &listed {
        view.push(show(batches, job, origin).await?);
    }
    Ok((view, has_more))
}

/// Requests cancellation of a batch. Returns an ended batch unchanged.
pub(super) async fn cancel(
    batches: &Batches,
    account: AccountId,
    id: &str,
    origin: &str,
) -> Result<MessageBatch, Error> {
    let job = find(batches, account, id).await?;
    let now = batches.clock.now();
    let cancelled = batches.jobs.cancel(account, job.terms.id, now).await;
    let (JobCancel::Cancelled(job) | JobCancel::Requested(job) | JobCancel::Ended(job)) =
        cancelled.map_err(|error| unavailable(&error))?;
    show(batches, &job, origin).await
}

/// Deletes an ended batch with its requests and results. Its charge remains in the ledger.
pub(super) async fn delete(
    batches: &Batches,
    account: AccountId,
    id: &str,
) -> Result<DeletedMessageBatch, Error> {
    let job = find(batches, account, id).await?;
    if !job.status.is_terminal() {
        let message = "The batch has not ended. Cancel it or wait until it ends, then delete it.";
        return Err(Error::new(ErrorCode::Conflict, message).with_param("message_batch_id"));
    }
    let (payload, outcome) = (batches.payload(&job)?, batches.outcome(&job)?);
    let results = outcome.map_or([None, None], |outcome| [outcome.output, outcome.errors]);
    // Delete the job last: if the process dies before that, a repeated request deletes the rest.
    for file in [Some(payload.input)].into_iter().chain(results).flatten() {
        batches.files.delete(account, file).await?;
    }
    let forgotten = batches.jobs.forget(account, job.terms.id).await;
    forgotten.map_err(|error| unavailable(&error))?;
    Ok(DeletedMessageBatch::of(&job))
}

/// Returns the results as JSON Lines, successful requests first.
pub(super) async fn results(batches: &Batches, account: AccountId, id: &str) -> Result<BlobContent, Error> {
    let job = find(batches, account, id).await?;
    let not_there = || {
        let message =
            "The batch has no results. Poll it until it ends; it has results if 'results_url' is then set.";
        Error::new(ErrorCode::Conflict, message).with_param("message_batch_id")
    };
    let outcome = batches.outcome(&job)?.ok_or_else(not_there)?;
    let mut content: BlobContent = whole(Bytes::new());
    for id in [outcome.output, outcome.errors].into_iter().flatten() {
        let file = batches.files.find(account, id).await?;
        let file = file.ok_or_else(|| Error::new(ErrorCode::Gone, "The results no longer exist."))?;
        content = Box::pin(content.chain(batches.files.open(&file, None).await?));
    }
    Ok(content)
}

/// Builds the message batch object of a job.
pub(super) async fn show(batches: &Batches, job: &Job, origin: &str) -> Result<MessageBatch, Error> {
    let payload = batches.payload(job)?;
    let outcome = batches.outcome(job)?;
    let counts = match &outcome {
        Some(outcome) => outcome.counts(),
        None => LineCounts::default(),
    };
    let cancelling_at = batches.cancelling_at(job, outcome.as_ref()).await?;
    Ok(MessageBatch::of(&BatchView {
        job,
        payload,
        has_results: outcome.is_some(),
        counts,
        cancelling_at,
        origin,
    }))
}
