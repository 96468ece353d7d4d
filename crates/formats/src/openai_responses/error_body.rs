//! Error events of a stream. Error bodies are those of chat completions.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::Error;

use super::stream::encode_event;

/// Returns the event that reports why a stream is aborted, without its number. The event has the
/// error fields twice, because some clients read those next to `type` and others those in `error`.
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

/// Encodes the events that report why a relayed stream is aborted. `started_response` is the
/// response object from the start of the stream, `sequence` the number of the next event. No other
/// event follows: a regular end would make the response look complete.
pub fn encode_failure(started_response: Option<&Bytes>, sequence: u64, error: &Error, kind: &str) -> Bytes {
    let mut event = error_event(error, kind);
    event["sequence_number"] = json!(sequence);
    let mut out = encode_event(&event).to_vec();
    let response =
        started_response.and_then(|started_response| serde_json::from_slice::<Value>(started_response).ok());
    if let Some(mut response) = response.filter(Value::is_object) {
        response["status"] = json!("failed");
        response["error"] = failure(error);
        let event = json!({
            "type": "response.failed",
            "response": response,
            "sequence_number": sequence.saturating_add(1),
        });
        out.extend_from_slice(&encode_event(&event));
    }
    Bytes::from(out)
}

/// Returns the `error` object of a failed response.
pub(super) fn failure(error: &Error) -> Value {
    json!({"code": error.code.as_str(), "message": error.message})
}
