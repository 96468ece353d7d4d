//! Conversion of complete (non-streaming) responses to the common form and back.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, Reasoning, Seal, ToolCall};

use super::decode::{call_from_wire, lenient, part_from_wire, reasoned};
use super::echo::Echo;
use super::identity::Identity;
use super::object::{self, State};
use super::usage::{encode_usage, read_usage};
use super::wire::{self, Answer, to_bytes};
use crate::error::DecodeError;

/// Decodes a complete response of an upstream leniently. Items of unknown types are omitted.
pub fn decode_response(body: &[u8]) -> Result<GenerateResponse, DecodeError> {
    let answer: Answer = lenient(body)?;
    let (mut parts, mut tool_calls, mut logprobs) = (Vec::new(), Vec::new(), Vec::new());
    for item in &answer.output {
        let Ok(item) = wire::Item::deserialize(item) else {
            continue;
        };
        match item.kind.as_deref() {
            Some("message") => {
                let Some(wire::Content::Parts(content)) = item.content else {
                    continue;
                };
                for mut part in content {
                    logprobs.append(&mut part.logprobs.take().unwrap_or_default());
                    parts.extend(part_from_wire(part));
                }
            }
            Some("function_call" | "custom_tool_call") => tool_calls.extend(call_from_wire(item)),
            Some("reasoning") => parts.extend(reasoning_from_upstream(item).map(Part::Reasoning)),
            _ => {}
        }
    }
    let reason = answer.incomplete_details.and_then(|details| details.reason);
    let finish = finish_from_wire(
        answer.status.as_deref(),
        reason.as_deref(),
        !tool_calls.is_empty(),
    );
    Ok(GenerateResponse {
        id: answer.id,
        created: answer.created_at.as_f64().map_or(0, |seconds| seconds as i64),
        model: answer.model,
        choices: vec![Choice {
            index: 0,
            parts,
            tool_calls,
            finish,
            stop_sequence: None,
            logprobs: (!logprobs.is_empty()).then(|| json!({"content": logprobs, "refusal": null})),
            extra: Map::new(),
        }],
        usage: answer.usage.as_ref().and_then(read_usage),
        extra: Map::new(),
    })
}

/// Decodes reasoning of an upstream; `None` if the item has neither text nor encrypted content. The
/// origin is empty, because the adapter adds it.
fn reasoning_from_upstream(item: wire::Item) -> Option<Reasoning> {
    let text = reasoned(&item);
    let data = item.encrypted_content.unwrap_or_default();
    if text.is_empty() && data.is_empty() {
        return None;
    }
    Some(Reasoning {
        text: (!text.is_empty()).then_some(text),
        seal: (!data.is_empty()).then_some(Seal {
            origin: String::new(),
            data,
        }),
    })
}

/// Converts `status` and the reason in `incomplete_details` to the common finish reason.
pub(super) fn finish_from_wire(
    status: Option<&str>,
    reason: Option<&str>,
    called_tools: bool,
) -> FinishReason {
    match (status, reason) {
        (Some("incomplete"), Some("content_filter")) => FinishReason::ContentFilter,
        (Some("incomplete"), _) => FinishReason::Length,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

/// Writes a complete response; `cost` is the price for the caller. Without `show_reasoning`, the
/// text of the reasoning is omitted and only its encrypted content is sent. A response without
/// choices is written as in progress.
pub fn encode_response(
    response: &GenerateResponse,
    identity: &Identity,
    echo: &Echo,
    completed_at: i64,
    cost: Option<Credits>,
    show_reasoning: bool,
) -> Vec<u8> {
    let Some(choice) = response.choices.first() else {
        return to_bytes(&object::response(identity, echo, State::started(), Vec::new()));
    };
    let usage = encode_usage(&response.usage.unwrap_or_default(), cost);
    let state = State::ended(choice.finish, usage, completed_at);
    let output = output(choice, identity, echo, show_reasoning);
    to_bytes(&object::response(identity, echo, state, output))
}

/// Writes a response that is queued, in progress, cancelled or failed. `status` is the status on
/// the wire; `error` contains the code and the message of the failure.
pub fn encode_unfinished(
    identity: &Identity,
    echo: &Echo,
    status: &'static str,
    error: Option<(&str, &str)>,
) -> Value {
    let error = error.map_or(
        Value::Null,
        |(code, message)| json!({ "code": code, "message": message }),
    );
    object::response(identity, echo, State::unfinished(status, error), Vec::new())
}

/// Returns the output items of a choice. Consecutive texts and refusals form one message item.
fn output(choice: &Choice, identity: &Identity, echo: &Echo, show_reasoning: bool) -> Vec<Value> {
    let status = object::status_of(choice.finish);
    let mut output: Vec<Value> = Vec::new();
    let mut content: Vec<Value> = Vec::new();
    let logprobs = choice
        .logprobs
        .as_ref()
        .and_then(|logprobs| logprobs["content"].as_array());
    let mut logprobs = logprobs.cloned().unwrap_or_default();
    let flush_message = |content: &mut Vec<Value>, output: &mut Vec<Value>| {
        if !content.is_empty() {
            let id = identity.item_id("msg", output.len());
            output.push(object::message(&id, status, content));
            content.clear();
        }
    };
    for part in &choice.parts {
        match part {
            Part::Text(text) if !text.is_empty() => {
                content.push(object::text_part(text, &std::mem::take(&mut logprobs)));
            }
            Part::Refusal(refusal) if !refusal.is_empty() => content.push(object::refusal_part(refusal)),
            Part::Reasoning(reasoning) => {
                flush_message(&mut content, &mut output);
                let id = identity.item_id("rs", output.len());
                output.push(object::reasoning(&id, reasoning, show_reasoning));
            }
            _ => {}
        }
    }
    flush_message(&mut content, &mut output);
    for call in &choice.tool_calls {
        let call = ToolCall {
            custom: call.custom || echo.is_custom(&call.name),
            ..call.clone()
        };
        let id = identity.item_id(object::call_prefix(call.custom), output.len());
        output.push(object::call(&id, status, &call));
    }
    output
}

/// Returns a call at its start, before any arguments were received.
pub(super) fn started_call(id: &str, name: &str, custom: bool) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: String::new(),
        custom,
    }
}
