//! Encoding of the response object and of its output items.

use serde_json::{Map, Value, json};
use tollgate_types::generate::{FinishReason, Reasoning, ToolCall};

use super::decode::HIDDEN_PREFIX;
use super::echo::Echo;
use super::identity::Identity;
use crate::reasoning_envelope;

/// Status of a response, and the fields that depend on the status.
pub(super) struct State {
    pub(super) status: &'static str,
    pub(super) completed_at: Option<i64>,
    /// Reason of an incomplete response.
    pub(super) incomplete: Option<&'static str>,
    /// Error of a failed response; otherwise null.
    pub(super) error: Value,
    pub(super) usage: Value,
}

impl State {
    /// Returns the state at the start, without output.
    pub(super) fn started() -> Self {
        Self {
            status: "in_progress",
            completed_at: None,
            incomplete: None,
            error: Value::Null,
            usage: Value::Null,
        }
    }

    /// Returns the state of a response that is queued, in progress, cancelled or failed. `status`
    /// is the status on the wire.
    pub(super) fn unfinished(status: &'static str, error: Value) -> Self {
        Self {
            status,
            error,
            ..Self::started()
        }
    }

    /// Returns the final state for this finish reason. An incomplete response has no completion
    /// time.
    pub(super) fn ended(finish: FinishReason, usage: Value, completed_at: i64) -> Self {
        let incomplete = incomplete_reason(finish);
        Self {
            status: status_of(finish),
            completed_at: incomplete.is_none().then_some(completed_at),
            incomplete,
            error: Value::Null,
            usage,
        }
    }
}

/// Writes the response object with every field that the format requires.
pub(super) fn response(identity: &Identity, echo: &Echo, state: State, output: Vec<Value>) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("id", json!(identity.id()));
    put("object", json!("response"));
    put("created_at", json!(identity.created_at));
    put("completed_at", json!(state.completed_at));
    put("status", json!(state.status));
    put(
        "incomplete_details",
        json!(state.incomplete.map(|reason| json!({ "reason": reason }))),
    );
    put("error", state.error);
    put("model", json!(identity.model));
    put("previous_response_id", json!(identity.previous_response_id));
    put("store", json!(identity.store));
    put("output", Value::Array(output));
    put("usage", state.usage);
    object.append(&mut echo.members());
    object.insert("background".to_owned(), json!(identity.background));
    Value::Object(object)
}

/// Returns the status of a response that has ended.
pub(super) fn status_of(finish: FinishReason) -> &'static str {
    match incomplete_reason(finish) {
        Some(_) => "incomplete",
        None => "completed",
    }
}

fn incomplete_reason(finish: FinishReason) -> Option<&'static str> {
    match finish {
        FinishReason::Length | FinishReason::ContextFull => Some("max_output_tokens"),
        FinishReason::ContentFilter => Some("content_filter"),
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => None,
    }
}

pub(super) fn message(id: &str, status: &str, content: &[Value]) -> Value {
    json!({"type": "message", "id": id, "status": status, "role": "assistant", "content": content})
}

pub(super) fn text_part(text: &str, logprobs: &[Value]) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
}

pub(super) fn refusal_part(refusal: &str) -> Value {
    json!({"type": "refusal", "refusal": refusal})
}

/// Returns a reasoning item. Its summary contains the text if `is_shown` is set.
pub(super) fn reasoning(id: &str, reasoning: &Reasoning, is_shown: bool) -> Value {
    let text = reasoning
        .text
        .as_deref()
        .filter(|text| is_shown && !text.is_empty());
    let summary: Vec<Value> = text.into_iter().map(summary_part).collect();
    let sealed = reasoning.seal.as_ref().map(|seal| {
        let mut seal = seal.clone();
        if reasoning.text.is_none() {
            seal.data.insert_str(0, HIDDEN_PREFIX);
        }
        reasoning_envelope::wrap(&seal)
    });
    json!({"type": "reasoning", "id": id, "summary": summary, "encrypted_content": sealed})
}

pub(super) fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}

/// Returns the item of a function call or custom tool call.
pub(super) fn call(id: &str, status: &str, call: &ToolCall) -> Value {
    match call.custom {
        true => json!({
            "type": "custom_tool_call",
            "id": id,
            "call_id": call.id,
            "name": call.name,
            "input": call.arguments,
            "status": status,
        }),
        false => json!({
            "type": "function_call",
            "id": id,
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": status,
        }),
    }
}

/// Returns the prefix of the id of a call item.
pub(super) const fn call_prefix(custom: bool) -> &'static str {
    if custom { "ctc" } else { "fc" }
}
