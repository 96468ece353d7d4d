//! Deep research: a question becomes a report of several sections, whose citations are verified
//! against the stored texts of the sources (contract, Deep research operation).
//!
//! Suggested reading order: `service` accepts a job with its hold (`tariff`), `job` executes it
//! with the `engine`, `view` shows its result, and `sources` stores the texts that it cites.
//! `chat`, `responses` and `asynchronous` accept and show the same jobs in the formats of other
//! providers.

mod account_files;
mod answer;
mod asynchronous;
mod backends;
mod bounds;
mod cast;
pub(crate) mod chat;
mod effort;
mod engine;
mod follow;
mod job;
mod payload;
mod progress;
mod read;
mod relay;
mod report;
pub(crate) mod responses;
mod routes;
pub(crate) mod service;
mod sources;
mod tariff;
mod view;
mod web_search;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tollgate_accounts::Vault;
use tollgate_jobs::webhooks::Webhooks;
use tollgate_jobs::{JobView, Jobs};
use tollgate_pipeline::Pipeline;
use tollgate_storage::{AccountStore, BlobStore, MediaStore, PriceStore, UsageStore};
use tollgate_types::Clock;
use tollgate_upstream::{PageExtractor, PageReader, ResearchProvider, SearchBackend, SearchConnector};

use crate::files::Files;

pub use job::ResearchHandler;
pub use routes::routes;
pub(crate) use service::{ResearchRequest, names_research_model};
pub use web_search::WebBackend;

/// Kind of research jobs, as stored.
pub const KIND: &str = "research";
/// Maximum time for which a request to another endpoint waits for its report.
pub const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// Accepts and executes research jobs.
pub struct Research {
    /// Queue of the jobs.
    pub jobs: Arc<Jobs>,
    /// Routes models, and holds the cost of a job.
    pub pipeline: Arc<Pipeline>,
    /// Encrypts requests, steps and results.
    pub vault: Vault,
    /// Accounts of the callers.
    pub accounts: Arc<dyn AccountStore>,
    /// Price versions, to charge the prices at acceptance.
    pub prices: Arc<dyn PriceStore>,
    /// Usage rows, for the costs of a report by class.
    pub usage: Arc<dyn UsageStore>,
    /// Sender of the webhooks of ended jobs.
    pub webhooks: Arc<Webhooks>,
    /// Texts of sources.
    pub blobs: Arc<dyn BlobStore>,
    /// Metadata of the texts of sources.
    pub media: Arc<dyn MediaStore>,
    /// Document collections that models search.
    pub corpora: Corpora,
    /// Web search backends.
    pub web: Vec<WebBackend>,
    /// Reader of web pages.
    pub pages: Arc<dyn PageReader>,
    /// Connects MCP servers that requests name.
    pub servers: Arc<dyn SearchConnector>,
    /// Extractor of the texts of files.
    pub extractor: Arc<dyn PageExtractor>,
    /// Files of accounts.
    pub files: Arc<Files>,
    /// Planner and writer that replace a failed model.
    pub extractive: Arc<dyn ResearchProvider>,
    /// Clock for wall times and retention.
    pub clock: Arc<dyn Clock>,
}

/// Document collections that research models search.
pub struct Corpora {
    /// Collection of simulated models.
    pub demo: Arc<dyn SearchBackend>,
    /// Collections of the operator, by name.
    pub configured: BTreeMap<String, Arc<dyn SearchBackend>>,
}

/// Returns the view of research jobs.
pub fn view(vault: &Vault) -> Arc<dyn JobView> {
    Arc::new(view::ResearchView::new(vault.clone()))
}
