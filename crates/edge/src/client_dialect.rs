//! Differences between client dialects: the format of errors, and additional rate-limit headers.

mod action;
mod generate_content;
mod messages;

use axum::body::Body;
use axum::response::Response;
use http::header::{CONTENT_LENGTH, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tollgate_storage::Decision;
use tollgate_types::{Error, Timestamp};

pub use action::Action;

use crate::context::{Notes, RequestContext};
use crate::error::{ErrorBody, Logged, error_type, status_and_type};
use crate::header_values::HeaderValues;

const MESSAGES: &str = "/v1/messages";
const FILES: &str = "/v1/files";
/// Header of every request from Messages clients.
const MESSAGES_VERSION: HeaderName = HeaderName::from_static("anthropic-version");
/// Path prefixes of generateContent clients. The catalog also uses the first one.
const GENERATE_CONTENT: [&str; 2] = ["/v1/models", "/v1beta"];
/// Path of realtime sessions.
const REALTIME: &str = "/v1/realtime";
/// Prefix of the subprotocol that contains the key of a browser client.
const KEY_SUBPROTOCOL: &[u8] = b"openai-insecure-api-key.";
/// Path shared by all client dialects.
const DECISIONS: &str = "/v1/decisions";

/// Header with the key in the generateContent dialect.
pub(crate) const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");
/// Header of every request from Google's official clients.
const CLIENT: HeaderName = HeaderName::from_static("x-goog-api-client");

/// Client dialect of a request. It selects the format of errors and the rate-limit headers of the
/// response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientDialect {
    /// The gateway's own format, which is OpenAI's.
    Common,
    /// Messages format, recognized by the path. Requests for files have the same path in two
    /// dialects; the header `anthropic-version` distinguishes them.
    Messages,
    /// generateContent format, recognized by the path together with a header or query key that only
    /// its clients send.
    GenerateContent,
}

impl ClientDialect {
    /// Returns the dialect of a request.
    pub(crate) fn of(uri: &Uri, headers: &HeaderMap) -> Self {
        let path = uri.path();
        let has_messages_header = || headers.contains_key(MESSAGES_VERSION);
        if is_below(path, MESSAGES) || (is_below(path, FILES) && has_messages_header()) {
            return ClientDialect::Messages;
        }
        let has_client_header = headers.contains_key(KEY) || headers.contains_key(CLIENT);
        match is_generate_content(path) && (has_client_header || key_in_query(uri).is_some()) {
            true => ClientDialect::GenerateContent,
            false => ClientDialect::Common,
        }
    }

    /// Returns the error body in this dialect, for a failed request or an error inside a stream.
    pub fn error_body(self, error: &Error, request_id: &str) -> Vec<u8> {
        let status = status_and_type(error.code).0.as_u16();
        match self {
            ClientDialect::Messages => messages::error_body(error, status, request_id),
            ClientDialect::GenerateContent => {
                generate_content::error_body(error, status, error_type(error.code), request_id)
            }
            ClientDialect::Common => serde_json::to_vec(&ErrorBody::from(error)).unwrap_or_default(),
        }
    }
}

/// Returns the key that clients of some dialects send elsewhere. Browser clients of realtime
/// sessions send it as a subprotocol. generateContent clients send it in their header, on the paths
/// of the dialect, or in the query, on paths that no other client uses.
pub(crate) fn key_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a [u8]> {
    if uri.path() == REALTIME {
        return subprotocol_key(headers);
    }
    let header = headers.get(KEY).filter(|_| is_generate_content(uri.path()));
    let in_query = || key_in_query(uri).map(str::as_bytes);
    header.map(HeaderValue::as_bytes).or_else(in_query)
}

/// Returns the key in the subprotocols that a WebSocket client offers.
pub(crate) fn subprotocol_key(headers: &HeaderMap) -> Option<&[u8]> {
    let offers = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter();
    let mut offers = offers.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    offers.find_map(|offer| offer.trim_ascii().strip_prefix(KEY_SUBPROTOCOL))
}

