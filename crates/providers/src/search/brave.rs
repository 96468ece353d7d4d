//! Brave Search API (api-dashboard.search.brave.com, Web Search).

use serde_json::Value;
use tollgate_upstream::{Recency, UpstreamError, UpstreamErrorKind};

use super::ask::{Ask, Limits};
use super::hits::{Fields, Found, listed};
use super::{Auth, Call, SearchKind, WireRequest};
use crate::http::BaseUrl;

pub(super) const KIND: SearchKind = SearchKind {
    name: "brave",
    base_url: Some("https://api.search.brave.com/res/v1"),
    key_variable: Some("BRAVE_API_KEY"),
    path: "/web/search",
    auth: Auth::Header("x-subscription-token"),
    request,
    hits,
    refine,
};

/// Maximum number of results of a page.
const MAX_COUNT: u32 = 20;
/// Limits of the parameter `q`.
const LIMITS: Limits = Limits {
    max_chars: 400,
    max_words: 50,
    has_paths: false,
};
/// Start of a range without an earliest date.
const FIRST_DAY: &str = "1970-01-01";
/// Values of `search_lang` that equal the language of the tag.
const LANGUAGES: &[&str] = &[
    "ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "eu", "fi", "fr", "gl", "gu", "he",
    "hi", "hr", "hu", "is", "it", "kn", "ko", "lt", "lv", "ml", "mr", "ms", "nb", "nl", "pa", "pl", "ro",
    "ru", "sk", "sl", "sr", "sv", "ta", "te", "th", "tr", "uk", "vi",
];

const FIELDS: Fields = Fields {
    list: "/web/results",
    url: "url",
    title: "title",
    snippets: &["description", "extra_snippets"],
    date: "page_age",
    text: "",
};

fn request(ask: &Ask<'_>) -> WireRequest {
    let mut parameters = vec![
        ("q", ask.with_sites(&ask.query.text, &LIMITS)),
        ("count", ask.max_hits(MAX_COUNT).to_string()),
        ("text_decorations", "false".to_owned()),
        ("result_filter", "web".to_owned()),
        ("extra_snippets", "true".to_owned()),
    ];
    parameters.extend(freshness(ask).map(|value| ("freshness", value)));
    parameters.extend(language(ask).map(|value| ("search_lang", value)));
    WireRequest {
        call: Call::Get(parameters),
        filters_date: true,
    }
}

fn freshness(ask: &Ask<'_>) -> Option<String> {
    if let Some(recency) = ask.only_recency() {
        let code = match recency {
            Recency::Hour | Recency::Day => "pd",
            Recency::Week => "pw",
            Recency::Month => "pm",
            Recency::Year => "py",
        };
        return Some(code.to_owned());
    }
    if ask.is_undated() {
        return None;
    }
    let from = ask
        .earliest()
        .map_or_else(|| FIRST_DAY.to_owned(), |date| date.to_string());
    Some(format!("{from}to{}", ask.latest().unwrap_or(ask.today)))
}

fn language(ask: &Ask<'_>) -> Option<String> {
    let language = ask.language()?;
    let code = match language.as_str() {
        "ja" => "jp",
        "no" => "nb",
        "pt" if ask.has_subtag("pt") => "pt-pt",
        "pt" => "pt-br",
        "zh" if ["hant", "tw", "hk", "mo"].iter().any(|tag| ask.has_subtag(tag)) => "zh-hant",
        "zh" => "zh-hans",
        other => *LANGUAGES.iter().find(|known| **known == other)?,
    };
    Some(code.to_owned())
}

fn hits(body: &Value, _: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    match listed(body, &FIELDS) {
        Some(found) => Ok(found),
        // A response without web results has no `web`.
        None if body.get("type").is_some_and(|kind| kind == "search") => Ok(Vec::new()),
        None => Err(UpstreamError::protocol(
            "the response is not a search result of Brave",
        )),
    }
}

/// Corrects the error of a wrong key, which has status 422, as invalid parameters have.
fn refine(mut error: UpstreamError, body: &[u8]) -> UpstreamError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = body.pointer("/error/code").and_then(Value::as_str);
    if code == Some("SUBSCRIPTION_TOKEN_INVALID") {
        error.kind = UpstreamErrorKind::Credentials;
    }
    error
}
