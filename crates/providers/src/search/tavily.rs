//! Tavily (docs.tavily.com, Search).

use serde_json::{Value, json};
use tollgate_upstream::{Recency, UpstreamError, UpstreamErrorKind};

use super::ask::Ask;
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest};
use crate::http::BaseUrl;

pub(super) const KIND: SearchKind = SearchKind {
    name: "tavily",
    base_url: Some("https://api.tavily.com"),
    key_variable: Some("TAVILY_API_KEY"),
    path: "/search",
    auth: Auth::Bearer,
    request,
    hits,
    refine,
};

/// Maximum number of results.
const MAX_RESULTS: u32 = 20;

const FIELDS: Fields = Fields {
    list: "/results",
    url: "url",
    title: "title",
    snippets: &["content"],
    date: "published_date",
    text: "raw_content",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let mut body = json!({
        "query": ask.query.text,
        "max_results": ask.max_hits(MAX_RESULTS),
        "include_raw_content": "text",
    });
    let (include, exclude) = (ask.included_hosts(), ask.excluded_hosts());
    if !include.is_empty() {
        body["include_domains"] = json!(include);
    }
    if !exclude.is_empty() {
        body["exclude_domains"] = json!(exclude);
    }
    if let Some(recency) = ask.only_recency() {
        let shortest = if recency == Recency::Hour {
            Recency::Day
        } else {
            recency
        };
        body["time_range"] = json!(shortest.as_str());
    } else {
        if let Some(date) = ask.earliest() {
            body["start_date"] = json!(date);
        }
        if let Some(date) = ask.latest() {
            body["end_date"] = json!(date);
        }
    }
    WireRequest {
        call: Call::Post(body),
        filters_date: true,
    }
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    listed(body, &FIELDS).ok_or_else(|| UpstreamError::protocol("the response has no array `results`"))
}

/// Corrects the errors of exceeded plans and payment limits, which have their own statuses.
fn refine(mut error: UpstreamError, _: &[u8]) -> UpstreamError {
    if matches!(error.status, Some(432 | 433)) {
        error.kind = UpstreamErrorKind::Credentials;
        error.detail = "the plan's limit of searches is exceeded".to_owned();
    }
    error
}
