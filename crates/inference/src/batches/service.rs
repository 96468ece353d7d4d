//! Use cases of batches: create, get, list and cancel.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tollgate_accounts::Caller;
use tollgate_billing::{FixedTerms, Hold, HoldRequest};
use tollgate_catalog::Model;
use tollgate_edge::RequestContext;
use tollgate_jobs::sealed;
use tollgate_storage::{Account, FilePurpose, FileRecord, Job, JobCancel, JobFilter, LineCounts, NewJob};
use tollgate_types::{AccountId, BatchId, Credits, Error, ErrorCode, FileId, JobId, JobStatus};

use super::finalize::FINALIZING_EVENT;
use super::job::Batches;
use super::lines::Lines;
use super::payload::{BatchPayload, KIND, MESSAGES_KIND};
use super::read::{self, invalid};
use super::request::{Fault, NamedRequest, Reading};
use super::wire::{Batch, BatchView};
use crate::responses::store::unavailable;

/// Endpoint name in usage records.
const ENDPOINT: &str = "/v1/batches";
const MESSAGES_ENDPOINT: &str = "/v1/messages/batches";
/// Maximum number of requests of a batch.
const MAX_LINES: u32 = 50_000;
/// Maximum number of reported errors of an input file.
const MAX_REPORTED_FAULTS: usize = 100;
/// Maximum number of unfinished batches that are queried per kind and status.
const MAX_OPEN_BATCHES: u32 = 1_000;
/// Number of lines after which the task yields to other tasks.
const LINES_PER_YIELD: u32 = 16;

/// Result of validating all lines of a file.
pub(super) struct Examined {
    /// Model of the first valid line.
    model: Option<(Arc<str>, Arc<Model>)>,
    held: Credits,
    pub(super) total: u32,
    pub(super) tokens: u64,
    pub(super) faults: Vec<Fault>,
}

/// Creates a batch from a request.
pub(super) async fn create(
    batches: &Batches,
    ctx: &RequestContext,
    caller: Caller,
    body: Bytes,
) -> Result<Batch, Error> {
    let params = read::create(&body)?;
    caller.check_scope(params.endpoint.scope())?;
    let account = caller.account_id();
    let file = batches
        .files
        .get(account, &params.input_file_id, "input_file_id")
        .await?;
    if file.purpose != FilePurpose::Batch {
        return Err(invalid(
            "input_file_id",
            "must be the id of a file with purpose 'batch'",
        ));
    }
    let id = JobId::from_u128(ctx.id.as_u128());
    let webhook = params.webhook_url.as_deref();
    let webhook = webhook
        .map(|url| batches.webhooks.address(account, id, url))
        .transpose()?;
    let examined = examine(batches, ctx, &caller, &params.endpoint.into(), &file).await?;
    let payload = BatchPayload {
        input: file.id,
        endpoint: params.endpoint,
        version: None,
        previews: Vec::new(),
        total: examined.total,
        tokens: examined.tokens,
        metadata: params.metadata,
        retention_seconds: params.retention_seconds,
        mode: caller.mode.as_str().to_owned(),
        compat: caller.compat.as_str().to_owned(),
        accepted_at: ctx.accepted_at,
        faults: examined.faults.clone(),
    };
    let job = accept(batches, ctx, &caller, (KIND, webhook), &payload, examined).await?;
    show(batches, &job).await
}

/// Accepts a batch as a job. Holds the maximum cost of all lines, or nothing if a line is invalid.
pub(super) async fn accept(
    batches: &Batches,
    ctx: &RequestContext,
    caller: &Caller,
    (kind, webhook): (&str, Option<Vec<u8>>),
    payload: &BatchPayload,
    examined: Examined,
) -> Result<Job, Error> {
    let (account, id) = (caller.account_id(), JobId::from_u128(ctx.id.as_u128()));
    let is_valid = examined.faults.is_empty();
    if is_valid {
        check_tokens(batches, &caller.account, examined.tokens).await?;
    }
    let (name, model) = match examined.model {
        Some(known) => known,
        // The batch will not be executed, but its empty hold needs a price version.
        None => any_model(batches)?,
    };
    // A file with invalid lines is not charged, but the account must be able to pay for its valid
    // lines.
    let amount = if is_valid { examined.held } else { Credits::ZERO };
    let job = NewJob {
        id,
        kind: Arc::from(kind),
        body: sealed::seal(&batches.vault, account, id, payload)?,
        // A batch that is not started in time still writes its files, which report every request as
        // expired.
        start_by: None,
        webhook,
    };
    let hold = HoldRequest {
        account,
        principal: caller.principal,
        request: ctx.id,
        hold: None,
        public_model: name,
        endpoint: if kind == KIND { ENDPOINT } else { MESSAGES_ENDPOINT },
        max_cost: ctx.max_cost.amount(),
        accepted_at: ctx.accepted_at,
        ahead: caller.account.test_clock.unwrap_or_default(),
        // The hold of a job lasts as long as the job.
        lifetime: Duration::ZERO,
    };
    let terms = FixedTerms {
        price_version: model.price_version,
        not_covered_by: model.not_covered_by.clone(),
    };
    if !is_valid {
        Hold::check_amount(&*batches.pipeline.ledger, &hold, &terms, examined.held).await?;
    }
    let jobs = batches.jobs.clone();
    batches
        .pipeline
        .accept_job(jobs, job, &hold, terms, amount)
        .await?;
    let job = batches.jobs.get(account, id).await;
    let job = job.map_err(|error| unavailable(&error))?;
    job.ok_or_else(|| Error::internal("an accepted batch does not exist"))
}

