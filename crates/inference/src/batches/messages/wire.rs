//! Request and response schemas of `/v1/messages/batches`.

use serde::Serialize;
use serde_json::Value;
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{Error, JobStatus, MessageBatchId, Timestamp};
use utoipa::{IntoParams, ToSchema};

use crate::batches::payload::BatchPayload;
use crate::batches::read::invalid;

/// Request body of `POST /v1/messages/batches`.
#[derive(Serialize, ToSchema)]
pub struct CreateMessageBatch {
    /// Requests of the batch: at most 50,000, all for the same model.
    #[schema(min_items = 1)]
    requests: Vec<BatchedMessage>,
}

/// One request of a message batch.
#[derive(Serialize, ToSchema)]
pub struct BatchedMessage {
    /// Id of the request, unique in the batch, 1 to 512 characters.
    custom_id: String,
    /// Request body as for `POST /v1/messages`, without `stream`.
    #[schema(value_type = Object)]
    params: Value,
}

/// A message batch: its status, progress, results and cost.
#[derive(Serialize, ToSchema)]
pub struct MessageBatch {
    /// Id of the batch.
    #[schema(value_type = String)]
    id: MessageBatchId,
    /// Always `message_batch`.
    r#type: &'static str,
    /// Status: `in_progress`, `canceling` or `ended`.
    processing_status: &'static str,
    /// Number of requests by status. All are `processing` until the batch has ended.
    request_counts: MessageBatchCounts,
    /// Creation time in RFC 3339 format, like all times of this object.
    created_at: String,
    /// Time at which requests that have not started expire.
    expires_at: String,
    /// Time at which the batch ended; null until then.
    ended_at: Option<String>,
    /// Time at which cancellation was requested; null if it was not requested.
    cancel_initiated_at: Option<String>,
    /// Always null: batches are not archived.
    archived_at: Option<String>,
    /// URL of the results. Null until the batch has ended, and if it has no results.
    results_url: Option<String>,
    /// Cost in credits as a decimal string, once the batch has ended.
    cost: Option<String>,
}

/// Number of requests of a message batch by status.
#[derive(Serialize, ToSchema)]
pub struct MessageBatchCounts {
    /// Total number of requests until the batch has ended, then 0.
    processing: u64,
    /// Number of successful requests.
    succeeded: u64,
    /// Number of failed requests.
    errored: u64,
    /// Number of requests that were not started because the batch was canceled.
    canceled: u64,
    /// Number of requests that were not started before the batch expired.
    expired: u64,
}

/// Confirmation that a message batch was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedMessageBatch {
    /// Id of the deleted batch.
    #[schema(value_type = String)]
    id: MessageBatchId,
    /// Always `message_batch_deleted`.
    r#type: &'static str,
}

impl DeletedMessageBatch {
    /// Builds the confirmation for this batch.
    pub(super) fn of(job: &Job) -> Self {
        Self {
            id: MessageBatchId::from_u128(job.terms.id.as_u128()),
            r#type: "message_batch_deleted",
        }
    }
}

/// One page of the list of message batches, newest first.
#[derive(Serialize, ToSchema)]
pub struct MessageBatchList {
    /// The batches of this page.
    data: Vec<MessageBatch>,
    /// Id of the first batch of this page.
    first_id: Option<String>,
    /// Id of the last batch of this page.
    last_id: Option<String>,
    /// Whether more batches follow in the direction of the listing.
    has_more: bool,
}

/// Query parameters of the list of message batches.
#[derive(Debug, serde::Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageBatchesQuery {
    /// Number of batches per page, 1 to 1,000. Default: 20.
    #[param(minimum = 1, maximum = 1_000)]
    pub(super) limit: Option<u32>,
    /// Return batches that are older than the batch with this id, such as the last one of the
    /// previous page.
    pub(super) after_id: Option<String>,
    /// Return the batches that directly precede the batch with this id in the list, which are
    /// newer. Cannot be combined with `after_id`.
    pub(super) before_id: Option<String>,
}

/// Edges of a page: batches older than the first id, or newer than the second.
pub(super) type Edges = (Option<MessageBatchId>, Option<MessageBatchId>);

impl MessageBatchesQuery {
    /// Parses the edges of the page.
    pub(super) fn edges(&self) -> Result<Edges, Error> {
        let id = |param: &str, text: &Option<String>| {
            let id = text.as_deref().map(str::parse).transpose();
            id.map_err(|_| invalid(param, "is not the id of a batch"))
        };
        match (id("after_id", &self.after_id)?, id("before_id", &self.before_id)?) {
            (Some(_), Some(_)) => Err(invalid("before_id", "cannot be combined with 'after_id'")),
            edges => Ok(edges),
        }
    }
}

/// Data for a message batch object.
pub(super) struct BatchView<'j> {
    pub(super) job: &'j Job,
    pub(super) payload: BatchPayload,
    pub(super) has_results: bool,
    pub(super) counts: LineCounts,
    pub(super) cancelling_at: Option<Timestamp>,
    pub(super) origin: &'j str,
}

impl MessageBatch {
    /// Builds the message batch object.
    pub(super) fn of(view: &BatchView<'_>) -> Self {
        let BatchView {
            job, payload, counts, ..
        } = view;
        let id = MessageBatchId::from_u128(job.terms.id.as_u128());
        let total = u64::from(payload.total);
        let left = total.saturating_sub(counts.done).saturating_sub(counts.failed);
        let is = |status: JobStatus| if job.status == status { left } else { 0 };
        let processing_status = match job.status {
            JobStatus::Queued | JobStatus::InProgress if job.cancel_requested => "canceling",
            JobStatus::Queued | JobStatus::InProgress => "in_progress",
            _ => "ended",
        };
        let results = view.has_results;
        Self {
            id,
            r#type: "message_batch",
            processing_status,
            request_counts: MessageBatchCounts {
                processing: if job.status.is_terminal() { 0 } else { total },
                succeeded: counts.done,
                errored: counts.failed + is(JobStatus::Failed),
                canceled: is(JobStatus::Cancelled),
                expired: is(JobStatus::Expired),
            },
            created_at: job.created_at.to_rfc3339(),
            expires_at: payload.expires_at().to_rfc3339(),
            ended_at: job.completed_at.map(Timestamp::to_rfc3339),
            cancel_initiated_at: view.cancelling_at.map(Timestamp::to_rfc3339),
            archived_at: None,
            results_url: results.then(|| format!("{}/v1/messages/batches/{id}/results", view.origin)),
            cost: job.charge.map(|charge| charge.to_string()),
        }
    }
}

impl MessageBatchList {
    /// Builds a page with the ids of its first and last batch.
    pub(super) fn of(data: Vec<MessageBatch>, has_more: bool) -> Self {
        let id = |batch: Option<&MessageBatch>| batch.map(|batch| batch.id.to_string());
        Self {
            first_id: id(data.first()),
            last_id: id(data.last()),
            data,
            has_more,
        }
    }
}
