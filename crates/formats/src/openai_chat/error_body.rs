//! Error bodies of this format, ours and an upstream's.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;

use super::encode::to_bytes;
use crate::sse;

/// The body of a failed call: `{"error":{"message","type","code","param"}}`. `kind` is the `type` that goes with the
/// code.
pub fn encode_error(error: &Error, kind: &str) -> Vec<u8> {
    to_bytes(&json!({
        "error": {
            "message": error.message,
            "type": kind,
            "code": error.code.as_str(),
            "param": error.param,
        }
    }))
}

/// The event that says why a stream breaks off. Nothing follows it: a `[DONE]` would make the answer look whole.
pub fn encode_error_event(error: &Error, kind: &str) -> Bytes {
    sse::write_event(None, &encode_error(error, kind))
}

/// What an upstream says about its failure. It is for classification and for the log, never for a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReport {
    /// Its words, cut to [`MAX_ERROR_MESSAGE`] characters.
    pub message: String,
    /// `error.code`, also when it is a number.
    pub code: Option<String>,
    /// `error.type`.
    pub kind: Option<String>,
    /// `error.param`.
    pub param: Option<String>,
}

/// The most characters of an upstream's message that are kept.
pub const MAX_ERROR_MESSAGE: usize = 1_000;

/// Reads the error body, or the error event, of an upstream. There is always something to read: the usual object, an
/// error that is a mere string, the top-level `message` of vLLM, the `detail` of Python servers, or plain text.
pub fn read_error(body: &[u8]) -> ErrorReport {
    let Ok(value) = serde_json::from_slice::<Value>(body) else {
        let start = body.get(..4 * MAX_ERROR_MESSAGE).unwrap_or(body);
        return ErrorReport {
            message: cut(String::from_utf8_lossy(start).trim()),
            ..ErrorReport::default()
        };
    };
    let error = value
        .get("error")
        .filter(|error| !error.is_null())
        .unwrap_or(&value);
    let text_of = |key: &str| match error.get(key)? {
        Value::Null => None,
        Value::String(text) => Some(cut(text)),
        other => Some(cut(&other.to_string())),
    };
    let message = match error {
        Value::String(text) => Some(cut(text)),
        _ => text_of("message").or_else(|| text_of("detail")),
    };
    ErrorReport {
        message: message.unwrap_or_else(|| cut(&value.to_string())),
        code: text_of("code"),
        kind: text_of("type"),
        param: text_of("param"),
    }
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_ERROR_MESSAGE).collect()
}
