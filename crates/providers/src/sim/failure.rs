//! Errors that were asked for.

use std::time::Duration;

use tollgate_types::ErrorCode;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

/// How long to wait, where an error says so.
const WAIT: Duration = Duration::from_secs(1);

/// The error of this code, with a text for the caller.
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

/// The error of this code, because the prompt wants it.
pub(super) fn asked_for(code: ErrorCode) -> UpstreamError {
    simulated(code, format!("The prompt asked for the error {}.", code.as_str()))
}
