//! How a call to an upstream fails, and what that says about trying again.

use std::fmt;
use std::time::Duration;

use tollgate_types::{ErrorCode, Retry};

/// Where the failure arose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamCause {
    /// No connection: no byte of the request was sent.
    Connect,
    /// The upstream answered with an error status.
    Status,
    /// The connection broke, or the answer was not what the protocol allows.
    Protocol,
    /// The upstream was silent for too long.
    Timeout,
}

/// What it means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamErrorKind {
    /// The upstream is broken, overloaded or unreachable: another candidate may do better.
    Unavailable,
    /// The upstream refuses the operator's credentials.
    Credentials,
    /// The upstream's own rate limit.
    RateLimited,
    /// The upstream refuses the request itself: every candidate would.
    Rejected,
    /// The upstream refuses the content of the prompt.
    ContentBlocked,
    /// The input does not fit into the model's context.
    ContextLength,
    /// The prompt asked the simulator for exactly this error. It says nothing about anybody's health, and `detail` is
    /// written for the caller.
    Simulated(ErrorCode),
}

/// A failed call.
#[derive(Clone, Debug)]
pub struct UpstreamError {
    /// What it means.
    pub kind: UpstreamErrorKind,
    /// Where it arose.
    pub cause: UpstreamCause,
    /// The status, when there was one.
    pub status: Option<u16>,
    /// How long the upstream asks to wait.
    pub retry_after: Option<Duration>,
    /// Whether the same bytes may be sent again.
    pub retry: Retry,
    /// The upstream's own words, for the log only; cut to a bounded length, without prompt text.
    pub detail: String,
    /// The parameter that the upstream names, when it rejects the request.
    pub param: Option<String>,
}

impl UpstreamError {
    /// A failure that is not a status.
    pub fn new(kind: UpstreamErrorKind, cause: UpstreamCause, detail: impl Into<String>) -> Self {
        let retry = match cause {
            UpstreamCause::Connect => Retry::Safe,
            _ => Retry::Unknown,
        };
        Self {
            kind,
            cause,
            status: None,
            retry_after: None,
            retry,
            detail: detail.into(),
            param: None,
        }
    }

    /// No connection could be made.
    pub fn connect(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Connect, detail)
    }

    /// The connection broke or the answer made no sense.
    pub fn protocol(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Protocol, detail)
    }

    /// The upstream was silent for too long.
    pub fn timeout(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Timeout, detail)
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({:?}", self.kind, self.cause)?;
        if let Some(status) = self.status {
            write!(f, " {status}")?;
        }
        write!(f, "): {}", self.detail)
    }
}

impl std::error::Error for UpstreamError {}
