//! Batches of all accounts, as operators see them: how far they are, and nothing of what they say.

use serde::{Deserialize, Serialize};
use tollgate_inference::batches::KINDS;
use tollgate_storage::{Job, JobSearch};
use tollgate_types::{AccountId, BatchId, Credits, Error, ErrorCode, JobId, Timestamp};
use utoipa::ToSchema;

use super::accounts::find;
use super::view::Reply;
use crate::wiring::Domains;

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchView {
    /// As its owner knows it: `batch_…`, or `msgbatch_…` of one in the format of messages.
    pub id: String,
    /// Whose.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// `validating`, `in_progress`, `finalizing`, `completed`, `failed`, `expired`, `cancelling` or `cancelled`.
    pub state: String,
    /// Where its requests go.
    pub endpoint: String,
    /// Their model.
    pub model: String,
    /// Requests.
    pub total: u64,
    /// Those that were answered, by now.
    pub completed: u64,
    /// Those that have failed, by now.
    pub failed: u64,
    /// Tokens that they may consume, by a likely measure.
    pub tokens: u64,
    /// What is held for it, or was.
    #[schema(value_type = String)]
    pub held: Credits,
    /// What it has cost, once it has ended.
    #[schema(value_type = Option<String>)]
    pub cost: Option<Credits>,
    /// Its requests, as a file of its owner.
    pub input_file: String,
    /// What was answered, once it has ended.
    pub output_file: Option<String>,
    /// What has failed or was not begun, once it has ended.
    pub error_file: Option<String>,
    /// Why it has failed as a whole.
    pub failure: Option<String>,
    /// RFC 3339, as all that follow.
    pub created_at: String,
    /// When it was begun.
    pub started_at: Option<String>,
    /// When it ended.
    pub ended_at: Option<String>,
    /// When it is too late.
    pub expires_at: String,
    /// How long ago it was accepted, in seconds.
    pub age_seconds: u64,
}

/// Batches of one account or of all, newest first, older than one.
pub(super) async fn list(
    domains: &Domains,
    account: Option<AccountId>,
    before: Option<BatchId>,
    limit: u32,
) -> Result<Reply, Error> {
    if let Some(account) = account {
        find(domains, account).await?;
    }
    let mut found = search(domains, limit, |kind| JobSearch {
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
        views.extend(view(domains, job).await?);
    }
    Ok(Reply::Batches(views))
}

/// A batch of any account.
pub(super) async fn show(domains: &Domains, id: BatchId) -> Result<Reply, Error> {
    let found = search(domains, 1, |kind| JobSearch {
        id: Some(job_of(id)),
        kind,
        ..JobSearch::default()
    })
    .await?;
    let not_found = || Error::new(ErrorCode::NotFound, "There is no such batch.");
    let job = found.first().ok_or_else(not_found)?;
    let view = view(domains, job).await?.ok_or_else(not_found)?;
    Ok(Reply::Batch(Box::new(view)))
}

fn job_of(id: BatchId) -> JobId {
    JobId::from_u128(id.as_u128())
}

/// What is found of each kind.
async fn search(
    domains: &Domains,
    limit: u32,
    wanted: impl Fn(Option<String>) -> JobSearch,
) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    for kind in KINDS {
        let jobs = domains.jobs.search(wanted(Some(kind.to_owned())), limit).await;
        found.extend(jobs.map_err(Error::internal)?);
    }
    Ok(found)
}

async fn view(domains: &Domains, job: &Job) -> Result<Option<BatchView>, Error> {
    let Some(summary) = domains.batch_records.summary(job).await? else {
        return Ok(None);
    };
    let age = domains.clock.now().since(job.created_at);
    Ok(Some(BatchView {
        id: summary.id,
        account: job.account,
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
