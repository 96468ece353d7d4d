//! The `chat.completion` object: an answer that is not streamed.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use super::chat_request::ChatRequest;
use super::composed::{Choice, Composed};
use super::embeddings;

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed, request: &ChatRequest) -> String {
    if let Some(requested) = &request.embeddings {
        return embeddings::body(answer, composed, requested);
    }
    let choices: Vec<Value> = (composed.choices.iter().enumerate())
        .map(|(index, choice)| {
            json!({
                "index": index,
                "message": message(choice, index),
                "logprobs": request.logprobs.map(|top| logprobs(&choice.text, top)),
                "finish_reason": choice.finish_reason,
            })
        })
        .collect();
    let object = json!({
        "id": composed.id,
        "object": "chat.completion",
        "created": composed.created,
        "model": composed.model,
        "choices": choices,
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    });
    let usage = composed.usage_text(&answer.usage, composed.tokens.completion);
    with_member(&object, "usage", usage.as_deref())
}

fn message(choice: &Choice, choice_index: usize) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let content = choice.text.concat();
    let silent = content.is_empty() && !(choice.tool_calls.is_empty() && choice.refusal.is_empty());
    message.insert(
        "content".into(),
        if silent { Value::Null } else { json!(content) },
    );
    let refusal = choice.refusal.concat();
    message.insert(
        "refusal".into(),
        if refusal.is_empty() {
            Value::Null
        } else {
            json!(refusal)
        },
    );
    message.insert("annotations".into(), json!([]));
    if !choice.reasoning.is_empty() {
        message.insert("reasoning_content".into(), json!(choice.reasoning.concat()));
    }
    if !choice.tool_calls.is_empty() {
        let calls = choice.tool_calls.iter().enumerate().map(|(index, call)| {
            json!({
                "id": call_id(choice_index, index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        });
        message.insert("tool_calls".into(), calls.collect());
    }
    Value::Object(message)
}

/// Returns the id of a tool call, which is the same in a stream and in a whole answer.
pub(super) fn call_id(choice: usize, call: usize) -> String {
    format!("call_fake_{choice}_{call}")
}

/// Returns the `logprobs` object of these tokens, with `top` alternatives for each.
pub(super) fn logprobs(tokens: &[String], top: usize) -> Value {
    let content: Vec<Value> = tokens
        .iter()
        .map(|token| {
            let alternatives: Vec<Value> = (0..top)
                .map(|rank| {
                    let other = if rank == 0 {
                        token.clone()
                    } else {
                        format!("{token}~{rank}")
                    };
                    json!({"token": other, "logprob": -0.25 * (rank + 1) as f64, "bytes": other.as_bytes()})
                })
                .collect();
            json!({"token": token, "logprob": -0.25, "bytes": token.as_bytes(), "top_logprobs": alternatives})
        })
        .collect();
    json!({"content": content, "refusal": null})
}

/// Serializes the object with an additional member, whose value is inserted verbatim: it may be a
/// number that no Rust type can represent.
pub(super) fn with_member(object: &Value, name: &str, text: Option<&str>) -> String {
    let mut whole = object.to_string();
    if let Some(text) = text {
        whole.pop();
        whole.push_str(&format!(",\"{name}\":{text}}}"));
    }
    whole
}
