//! Wikis of MediaWiki, such as Wikipedia (mediawiki.org, API:Search).

use serde_json::Value;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::ask::Ask;
use super::hits::Found;
use super::{Auth, Call, SearchKind, WireRequest, unchanged};
use crate::http::{BaseUrl, escape};
use crate::refusal;

pub(super) const KIND: SearchKind = SearchKind {
    name: "mediawiki",
    base_url: None,
    key_variable: None,
    path: "/api.php",
    auth: Auth::Bearer,
    request,
    hits,
    refine: unchanged,
};

/// Maximum number of results for callers without an account at the wiki.
const MAX_RESULTS: u32 = 50;
/// Characters of a title that stay in its URL.
const TITLE_CHARS: &str = "/:@!$*(),;'";

fn request(ask: &Ask<'_>) -> WireRequest {
    let parameters = [
        ("action", "query"),
        ("list", "search"),
        ("srsearch", &ask.query.text),
        ("srlimit", &ask.max_hits(MAX_RESULTS).to_string()),
        ("srprop", "snippet|timestamp"),
        // The URLs of pages follow from the wiki's settings.
        ("meta", "siteinfo"),
        ("siprop", "general"),
        ("format", "json"),
        ("formatversion", "2"),
    ];
    WireRequest {
        call: Call::Get(parameters.map(|(name, value)| (name, value.to_owned())).into()),
        filters_date: false,
    }
}

fn hits(body: &Value, base: &BaseUrl) -> Result<Vec<Found>, UpstreamError> {
    if let Some(code) = body.pointer("/error/code").and_then(Value::as_str) {
        return Err(error(code));
    }
    let wrong = || UpstreamError::protocol("the response is not a search result of MediaWiki");
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let list = body.pointer("/query/search").and_then(Value::as_array);
    let server = text("/query/general/server").ok_or_else(wrong)?;
    let article_path = text("/query/general/articlepath").ok_or_else(wrong)?;
    // The server may have no scheme.
    let scheme = match (server.starts_with("//"), base.is_secure()) {
        (false, _) => "",
        (true, true) => "https:",
        (true, false) => "http:",
    };
    let found = list.ok_or_else(wrong)?.iter().filter_map(|result| {
        let field = |name: &str| Some(result.get(name)?.as_str()?.to_owned());
        let title = field("title")?;
        let path = article_path.replace("$1", &escape(&title.replace(' ', "_"), TITLE_CHARS));
        Some(Found {
            url: format!("{scheme}{server}{path}"),
            title,
            snippet: field("snippet").unwrap_or_default(),
            date: field("timestamp"),
            text: None,
        })
    });
    Ok(found.collect())
}

/// Converts the code of an error, which has status 200.
fn error(code: &str) -> UpstreamError {
    let kind = match code {
        "ratelimited" | "maxlag" => UpstreamErrorKind::RateLimited,
        "readapidenied" | "permissiondenied" | "mwoauth-invalid-authorization" => {
            UpstreamErrorKind::Credentials
        }
        _ => UpstreamErrorKind::Unavailable,
    };
    let code = refusal::word(code).unwrap_or_default();
    UpstreamError::new(kind, UpstreamCause::Status, format!("code={code}"))
}
