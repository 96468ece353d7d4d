//! Reports that a provider's own research model writes: the provider searches and reads itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_types::{Date, Usage};

use crate::generation::{JobCall, JobProvider};
use crate::provider::Provider;
use crate::search::SearchFilters;

/// A question for a provider's own research model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Conversation whose last message is the question, from the user.
    pub messages: Vec<ReportMessage>,
    /// Instructions of the caller for the report.
    pub instructions: Option<String>,
    /// Effort: `minimal`, `low`, `medium` or `high`.
    pub effort: &'static str,
    /// Maximum output in tokens, including reasoning, if the caller limits it.
    pub max_output_tokens: Option<u64>,
    /// Maximum number of searches, if the caller limits it.
    pub max_searches: Option<u32>,
    /// Maximum number of pages to read, if the caller limits it.
    pub max_pages: Option<u32>,
    /// Number of searches that the hold pays for.
    pub paid_searches: u64,
    /// Filters of the documents, with the language of the report.
    pub filters: SearchFilters,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportRole {
    /// Instructions before the conversation.
    System,
    /// Questions of the caller.
    User,
    /// Answers of the model.
    Assistant,
}

/// A message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportMessage {
    /// Author of the message.
    pub role: ReportRole,
    /// Text of the message.
    pub text: String,
}

/// A report with its sources and its consumption.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProviderReport {
    /// Text in Markdown, with the provider's citation marks.
    pub text: String,
    /// Documents that the report cites, or that the provider lists as results.
    pub sources: Vec<ReportSource>,
    /// Citation marks in the text, in order and disjoint.
    pub marks: Vec<ReportMark>,
    /// Queries that the provider made, as far as it reports them.
    pub queries: Vec<String>,
    /// Consumption to charge.
    pub usage: Usage,
    /// Whether the provider stopped before the report was complete.
    pub is_incomplete: bool,
    /// The provider's response, unchanged.
    pub raw: Value,
}

/// A document that a provider lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportSource {
    /// URL of the document.
    pub url: String,
    /// Title, empty if the provider reports none.
    pub title: String,
    /// Publication date; `None` if the provider reports none.
    pub date: Option<Date>,
    /// Excerpt of the document, as the provider reports it.
    pub excerpt: Option<String>,
}

/// A citation mark. Offsets are positions of bytes in the text of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportMark {
    /// First byte of the mark.
    pub start: usize,
    /// Byte after the mark. Equal to `start` if the text contains no mark.
    pub end: usize,
    /// Positions of the cited documents in the list of sources.
    pub sources: Vec<usize>,
}

impl JobCall for ReportCall {
    type Output = ProviderReport;

    fn provider(provider: &dyn Provider) -> Option<&dyn JobProvider<Self>> {
        provider.reports()
    }

    fn at(&self, upstream_model: Arc<str>) -> Self {
        Self {
            upstream_model,
            ..self.clone()
        }
    }
}
