//! Errors about a request or a response that cannot be decoded. Parameter names are those of the
//! format.

use std::fmt;

use tollgate_types::{Error, ErrorCode};

/// Error type of the functions that read a body. It is boxed to limit the size of results on the
/// hot path.
pub(crate) type BoxedError = Box<DecodeError>;

/// Error about a request or a response that the format does not allow. Converts into the public
/// [`Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// `invalid_json`, `missing_required_parameter`, `invalid_parameter`, `unknown_parameter` or
    /// `unsupported_parameter`.
    pub code: ErrorCode,
    /// Path of the parameter, dotted with indexes: `messages[2].content[0].image_url.url`. For a
    /// header, its name. `None` for `invalid_json` and for errors about the body as a whole.
    pub param: Option<String>,
    /// Message for the caller: the problem and its solution. Messages about values that violate the
    /// rules of the format repeat no content of the body except truncated key names.
    pub message: String,
}

impl DecodeError {
    /// Creates the error for a body that is not JSON, or that exceeds the reader's limits.
    pub fn invalid_json(message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidJson,
            param: None,
            message: message.into(),
        }
    }

    /// Creates the error for a parameter whose type or value the format does not allow, alone or in
    /// combination with other parameters.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::InvalidParameter,
            param: Some(param.into()),
            message: message.into(),
        }
    }

    /// Creates the error for a missing required parameter.
    pub fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        Self {
            code: ErrorCode::MissingRequiredParameter,
            message: format!("Missing required parameter: '{param}'."),
            param: Some(param),
        }
    }

    /// Creates the error for a parameter that the format does not define.
    pub fn unknown(param: impl Into<String>) -> Self {
        let param = param.into();
        Self {
            code: ErrorCode::UnknownParameter,
            message: Error::unknown_parameter(&param).message,
            param: Some(param),
        }
    }
}

impl DecodeError {
    /// Creates the error for a parameter of the format that the gateway does not support. `why`
    /// continues the sentence that begins with the name of the parameter.
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

impl From<BoxedError> for DecodeError {
    fn from(error: BoxedError) -> Self {
        *error
    }
}
