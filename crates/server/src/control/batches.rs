//! Batches of all accounts, for operators: their progress, without the contents of their requests.

use serde::{Deserialize, Serialize};
use tollgate_inference::batches::KINDS;
use tollgate_storage::{Job, JobSearch};
use tollgate_types::{AccountId, BatchId, Credits, Error, ErrorCode, JobId, Timestamp};
use utoipa::ToSchema;

use super::accounts::find;
use super::view::Reply;
use crate::wiring::AppState;

/// A batch of requests, with its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchView {
    /// Id in the public API: `batch_…`, or `msgbatch_…` for a batch of the Messages API.
    pub id: String,
    /// Account that owns the batch.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelling` or
    /// `cancelled`.
    pub state: String,
    /// Path of the endpoint that serves the requests.
    pub endpoint: String,
    /// Canonical id of the requested model.
    pub model: String,
    /// Number of requests.
    pub total: u64,
    /// Number of requests that have succeeded so far.
    pub completed: u64,
    /// Number of requests that have failed so far.
    pub failed: u64,
    /// Sum of the estimated tokens of all requests.
    pub tokens: u64,
    /// Credits held for the batch.
    #[schema(value_type = String)]
    pub held: Credits,
    /// Cost of the batch in credits; null until it has ended.
    #[schema(value_type = Option<String>)]
    pub cost: Option<Credits>,
    /// Id of the file with the requests.
    pub input_file: String,
    /// Id of the file with the results; null until the batch has ended.
    pub output_file: Option<String>,
    /// Id of the file with failed and unstarted requests; null until the batch has ended.
    pub error_file: Option<String>,
    /// Reason why the whole batch failed; null if it did not fail.
    pub failure: Option<String>,
    /// Creation time, RFC 3339.
    pub created_at: String,
    /// Time when processing started, RFC 3339; null until then.
    pub started_at: Option<String>,
    /// Time when the batch ended, RFC 3339; null until then.
    pub ended_at: Option<String>,
    /// Deadline, RFC 3339. Requests that are unfinished at this time fail.
    pub expires_at: String,
    /// Age of the batch, in seconds.
    pub age_seconds: u64,
}

/// Lists up to `limit` batches of one account or of all, newest first; only those older than
/// `before`, if set.
pub(super) async fn list(
    app_state: &AppState,
    account: Option<AccountId>,
    before: Option<BatchId>,
    limit: u32,
) -> Result<Reply, Error> {
    if let Some(account) = account {
        find(app_state, account).await?;
    }
    let mut found = search(app_state, limit, |kind| JobSearch {
        account,
        kind,
        before: before.map(job_of),
        id: None,
    })
    .await?;
    found.sort_by_key(|job| std::cmp::Reverse(job.terms.id));
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut views = Vec::with_capacity(found.len());
    for job in &found {
        views.extend(view(app_state, job).await?);
    }
    Ok(Reply::Batches(views))
}

/// Returns a batch of any account.
pub(super) async fn show(app_state: &AppState, id: BatchId) -> Result<Reply, Error> {
    let found = search(app_state, 1, |kind| JobSearch {
        id: Some(job_of(id)),
        kind,
        ..JobSearch::default()
    })
    .await?;
    let not_found = || Error::new(ErrorCode::NotFound, "There is no such batch.");
    let job = found.first().ok_or_else(not_found)?;
    let view = view(app_state, job).await?.ok_or_else(not_found)?;
    Ok(Reply::Batch(Box::new(view)))
}

fn job_of(id: BatchId) -> JobId {
    JobId::from_u128(id.as_u128())
}

/// Returns up to `limit` jobs of each kind of batch.
async fn search(
    app_state: &AppState,
    limit: u32,
    wanted: impl Fn(Option<String>) -> JobSearch,
) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    for kind in KINDS {
        let jobs = app_state.jobs.search(wanted(Some(kind.to_owned())), limit).await;
        found.extend(jobs.map_err(Error::internal)?);
    }
    Ok(found)
}

async fn view(app_state: &AppState, job: &Job) -> Result<Option<BatchView>, Error> {
    let Some(summary) = app_state.batch_records.summary(job).await? else {
        return Ok(None);
    };
    let age = app_state.clock.now().since(job.created_at);
    Ok(Some(BatchView {
        id: summary.id,
        account: job.account,
        account_name: None,
        state: summary.status.to_owned(),
        endpoint: summary.endpoint.to_owned(),
        model: job.model.to_string(),
        total: summary.total,
        completed: summary.completed,
        failed: summary.failed,
        tokens: summary.tokens,
        held: job.held,
        cost: job.charge,
        input_file: summary.input.to_string(),
        output_file: summary.output.map(|id| id.to_string()),
        error_file: summary.errors.map(|id| id.to_string()),
        failure: job.error.as_ref().map(|error| error.message.clone()),
        created_at: job.created_at.to_rfc3339(),
        started_at: job.started_at.map(Timestamp::to_rfc3339),
        ended_at: job.completed_at.map(Timestamp::to_rfc3339),
        expires_at: summary.expires_at.to_rfc3339(),
        age_seconds: age.as_secs(),
    }))
}
