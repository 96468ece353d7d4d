//! Errors of upstream calls, and whether they can be retried.

use std::fmt;
use std::time::Duration;

use tollgate_types::{ErrorCode, Retry, Usage};

/// Stage of the call at which the failure occurred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamCause {
    /// No byte of the request was sent, usually because no connection could be established.
    Connect,
    /// The upstream responded with an error status.
    Status,
    /// The connection broke, or the response violates the protocol.
    Protocol,
    /// The upstream did not respond in time.
    Timeout,
}

/// Meaning of the failure for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamErrorKind {
    /// The upstream is broken, overloaded or unreachable; try another candidate.
    Unavailable,
    /// The upstream rejects the operator's credentials.
    Credentials,
    /// The upstream's rate limit was exceeded.
    RateLimited,
    /// The upstream rejects the request itself; every candidate would reject it.
    Rejected,
    /// The upstream ignores the parameter `param`, on which the response depends; another candidate
    /// may support it.
    Unsupported,
    /// The upstream blocks the content of the prompt.
    ContentBlocked,
    /// The input does not fit into the model's context.
    ContextLength,
    /// The simulator returned this error, usually because the prompt requested it. The error does
    /// not count towards health, and its `detail` is written for the caller.
    Simulated(ErrorCode),
}

/// Policy for the text of upstream errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorText {
    /// Neither logged nor passed on.
    #[default]
    Hide,
    /// Logged, but not passed on to callers.
    Log,
    /// Logged and passed on to callers.
    Pass,
}

/// Text of an upstream error, as far as [`ErrorText`] allows its use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct UpstreamText {
    /// The text, with keys and control characters removed and of bounded length; `None` if hidden.
    pub text: Option<String>,
    /// Whether the text is passed on to callers.
    pub passes: bool,
    /// Numbers in the text, such as the size of the context window.
    pub numbers: Vec<u64>,
}

/// Omits the text: an error message may quote the prompt.
impl fmt::Debug for UpstreamText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Said")
            .field("has_text", &self.text.is_some())
            .field("passes", &self.passes)
            .finish_non_exhaustive()
    }
}

/// A part of a request that the gateway can change or remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectedPart {
    /// The output cap exceeds the model's limit.
    OutputCap,
    /// The server does not support `stream_options`.
    StreamOptions,
}

/// Error of an upstream call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamError {
    /// Meaning of the failure for the caller.
    pub kind: UpstreamErrorKind,
    /// Stage of the call at which the failure occurred.
    pub cause: UpstreamCause,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// Wait before a retry, as requested by the upstream.
    pub retry_after: Option<Duration>,
    /// Retry policy: whether and when the same request may be sent again.
    pub retry: Retry,
    /// Details for the log, of bounded length and without prompt text. For
    /// [`UpstreamErrorKind::Simulated`], the message for the caller.
    pub detail: String,
    /// The rejected parameter, if the upstream names it.
    pub param: Option<String>,
    /// Text of the upstream's error response.
    pub upstream_text: Option<Box<UpstreamText>>,
    /// The output cap that the gateway added, if the upstream may have rejected it.
    pub added_cap: Option<u64>,
    /// The rejected part of the request, if the gateway can send the request without it.
    pub rejected: Option<RejectedPart>,
    /// Whether the upstream responded with its own error object under status 500, which shows that
    /// it is running.
    pub is_reported: bool,
    /// Usage that the upstream reported for the failed call.
    pub reported: Option<Box<Usage>>,
}

impl UpstreamError {
    /// Creates an error without an HTTP status.
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
            upstream_text: None,
            added_cap: None,
            rejected: None,
            is_reported: false,
            reported: None,
        }
    }

    /// Returns the same error with the usage that the upstream reported.
    #[must_use]
    pub fn reporting(self, reported: Option<Usage>) -> Self {
        Self {
            reported: reported.map(Box::new),
            ..self
        }
    }

    /// Returns the upstream's text, if it may be passed on to callers.
    pub fn passed_text(&self) -> Option<&str> {
        let upstream_text = self
            .upstream_text
            .as_ref()
            .filter(|upstream_text| upstream_text.passes)?;
        upstream_text.text.as_deref()
    }

    /// Creates an error for a request before its first byte was sent, such as when no connection
    /// could be established.
    pub fn connect(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Connect, detail)
    }

    /// Creates an error for a broken connection or a malformed response.
    pub fn protocol(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Protocol, detail)
    }

    /// Creates an error for an upstream that did not respond in time.
    pub fn timeout(detail: impl Into<String>) -> Self {
        Self::new(UpstreamErrorKind::Unavailable, UpstreamCause::Timeout, detail)
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, self.cause) {
            (Some(status), _) => write!(f, "HTTP {status}: ")?,
            (None, UpstreamCause::Connect) => write!(f, "cannot connect: ")?,
            (None, UpstreamCause::Timeout) => write!(f, "timeout: ")?,
            (None, _) => {}
        }
        f.write_str(&self.detail)?;
        if let Some(text) = self
            .upstream_text
            .as_ref()
            .and_then(|upstream_text| upstream_text.text.as_deref())
        {
            write!(f, " text={text:?}")?;
        }
        if let Some(cap) = self.added_cap {
            write!(f, " (the gateway had added the output cap {cap})")?;
        }
        Ok(())
    }
}

impl std::error::Error for UpstreamError {}
