//! Search backends of research: web search services, search servers and local document
//! collections.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tollgate_types::{AccountId, Date};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// Maximum length of a query, in characters. Every backend accepts this length.
pub const MAX_QUERY_CHARS: usize = 200;
/// Maximum length of [`SearchHit::text`], in characters.
pub const MAX_HIT_TEXT_CHARS: usize = 100_000;

/// A query to a search backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// Words to search for, at most [`MAX_QUERY_CHARS`] characters.
    pub text: String,
    /// Maximum number of hits.
    pub max_hits: u32,
    /// Restrictions of the hits. A backend applies those that it supports; the caller checks every
    /// hit again.
    pub filters: SearchFilters,
}

/// Restrictions of the hits of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchFilters {
    /// Sites to search, as a host or `host/path`. Subdomains match. Empty: all sites.
    pub include: Vec<String>,
    /// Sites without hits, in the same form. They take precedence over `include`.
    pub exclude: Vec<String>,
    /// Earliest publication date.
    pub after: Option<Date>,
    /// Latest publication date.
    pub before: Option<Date>,
    /// Maximum age of a hit.
    pub recency: Option<Recency>,
    /// Language of the hits, as a BCP 47 tag.
    pub language: Option<String>,
}

impl SearchFilters {
    /// Whether the filters restrict the publication date.
    pub const fn restricts_date(&self) -> bool {
        self.after.is_some() || self.before.is_some() || self.recency.is_some()
    }
}

/// Maximum age of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recency {
    /// One hour; backends without hours search the last day.
    Hour,
    /// The last day, by calendar date.
    Day,
    /// The last seven days.
    Week,
    /// The last 31 days.
    Month,
    /// The last 366 days.
    Year,
}

impl Recency {
    /// All values, shortest first.
    pub const ALL: [Recency; 5] = [
        Recency::Hour,
        Recency::Day,
        Recency::Week,
        Recency::Month,
        Recency::Year,
    ];

    /// Returns the name used in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Recency::Hour => "hour",
            Recency::Day => "day",
            Recency::Week => "week",
            Recency::Month => "month",
            Recency::Year => "year",
        }
    }

    /// Parses a name used in requests.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|recency| recency.as_str() == name)
    }

    /// Returns the maximum age in days.
    pub const fn days(self) -> u32 {
        match self {
            Recency::Hour | Recency::Day => 1,
            Recency::Week => 7,
            Recency::Month => 31,
            Recency::Year => 366,
        }
    }
}

/// A document that matches a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHit {
    /// URL of the document. Its host and path are not verified.
    pub url: String,
    /// Title, as plain text.
    pub title: String,
    /// Excerpt, as plain text; empty if the backend returns none.
    pub snippet: String,
    /// Publication date, if the backend reports it.
    pub date: Option<Date>,
    /// Text of the document without markup, at most [`MAX_HIT_TEXT_CHARS`] characters, if the
    /// backend returns it with the hit. It may end before the document does.
    pub text: Option<String>,
    /// Whether [`SearchBackend::read`] returns the document. Otherwise, the document is a web page.
    pub is_readable: bool,
    /// Whether the backend has applied the date filters of the query to this hit.
    pub is_date_filtered: bool,
}

/// A document of a search backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchDocument {
    /// URL of the document.
    pub url: String,
    /// Title; empty if the document has none.
    pub title: String,
    /// Author, if it is known.
    pub author: Option<String>,
    /// Publication date, if it is known.
    pub date: Option<Date>,
    /// Text of the document, without markup.
    pub text: String,
}

/// Kind of the documents of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// Pages of the World Wide Web.
    #[default]
    Web,
    /// A document collection of the operator.
    Corpus,
    /// Files of an account.
    File,
    /// Documents of an MCP server.
    Mcp,
}

impl SourceKind {
    /// Returns the name used in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceKind::Web => "web",
            SourceKind::Corpus => "corpus",
            SourceKind::File => "file",
            SourceKind::Mcp => "mcp",
        }
    }
}

/// Port that connects servers which callers name.
pub trait SearchConnector: Send + Sync {
    /// Returns the backend of an MCP server, without a request to it. `name` is unique within the
    /// request, and `authorization` is the value of the header. The error describes the fault of
    /// the URL or of the authorization.
    fn mcp(
        &self,
        account: AccountId,
        name: &str,
        server_url: &str,
        authorization: Option<&str>,
    ) -> Result<Arc<dyn SearchBackend>, String>;
}

/// Port of a search backend.
#[async_trait]
pub trait SearchBackend: Send + Sync {
    /// Returns the name of the backend, such as `searxng` or `corpus/handbook`. Prices and metrics
    /// use it.
    fn name(&self) -> &str;

    /// Returns the kind of its documents.
    fn kind(&self) -> SourceKind {
        SourceKind::Web
    }

    /// Whether its documents are private: queries to other backends must not be derived from them.
    fn is_private(&self) -> bool {
        false
    }

    /// Searches, best hit first. An error means that the backend failed; an empty list means that
    /// nothing matches.
    async fn search(&self, ctx: &CallContext, query: &SearchQuery) -> Result<Vec<SearchHit>, UpstreamError>;

    /// Returns the document at the URL of a hit whose `is_readable` is set; `None` if it no longer
    /// exists.
    async fn read(&self, _: &CallContext, _: &str) -> Result<Option<SearchDocument>, UpstreamError> {
        Ok(None)
    }
}
