//! Exa (docs.exa.ai, Search).

use serde_json::{Value, json};
use tollgate_upstream::UpstreamError;

use super::ask::Ask;
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest, unchanged};
use crate::http::BaseUrl;

pub(super) const KIND: SearchKind = SearchKind {
    name: "exa",
    base_url: Some("https://api.exa.ai"),
    key_variable: Some("EXA_API_KEY"),
    path: "/search",
    auth: Auth::Header("x-api-key"),
    request,
    hits,
    refine: unchanged,
};

/// Maximum number of results. More cost extra.
const MAX_RESULTS: u32 = 25;
/// Maximum length of the text of a page, in characters.
const MAX_TEXT_CHARS: u32 = 20_000;

const FIELDS: Fields = Fields {
    list: "/results",
    url: "url",
    title: "title",
    snippets: &["highlights"],
    date: "publishedDate",
    text: "text",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let mut body = json!({
        "query": ask.query.text,
        "numResults": ask.max_hits(MAX_RESULTS),
        "contents": {"text": {"maxCharacters": MAX_TEXT_CHARS}, "highlights": true},
    });
    let (include, exclude) = (ask.included_hosts(), ask.excluded_hosts());
    if !include.is_empty() {
        body["includeDomains"] = json!(include);
    } else if !exclude.is_empty() {
        body["excludeDomains"] = json!(exclude);
    }
    if let Some(date) = ask.earliest() {
        body["startPublishedDate"] = json!(format!("{date}T00:00:00.000Z"));
    }
    if let Some(date) = ask.latest() {
        body["endPublishedDate"] = json!(format!("{date}T23:59:59.999Z"));
    }
    WireRequest {
        call: Call::Post(body),
        filters_date: true,
    }
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    listed(body, &FIELDS).ok_or_else(|| UpstreamError::protocol("the response has no array `results`"))
}
