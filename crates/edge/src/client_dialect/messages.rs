//! Error bodies of the Messages format.

use serde_json::json;
use tollgate_types::{Error, ErrorCode};

/// Returns the `type` of an error in this format. The official clients have an error class for
/// each.
const fn error_kind(status: u16, code: ErrorCode) -> &'static str {
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

/// Returns the body of a failed call in this format, with `code` and `param` added.
pub(super) fn error_body(error: &Error, status: u16, request_id: &str) -> Vec<u8> {
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
        // The tool runners of the official clients recognize this error and resend the whole
        // conversation.
        body["error"]["details"] =
            json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    }
    body.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn errors_have_the_members_of_both_contracts() {
        let error = Error::new(ErrorCode::RateLimitExceeded, "Slow down.");
        let body: Value = serde_json::from_slice(&error_body(&error, 429, "req_1")).unwrap();
        let inner = json!({"type": "rate_limit_error", "message": "Slow down.", "code": "rate_limit_exceeded", "param": null});
        assert_eq!(
            body,
            json!({"type": "error", "error": inner, "request_id": "req_1"})
        );
    }

    #[test]
    fn thread_error_asks_clients_for_the_conversation() {
        let details = |code, param: &str| {
            let error = Error::new(code, "No.").with_param(param);
            let body: Value = serde_json::from_slice(&error_body(&error, 400, "req_1")).unwrap();
            body["error"].get("details").cloned()
        };
        let expected = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
        assert_eq!(details(ErrorCode::UnsupportedParameter, "thread"), Some(expected));
        assert_eq!(details(ErrorCode::UnknownParameter, "thread"), None);
        assert_eq!(details(ErrorCode::UnsupportedParameter, "speed"), None);
    }
}
