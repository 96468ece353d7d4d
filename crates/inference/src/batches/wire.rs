//! Request and response schemas of `/v1/batches`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{BatchId, FileId, JobStatus, Timestamp, Unit, Usage};
use utoipa::{IntoParams, ToSchema};

use super::payload::{BatchPayload, Outcome};
use super::request::Fault;

/// Request body of `POST /v1/batches`.
#[derive(Serialize, ToSchema)]
pub struct CreateBatch {
    /// Id of a file with purpose `batch`. Each line is a request:
    /// `{"custom_id", "method": "POST", "url", "body"}`.
    input_file_id: String,
    /// Endpoint of all requests, equal to the `url` of every line: `/v1/chat/completions` or
    /// `/v1/embeddings`.
    endpoint: String,
    /// Time within which the batch is executed. Always `24h`.
    completion_window: String,
    /// At most 16 key-value pairs of strings, which the batch object repeats. Keys have at most 64
    /// characters, values at most 512.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Retention of the result files: `{"anchor": "created_at", "seconds"}` with 3,600 to 2,592,000
    /// seconds. Default: 30 days.
    #[schema(value_type = Option<Object>)]
    output_expires_after: Option<Value>,
    /// URL that receives a webhook when the batch ends.
    webhook_url: Option<String>,
}

/// A batch: its status, progress, files and cost.
#[derive(Serialize, ToSchema)]
pub struct Batch {
    /// Id of the batch.
    #[schema(value_type = String)]
    id: BatchId,
    /// Always `batch`.
    object: &'static str,
    /// Endpoint of all requests.
    endpoint: &'static str,
    /// Model name as sent in the requests; `-` if the input file has no valid request.
    model: String,
    /// Errors of the input file, if the batch has failed.
    errors: Option<BatchErrors>,
    /// Id of the file with the requests.
    #[schema(value_type = String)]
    input_file_id: FileId,
    /// Time within which the batch is executed. Always `24h`.
    completion_window: &'static str,
    /// Status: `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`,
    /// `cancelling` or `cancelled`.
    status: &'static str,
    /// Id of the file with the successful responses, once the batch has ended. Null if no request
    /// succeeded.
    #[schema(value_type = Option<String>)]
    output_file_id: Option<FileId>,
    /// Id of the file with the failed requests and those that were not started, once the batch has
    /// ended. Null if every request succeeded, or if the batch ended before its execution started.
    #[schema(value_type = Option<String>)]
    error_file_id: Option<FileId>,
    /// Creation time, in seconds since the Unix epoch, like all times of this object.
    created_at: i64,
    /// Time at which execution started; null until then.
    in_progress_at: Option<i64>,
    /// Time at which requests that have not started expire.
    expires_at: i64,
    /// Time at which the gateway started to write the result files; null until then.
    finalizing_at: Option<i64>,
    /// Time at which the batch ended with status `completed`; otherwise null.
    completed_at: Option<i64>,
    /// Time at which the batch ended with status `failed`; otherwise null.
    failed_at: Option<i64>,
    /// Time at which the batch ended with status `expired`; otherwise null.
    expired_at: Option<i64>,
    /// Time at which cancellation was requested; null if it was not requested.
    cancelling_at: Option<i64>,
    /// Time at which the batch ended with status `cancelled`; otherwise null.
    cancelled_at: Option<i64>,
    /// Number of requests by status.
    request_counts: RequestCounts,
    /// Token usage of all requests, once the batch has ended.
    usage: Option<BatchUsage>,
    /// Cost in credits as a decimal string, once the batch has ended.
    cost: Option<String>,
    /// Key-value pairs as sent in the request.
    #[schema(value_type = Option<Object>)]
    metadata: Option<BTreeMap<String, String>>,
}

/// Number of requests of a batch by status.
#[derive(Serialize, ToSchema)]
pub struct RequestCounts {
    /// Total number of requests.
    total: u64,
    /// Number of successful requests.
    completed: u64,
    /// Number of failed requests.
    failed: u64,
}

/// Errors of an input file.
#[derive(Serialize, ToSchema)]
pub struct BatchErrors {
    /// Always `list`.
    object: &'static str,
    /// First errors of the file, at most 100.
    data: Vec<BatchError>,
}

