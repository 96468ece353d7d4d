//! Bodies.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{BatchId, FileId, JobStatus, Timestamp, Unit, Usage};
use utoipa::{IntoParams, ToSchema};

use super::order::{Order, Outcome};
use super::request::Fault;

/// A batch that is asked for.
#[derive(Serialize, ToSchema)]
pub struct CreateBatch {
    /// A file with the purpose `batch`: a request on each line, `{"custom_id", "method": "POST", "url", "body"}`.
    input_file_id: String,
    /// `/v1/chat/completions` or `/v1/embeddings`: `url` of every line.
    endpoint: String,
    /// Always `24h`.
    completion_window: String,
    /// At most 16 pairs of texts.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// `{"anchor": "created_at", "seconds"}`: how long what comes of it is kept, 3600 to 2592000; 30 days when it is not said.
    #[schema(value_type = Option<Object>)]
    output_expires_after: Option<Value>,
    /// An address that is told of the end.
    webhook_url: Option<String>,
}

/// A batch.
#[derive(Serialize, ToSchema)]
pub struct Batch {
    /// Id.
    #[schema(value_type = String)]
    id: BatchId,
    /// Always `batch`.
    object: &'static str,
    /// Where its requests go.
    endpoint: &'static str,
    /// The model of its requests.
    model: String,
    /// What is wrong with its file, when it has failed.
    errors: Option<BatchErrors>,
    /// Its requests.
    #[schema(value_type = String)]
    input_file_id: FileId,
    /// Always `24h`.
    completion_window: &'static str,
    /// `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelling` or `cancelled`.
    status: &'static str,
    /// What was answered, once it has ended.
    #[schema(value_type = Option<String>)]
    output_file_id: Option<FileId>,
    /// What has failed or was not begun, once it has ended.
    #[schema(value_type = Option<String>)]
    error_file_id: Option<FileId>,
    /// Seconds since the epoch, as all that follow.
    created_at: i64,
    /// When it was begun.
    in_progress_at: Option<i64>,
    /// When it is too late.
    expires_at: i64,
    /// When its files were begun.
    finalizing_at: Option<i64>,
    /// When it was completed.
    completed_at: Option<i64>,
    /// When it failed.
    failed_at: Option<i64>,
    /// When its time was over.
    expired_at: Option<i64>,
    /// When it was known that nobody wants it any more.
    cancelling_at: Option<i64>,
    /// When it was cancelled.
    cancelled_at: Option<i64>,
    /// How far it is.
    request_counts: RequestCounts,
    /// What its requests have consumed, once it has ended.
    usage: Option<BatchUsage>,
    /// What it has cost, in credits, once it has ended.
    cost: Option<String>,
    /// As it was sent.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, String>>,
}

/// How far a batch is.
#[derive(Serialize, ToSchema)]
pub struct RequestCounts {
    /// Requests.
    total: u64,
    /// Those that were answered.
    completed: u64,
    /// Those that have failed.
    failed: u64,
}

/// What is wrong with a file.
#[derive(Serialize, ToSchema)]
pub struct BatchErrors {
    /// Always `list`.
    object: &'static str,
    /// The first of them, at most 100.
    data: Vec<BatchError>,
}

/// A fault.
#[derive(Serialize, ToSchema)]
pub struct BatchError {
    /// Code.
    code: String,
    /// For people.
    message: String,
    /// What is meant.
    param: Option<String>,
    /// On which line, from 1.
    line: Option<u32>,
}

/// What requests have consumed.
#[derive(Serialize, ToSchema)]
pub struct BatchUsage {
    /// Tokens that went in.
    input_tokens: u64,
    /// `cached_tokens`.
    #[schema(value_type = Object)]
    input_tokens_details: BTreeMap<&'static str, u64>,
    /// Tokens that came out.
    output_tokens: u64,
    /// `reasoning_tokens`.
    #[schema(value_type = Object)]
    output_tokens_details: BTreeMap<&'static str, u64>,
    /// Both.
    total_tokens: u64,
}

