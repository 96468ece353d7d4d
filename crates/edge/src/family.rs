//! What is particular to the paths of one family of clients: the shape of failures, and more headers of limits.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tollgate_formats::anthropic_messages;
use tollgate_storage::Decision;
use tollgate_types::{Error, Timestamp};

use crate::context::{Notes, RequestContext};
use crate::error::{ErrorBody, Logged, error_type, status_and_type};
use crate::values::Values;

const MESSAGES: &str = "/v1/messages";
const FILES: &str = "/v1/files";
/// What clients of messages send with every request.
const MESSAGES_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// The paths of generated content; the first one is also the catalog's.
const GENERATE_CONTENT: [&str; 2] = ["/v1/models", "/v1beta"];
/// Everybody's path, at which their clients ask, too.
const DECISIONS: &str = "/v1/decisions";

/// The header with the key in the family of generated content.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
/// What its official clients send with every request.
const CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");

/// Whose clients a request comes from, as far as its answer depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The service's own way, which is OpenAI's.
    Common,
    /// Messages, by the path; for files, which two families have at one path, by a header that only its clients send.
    Messages,
    /// Generated content, by the path and what only its clients send.
    GenerateContent,
}

impl Family {
    /// The family of a request.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let path = uri.path();
        let speaks_messages = || headers.contains_key(MESSAGES_VERSION);
        if is_below(path, MESSAGES) || (is_below(path, FILES) && speaks_messages()) {
            return Family::Messages;
        }
        let has_sign = headers.contains_key(KEY) || headers.contains_key(CLIENT);
        match is_generate_content(path) && (has_sign || key_in_query(uri).is_some()) {
            true => Family::GenerateContent,
            false => Family::Common,
        }
    }

    /// The body of a failure within an answer that is being streamed.
    pub fn error_body(self, error: &Error, request_id: &str) -> Vec<u8> {
        let status = status_and_type(error.code).0.as_u16();
        match self {
            Family::Messages => anthropic_messages::encode_error(error, status, request_id),
            Family::GenerateContent => {
                tollgate_formats::gemini::encode_error(error, status, error_type(error.code), request_id)
            }
            Family::Common => serde_json::to_vec(&ErrorBody::from(error)).unwrap_or_default(),
        }
    }
}

/// The key where only the clients of generated content put it: in a header of its own, on the paths that they use, else
/// in the query, where no other client asks.
pub(crate) fn key_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a [u8]> {
    let header = headers.get(KEY).filter(|_| is_generate_content(uri.path()));
    let in_query = || key_in_query(uri).map(str::as_bytes);
    header.map(HeaderValue::as_bytes).or_else(in_query)
}

/// The key in the query. The lists under `/v1` are everybody's, and take none.
fn key_in_query(uri: &Uri) -> Option<&str> {
    let path = uri.path();
    let [shared, own] = GENERATE_CONTENT;
    let asks_something = path.contains(':') || path.contains("%3A") || path.contains("%3a");
    let takes_it = is_below(path, own) || (is_below(path, shared) && asks_something);
    let query = uri.query().filter(|_| takes_it)?;
    query.split('&').find_map(|pair| pair.strip_prefix("key="))
}

fn is_generate_content(path: &str) -> bool {
    path == DECISIONS || GENERATE_CONTENT.iter().any(|root| is_below(path, root))
}

const REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-requests-limit"),
    HeaderName::from_static("anthropic-ratelimit-requests-remaining"),
    HeaderName::from_static("anthropic-ratelimit-requests-reset"),
];
const TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-ratelimit-tokens-limit"),
    HeaderName::from_static("anthropic-ratelimit-tokens-remaining"),
    HeaderName::from_static("anthropic-ratelimit-tokens-reset"),
];

/// Gives an answer the dress of its path's family.
pub(crate) fn dress(ctx: &RequestContext, notes: &Notes, values: &mut Values, response: &mut Response) {
    if ctx.family == Family::Common {
        return;
    }
    let headers = response.headers_mut();
    let is_messages = ctx.family == Family::Messages;
    for (names, decision) in [(&REQUESTS, notes.requests), (&TOKENS, notes.tokens)] {
        if let Some(decision) = decision.filter(|_| is_messages) {
            insert(headers, values, names, decision, ctx.accepted_at);
        }
    }
    let Some(Logged(error)) = response.extensions().get::<Logged>() else {
        return;
    };
    let body = ctx.family.error_body(error, &ctx.id.to_string());
    // The router has counted the body that was there.
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
}

/// The path and those below it.
fn is_below(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn insert(
    headers: &mut HeaderMap,
    values: &mut Values,
    names: &[HeaderName; 3],
    decision: Decision,
    now: Timestamp,
) {
    let [limit, remaining, reset] = names;
    values.insert(headers, limit, decision.limit);
    values.insert(headers, remaining, decision.remaining);
    // Whole seconds, rounded up: nobody comes back too early.
    let micros = now.plus(decision.reset).as_micros();
    let reset_at = Timestamp::from_micros(
        micros
            .saturating_add(999_999)
            .div_euclid(1_000_000)
            .saturating_mul(1_000_000),
    );
    values.insert(headers, reset, reset_at.to_rfc3339());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_told_by_path_and_sign() {
        for (uri, header, family) in [
            ("/v1/messages", None, Family::Messages),
            (
                "/v1/messages/count_tokens",
                Some("x-goog-api-key"),
                Family::Messages,
            ),
            ("/v1/files", None, Family::Common),
            ("/v1/files/x/content", Some("anthropic-version"), Family::Messages),
            ("/v1/filesx", Some("anthropic-version"), Family::Common),
            ("/v1/models", None, Family::Common),
            ("/v1/models", Some("x-goog-api-key"), Family::GenerateContent),
            (
                "/v1/models/a/b:generateContent",
                Some("x-goog-api-client"),
                Family::GenerateContent,
            ),
            ("/v1beta/models/b:generateContent", None, Family::Common),
            (
                "/v1beta/models/b:generateContent?alt=sse&key=k",
                None,
                Family::GenerateContent,
            ),
            ("/v1/modelsx", Some("x-goog-api-key"), Family::Common),
            ("/v1/models?key=k", None, Family::Common),
            ("/v1/decisions", Some("x-goog-api-key"), Family::GenerateContent),
            (
                "/v1beta/decisions",
                Some("x-goog-api-key"),
                Family::GenerateContent,
            ),
            ("/v1/decisions?key=k", None, Family::Common),
            (
                "/v1/chat/completions?key=k",
                Some("x-goog-api-key"),
                Family::Common,
            ),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let mut headers = HeaderMap::new();
            if let Some(name) = header {
                headers.insert(name, HeaderValue::from_static("x"));
            }
            assert_eq!(Family::of(&uri, &headers), family, "{uri} {header:?}");
        }
    }
}
