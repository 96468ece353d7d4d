//! The public contract of failure: what went wrong, for whom it is written, and whether to try again.

use std::fmt;
use std::time::Duration;

/// A boxed cause. It goes to the log, never to a caller.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A failure as a caller sees it. `message` says what to do and names no provider.
pub struct Error {
    /// What went wrong.
    pub code: ErrorCode,
    /// For the caller.
    pub message: String,
    /// Path of the offending parameter, dotted with indexes: `messages[2].content[0].text`.
    pub param: Option<String>,
    /// Whether and when to try again.
    pub retry: Retry,
    source: Option<Cause>,
}

impl Error {
    /// A failure with the code's usual advice on retrying.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            retry: code.default_retry(),
            source: None,
        }
    }

    /// A fault of ours. The detail goes to the log only.
    #[track_caller]
    pub fn internal(cause: impl Into<Cause>) -> Self {
        let place = std::panic::Location::caller();
        let message = "The gateway failed to handle the request. Retry with backoff; if it persists, contact support with the request id.";
        let cause: Cause = format!("{} (at {}:{})", cause.into(), place.file(), place.line()).into();
        Self::new(ErrorCode::InternalError, message).with_source(cause)
    }

    /// The same failure with the path of the parameter at fault.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// The same failure with a cause for the log.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Cause>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The same failure with other advice on retrying.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{self} (param {:?}, {:?}, source {:?})",
            self.param, self.retry, self.source
        )
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|cause| &**cause as _)
    }
}

/// Whether the same request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It will fail again.
    Never,
    /// Nothing was done; try again with backoff.
    Safe,
    /// Nothing was done; try again after this long.
    After(Duration),
    /// It may have been carried out.
    Unknown,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// One variant for each public error code. Status and `type` of each: the edge's one table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// The code on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $text,)*
                }
            }
        }
    };
}

error_codes! {
    /// The body is not JSON.
    InvalidJson => "invalid_json",
    /// A required parameter is missing.
    MissingRequiredParameter => "missing_required_parameter",
    /// A parameter has the wrong type or lies outside the bounds of the format.
    InvalidParameter => "invalid_parameter",
    /// A parameter that the format does not know.
    UnknownParameter => "unknown_parameter",
    /// A parameter that the model or the gateway does not support.
    UnsupportedParameter => "unsupported_parameter",
    /// The model does not serve this endpoint.
    UnsupportedEndpoint => "unsupported_endpoint",
    /// The prompt was blocked before generation.
    ContentPolicyViolation => "content_policy_violation",
    /// The input does not fit into the model's context.
    ContextLengthExceeded => "context_length_exceeded",
    /// No key was supplied.
    MissingApiKey => "missing_api_key",
    /// The key is malformed, inactive, expired or not found.
    InvalidApiKey => "invalid_api_key",
    /// The account cannot cover the request.
    InsufficientCredits => "insufficient_credits",
    /// The role may not do this.
    PermissionDenied => "permission_denied",
    /// There is no such resource, or it is another account's.
    NotFound => "not_found",
    /// There is no such model.
    ModelNotFound => "model_not_found",
    /// The path exists with other methods.
    MethodNotAllowed => "method_not_allowed",
    /// The request did not arrive in time.
    RequestTimeout => "request_timeout",
    /// The body is larger than the route allows.
    RequestTooLarge => "request_too_large",
    /// The content type or encoding is not accepted.
    UnsupportedMediaType => "unsupported_media_type",
    /// The resource is in a state that does not allow this.
    Conflict => "conflict",
    /// A request with this idempotency key is still running.
    IdempotencyInProgress => "idempotency_in_progress",
    /// The output is past its retention.
    Gone => "gone",
    /// Inside the format's bounds but beyond this model.
    ParameterOutOfRange => "parameter_out_of_range",
    /// The output was blocked after generation.
    OutputBlocked => "output_blocked",
    /// The account has its full number of GPUs.
    GpuLimitExceeded => "gpu_limit_exceeded",
    /// The account has its full number of hosted agents.
    AgentLimitReached => "agent_limit_reached",
    /// The account has its full number of keys.
    KeyLimitReached => "key_limit_reached",
    /// The idempotency key was used with another body.
    IdempotencyKeyReused => "idempotency_key_reused",
    /// Requests or tokens per minute are used up.
    RateLimitExceeded => "rate_limit_exceeded",
    /// A fault of the gateway.
    InternalError => "internal_error",
    /// The model provider returned an error.
    UpstreamError => "upstream_error",
    /// The model provider did not answer in time.
    UpstreamTimeout => "upstream_timeout",
    /// No worker of the model can be reached.
    ModelUnavailable => "model_unavailable",
    /// The gateway is at its capacity.
    Overloaded => "overloaded",
}

impl ErrorCode {
    /// What a caller should do when nothing more is known.
    pub const fn default_retry(self) -> Retry {
        match self {
            ErrorCode::RateLimitExceeded
            | ErrorCode::RequestTimeout
            | ErrorCode::ModelUnavailable
            | ErrorCode::Overloaded
            | ErrorCode::IdempotencyInProgress => Retry::Safe,
            ErrorCode::InternalError | ErrorCode::UpstreamError | ErrorCode::UpstreamTimeout => {
                Retry::Unknown
            }
            _ => Retry::Never,
        }
    }

    /// The code with this text.
    pub fn parse(text: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}
