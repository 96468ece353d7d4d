//! Error bodies of this format.

use bytes::Bytes;
use serde_json::json;
use tollgate_types::{Error, ErrorCode};

use super::wire::to_bytes;
use crate::sse;

/// The `type` of an error in this format, by its status; the official clients have a class for each.
pub const fn error_kind(status: u16, code: ErrorCode) -> &'static str {
    match (status, code) {
        (401, _) => "authentication_error",
        (402, _) => "billing_error",
        (403, _) => "permission_error",
        (404 | 410, _) => "not_found_error",
        (409, _) => "conflict_error",
        (429, _) => "rate_limit_error",
        (503, _) => "overloaded_error",
        (504, _) => "timeout_error",
        (500.., _) => "api_error",
        _ => "invalid_request_error",
    }
}

/// The body of a failed call: this format's, with `code` and `param` besides.
pub fn encode_error(error: &Error, status: u16, request_id: &str) -> Vec<u8> {
    let mut body = json!({
        "type": "error",
        "error": {
            "type": error_kind(status, error.code),
            "message": error.message,
            "code": error.code.as_str(),
            "param": error.param,
        },
        "request_id": request_id,
    });
    if error.code == ErrorCode::UnsupportedParameter && error.param.as_deref() == Some("thread") {
        // The tool runners of the official clients read this and send the whole conversation from then on.
        body["error"]["details"] =
            json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    }
    to_bytes(&body)
}

/// The event that says why a stream breaks off. Nothing follows it.
pub fn encode_error_event(error: &Error, status: u16, request_id: &str) -> Bytes {
    sse::write_event(Some(b"error"), &encode_error(error, status, request_id))
}
