//! Request and response schemas of the OpenAPI document. `read` parses and validates the requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_edge::JobReference;
use utoipa::{IntoParams, ToSchema};

/// A request for a research report.
#[derive(Serialize, ToSchema)]
pub struct CreateResearch {
    /// Id or alias of a research model. GET /v1/models lists the models.
    model: String,
    /// Question of the report, at most 32,000 characters. Send `query` or `messages`.
    query: Option<String>,
    /// Conversation whose last message is the question. Text only, at most 32,000 characters.
    messages: Option<Vec<ResearchMessage>>,
    /// Effort: `minimal`, `low`, `medium` or `high` (default). It limits rounds, searches, pages
    /// and sections.
    reasoning_effort: Option<String>,
    /// Maximum length of the report in tokens, at least 256. Defaults to 10,000.
    max_output_tokens: Option<u64>,
    /// Sites to search, as a comma-separated string or an array of at most 20 hosts or host/path.
    /// Subdomains match. A leading `-` excludes a site.
    search_domain_filter: Option<Value>,
    /// Maximum age of documents: `hour`, `day`, `week`, `month` or `year`.
    search_recency_filter: Option<String>,
    /// Earliest date of documents, as `2026-03-31` or `3/31/2026`.
    search_after_date_filter: Option<String>,
    /// Latest date of documents, as `2026-03-31` or `3/31/2026`.
    search_before_date_filter: Option<String>,
    /// Whether the result also contains the plan, the notes and the sections as data, in `raw`.
    disable_formatting: Option<bool>,
    /// `remove` (default) removes statements that the sources do not support; `mark` marks them.
    unverified: Option<String>,
    /// Maximum cost in credits, such as `"0.25"`. A smaller amount reduces pages, then rounds. The
    /// lower of `max_cost` and the header `x-max-cost` applies.
    #[schema(value_type = Option<String>)]
    max_cost: Option<String>,
    /// Maximum number of searches; only lowers that of the effort.
    #[schema(minimum = 1)]
    max_searches: Option<u32>,
    /// Maximum number of pages; only lowers that of the effort.
    #[schema(minimum = 1)]
    max_pages: Option<u32>,
    /// Instructions for the report, at most 8,000 characters.
    instructions: Option<String>,
    /// Language of the report, as a BCP 47 tag. Defaults to the language of the question.
    language: Option<String>,
    /// Sources to search, at most 8. Defaults to those of the model.
    sources: Option<Vec<ResearchSource>>,
    /// Custom key-value pairs, which the job record contains.
    metadata: Option<BTreeMap<String, String>>,
    /// URL that receives a signed POST when the job has ended.
    webhook_url: Option<String>,
    /// Whether the response waits for the report, at most four minutes. `wait` is an alias.
    sync: Option<bool>,
}

/// A message of a research conversation.
#[derive(Serialize, ToSchema)]
pub struct ResearchMessage {
    /// `system`, `user` or `assistant`. The last message must be from the user.
    role: String,
    /// Text of the message.
    content: String,
}

/// A source of documents.
#[derive(Serialize, ToSchema)]
pub struct ResearchSource {
    /// Type of the source: `web` for the configured web search services, `corpus`, `file` or `mcp`.
    r#type: String,
    /// Name of the corpus.
    name: Option<String>,
    /// Id of a file of the account.
    file_id: Option<String>,
    /// URL of an MCP server with the tools `search` and `fetch`.
    server_url: Option<String>,
    /// Access token or `Authorization` header for the MCP server.
    authorization: Option<String>,
}

/// A finished report.
#[derive(Serialize, ToSchema)]
pub struct ResearchReport {
    /// Always `research.report`.
    #[schema(value_type = String)]
    pub(super) object: &'static str,
    /// Id of the job that wrote the report.
    pub(super) job_id: String,
    /// Model, as named in the request.
    pub(super) model: String,
    /// Acceptance time of the request, RFC 3339 in UTC.
    pub(super) created_at: String,
    /// Billed quantities, such as `searches` and `output_tokens`.
    pub(super) usage: Value,
    /// Cost in credits, as a decimal string.
    pub(super) cost: Option<String>,
    /// The members `report`, `citations`, `sources`, `claims`, `stats`, `stopped_by` and
    /// `degraded`.
    #[serde(flatten)]
    #[schema(inline)]
    pub(super) result: BTreeMap<String, Value>,
}

/// A report, or the job that writes it.
#[expect(dead_code, reason = "only its schema is used")]
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ReportOrJob {
    /// The report, if the request waited for it.
    Report(Box<ResearchReport>),
    /// The accepted job.
    Job(JobReference),
}

/// Part of the text of a source.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SpanQuery {
    /// First character of the part, counted from 0. Defaults to 0.
    pub(super) start: Option<u64>,
    /// Character after the part. Defaults to the end of the text.
    pub(super) end: Option<u64>,
}