fn any_model(batches: &Batches) -> Result<(Arc<str>, Arc<Model>), Error> {
    let snapshot = batches.pipeline.catalog.current();
    let model = snapshot.models().first().cloned();
    let model = model.ok_or_else(|| Error::new(ErrorCode::ModelNotFound, "No models are available."))?;
    Ok((Arc::from("-"), model))
}

/// Validates all lines and computes their maximum cost.
pub(super) async fn examine(
    batches: &Batches,
    ctx: &RequestContext,
    caller: &Caller,
    reading: &Reading,
    file: &FileRecord,
) -> Result<Examined, Error> {
    let mut lines = Lines::new(batches.files.open(file, None).await?);
    let mut names = HashSet::new();
    let mut found = Examined {
        model: None,
        held: Credits::ZERO,
        total: 0,
        tokens: 0,
        faults: Vec::new(),
    };
    let mut is_cut = false;
    while let Some(line) = lines.next().await.map_err(|error| unavailable(&error))? {
        if found.total == MAX_LINES {
            is_cut = true;
            let message = format!("A batch must have at most {MAX_LINES} requests.");
            found.faults.push(Fault::new("too_many_requests", message, None));
            break;
        }
        found.total += 1;
        let checked = match &line.text {
            Some(text) => check_line(batches, ctx, caller, reading, text, &mut names, &mut found),
            None => {
                let message = format!("A {} must have at most 8 MiB.", reading.unit());
                Err(Fault::new("line_too_long", message, None))
            }
        };
        if let Err(fault) = checked {
            found.faults.push(Fault {
                line: Some(line.line_number),
                ..fault
            });
            if found.faults.len() == MAX_REPORTED_FAULTS {
                is_cut = true;
                break;
            }
        }
        if found.total.is_multiple_of(LINES_PER_YIELD) {
            tokio::task::yield_now().await;
        }
    }
    if is_cut {
        let all = file.lines.and_then(|lines| u32::try_from(lines).ok());
        found.total = found.total.max(all.unwrap_or_default());
    }
    if found.total == 0 {
        found
            .faults
            .push(Fault::new("empty_file", "The file has no requests.", None));
    }
    Ok(found)
}

fn check_line(
    batches: &Batches,
    ctx: &RequestContext,
    caller: &Caller,
    reading: &Reading,
    text: &[u8],
    names: &mut HashSet<String>,
    found: &mut Examined,
) -> Result<(), Fault> {
    let named = NamedRequest::read(text, reading.endpoint)?;
    let mut call = named.prepare(&batches.pipeline, ctx, caller, reading)?;
    let routed = call.routed();
    let (name, model) = (routed.public_model.clone(), routed.model.clone());
    let (first, _) = found.model.get_or_insert((name, model.clone()));
    if *first != routed.public_model {
        let message = format!("All requests of a batch must use the same model, here '{first}'.");
        return Err(Fault::new("mismatched_model", message, Some("body.model")));
    }
    if !names.insert(named.custom_id.clone()) {
        let unit = reading.unit();
        let message = format!("Another {unit} has the same 'custom_id'. Each {unit} needs a unique one.");
        return Err(Fault::new("duplicate_custom_id", message, Some("custom_id")));
    }
    let (held, tokens) = call.bound(&batches.pipeline)?;
    found.held = found.held.checked_add(held).unwrap_or(Credits::MAX);
    found.tokens = found.tokens.saturating_add(tokens);
    Ok(())
}

/// Lists the unfinished batches of an account.
async fn open(batches: &Batches, account: AccountId) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    for kind in [KIND, MESSAGES_KIND] {
        for status in [JobStatus::Queued, JobStatus::InProgress] {
            let filter = JobFilter {
                kind: Some(kind.to_owned()),
                status: Some(status),
                before: None,
                after: None,
            };
            let listed = batches.jobs.list(account, filter, MAX_OPEN_BATCHES).await;
            found.extend(listed.map_err(|error| unavailable(&error))?);
        }
    }
    Ok(found)
}

