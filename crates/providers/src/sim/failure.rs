//! Simulated errors, with messages for the caller.

use std::time::Duration;

use tollgate_types::ErrorCode;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

/// Retry delay of errors that can be retried.
const WAIT: Duration = Duration::from_secs(1);

/// Returns the error of this code, with a message for the caller.
pub(super) fn simulated(code: ErrorCode, message: impl Into<String>) -> UpstreamError {
    let cause = match code {
        ErrorCode::UpstreamTimeout => UpstreamCause::Timeout,
        _ => UpstreamCause::Status,
    };
    let retry = code.default_retry();
    UpstreamError {
        retry,
        retry_after: (retry == tollgate_types::Retry::Safe).then_some(WAIT),
        ..UpstreamError::new(UpstreamErrorKind::Simulated(code), cause, message)
    }
}

/// Returns the error of this code, with the message that the prompt requested it.
pub(super) fn requested(code: ErrorCode) -> UpstreamError {
    simulated(code, format!("The prompt requested the error {}.", code.as_str()))
}
