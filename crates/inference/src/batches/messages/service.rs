//! The use cases.

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

use super::wire::{DeletedMessageBatch, Edges, MessageBatch, Shown};
use crate::batches::job::Batches;
use crate::batches::order::{MESSAGES_KIND, Order};
use crate::batches::request::{Endpoint, Fault, Reading};
use crate::batches::service::{accept, examine};
use crate::files::{Label, Pieces};
use crate::responses::kept::unavailable;

/// How long the requests are kept as a file: longer than a batch may take.
const INPUT_KEPT: Duration = Duration::from_hours(2 * 24);

/// A body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Written<'b> {
    #[serde(borrow)]
    requests: Option<Vec<WrittenRequest<'b>>>,
}

/// A request in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct WrittenRequest<'b> {
    custom_id: Option<String>,
    #[serde(borrow)]
    params: Option<&'b RawValue>,
}

/// Lines, one after another.
struct Requests(std::vec::IntoIter<Bytes>);

impl Pieces for Requests {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.0.next())
    }
}

/// Accepts a batch. A fault in a request refuses all of it.
pub(super) async fn create(
    batches: &Batches,
    ctx: &RequestContext,
    caller: Caller,
    reading: Reading,
    body: &Bytes,
) -> Result<Job, Error> {
    let written: Written<'_> = serde_json::from_slice(body).map_err(|error| {
        let message = format!(
            "The body is no JSON object with 'requests', each with 'custom_id' and 'params': {error}."
        );
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let requests = written.requests.ok_or_else(|| missing("requests".to_owned()))?;
    if requests.is_empty() {
        let message = "'requests' has at least one request.";
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
        expires_after: Some(INPUT_KEPT),
    };
    let id = batches.files.next_id();
    let mut pieces = Requests(lines.into_iter());
    let file = batches.files.make(account, id, &mut pieces, label).await?;
    let accepted = async {
        let examined = examine(batches, ctx, &caller, &reading, &file).await?;
        if let Some(fault) = examined.faults.first() {
            return Err(refusal(fault));
        }
        let order = Order {
            input: file.id,
            endpoint: Endpoint::Messages,
            version: Some(reading.version.as_str().to_owned()),
            previews: reading.betas.told.iter().map(|&name| name.to_owned()).collect(),
            total: examined.total,
            tokens: examined.tokens,
            metadata: None,
            kept: None,
            mode: caller.mode.as_str().to_owned(),
            compat: caller.compat.as_str().to_owned(),
            accepted_at: ctx.accepted_at,
            faults: Vec::new(),
        };
        accept(batches, ctx, &caller, (MESSAGES_KIND, None), &order, examined).await
    };
    match accepted.await {
        Ok(job) => Ok(job),
        Err(error) => {
            batches.files.delete(account, file.id).await?;
            Err(error)
        }
    }
}

/// A request as a line, without what would break it.
fn line(place: usize, request: &WrittenRequest<'_>) -> Result<Bytes, Error> {
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

/// A fault of a line as one of the request that it was made of.
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
        let message = "There is no such batch. GET /v1/messages/batches lists those of the account.";
        Error::new(ErrorCode::NotFound, message).with_param("message_batch_id")
    };
    let id: MessageBatchId = id.parse().map_err(|_| not_found())?;
    let job = batches.jobs.get(account, JobId::from_u128(id.as_u128())).await;
    let job = job.map_err(|error| unavailable(&error))?;
    job.filter(|job| &*job.terms.kind == MESSAGES_KIND)
        .ok_or_else(not_found)
}

/// A batch.
pub(super) async fn get(
    batches: &Batches,
    account: AccountId,
    id: &str,
    origin: &str,
) -> Result<MessageBatch, Error> {
    let job = find(batches, account, id).await?;
    show(batches, &job, origin).await
}

/// Batches that are older than one, or newer than another, the newest first; and whether there are more.
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
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = listed.len() > most;
    // The one too many is at the end that the page goes to.
    match newer {
        Some(_) => drop(listed.drain(..listed.len().saturating_sub(most))),
        None => listed.truncate(most),
    }
    let mut shown = Vec::with_capacity(listed.len());
    for job in &listed {
        shown.push(show(batches, job, origin).await?);
    }
    Ok((shown, has_more))
}

/// The batch when its owner does not want it any more; as it is when it has ended.
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

/// Deletes a batch that has ended, with its requests and its results; what it has cost stays in the books.
pub(super) async fn delete(
    batches: &Batches,
    account: AccountId,
    id: &str,
) -> Result<DeletedMessageBatch, Error> {
    let job = find(batches, account, id).await?;
    if !job.status.is_terminal() {
        let message = "The batch has not ended. Cancel it, or wait for its end, and delete it then.";
        return Err(Error::new(ErrorCode::Conflict, message).with_param("message_batch_id"));
    }
    let (order, outcome) = (batches.order(&job)?, batches.outcome(&job)?);
    let results = outcome.map_or([None, None], |outcome| [outcome.output, outcome.errors]);
    // The batch goes last: what dies in between is deleted when that is asked for again.
    for file in [Some(order.input)].into_iter().chain(results).flatten() {
        batches.files.delete(account, file).await?;
    }
    let forgotten = batches.jobs.forget(account, job.terms.id).await;
    forgotten.map_err(|error| unavailable(&error))?;
    Ok(DeletedMessageBatch::of(&job))
}

/// What came of each request, line by line: those that were answered first.
pub(super) async fn results(batches: &Batches, account: AccountId, id: &str) -> Result<BlobContent, Error> {
    let job = find(batches, account, id).await?;
    let not_there = || {
        let message = "The batch has no results yet: poll it until 'results_url' is there.";
        Error::new(ErrorCode::Conflict, message).with_param("message_batch_id")
    };
    let outcome = batches.outcome(&job)?.ok_or_else(not_there)?;
    let mut content: BlobContent = whole(Bytes::new());
    for id in [outcome.output, outcome.errors].into_iter().flatten() {
        let file = batches.files.find(account, id).await?;
        let file = file.ok_or_else(|| Error::new(ErrorCode::Gone, "The results are not kept any more."))?;
        content = Box::pin(content.chain(batches.files.open(&file, None).await?));
    }
    Ok(content)
}

/// A batch as it is.
pub(super) async fn show(batches: &Batches, job: &Job, origin: &str) -> Result<MessageBatch, Error> {
    let order = batches.order(job)?;
    let outcome = batches.outcome(job)?;
    let counts = match &outcome {
        Some(outcome) => outcome.counts(),
        None => LineCounts::default(),
    };
    let cancelling_at = batches.cancelling_at(job, outcome.as_ref()).await?;
    Ok(MessageBatch::of(&Shown {
        job,
        order,
        has_results: outcome.is_some(),
        counts,
        cancelling_at,
        origin,
    }))
}
