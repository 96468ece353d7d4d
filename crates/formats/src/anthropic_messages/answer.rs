//! Conversion of complete (non-streaming) responses to the common form and back.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, ToolCall};

use super::decode::{call_from_wire, lenient, part_from_wire};
use super::usage::{encode_usage, read_usage};
use super::wire::{Answer, Block, to_bytes};
use crate::error::DecodeError;
use crate::reasoning_envelope;

/// Decodes a complete response of an upstream leniently. The format has no creation time, so the
/// caller supplies `created`.
pub fn decode_response(body: &[u8], created: i64) -> Result<GenerateResponse, DecodeError> {
    let answer: Answer = lenient(body)?;
    let (mut parts, mut tool_calls) = (Vec::new(), Vec::new());
    for block in answer.content {
        match &*block.kind {
            "tool_use" => tool_calls.push(call_from_wire(block)),
            _ => parts.push(part_from_wire(block)),
        }
    }
    let finish = finish_from_wire(answer.stop_reason.as_deref(), !tool_calls.is_empty());
    Ok(GenerateResponse {
        id: answer.id,
        created,
        model: answer.model,
        choices: vec![Choice {
            index: 0,
            parts,
            tool_calls,
            finish,
            stop_sequence: answer.stop_sequence,
            logprobs: None,
            extra: Map::new(),
        }],
        usage: answer.usage.and_then(|usage| read_usage(None, &usage)),
        extra: Map::new(),
    })
}

/// Converts `stop_reason` to the common finish reason. A missing, unknown or `end_turn` reason
/// becomes [`FinishReason::ToolCalls`] if `called_tools` is set, otherwise [`FinishReason::Stop`].
pub(super) fn finish_from_wire(reason: Option<&str>, called_tools: bool) -> FinishReason {
    match reason {
        Some("stop_sequence") => FinishReason::StopSequence,
        Some("max_tokens") => FinishReason::Length,
        Some("model_context_window_exceeded") => FinishReason::ContextFull,
        Some("refusal") => FinishReason::ContentFilter,
        Some("tool_use") => FinishReason::ToolCalls,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

/// Returns the `stop_reason` of a response. If `refused` is set, because the response contains a
/// refusal text, `refusal` replaces `end_turn`.
pub(super) fn finish_to_wire(finish: FinishReason, refused: bool) -> &'static str {
    match finish {
        FinishReason::Stop if refused => "refusal",
        FinishReason::Stop => "end_turn",
        FinishReason::StopSequence => "stop_sequence",
        FinishReason::Length => "max_tokens",
        FinishReason::ContextFull => "model_context_window_exceeded",
        FinishReason::ToolCalls => "tool_use",
        FinishReason::ContentFilter => "refusal",
    }
}

/// Returns the `stop_details` of a response that a content filter ended, otherwise `None`. The
/// category and the explanation are unknown, so both are null.
pub(super) fn stop_details(finish: FinishReason) -> Option<Value> {
    (finish == FinishReason::ContentFilter)
        .then(|| json!({"type": "refusal", "category": null, "explanation": null}))
}

/// Encodes the first choice of a complete response. `public_model` is the model name from the
/// request, `cost` the price for the caller. Without `show_reasoning`, the text of reasoning is
/// empty and only the signatures and the redacted data are sent.
pub fn encode_response(
    response: &GenerateResponse,
    public_model: &str,
    cost: Option<Credits>,
    show_reasoning: bool,
) -> Vec<u8> {
    let choice = response.choices.first();
    let parts = choice.map(|choice| &*choice.parts).unwrap_or_default();
    let calls = choice.map(|choice| &*choice.tool_calls).unwrap_or_default();
    let refused = parts.iter().any(|part| matches!(part, Part::Refusal(_)));
    let content: Vec<Block> = parts
        .iter()
        .filter_map(|part| block_of(part, show_reasoning))
        .chain(calls.iter().map(call_to_wire))
        .collect();
    let finish = choice.map_or(FinishReason::Stop, |choice| choice.finish);
    let usage = response.usage.unwrap_or_default();
    to_bytes(&EncodedMessage {
        id: message_id(&response.id),
        kind: "message",
        role: "assistant",
        model: public_model,
        content,
        stop_reason: finish_to_wire(finish, refused),
        stop_sequence: choice.and_then(|choice| choice.stop_sequence.as_deref()),
        stop_details: stop_details(finish),
        usage: encode_usage(&usage, cost),
    })
}

/// Response for a caller. A struct instead of a [`Value`], so that the inputs of tools keep their
/// JSON text.
#[derive(Serialize)]
struct EncodedMessage<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Block>,
    stop_reason: &'static str,
    stop_sequence: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_details: Option<Value>,
    usage: Value,
}

/// Returns the id, with the prefix `msg_` added if it is missing.
pub(super) fn message_id(id: &str) -> String {
    match id.starts_with("msg_") {
        true => id.to_owned(),
        false => format!("msg_{id}"),
    }
}

fn block_of(part: &Part, show_reasoning: bool) -> Option<Block> {
    match part {
        Part::Text(text) | Part::Refusal(text) => (!text.is_empty()).then(|| Block::text(text)),
        Part::Reasoning(reasoning) => {
            let wrapped = reasoning
                .seal
                .as_ref()
                .map(reasoning_envelope::wrap)
                .unwrap_or_default();
            Some(match &reasoning.text {
                Some(text) => Block {
                    thinking: Some(if show_reasoning {
                        text.clone()
                    } else {
                        String::new()
                    }),
                    signature: Some(wrapped),
                    ..Block::of("thinking")
                },
                None => Block {
                    data: Some(wrapped),
                    ..Block::of("redacted_thinking")
                },
            })
        }
        _ => None,
    }
}

fn call_to_wire(call: &ToolCall) -> Block {
    Block {
        id: Some(call.id.clone()),
        name: Some(call.name.clone()),
        input: Some(input_of(&call.arguments)),
        ..Block::of("tool_use")
    }
}

/// Returns the input of a tool call. The format accepts only objects: empty arguments become an
/// empty object, and any other text, such as arguments truncated at the output token limit, becomes
/// the member `arguments` of an object.
fn input_of(arguments: &str) -> Box<RawValue> {
    let object = RawValue::from_string(arguments.trim().to_owned())
        .ok()
        .filter(|raw| raw.get().starts_with('{'));
    object.unwrap_or_else(|| {
        let wrapped = match arguments.trim() {
            "" => Value::Object(Map::new()),
            text => json!({ "arguments": text }),
        };
        RawValue::from_string(wrapped.to_string()).unwrap_or_default()
    })
}
