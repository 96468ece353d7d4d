//! Error bodies of the generateContent format: `google.rpc.Status` in JSON.

use serde_json::json;
use tollgate_types::Error;

/// Domain of the reasons in `details`.
const DOMAIN: &str = "tollgate";

/// Returns the name in `google.rpc.Code` for an HTTP status.
const fn error_status(status: u16) -> &'static str {
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

/// Returns the body of a failed call in this format; the field `code` is the HTTP status. The
/// gateway's error code is the reason in `details`; `type` and `param` are added.
pub(super) fn error_body(error: &Error, status: u16, kind: &str, request_id: &str) -> Vec<u8> {
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
    let body = json!({"error": {
        "code": status,
        "message": error.message,
        "status": error_status(status),
        "type": kind,
        "param": error.param,
        "details": details,
    }});
    body.to_string().into_bytes()
}
