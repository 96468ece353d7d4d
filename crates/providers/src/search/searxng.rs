//! SearXNG, a search server that asks other search engines (docs.searxng.org, Search API).

use serde_json::Value;
use tollgate_upstream::{Recency, UpstreamError, UpstreamErrorKind};

use super::ask::{Ask, Limits};
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest};
use crate::http::BaseUrl;
use crate::refusal;

pub(super) const KIND: SearchKind = SearchKind {
    name: "searxng",
    base_url: None,
    key_variable: None,
    path: "/search",
    auth: Auth::Bearer,
    request,
    hits,
    refine,
};

/// Limits of a query that the engines behind the server accept.
const LIMITS: Limits = Limits {
    max_chars: 400,
    max_words: 32,
    has_paths: false,
};
/// Characters that begin a command of the server instead of a word: engines, languages, timeouts.
const COMMANDS: [char; 4] = ['!', '?', ':', '<'];
/// Maximum number of engines in an error message.
const MAX_NAMED_ENGINES: usize = 8;

const FIELDS: Fields = Fields {
    list: "/results",
    url: "url",
    title: "title",
    snippets: &["content"],
    date: "publishedDate",
    text: "",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let words = ask.query.text.split_whitespace();
    let words: Vec<&str> = words
        .map(|word| word.trim_start_matches(COMMANDS))
        .filter(|word| !word.is_empty())
        .collect();
    let mut parameters = vec![
        ("q", ask.with_sites(&words.join(" "), &LIMITS)),
        ("format", "json".to_owned()),
        ("pageno", "1".to_owned()),
    ];
    let (range, filters_date) = time_range(ask);
    parameters.extend(range.map(|range| ("time_range", range.to_owned())));
    parameters.extend(ask.language().map(|language| ("language", language)));
    WireRequest {
        call: Call::Get(parameters),
        filters_date,
    }
}

/// Returns the shortest range that contains the dates of the query, and whether it is the same. The
/// server has no weeks in all versions, and no dates.
fn time_range(ask: &Ask<'_>) -> (Option<&'static str>, bool) {
    match ask.only_recency() {
        Some(Recency::Hour | Recency::Day) => return (Some("day"), true),
        Some(Recency::Week) => return (Some("month"), false),
        Some(Recency::Month) => return (Some("month"), true),
        Some(Recency::Year) => return (Some("year"), true),
        None => {}
    }
    let ranges = [("day", 0), ("month", 27), ("year", 364)];
    let shortest = ask.earliest().and_then(|earliest| {
        let contains = |(_, days): &(&str, u32)| earliest >= ask.today.minus_days(*days);
        ranges.into_iter().find(contains)
    });
    (shortest.map(|(name, _)| name), false)
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    let found = listed(body, &FIELDS)
        .ok_or_else(|| UpstreamError::protocol("the response has no array `results`"))?;
    let unresponsive = body.get("unresponsive_engines").and_then(Value::as_array);
    match unresponsive.filter(|engines| found.is_empty() && !engines.is_empty()) {
        Some(engines) => Err(UpstreamError::protocol(format!(
            "no search engine of the server answered: {}",
            names(engines)
        ))),
        None => Ok(found),
    }
}

/// Returns the names of engines, from pairs of a name and a reason.
fn names(engines: &[Value]) -> String {
    let name = |engine: &Value| {
        let name = engine.get(0).or(Some(engine))?.as_str()?;
        refusal::word(&name.replace(' ', "_"))
    };
    let names: Vec<String> = engines.iter().filter_map(name).take(MAX_NAMED_ENGINES).collect();
    names.join(", ")
}

fn refine(mut error: UpstreamError, _: &[u8]) -> UpstreamError {
    if error.status == Some(403) {
        error.kind = UpstreamErrorKind::Unavailable;
        error.detail =
            "the server does not offer JSON: add `json` to `search.formats` in its settings.yml".to_owned();
    }
    error
}