/// A page of batches, the newest first.
#[derive(Serialize, ToSchema)]
pub struct BatchList {
    /// Always `list`.
    object: &'static str,
    /// Batches.
    data: Vec<Batch>,
    /// Id of the first one.
    first_id: Option<String>,
    /// Id of the last one.
    last_id: Option<String>,
    /// Whether there are more.
    has_more: bool,
}

/// Which batches.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BatchesQuery {
    /// Batches on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// The id of the last batch of the page before.
    pub(super) after: Option<String>,
}

/// What is known of a batch.
pub(super) struct Shown<'j> {
    pub(super) job: &'j Job,
    pub(super) order: Order,
    pub(super) outcome: Option<Outcome>,
    pub(super) counts: LineCounts,
    pub(super) finalizing_at: Option<Timestamp>,
    pub(super) cancelling_at: Option<Timestamp>,
}

impl Batch {
    /// A batch as it is.
    pub(super) fn of(shown: Shown<'_>) -> Self {
        let Shown { job, order, .. } = &shown;
        let ended = |status: JobStatus| job.completed_at.filter(|_| job.status == status).map(seconds);
        let outcome = shown.outcome.as_ref();
        Self {
            id: BatchId::from_u128(job.terms.id.as_u128()),
            object: "batch",
            endpoint: order.endpoint.as_str(),
            model: job.model.to_string(),
            errors: errors(job, &order.faults),
            input_file_id: order.input,
            completion_window: "24h",
            status: status(job),
            output_file_id: outcome.and_then(|outcome| outcome.output),
            error_file_id: outcome.and_then(|outcome| outcome.errors),
            created_at: seconds(job.created_at),
            in_progress_at: job.started_at.filter(|_| order.faults.is_empty()).map(seconds),
            expires_at: seconds(order.expires_at()),
            finalizing_at: shown.finalizing_at.map(seconds),
            completed_at: ended(JobStatus::Completed),
            failed_at: ended(JobStatus::Failed),
            expired_at: ended(JobStatus::Expired),
            cancelling_at: shown.cancelling_at.map(seconds),
            cancelled_at: ended(JobStatus::Cancelled),
            request_counts: RequestCounts {
                total: u64::from(order.total),
                completed: shown.counts.done,
                failed: shown.counts.failed,
            },
            usage: outcome.map(|outcome| usage(&outcome.usage)),
            cost: job.charge.map(|charge| charge.to_string()),
            metadata: order.metadata.clone(),
        }
    }

    /// Its id.
    fn id(&self) -> String {
        self.id.to_string()
    }
}

impl BatchList {
    /// A page.
    pub(super) fn of(data: Vec<Batch>, has_more: bool) -> Self {
        Self {
            object: "list",
            first_id: data.first().map(Batch::id),
            last_id: data.last().map(Batch::id),
            data,
            has_more,
        }
    }
}

pub(super) fn status(job: &Job) -> &'static str {
    match job.status {
        JobStatus::Queued => "validating",
        JobStatus::InProgress if job.cancel_requested => "cancelling",
        JobStatus::InProgress if &*job.phase == "finalizing" => "finalizing",
        JobStatus::InProgress => "in_progress",
        ended => ended.as_str(),
    }
}

fn errors(job: &Job, faults: &[Fault]) -> Option<BatchErrors> {
    if job.status != JobStatus::Failed {
        return None;
    }
    let of_fault = |fault: &Fault| BatchError {
        code: fault.code.clone(),
        message: fault.message.clone(),
        param: fault.param.clone(),
        line: fault.line,
    };
    let mut data: Vec<_> = faults.iter().map(of_fault).collect();
    if let Some(error) = job.error.as_ref().filter(|_| data.is_empty()) {
        data.push(BatchError {
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            param: error.param.clone(),
            line: None,
        });
    }
    Some(BatchErrors { object: "list", data })
}

fn usage(usage: &Usage) -> BatchUsage {
    BatchUsage {
        input_tokens: usage.total_input(),
        input_tokens_details: BTreeMap::from([("cached_tokens", usage.get(Unit::CacheRead))]),
        output_tokens: usage.total_output(),
        output_tokens_details: BTreeMap::from([("reasoning_tokens", usage.get(Unit::Reasoning))]),
        total_tokens: usage.total_input().saturating_add(usage.total_output()),
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