async fn check_tokens(batches: &Batches, account: &Account, tokens: u64) -> Result<(), Error> {
    let mut waiting = 0_u64;
    for job in open(batches, account.id).await? {
        waiting = waiting.saturating_add(batches.payload(&job)?.tokens);
    }
    let max = account.limits.batch_tokens.unwrap_or(batches.max_open_tokens);
    if waiting.saturating_add(tokens) <= max {
        return Ok(());
    }
    let message = format!(
        "The unfinished batches of an account are limited to an estimated {max} tokens in total. \
         They have {waiting}, and this batch has {tokens}. Wait until a batch ends, or send a smaller batch."
    );
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param("input_file_id"))
}

/// Whether an unfinished batch needs this input file.
pub(crate) async fn needs(batches: &Batches, account: AccountId, file: FileId) -> Result<bool, Error> {
    for job in open(batches, account).await? {
        let payload = batches.payload(&job)?;
        if payload.input == file && payload.faults.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn find(batches: &Batches, account: AccountId, id: &str) -> Result<Job, Error> {
    let not_found = || {
        let message = "No such batch. List the batches of the account with GET /v1/batches.";
        Error::new(ErrorCode::NotFound, message).with_param("batch_id")
    };
    let id: BatchId = id.parse().map_err(|_| not_found())?;
    let job = batches.jobs.get(account, JobId::from_u128(id.as_u128())).await;
    let job = job.map_err(|error| unavailable(&error))?;
    job.filter(|job| &*job.terms.kind == KIND).ok_or_else(not_found)
}

/// Returns a batch of the account. Fails with 404 if it does not exist.
pub(super) async fn get(batches: &Batches, account: AccountId, id: &str) -> Result<Batch, Error> {
    let job = find(batches, account, id).await?;
    show(batches, &job).await
}

/// Lists batches, newest first, and returns whether more follow.
pub(super) async fn list(
    batches: &Batches,
    account: AccountId,
    after: Option<BatchId>,
    limit: u32,
) -> Result<(Vec<Batch>, bool), Error> {
    let filter = JobFilter {
        kind: Some(KIND.to_owned()),
        status: None,
        before: after.map(|after| JobId::from_u128(after.as_u128())),
        after: None,
    };
    let listed = batches.jobs.list(account, filter, limit.saturating_add(1)).await;
    let mut listed = listed.map_err(|error| unavailable(&error))?;
    let max = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = listed.len() > max;
    listed.truncate(max);
    let mut view = Vec::with_capacity(listed.len());
    for job in &listed {
        view.push(show(batches, job).await?);
    }
    Ok((view, has_more))
}

/// Requests cancellation of a batch. Fails with 409 if the batch has already ended in another way.
pub(super) async fn cancel(batches: &Batches, account: AccountId, id: &str) -> Result<Batch, Error> {
    let job = find(batches, account, id).await?;
    let cancelled = batches
        .jobs
        .cancel(account, job.terms.id, batches.clock.now())
        .await;
    match cancelled.map_err(|error| unavailable(&error))? {
        JobCancel::Cancelled(job) => show(batches, &job).await,
        JobCancel::Ended(job) if job.status == JobStatus::Cancelled => show(batches, &job).await,
        JobCancel::Requested(job) => {
            let waited = batches
                .jobs
                .wait(account, job.terms.id, None, Duration::from_millis(200))
                .await;
            let now = waited.map_err(|error| unavailable(&error))?.unwrap_or(*job);
            show(batches, &now).await
        }
        JobCancel::Ended(_) => {
            let message = "The batch has already ended and cannot be cancelled.";
            Err(Error::new(ErrorCode::Conflict, message).with_param("batch_id"))
        }
    }
}

async fn show(batches: &Batches, job: &Job) -> Result<Batch, Error> {
    let payload = batches.payload(job)?;
    let outcome = batches.outcome(job)?;
    let counts = match &outcome {
        Some(outcome) => outcome.counts(),
        None if job.started_at.is_none() => LineCounts::default(),
        None => {
            let counts = batches.store.counts(job.account, job.terms.id).await;
            counts.map_err(|error| unavailable(&error))?
        }
    };
    let finalizing_at = match &outcome {
        Some(outcome) => outcome.finalizing_at,
        None if job.status == JobStatus::InProgress => batches.first_event_at(job, FINALIZING_EVENT).await?,
        None => None,
    };
    let cancelling_at = batches.cancelling_at(job, outcome.as_ref()).await?;
    Ok(Batch::of(BatchView {
        job,
        payload,
        outcome,
        counts,
        finalizing_at,
        cancelling_at,
    }))
}
