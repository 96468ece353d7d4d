//! Perplexity Search API (docs.perplexity.ai, Search).

use serde_json::{Value, json};
use tollgate_upstream::UpstreamError;

use super::ask::{Ask, american};
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest, unchanged};
use crate::http::BaseUrl;

pub(super) const KIND: SearchKind = SearchKind {
    name: "perplexity",
    base_url: Some("https://api.perplexity.ai"),
    key_variable: Some("PERPLEXITY_API_KEY"),
    path: "/search",
    auth: Auth::Bearer,
    request,
    hits,
    refine: unchanged,
};

/// Maximum number of results.
const MAX_RESULTS: u32 = 20;
/// Maximum number of sites in a filter.
const MAX_SITES: usize = 20;

const FIELDS: Fields = Fields {
    list: "/results",
    url: "url",
    title: "title",
    snippets: &["snippet"],
    date: "date",
    text: "",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let mut body = json!({
        "query": ask.query.text,
        "max_results": ask.max_hits(MAX_RESULTS),
    });
    // A filter contains either sites to search or excluded sites.
    let mut sites = ask.included_hosts();
    if sites.is_empty() {
        let excluded = ask.excluded_hosts().into_iter();
        sites = excluded.map(|host| format!("-{host}")).collect();
    }
    sites.truncate(MAX_SITES);
    if !sites.is_empty() {
        body["search_domain_filter"] = json!(sites);
    }
    // A recency and dates exclude each other.
    if let Some(recency) = ask.only_recency() {
        body["search_recency_filter"] = json!(recency.as_str());
    } else {
        if let Some(date) = ask.earliest() {
            body["search_after_date_filter"] = json!(american(date));
        }
        if let Some(date) = ask.latest() {
            body["search_before_date_filter"] = json!(american(date));
        }
    }
    if let Some(language) = ask.language().filter(|language| language.len() == 2) {
        body["search_language_filter"] = json!([language]);
    }
    WireRequest {
        call: Call::Post(body),
        filters_date: true,
    }
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    listed(body, &FIELDS).ok_or_else(|| UpstreamError::protocol("the response has no array `results`"))
}
