//! What is particular to the paths of one family of clients: the shape of failures, and more headers of limits.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_formats::anthropic_messages;
use tollgate_storage::Decision;
use tollgate_types::Timestamp;

use crate::context::{Notes, RequestContext};
use crate::error::Logged;

const MESSAGES: &str = "/v1/messages";

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
pub(crate) fn dress(path: &str, ctx: &RequestContext, notes: &Notes, response: &mut Response) {
    if !is_messages(path) {
        return;
    }
    let headers = response.headers_mut();
    for (names, decision) in [(&REQUESTS, notes.requests), (&TOKENS, notes.tokens)] {
        if let Some(decision) = decision {
            insert(headers, names, decision, ctx.accepted_at);
        }
    }
    let status = response.status().as_u16();
    let Some(Logged(error)) = response.extensions().get::<Logged>() else {
        return;
    };
    let body = anthropic_messages::encode_error(error, status, &ctx.id.to_string());
    // The router has counted the body that was there.
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
}

/// The path and those below it.
fn is_messages(path: &str) -> bool {
    let rest = path.strip_prefix(MESSAGES);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn insert(headers: &mut HeaderMap, names: &[HeaderName; 3], decision: Decision, now: Timestamp) {
    let [limit, remaining, reset] = names;
    headers.insert(limit.clone(), HeaderValue::from(decision.limit));
    headers.insert(remaining.clone(), HeaderValue::from(decision.remaining));
    // Whole seconds, rounded up: nobody comes back too early.
    let micros = now.plus(decision.reset).as_micros();
    let reset_at = Timestamp::from_micros(
        micros
            .saturating_add(999_999)
            .div_euclid(1_000_000)
            .saturating_mul(1_000_000),
    );
    if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(reset_at.to_rfc3339())) {
        headers.insert(reset.clone(), value);
    }
}
