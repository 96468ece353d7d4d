//! Error bodies of this format: encoding of the gateway's errors, and decoding of an upstream's.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;

use super::encode::to_bytes;
use crate::sse;

/// Encodes the body of a failed call: `{"error":{"message","type","code","param"}}`. `kind` is the
/// `type` that belongs to the code.
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

/// Encodes the event that reports why a stream is aborted. It is the last event: a `[DONE]` would
/// make the response look complete.
pub fn encode_error_event(error: &Error, kind: &str) -> Bytes {
    sse::write_event(None, &encode_error(error, kind))
}

/// Error report of an upstream, for classification and for the log. Callers must never receive it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorReport {
    /// Message of the upstream, truncated to [`MAX_ERROR_MESSAGE`] characters.
    pub message: String,
    /// Value of `error.code`; a number is converted to text.
    pub code: Option<String>,
    /// Value of `error.type`; a number is converted to text.
    pub kind: Option<String>,
    /// Value of `error.param`; a number is converted to text.
    pub param: Option<String>,
}

/// Maximum number of characters of each text in an [`ErrorReport`].
pub const MAX_ERROR_MESSAGE: usize = 1_000;

/// Reads an upstream's error body or error event. Never fails. Accepts the usual object, an error
/// that is a string, the top-level `message` of vLLM, the `detail` of Python servers, and plain
/// text. For any other JSON, the message is the whole body.
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
