//! Stored data of a research job: the accepted request and the outcomes of its steps. All data is
//! encrypted.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_types::{Date, MediaId, Timestamp, Usage};
use tollgate_upstream::SearchFilters;

use super::bounds::Bounds;
use super::cast::{Cast, Spent};
use super::read::{Message, SourceSpec};
use super::relay::RelayOrder;

/// An accepted request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Payload {
    pub(super) head: Head,
    pub(super) messages: Vec<Message>,
    pub(super) instructions: Option<String>,
    /// Models and prices of the stages.
    pub(super) cast: Cast,
    /// Maximum numbers and costs of the calls.
    pub(super) bounds: Bounds,
    pub(super) filters: SearchFilters,
    /// Earliest date that `filters.recency` allows.
    pub(super) recent_after: Option<Date>,
    pub(super) disable_formatting: bool,
    pub(super) marks_unverified: bool,
    pub(super) sources: Vec<SourceSpec>,
    /// Settings of a report that a provider's own model writes; `None` for the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) relay: Option<RelayOrder>,
    pub(super) accepted_at: Timestamp,
}

/// Payload data that job records show.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Head {
    /// Base URL of the gateway, as the caller addressed it.
    pub(super) origin: String,
    /// Mode of the caller's key: `live` or `test`.
    pub(super) mode: String,
    /// Offset of the account's test clock at acceptance.
    pub(super) ahead: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// Settings of a request to `/v1/responses`; `None` for requests to other endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) response: Option<ResponseSettings>,
}

/// Settings of a request to `/v1/responses`, which its response object repeats.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ResponseSettings {
    /// The request body without its input.
    pub(super) body: Map<String, Value>,
    pub(super) is_background: bool,
}

impl Payload {
    /// Returns the question: the last message.
    pub(super) fn question(&self) -> &str {
        self.messages.last().map_or("", |message| &message.text)
    }

    /// Returns the messages before the question, as text.
    pub(super) fn conversation(&self) -> String {
        let earlier = self.messages.split_last().map_or(&[][..], |(_, earlier)| earlier);
        let earlier = earlier
            .iter()
            .map(|message| format!("{}: {}", message.role.as_str(), message.text));
        earlier.collect::<Vec<_>>().join("\n\n")
    }
}

/// Outcome of a step with its usage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StepOutcome<T> {
    pub(super) usage: Usage,
    /// Target that served the call; empty if none did.
    pub(super) target: String,
    /// Names of the backends that answered, for a search.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) backends: Vec<String>,
    pub(super) value: T,
}

impl<T> StepOutcome<T> {
    /// Returns the usage of the call.
    pub(super) fn spent(&self) -> Spent {
        Spent {
            usage: self.usage,
            target: self.target.clone(),
            backends: self.backends.clone(),
        }
    }
}

/// Hits of one query.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct QueryHits {
    pub(super) query: String,
    /// Hits of each backend that answered, best first.
    pub(super) rankings: Vec<Vec<Hit>>,
    /// Names of these backends.
    pub(super) answered: Vec<String>,
    /// Names of the backends that failed.
    pub(super) failed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hit {
    pub(super) url: String,
    pub(super) title: String,
    pub(super) date: Option<Date>,
    /// Name of the backend that returned the hit.
    pub(super) backend: String,
    /// Whether the backend returns the document. Otherwise, the document is a web page.
    pub(super) is_readable: bool,
    /// Whether the backend has applied the date filters to the hit.
    pub(super) is_date_filtered: bool,
    /// Beginning of the document's text, if the backend returned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// Result of reading a page: a stored source, or the reason why there is none.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PageRead {
    Stored(Box<Source>),
    /// The page could not be read.
    Skipped(String),
    /// The page has no text, or a filter of the request excludes it.
    Excluded(String),
}

/// A stored source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    /// Number of the source in the report, from 1.
    pub(super) number: u32,
    pub(super) kind: String,
    pub(super) url: String,
    pub(super) final_url: String,
    pub(super) title: String,
    pub(super) author: Option<String>,
    pub(super) date: Option<Date>,
    pub(super) retrieved_at: Timestamp,
    pub(super) sha256: String,
    /// Length of the text in code points.
    pub(super) characters: u64,
    pub(super) simhash: u64,
    pub(super) media: MediaId,
    pub(super) flags: Vec<String>,
    /// Whether queries to public backends must not be derived from the text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_private: bool,
}

/// A verified note: the quote is at `start..end` of the source's text, in code points.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// Number of the source.
    pub(super) source: u32,
    /// Publication date of the source, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) date: Option<Date>,
    pub(super) claim: String,
    pub(super) quote: String,
    pub(super) start: u64,
    pub(super) end: u64,
    /// `exact`, `normalized` or `fuzzy`.
    pub(super) matched: String,
}
