//! Batches of all accounts, for operators: their progress, without the contents of their requests.

use serde::{Deserialize, Serialize};
use tollgate_storage::{Job, JobSearch};
use tollgate_types::{AccountId, BatchId, Credits, Error, ErrorCode, JobId};
use utoipa::ToSchema;

use crate::accounts::find;
use crate::operation::{Completed, Declaration, Operation};
use crate::{Actor, Operations};

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
    /// Id of the file with the results; null until the batch has ended, and if no request
    /// succeeded.
    pub output_file: Option<String>,
    /// Id of the file with failed and unstarted requests; null until the batch has ended, and if
    /// every request succeeded.
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

/// Lists batches, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListBatches {
    /// Account of the batches; `None` for all accounts.
    pub account: Option<AccountId>,
    /// Last batch of the previous page.
    pub before: Option<BatchId>,
    /// Maximum number of batches to return.
    pub limit: u32,
}

impl Operation for ListBatches {
    const NAME: &'static str = "list_batches";
    type Reply = Vec<BatchView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let Self {
            account,
            before,
            limit,
        } = self;
        if let Some(account) = account {
            find(operations, account).await?;
        }
        let mut found = search(operations, limit, |kind| JobSearch {
            account,
            kind,
            before: before.map(job_of),
            ..JobSearch::default()
        })
        .await?;
        found.sort_by_key(|job| std::cmp::Reverse(job.terms.id));
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let now = operations.clock.now();
        let mut views = Vec::with_capacity(found.len());
        for job in &found {
            views.extend(operations.batches.view(job, now).await?);
        }
        Ok(views.into())
    }
}

/// Returns a batch of any account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowBatch {
    pub id: BatchId,
}

impl Operation for ShowBatch {
    const NAME: &'static str = "show_batch";
    type Reply = BatchView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let found = search(operations, 1, |kind| JobSearch {
            id: Some(job_of(self.id)),
            kind,
            ..JobSearch::default()
        })
        .await?;
        let not_found = || Error::new(ErrorCode::NotFound, "The batch does not exist.");
        let job = found.first().ok_or_else(not_found)?;
        let view = operations.batches.view(job, operations.clock.now()).await?;
        let view = view.ok_or_else(not_found)?;
        Ok(view.into())
    }
}

fn job_of(id: BatchId) -> JobId {
    JobId::from_u128(id.as_u128())
}

/// Returns up to `limit` jobs of each kind of batch.
async fn search(
    operations: &Operations,
    limit: u32,
    wanted: impl Fn(Option<String>) -> JobSearch,
) -> Result<Vec<Job>, Error> {
    let mut found = Vec::new();
    for kind in operations.batches.kinds() {
        let jobs = operations
            .jobs
            .search(wanted(Some((*kind).to_owned())), limit)
            .await;
        found.extend(jobs.map_err(Error::internal)?);
    }
    Ok(found)
}