/// One error of an input file.
#[derive(Serialize, ToSchema)]
pub struct BatchError {
    /// Error code, such as `duplicate_custom_id`.
    code: String,
    /// Human-readable description of the error.
    message: String,
    /// Path of the invalid parameter, if there is one.
    param: Option<String>,
    /// Line number in the input file, starting at 1; null if the error concerns the whole file.
    line: Option<u32>,
}

/// Token usage of all requests of a batch.
#[derive(Serialize, ToSchema)]
pub struct BatchUsage {
    /// Number of input tokens, including cached ones.
    input_tokens: u64,
    /// Breakdown of the input tokens: `cached_tokens`.
    #[schema(value_type = Object)]
    input_tokens_details: BTreeMap<&'static str, u64>,
    /// Number of output tokens, including reasoning tokens.
    output_tokens: u64,
    /// Breakdown of the output tokens: `reasoning_tokens`.
    #[schema(value_type = Object)]
    output_tokens_details: BTreeMap<&'static str, u64>,
    /// Sum of input and output tokens.
    total_tokens: u64,
}

/// One page of the list of batches, newest first.
#[derive(Serialize, ToSchema)]
pub struct BatchList {
    /// Always `list`.
    object: &'static str,
    /// The batches of this page.
    data: Vec<Batch>,
    /// Id of the first batch of this page.
    first_id: Option<String>,
    /// Id of the last batch of this page.
    last_id: Option<String>,
    /// Whether more batches follow.
    has_more: bool,
}

/// Query parameters of the list of batches.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BatchesQuery {
    /// Number of batches per page, 1 to 100. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    pub(super) limit: Option<u32>,
    /// Return batches that come after the batch with this id.
    pub(super) after: Option<String>,
}

/// Data for a batch object.
pub(super) struct BatchView<'j> {
    pub(super) job: &'j Job,
    pub(super) payload: BatchPayload,
    pub(super) outcome: Option<Outcome>,
    pub(super) counts: LineCounts,
    pub(super) finalizing_at: Option<Timestamp>,
    pub(super) cancelling_at: Option<Timestamp>,
}

impl Batch {
    /// Builds the batch object.
    pub(super) fn of(view: BatchView<'_>) -> Self {
        let BatchView { job, payload, .. } = &view;
        let ended = |status: JobStatus| job.completed_at.filter(|_| job.status == status).map(seconds);
        let outcome = view.outcome.as_ref();
        Self {
            id: BatchId::from_u128(job.terms.id.as_u128()),
            object: "batch",
            endpoint: payload.endpoint.as_str(),
            model: job.model.to_string(),
            errors: errors(job, &payload.faults),
            input_file_id: payload.input,
            completion_window: "24h",
            status: status(job),
            output_file_id: outcome.and_then(|outcome| outcome.output),
            error_file_id: outcome.and_then(|outcome| outcome.errors),
            created_at: seconds(job.created_at),
            in_progress_at: job.started_at.filter(|_| payload.faults.is_empty()).map(seconds),
            expires_at: seconds(payload.expires_at()),
            finalizing_at: view.finalizing_at.map(seconds),
            completed_at: ended(JobStatus::Completed),
            failed_at: ended(JobStatus::Failed),
            expired_at: ended(JobStatus::Expired),
            cancelling_at: view.cancelling_at.map(seconds),
            cancelled_at: ended(JobStatus::Cancelled),
            request_counts: RequestCounts {
                total: u64::from(payload.total),
                completed: view.counts.done,
                failed: view.counts.failed,
            },
            usage: outcome.map(|outcome| usage(&outcome.usage)),
            cost: job.charge.map(|charge| charge.to_string()),
            metadata: payload.metadata.clone(),
        }
    }

    fn id(&self) -> String {
        self.id.to_string()
    }
}

impl BatchList {
    /// Builds a page with the ids of its first and last batch.
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
        input_tokens_details: BTreeMap::from([("cached_tokens", usage.cache_read())]),
        output_tokens: usage.total_output(),
        output_tokens_details: BTreeMap::from([("reasoning_tokens", usage.get(Unit::Reasoning))]),
        total_tokens: usage.total_input().saturating_add(usage.total_output()),
    }
}

fn seconds(at: Timestamp) -> i64 {
    at.as_micros().div_euclid(1_000_000)
}
