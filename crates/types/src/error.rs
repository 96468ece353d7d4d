//! Public errors: code, message for the caller, and retry advice.

use std::fmt;
use std::time::Duration;

/// A boxed cause. Only logs and operator messages contain it; responses to callers never do.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// An error with its code, its message for the caller and its retry advice. The message states how
/// to correct the request, and names no provider.
pub struct Error {
    pub code: ErrorCode,
    /// Text for the caller.
    pub message: String,
    /// Path of the invalid parameter, dotted with indexes: `messages[2].content[0].text`.
    pub param: Option<String>,
    /// Whether and when the caller may retry.
    pub retry: Retry,
    source: Option<Cause>,
}

impl Error {
    /// Creates an error with the code's default retry advice.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            param: None,
            retry: code.default_retry(),
            source: None,
        }
    }

    /// Creates the error for a parameter that the operation does not define.
    pub fn unknown_parameter(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("Unknown parameter '{param}'. Check the spelling or remove it.");
        Self::new(ErrorCode::UnknownParameter, message).with_param(param)
    }

    /// Creates an `internal_error` for a fault of the gateway. Only the log contains the cause.
    #[track_caller]
    pub fn internal(cause: impl Into<Cause>) -> Self {
        let place = std::panic::Location::caller();
        let message = "The gateway failed to handle the request. Retry with backoff; if it persists, contact support with the request id.";
        let cause = InternalCause {
            cause: cause.into(),
            place,
        };
        Self::new(ErrorCode::InternalError, message).with_source(cause)
    }

    /// Returns the message for an operator. For an internal error, the message is the cause without
    /// its source location; otherwise the caller's message, with the cause in parentheses if there
    /// is one.
    pub fn operator_message(&self) -> String {
        match &self.source {
            None => self.message.clone(),
            Some(source) => match source.downcast_ref::<InternalCause>() {
                Some(internal) => internal.cause.to_string(),
                None if self.code == ErrorCode::InternalError => source.to_string(),
                None => format!("{} ({source})", self.message),
            },
        }
    }

    /// Sets the path of the invalid parameter.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets the cause for the log.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Cause>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Sets the retry advice.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }
}

/// Cause of an internal error, with the source location that created the error.
#[derive(Debug)]
struct InternalCause {
    cause: Cause,
    place: &'static std::panic::Location<'static>,
}

impl fmt::Display for InternalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, place } = self;
        write!(f, "{cause} (at {}:{})", place.file(), place.line())
    }
}

impl std::error::Error for InternalCause {}

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

/// Whether the caller may retry the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No: the request will fail again.
    Never,
    /// Yes, with backoff: nothing was executed.
    Safe,
    /// Yes, after this duration: nothing was executed.
    After(Duration),
    /// Unknown: the request may have been executed.
    Unknown,
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $variant:ident => $text:literal,)*) => {
        /// Public error codes. The edge crate has the table of their HTTP statuses and types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$doc])* $variant,)*
        }

        impl ErrorCode {
            /// All codes, in the order of their definition.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// Returns the code used on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ErrorCode::$variant => $text,)*
                }
            }
        }
    };
}

error_codes! {
    /// The body is incomplete or not valid JSON.
    InvalidJson => "invalid_json",
    /// The request lacks a required parameter.
    MissingRequiredParameter => "missing_required_parameter",
    /// A parameter has the wrong type or is outside the limits of the format.
    InvalidParameter => "invalid_parameter",
    /// The format does not define this parameter.
    UnknownParameter => "unknown_parameter",
    /// The model or the gateway does not support this parameter.
    UnsupportedParameter => "unsupported_parameter",
    /// The model does not serve this endpoint.
    UnsupportedEndpoint => "unsupported_endpoint",
    /// The prompt was blocked before generation.
    ContentPolicyViolation => "content_policy_violation",
    /// The input does not fit into the model's context.
    ContextLengthExceeded => "context_length_exceeded",
    /// The request has no API key.
    MissingApiKey => "missing_api_key",
    /// The API key is malformed, inactive, expired or unknown.
    InvalidApiKey => "invalid_api_key",
    /// The request of the console has no valid session.
    InvalidSession => "invalid_session",
    /// The account's credits do not cover the request.
    InsufficientCredits => "insufficient_credits",
    /// The caller's role does not permit this operation.
    PermissionDenied => "permission_denied",
    /// The resource does not exist, or belongs to another account.
    NotFound => "not_found",
    /// The model does not exist.
    ModelNotFound => "model_not_found",
    /// The path exists, but not with this method.
    MethodNotAllowed => "method_not_allowed",
    /// The request body did not arrive in time.
    RequestTimeout => "request_timeout",
    /// The body, an uploaded file, the URI or the headers exceed the maximum size.
    RequestTooLarge => "request_too_large",
    /// The content type or encoding is not accepted.
    UnsupportedMediaType => "unsupported_media_type",
    /// The state of the resource does not allow this operation.
    Conflict => "conflict",
    /// A request with this idempotency key is still running.
    IdempotencyInProgress => "idempotency_in_progress",
    /// The output has passed its retention period.
    Gone => "gone",
    /// The value is valid in the format, but outside the range that this model supports.
    ParameterOutOfRange => "parameter_out_of_range",
    /// The output was blocked after generation.
    OutputBlocked => "output_blocked",
    /// The account has reached its maximum number of GPUs.
    GpuLimitExceeded => "gpu_limit_exceeded",
    /// The account has reached its maximum number of hosted agents.
    AgentLimitReached => "agent_limit_reached",
    /// The account has reached its maximum number of keys.
    KeyLimitReached => "key_limit_reached",
    /// The account has reached its maximum number of saved chats.
    ChatLimitReached => "chat_limit_reached",
    /// The idempotency key was used for a different request.
    IdempotencyKeyReused => "idempotency_key_reused",
    /// The limit of requests or tokens per minute, or of open sessions, is reached.
    RateLimitExceeded => "rate_limit_exceeded",
    /// The gateway itself failed.
    InternalError => "internal_error",
    /// The model provider returned an error.
    UpstreamError => "upstream_error",
    /// The model provider did not respond in time.
    UpstreamTimeout => "upstream_timeout",
    /// No deployment of the model is reachable.
    ModelUnavailable => "model_unavailable",
    /// The gateway has reached its capacity.
    Overloaded => "overloaded",
}

impl ErrorCode {
    /// Returns the retry advice for errors without more specific advice.
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

    /// Parses a code as used on the wire.
    pub fn parse(text: &str) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}
