//! Error bodies of this format: those of chat completions, and what says in a stream that it has failed.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;

use super::stream::written;

/// The event that says why a stream breaks off, without its number. One family of clients reads the fields beside the
/// type, another one those within `error`.
pub(super) fn error_event(error: &Error, kind: &str) -> Value {
    json!({
        "type": "error",
        "code": error.code.as_str(),
        "message": error.message,
        "param": error.param,
        "error": {
            "type": kind,
            "code": error.code.as_str(),
            "message": error.message,
            "param": error.param,
        },
    })
}

/// The events that say why a stream of an upstream's own events breaks off. `begun` is the response as it was when it
/// began, `sequence` the number of the next event. Nothing follows: another end would make the answer look whole.
pub fn encode_failure(begun: Option<&Bytes>, sequence: u64, error: &Error, kind: &str) -> Bytes {
    let mut event = error_event(error, kind);
    event["sequence_number"] = json!(sequence);
    let mut out = written(&event).to_vec();
    let response = begun.and_then(|begun| serde_json::from_slice::<Value>(begun).ok());
    if let Some(mut response) = response.filter(Value::is_object) {
        response["status"] = json!("failed");
        response["error"] = failure(error);
        let event = json!({
            "type": "response.failed",
            "response": response,
            "sequence_number": sequence.saturating_add(1),
        });
        out.extend_from_slice(&written(&event));
    }
    Bytes::from(out)
}

/// Why a response failed, as it says itself.
pub(super) fn failure(error: &Error) -> Value {
    json!({"code": error.code.as_str(), "message": error.message})
}
