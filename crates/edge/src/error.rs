//! Maps [`ErrorCode`] to HTTP: one table of statuses and types, and one response body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use tollgate_types::{Error, ErrorCode, Retry};
use utoipa::ToSchema;

/// Error as an HTTP response.
#[derive(Debug)]
pub struct ApiError(pub Error);

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

/// Error of a failed request, stored in the response's extensions for the log.
#[derive(Clone)]
pub(crate) struct Logged(pub(crate) Arc<Error>);

/// Returns the HTTP status and the `type` of a code. This is the only table of statuses and types.
pub const fn status_and_type(code: ErrorCode) -> (StatusCode, &'static str) {
    use ErrorCode as Code;
    match code {
        Code::InvalidJson
        | Code::MissingRequiredParameter
        | Code::InvalidParameter
        | Code::UnknownParameter
        | Code::UnsupportedParameter
        | Code::UnsupportedEndpoint
        | Code::ContentPolicyViolation
        | Code::ContextLengthExceeded => (StatusCode::BAD_REQUEST, "invalid_request_error"),
        Code::MissingApiKey | Code::InvalidApiKey | Code::InvalidSession => {
            (StatusCode::UNAUTHORIZED, "authentication_error")
        }
        Code::InsufficientCredits => (StatusCode::PAYMENT_REQUIRED, "billing_error"),
        Code::PermissionDenied => (StatusCode::FORBIDDEN, "permission_error"),
        Code::NotFound | Code::ModelNotFound => (StatusCode::NOT_FOUND, "not_found_error"),
        Code::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error"),
        Code::RequestTimeout => (StatusCode::REQUEST_TIMEOUT, "invalid_request_error"),
        Code::RequestTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error"),
        Code::UnsupportedMediaType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error"),
        Code::Conflict | Code::IdempotencyInProgress => (StatusCode::CONFLICT, "conflict_error"),
        Code::Gone => (StatusCode::GONE, "not_found_error"),
        Code::ParameterOutOfRange
        | Code::OutputBlocked
        | Code::GpuLimitExceeded
        | Code::AgentLimitReached
        | Code::KeyLimitReached
        | Code::ChatLimitReached
        | Code::IdempotencyKeyReused => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request_error"),
        Code::RateLimitExceeded => (StatusCode::TOO_MANY_REQUESTS, "rate_limit_error"),
        Code::InternalError => (StatusCode::INTERNAL_SERVER_ERROR, "server_error"),
        Code::UpstreamError => (StatusCode::BAD_GATEWAY, "upstream_error"),
        Code::UpstreamTimeout => (StatusCode::GATEWAY_TIMEOUT, "upstream_error"),
        Code::ModelUnavailable | Code::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "server_error"),
    }
}

/// Returns the `type` of a code.
pub const fn error_type(code: ErrorCode) -> &'static str {
    status_and_type(code).1
}

/// Response body of a failed request.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// Type, code, message and parameter of the error.
    pub error: ErrorObject,
}

/// Error of a failed request or job.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorObject {
    /// Human-readable description: what is wrong and what to do.
    pub message: String,
    /// Category of the error, such as `invalid_request_error`.
    pub r#type: String,
    /// Error code, such as `invalid_parameter`. docs/errors has a page for each code.
    pub code: String,
    /// Path of the invalid parameter; null if the error does not concern a parameter.
    pub param: Option<String>,
}

impl From<&Error> for ErrorBody {
    fn from(error: &Error) -> Self {
        let error = ErrorObject {
            message: error.message.clone(),
            r#type: error_type(error.code).to_owned(),
            code: error.code.as_str().to_owned(),
            param: error.param.clone(),
        };
        Self { error }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let error = self.0;
        let (status, _) = status_and_type(error.code);
        let body = serde_json::to_vec(&ErrorBody::from(&error)).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        retry_headers(headers, &error);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(Logged(Arc::new(error)));
        response
    }
}

/// Inserts `retry-after` (in whole seconds) and `retry-after-ms` if a retry is safe, and
/// `x-should-retry: false` if a retry would fail. The official SDKs obey these headers.
fn retry_headers(headers: &mut HeaderMap, error: &Error) {
    let wait = match error.retry {
        Retry::After(wait) => Some(wait),
        Retry::Safe => Some(Duration::from_secs(1)),
        Retry::Never | Retry::Unknown => None,
    };
    if let Some(wait) = wait {
        let millis = u64::try_from(wait.as_micros().div_ceil(1000))
            .unwrap_or(u64::MAX)
            .max(1);
        headers.insert(RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
        headers.insert("retry-after-ms", HeaderValue::from(millis));
    }
    if error.retry == Retry::Never {
        headers.insert("x-should-retry", HeaderValue::from_static("false"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_rounded_up_and_never_zero() {
        for (micros, seconds, millis) in [
            (1, "1", "1"),
            (1_000_001, "2", "1001"),
            (60_000_000, "60", "60000"),
        ] {
            let retry = Retry::After(Duration::from_micros(micros));
            let error = Error::new(ErrorCode::RateLimitExceeded, "slow down").with_retry(retry);
            let response = ApiError(error).into_response();
            assert_eq!(response.headers()["retry-after"], seconds);
            assert_eq!(response.headers()["retry-after-ms"], millis);
        }
    }

    /// RFC 9110, section 11.6.1, requires a challenge in every 401 response.
    #[test]
    fn a_401_says_how_to_authenticate() {
        for (code, expected) in [
            (ErrorCode::MissingApiKey, Some("Bearer")),
            (ErrorCode::InvalidApiKey, Some("Bearer")),
            (ErrorCode::PermissionDenied, None),
        ] {
            let response = ApiError(Error::new(code, "no")).into_response();
            let shown = response.headers().get("www-authenticate");
            assert_eq!(shown.map(|value| value.to_str().unwrap()), expected, "{code:?}");
        }
    }

    #[test]
    fn permanent_errors_are_marked_as_not_retryable() {
        for code in ErrorCode::ALL {
            let response = ApiError(Error::new(*code, "no")).into_response();
            let headers = response.headers();
            let never = code.default_retry() == Retry::Never;
            let says = headers.get("x-should-retry").map(HeaderValue::as_bytes);
            assert_eq!(says, never.then_some(b"false".as_slice()), "{code:?}");
            assert!(!(never && headers.contains_key("retry-after")), "{code:?}");
        }
        let safe = [ErrorCode::Conflict, ErrorCode::InsufficientCredits];
        assert!(safe.iter().all(|code| code.default_retry() == Retry::Never));
    }
}
