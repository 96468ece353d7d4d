//! Decoding of complete (non-streaming) responses to the common form.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, Reasoning, Seal, ToolCall};

use super::usage::read_usage;
use crate::error::DecodeError;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    output: Output,
    stop_reason: Option<String>,
    usage: Option<Value>,
}

#[derive(Deserialize)]
struct Output {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Vec<Block>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Block {
    text: Option<String>,
    tool_use: Option<ToolUse>,
    reasoning_content: Option<ReasoningContent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUse {
    #[serde(default)]
    tool_use_id: String,
    #[serde(default)]
    name: String,
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReasoningContent {
    reasoning_text: Option<ReasoningText>,
    redacted_content: Option<String>,
}

#[derive(Deserialize)]
struct ReasoningText {
    #[serde(default)]
    text: String,
    signature: Option<String>,
}

/// Decodes a complete response leniently; blocks of unknown kinds are omitted. The format has no
/// id, creation time or model, so the caller supplies them. Fails if the body is not a Converse
/// response.
pub fn decode_response(
    body: &[u8],
    id: &str,
    created: i64,
    model: &str,
) -> Result<GenerateResponse, DecodeError> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let (mut parts, mut tool_calls) = (Vec::new(), Vec::new());
    for block in answer.output.message.content {
        parts.extend(block.text.map(Part::Text));
        parts.extend(block.reasoning_content.and_then(reasoning_of));
        tool_calls.extend(block.tool_use.map(|call| {
            ToolCall {
                id: call.tool_use_id,
                name: call.name,
                arguments: call
                    .input
                    .map_or_else(String::new, |input| input.get().to_owned()),
                custom: false,
            }
        }));
    }
    let finish = finish_from_wire(answer.stop_reason.as_deref(), !tool_calls.is_empty());
    Ok(GenerateResponse {
        id: id.to_owned(),
        created,
        model: model.to_owned(),
        choices: vec![Choice {
            index: 0,
            parts,
            tool_calls,
            finish,
            stop_sequence: None,
            logprobs: None,
            extra: Map::new(),
        }],
        usage: answer.usage.as_ref().and_then(read_usage),
        extra: Map::new(),
    })
}

fn reasoning_of(content: ReasoningContent) -> Option<Part> {
    let sealed = |data: String| Seal {
        origin: String::new(),
        data,
    };
    let reasoning = match (content.reasoning_text, content.redacted_content) {
        (Some(shown), _) => Reasoning {
            text: Some(shown.text),
            seal: shown.signature.map(sealed),
        },
        (None, Some(hidden)) => Reasoning {
            text: None,
            seal: Some(sealed(hidden)),
        },
        (None, None) => return None,
    };
    Some(Part::Reasoning(reasoning))
}

/// Converts `stopReason` to the common finish reason. An absent reason, or one without its own
/// finish reason, becomes [`FinishReason::ToolCalls`] if `called_tools` is set, otherwise
/// [`FinishReason::Stop`]. This includes `stop_sequence`, because the format does not report which
/// sequence ended the response.
pub(super) fn finish_from_wire(reason: Option<&str>, called_tools: bool) -> FinishReason {
    match reason {
        Some("max_tokens") => FinishReason::Length,
        Some("model_context_window_exceeded") => FinishReason::ContextFull,
        Some("content_filtered" | "guardrail_intervened") => FinishReason::ContentFilter,
        Some("tool_use") => FinishReason::ToolCalls,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}
