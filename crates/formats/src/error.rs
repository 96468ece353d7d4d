//! What is wrong with a caller's body, in the caller's terms.

use std::fmt;

use tollgate_types::{Error, ErrorCode};

/// The error while a body is read: boxed, so that the results of the hot path are small.
pub(crate) type Flaw = Box<DecodeError>;

/// A body that a format refuses. It converts into the public [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// `invalid_json`, `missing_required_parameter`, `invalid_parameter`, `unknown_parameter` or
    /// `unsupported_parameter`.
    pub code: ErrorCode,
    /// Path of the parameter at fault, dotted with indexes: `messages[2].content[0].image_url.url`. `None` when the
    /// text is not JSON at all.
    pub param: Option<String>,
    /// For the caller: what is wrong and what to send instead. Of the body it repeats only names of keys, cut short.
    pub message: String,
}

impl DecodeError {
    /// A text that is not JSON, or is beyond what is read as JSON.
    pub fn invalid_json(message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidJson,
            param: None,
            message: message.into(),
        }
    }

    /// A parameter of the wrong type or outside the bounds of the format.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidParameter,
            param: Some(param.into()),
            message: message.into(),
        }
    }

    /// A required parameter that is not there.
    pub fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        Self {
            code: ErrorCode::MissingRequiredParameter,
            message: format!("Missing required parameter: '{param}'."),
            param: Some(param),
        }
    }

    /// A parameter that the format does not know.
    pub fn unknown(param: impl Into<String>) -> Self {
        let param = param.into();
        Self {
            code: ErrorCode::UnknownParameter,
            message: format!("Unknown parameter: '{param}'. Remove it or correct its name."),
            param: Some(param),
        }
    }
}

impl DecodeError {
    /// A parameter of the format that the gateway does not serve. `why` continues the sentence that begins with its
    /// name.
    pub fn unsupported(param: impl Into<String>, why: impl fmt::Display) -> Self {
        let param = param.into();
        Self {
            code: ErrorCode::UnsupportedParameter,
            message: format!("'{param}' {why}."),
            param: Some(param),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)
    }
}

impl std::error::Error for DecodeError {}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        let public = Error::new(error.code, error.message);
        match error.param {
            Some(param) => public.with_param(param),
            None => public,
        }
    }
}

impl From<Flaw> for DecodeError {
    fn from(flaw: Flaw) -> Self {
        *flaw
    }
}
