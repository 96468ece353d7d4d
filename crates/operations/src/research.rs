//! Research for operators: unfinished jobs of all accounts, without questions and reports, and the
//! sources that research searches.

use serde::{Deserialize, Serialize};
use tollgate_storage::{Job, JobSearch};
use tollgate_types::{AccountId, Credits, Error, ErrorCode, JobId, Timestamp};
use utoipa::ToSchema;

use crate::accounts::find;
use crate::operation::{Completed, Declaration, Operation};
use crate::{Actor, Operations};

/// A research job, with its progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResearchJobView {
    /// Id of the job: `job_…`.
    #[schema(value_type = String)]
    pub id: JobId,
    /// Account that owns the job.
    #[schema(value_type = String)]
    pub account: AccountId,
    /// Display name of the account.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false, required = false)]
    pub account_name: Option<String>,
    /// Canonical id of the requested model.
    pub model: String,
    /// `queued`, `in_progress`, `completed`, `failed`, `cancelled` or `expired`.
    pub status: String,
    /// Last phase of the job: `planning`, `searching`, `reading`, `reflecting`, `writing` or
    /// `verifying`. Null before its start.
    pub phase: Option<String>,
    /// Progress in percent; null before the start.
    pub progress: Option<u8>,
    /// Whether the owner has requested the cancellation.
    pub cancel_requested: bool,
    /// Credits held for the job: the maximum of its cost. The cost of its calls so far is encrypted
    /// with their results.
    #[schema(value_type = String)]
    pub held: Credits,
    /// Cost of the job in credits; null until it has ended.
    #[schema(value_type = Option<String>)]
    pub cost: Option<Credits>,
    /// Reason why the job failed; null if it did not fail.
    pub failure: Option<String>,
    /// Time of acceptance, RFC 3339.
    pub created_at: String,
    /// Time when the job started, RFC 3339; null until then.
    pub started_at: Option<String>,
    /// Time when the job ended, RFC 3339; null until then.
    pub ended_at: Option<String>,
    /// Age of the job, in seconds.
    pub age_seconds: u64,
}

impl ResearchJobView {
    fn of(job: &Job, now: Timestamp) -> Self {
        Self {
            id: job.terms.id,
            account: job.account,
            account_name: None,
            model: job.model.to_string(),
            status: job.status.as_str().to_owned(),
            phase: (!job.phase.is_empty()).then(|| job.phase.to_string()),
            progress: job.progress,
            cancel_requested: job.cancel_requested,
            held: job.held,
            cost: job.charge,
            failure: job.error.as_ref().map(|error| error.message.clone()),
            created_at: job.created_at.to_rfc3339(),
            started_at: job.started_at.map(Timestamp::to_rfc3339),
            ended_at: job.completed_at.map(Timestamp::to_rfc3339),
            age_seconds: now.since(job.created_at).as_secs(),
        }
    }
}

/// The sources of research, as the responding node sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourcesView {
    /// Web search services, by name.
    pub search: Vec<SearchView>,
    /// Document collections of the operator, by name.
    pub corpora: Vec<CorpusView>,
}

/// A web search service, with its health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SearchView {
    /// Name of the service in the settings.
    pub name: String,
    /// Kind of the service, such as `searxng`.
    pub kind: String,
    /// Price of a query in credits.
    #[schema(value_type = String)]
    pub price: Credits,
    /// State of the circuit breaker. `closed`: the service is searched. `open`: it fails and is not
    /// searched. `half_open`: it receives single trial searches. `cooling_down`: it requested a
    /// pause.
    pub breaker: String,
    /// Number of failures since the last success.
    pub failures_in_a_row: u32,
    /// Milliseconds until the service is searched again; 0 if it is searched now.
    pub retry_in_ms: u64,
    /// Last error since the server started; null if no search failed.
    pub last_error: Option<String>,
    /// Time of the last error, RFC 3339; null if no search failed.
    pub last_error_at: Option<String>,
}

/// A document collection and its index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CorpusView {
    /// Name of the corpus in the settings.
    pub name: String,
    /// Whether its documents must not reach public search services.
    pub is_private: bool,
    /// Whether the corpus has an index.
    pub is_built: bool,
    /// Whether the responding process is building a new index.
    pub is_building: bool,
    /// Documents in the index.
    pub documents: u64,
    /// Passages in the index.
    pub passages: u64,
    /// Files and documents that are not in the index.
    pub skipped: u64,
    /// Time of the last build, RFC 3339; null without an index.
    pub built_at: Option<String>,
}

/// Lists queued and running research jobs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListResearchJobs {
    /// Account of the jobs; `None` for all accounts.
    pub account: Option<AccountId>,
    /// Last job of the previous page.
    pub before: Option<JobId>,
    /// Maximum number of jobs to return.
    pub limit: u32,
}

impl Operation for ListResearchJobs {
    const NAME: &'static str = "list_research_jobs";
    type Reply = Vec<ResearchJobView>;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        if let Some(account) = self.account {
            find(operations, account).await?;
        }
        let search = JobSearch {
            account: self.account,
            kind: Some(operations.research.kind().to_owned()),
            before: self.before,
            is_unfinished: true,
            id: None,
        };
        let found = operations.jobs.search(search, self.limit).await;
        let now = operations.clock.now();
        let found = found.map_err(Error::internal)?;
        let views = found.iter().map(|job| ResearchJobView::of(job, now));
        Ok(views.collect::<Vec<_>>().into())
    }
}

/// Returns a research job of any account, ended or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowResearchJob {
    pub id: JobId,
}

impl Operation for ShowResearchJob {
    const NAME: &'static str = "show_research_job";
    type Reply = ResearchJobView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        let search = JobSearch {
            id: Some(self.id),
            kind: Some(operations.research.kind().to_owned()),
            ..JobSearch::default()
        };
        let found = operations.jobs.search(search, 1).await;
        let found = found.map_err(Error::internal)?;
        let job = found
            .first()
            .ok_or_else(|| Error::new(ErrorCode::NotFound, "The research job does not exist."))?;
        Ok(ResearchJobView::of(job, operations.clock.now()).into())
    }
}

/// Returns the web search services and corpora of the running server, with their state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShowResearchSources;

impl Operation for ShowResearchSources {
    const NAME: &'static str = "show_research_sources";
    const NEEDS_SERVER: bool = true;

    type Reply = SourcesView;

    fn declaration(&self) -> Declaration {
        Declaration::read()
    }

    async fn execute(self, operations: &Operations, _: &Actor) -> Result<Completed<Self::Reply>, Error> {
        Ok(operations.research.sources().into())
    }
}
