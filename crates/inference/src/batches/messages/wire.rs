//! Bodies.

use serde::Serialize;
use serde_json::Value;
use tollgate_storage::{Job, LineCounts};
use tollgate_types::{Error, JobStatus, MessageBatchId, Timestamp};
use utoipa::{IntoParams, ToSchema};

use crate::batches::order::Order;
use crate::batches::read::invalid;

/// Many requests.
#[derive(Serialize, ToSchema)]
pub struct CreateMessageBatch {
    /// Requests, all to one model.
    #[schema(min_items = 1)]
    requests: Vec<BatchedMessage>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
pub struct BatchedMessage {
    /// Its name: another one for each, 1 to 512 characters.
    custom_id: String,
    /// As `POST /v1/messages` takes it, without `stream`.
    #[schema(value_type = Object)]
    params: Value,
}

/// A batch in the format of messages.
#[derive(Serialize, ToSchema)]
pub struct MessageBatch {
    /// Id.
    #[schema(value_type = String)]
    id: MessageBatchId,
    /// Always `message_batch`.
    r#type: &'static str,
    /// `in_progress`, `canceling` or `ended`.
    processing_status: &'static str,
    /// What has become of its requests; all are `processing` until it has ended.
    request_counts: MessageBatchCounts,
    /// RFC 3339, as all that follow.
    created_at: String,
    /// When it is too late.
    expires_at: String,
    /// When it ended.
    ended_at: Option<String>,
    /// When it was known that nobody wants it any more.
    cancel_initiated_at: Option<String>,
    /// Always null.
    archived_at: Option<String>,
    /// Where the results are, once it has ended.
    results_url: Option<String>,
    /// What it has cost, in credits, once it has ended.
    cost: Option<String>,
}

/// What has become of requests.
#[derive(Serialize, ToSchema)]
pub struct MessageBatchCounts {
    /// Not ended.
    processing: u64,
    /// Answered.
    succeeded: u64,
    /// Failed.
    errored: u64,
    /// Not begun, because nobody wanted it any more.
    canceled: u64,
    /// Not begun in time.
    expired: u64,
}

/// A batch that is not there any more.
#[derive(Serialize, ToSchema)]
pub struct DeletedMessageBatch {
    /// Id.
    #[schema(value_type = String)]
    id: MessageBatchId,
    /// Always `message_batch_deleted`.
    r#type: &'static str,
}

impl DeletedMessageBatch {
    /// This one.
    pub(super) fn of(job: &Job) -> Self {
        Self {
            id: MessageBatchId::from_u128(job.terms.id.as_u128()),
            r#type: "message_batch_deleted",
        }
    }
}

/// A page of batches, the newest first.
#[derive(Serialize, ToSchema)]
pub struct MessageBatchList {
    /// Batches.
    data: Vec<MessageBatch>,
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
pub struct MessageBatchesQuery {
    /// Batches on a page, 1 to 1000; 20 when it is not said.
    #[param(minimum = 1, maximum = 1_000)]
    pub(super) limit: Option<u32>,
    /// Those that are older than the batch of this id, such as the last one of the page before.
    pub(super) after_id: Option<String>,
    /// Those that are newer than the batch of this id, next to it; not together with `after_id`.
    pub(super) before_id: Option<String>,
}

/// On which side of which batches a page is: those that are older than the first, or newer than the second.
pub(super) type Edges = (Option<MessageBatchId>, Option<MessageBatchId>);

impl MessageBatchesQuery {
    /// Where the page is.
    pub(super) fn edges(&self) -> Result<Edges, Error> {
        let id = |param: &str, text: &Option<String>| {
            let id = text.as_deref().map(str::parse).transpose();
            id.map_err(|_| invalid(param, "is the id of no batch"))
        };
        match (id("after_id", &self.after_id)?, id("before_id", &self.before_id)?) {
            (Some(_), Some(_)) => Err(invalid("before_id", "cannot stand beside 'after_id'")),
            edges => Ok(edges),
        }
    }
}

/// What is known of a batch.
pub(super) struct Shown<'j> {
    pub(super) job: &'j Job,
    pub(super) order: Order,
    pub(super) has_results: bool,
    pub(super) counts: LineCounts,
    pub(super) cancelling_at: Option<Timestamp>,
    pub(super) origin: &'j str,
}

impl MessageBatch {
    /// A batch as it is.
    pub(super) fn of(shown: &Shown<'_>) -> Self {
        let Shown {
            job, order, counts, ..
        } = shown;
        let id = MessageBatchId::from_u128(job.terms.id.as_u128());
        let total = u64::from(order.total);
        let left = total.saturating_sub(counts.done).saturating_sub(counts.failed);
        let is = |status: JobStatus| if job.status == status { left } else { 0 };
        let processing_status = match job.status {
            JobStatus::Queued | JobStatus::InProgress if job.cancel_requested => "canceling",
            JobStatus::Queued | JobStatus::InProgress => "in_progress",
            _ => "ended",
        };
        let results = shown.has_results;
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
            expires_at: order.expires_at().to_rfc3339(),
            ended_at: job.completed_at.map(Timestamp::to_rfc3339),
            cancel_initiated_at: shown.cancelling_at.map(Timestamp::to_rfc3339),
            archived_at: None,
            results_url: results.then(|| format!("{}/v1/messages/batches/{id}/results", shown.origin)),
            cost: job.charge.map(|charge| charge.to_string()),
        }
    }
}

impl MessageBatchList {
    /// A page.
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
