//! Error bodies of this format: `google.rpc.Status` in JSON.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;

use super::wire::to_bytes;
use crate::sse;

/// Whose the reasons in `details` are.
const DOMAIN: &str = "tollgate";

/// The word for a status of HTTP (google.rpc.Code; wire facts, status map).
pub const fn error_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        403 => "PERMISSION_DENIED",
        404 | 410 => "NOT_FOUND",
        409 => "ABORTED",
        422 => "FAILED_PRECONDITION",
        500 => "INTERNAL",
        502 | 503 => "UNAVAILABLE",
        408 | 504 => "DEADLINE_EXCEEDED",
        501 | 505.. => "UNKNOWN",
        _ => "INVALID_ARGUMENT",
    }
}

/// The body of a failed call: this format's, in which `code` is the status. The code of the service is the reason among
/// the details; `type` and `param` stand beside.
pub fn encode_error(error: &Error, status: u16, kind: &str, request_id: &str) -> Vec<u8> {
    to_bytes(&object(error, status, kind, request_id))
}

/// The event that says why a stream breaks off. Nothing follows it.
pub fn encode_error_event(error: &Error, status: u16, kind: &str, request_id: &str) -> Bytes {
    sse::write_event(None, &encode_error(error, status, kind, request_id))
}

fn object(error: &Error, status: u16, kind: &str, request_id: &str) -> Value {
    let mut details = vec![
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": error.code.as_str(),
            "domain": DOMAIN,
        }),
        json!({"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": request_id}),
    ];
    if let Some(param) = &error.param {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": param, "description": error.message}],
        }));
    }
    json!({"error": {
        "code": status,
        "message": error.message,
        "status": error_status(status),
        "type": kind,
        "param": error.param,
        "details": details,
    }})
}
