//! Serper, results of Google (serper.dev).

use serde_json::{Value, json};
use tollgate_upstream::{Recency, UpstreamError, UpstreamErrorKind};

use super::ask::{Ask, Limits, american};
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest};
use crate::http::BaseUrl;

pub(super) const KIND: SearchKind = SearchKind {
    name: "serper",
    base_url: Some("https://google.serper.dev"),
    key_variable: Some("SERPER_API_KEY"),
    path: "/search",
    auth: Auth::Header("x-api-key"),
    request,
    hits,
    refine,
};

/// Maximum number of results. More cost a second credit.
const MAX_RESULTS: u32 = 10;
/// Limits of a Google query.
const LIMITS: Limits = Limits {
    max_chars: 2_000,
    max_words: 32,
    has_paths: true,
};

const FIELDS: Fields = Fields {
    list: "/organic",
    url: "link",
    title: "title",
    snippets: &["snippet"],
    date: "date",
    text: "",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let mut body = json!({
        "q": ask.with_sites(&ask.query.text, &LIMITS),
        "num": ask.max_hits(MAX_RESULTS),
    });
    if let Some(language) = ask.language() {
        body["hl"] = json!(match language.as_str() {
            "zh" if ["hant", "tw", "hk", "mo"].iter().any(|tag| ask.has_subtag(tag)) => "zh-tw",
            "zh" => "zh-cn",
            other => other,
        });
    }
    if let Some(region) = ask.region() {
        body["gl"] = json!(region);
    }
    if let Some(period) = period(ask) {
        body["tbs"] = json!(period);
    }
    WireRequest {
        call: Call::Post(body),
        filters_date: true,
    }
}

fn period(ask: &Ask<'_>) -> Option<String> {
    if let Some(recency) = ask.only_recency() {
        let code = match recency {
            Recency::Hour => "h",
            Recency::Day => "d",
            Recency::Week => "w",
            Recency::Month => "m",
            Recency::Year => "y",
        };
        return Some(format!("qdr:{code}"));
    }
    if ask.is_undated() {
        return None;
    }
    let earliest = ask.earliest().map(|date| format!(",cd_min:{}", american(date)));
    let latest = ask.latest().map(|date| format!(",cd_max:{}", american(date)));
    Some(format!(
        "cdr:1{}{}",
        earliest.unwrap_or_default(),
        latest.unwrap_or_default()
    ))
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    match listed(body, &FIELDS) {
        Some(found) => Ok(found),
        None if body.get("searchParameters").is_some() => Ok(Vec::new()),
        None => Err(UpstreamError::protocol("the response has no array `organic`")),
    }
}

/// Corrects the error of an account without credits, which has status 400.
fn refine(mut error: UpstreamError, body: &[u8]) -> UpstreamError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = body.get("message").and_then(Value::as_str).unwrap_or_default();
    if message.contains("credits") {
        error.kind = UpstreamErrorKind::Credentials;
        error.detail = "the account has no credits".to_owned();
    }
    error
}