/// Returns the key in the query. All dialects share the list paths under `/v1`, which accept no key
/// in the query.
fn key_in_query(uri: &Uri) -> Option<&str> {
    let path = uri.path();
    let [shared, own] = GENERATE_CONTENT;
    let has_action = path.contains(':') || path.contains("%3A") || path.contains("%3a");
    let accepts_key = is_below(path, own) || names_model(path) || (is_below(path, shared) && has_action);
    let query = uri.query().filter(|_| accepts_key)?;
    query.split('&').find_map(|pair| pair.strip_prefix("key="))
}

fn is_generate_content(path: &str) -> bool {
    path == DECISIONS || names_model(path) || GENERATE_CONTENT.iter().any(|root| is_below(path, root))
}

/// Whether the path has the form `/v1/vendor/name:action`.
fn names_model(path: &str) -> bool {
    path.starts_with("/v1/") && Action::of(&path.replace("%3A", ":").replace("%3a", ":")).is_some()
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

/// Adds the rate-limit headers of the request's dialect to a response, and converts the body of a
/// failed request to that dialect.
pub(crate) fn apply_dialect(
    ctx: &RequestContext,
    notes: &Notes,
    values: &mut HeaderValues,
    response: &mut Response,
) {
    if ctx.dialect == ClientDialect::Common {
        return;
    }
    let headers = response.headers_mut();
    let is_messages = ctx.dialect == ClientDialect::Messages;
    for (names, decision) in [(&REQUESTS, notes.requests), (&TOKENS, notes.tokens)] {
        if let Some(decision) = decision.filter(|_| is_messages) {
            insert(headers, values, names, decision, ctx.accepted_at);
        }
    }
    let Some(Logged(error)) = response.extensions().get::<Logged>() else {
        return;
    };
    let body = ctx.dialect.error_body(error, &ctx.id.to_string());
    // The router set the length of the previous body.
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
}

/// Whether `path` equals `root` or is below it.
fn is_below(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn insert(
    headers: &mut HeaderMap,
    values: &mut HeaderValues,
    names: &[HeaderName; 3],
    decision: Decision,
    now: Timestamp,
) {
    let [limit, remaining, reset] = names;
    values.insert(headers, limit, decision.limit);
    values.insert(headers, remaining, decision.remaining);
    // Rounded up to whole seconds, so that clients do not retry too early.
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
    fn dialects_are_recognized_by_path_and_header() {
        for (uri, header, dialect) in [
            ("/v1/messages", None, ClientDialect::Messages),
            (
                "/v1/messages/count_tokens",
                Some("x-goog-api-key"),
                ClientDialect::Messages,
            ),
            ("/v1/files", None, ClientDialect::Common),
            (
                "/v1/files/x/content",
                Some("anthropic-version"),
                ClientDialect::Messages,
            ),
            ("/v1/filesx", Some("anthropic-version"), ClientDialect::Common),
            ("/v1/models", None, ClientDialect::Common),
            (
                "/v1/models",
                Some("x-goog-api-key"),
                ClientDialect::GenerateContent,
            ),
            (
                "/v1/models/a/b:generateContent",
                Some("x-goog-api-client"),
                ClientDialect::GenerateContent,
            ),
            ("/v1beta/models/b:generateContent", None, ClientDialect::Common),
            (
                "/v1/a/b:generateContent?key=k",
                None,
                ClientDialect::GenerateContent,
            ),
            ("/v1/a/b:generateContent", None, ClientDialect::Common),
            ("/v1/a/b:other?key=k", None, ClientDialect::Common),
            (
                "/v1beta/models/b:generateContent?alt=sse&key=k",
                None,
                ClientDialect::GenerateContent,
            ),
            ("/v1/modelsx", Some("x-goog-api-key"), ClientDialect::Common),
            ("/v1/models?key=k", None, ClientDialect::Common),
            (
                "/v1/decisions",
                Some("x-goog-api-key"),
                ClientDialect::GenerateContent,
            ),
            (
                "/v1beta/decisions",
                Some("x-goog-api-key"),
                ClientDialect::GenerateContent,
            ),
            ("/v1/decisions?key=k", None, ClientDialect::Common),
            (
                "/v1/chat/completions?key=k",
                Some("x-goog-api-key"),
                ClientDialect::Common,
            ),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let mut headers = HeaderMap::new();
            if let Some(name) = header {
                headers.insert(name, HeaderValue::from_static("x"));
            }
            assert_eq!(ClientDialect::of(&uri, &headers), dialect, "{uri} {header:?}");
        }
    }
}
