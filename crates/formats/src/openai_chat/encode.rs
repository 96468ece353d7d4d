//! Encoding of requests and responses from the common form.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use tollgate_types::Credits;
use tollgate_types::generate::{
    Choice, File, FinishReason, GenerateRequest, GenerateResponse, Message, Part, ResponseFormat, Role, Tool,
    ToolCall, ToolChoice,
};

use super::usage::encode_usage;
use super::{CapName, effort, wire};
use crate::anthropic_messages::encode::with_registered_type;

/// Writes a request for an upstream. A streaming request always requests the usage.
pub fn encode_request(request: &GenerateRequest, cap_name: CapName) -> Vec<u8> {
    to_bytes(&request_to_wire(request, cap_name))
}

fn request_to_wire(request: &GenerateRequest, cap_name: CapName) -> wire::Request {
    let mut extra = request.extra.clone();
    let options = match extra.shift_remove("stream_options") {
        Some(Value::Object(options)) => options,
        _ => Map::new(),
    };
    let old_name = cap_name != CapName::MaxCompletionTokens;
    let set = |condition: bool| condition.then_some(true);
    wire::Request {
        model: request.model.clone(),
        messages: results_in_text(&request.messages)
            .iter()
            .map(message_to_wire)
            .collect(),
        max_completion_tokens: request.max_tokens.filter(|_| !old_name),
        max_tokens: request.max_tokens.filter(|_| old_name),
        n: Some(request.n).filter(|n| *n != 1),
        stream: set(request.stream),
        stream_options: request.stream.then_some(wire::StreamOptions {
            include_usage: Some(true),
            extra: options,
        }),
        stop: match &*request.stop {
            [] => None,
            [text] => Some(wire::Stop::One(text.clone())),
            texts => Some(wire::Stop::Several(texts.to_vec())),
        },
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        frequency_penalty: request.sampling.frequency_penalty,
        presence_penalty: request.sampling.presence_penalty,
        seed: request.sampling.seed,
        tools: (!request.tools.is_empty()).then(|| request.tools.iter().filter_map(tool_to_wire).collect()),
        tool_choice: tool_choice_to_wire(&request.tool_choice, &request.tools),
        parallel_tool_calls: request.parallel_tool_calls,
        response_format: response_format_to_wire(&request.response_format),
        reasoning_effort: effort::of(request),
        user: request.user.clone(),
        logprobs: set(request.top_logprobs.is_some()),
        top_logprobs: request.top_logprobs.filter(|count| *count > 0),
        extra,
    }
}

/// Returns the messages with tool results that contain only text, because the format supports no
/// other tool results. The media of the results follow in a user turn.
fn results_in_text(messages: &[Message]) -> Cow<'_, [Message]> {
    let has_media = |message: &Message| message.role == Role::Tool && message.parts.iter().any(is_media);
    if !messages.iter().any(has_media) {
        return Cow::Borrowed(messages);
    }
    let mut written: Vec<Message> = Vec::with_capacity(messages.len() + 1);
    let mut pending: Vec<Part> = Vec::new();
    for message in messages {
        let mut message = message.clone();
        match message.role {
            Role::Tool if has_media(&message) => {
                let (media, mut rest): (Vec<Part>, Vec<Part>) = message.parts.into_iter().partition(is_media);
                let call = message.tool_call_id.as_deref().unwrap_or_default();
                pending.push(Part::Text(format!(
                    "Attached to the result of the tool call {call}:"
                )));
                pending.extend(media);
                rest.push(Part::Text(ATTACHMENT_NOTE.to_owned()));
                message.parts = rest;
            }
            Role::Tool => {}
            Role::User => {
                let own_parts = std::mem::replace(&mut message.parts, std::mem::take(&mut pending));
                message.parts.extend(own_parts);
            }
            Role::System | Role::Assistant => written.extend(attachments(&mut pending)),
        }
        written.push(message);
    }
    written.extend(attachments(&mut pending));
    Cow::Owned(written)
}

/// Text added to a tool result whose media follow in a user turn.
const ATTACHMENT_NOTE: &str = "[The attachments of this result are in the next message of the user.]";

fn is_media(part: &Part) -> bool {
    matches!(
        part,
        Part::Image { .. } | Part::Audio { .. } | Part::File(_) | Part::Stored(_)
    )
}

/// Returns the user turn with the pending media; `None` if no media are pending.
fn attachments(pending: &mut Vec<Part>) -> Option<Message> {
    let parts = std::mem::take(pending);
    (!parts.is_empty()).then(|| Message {
        parts,
        ..Message::default()
    })
}

fn message_to_wire(message: &Message) -> wire::Message {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool if message.tool_call_id.is_none() => "function",
        Role::Tool => "tool",
    };
    let mut extra = message.extra.clone();
    if let Some(reasoning) = joined(&message.parts, |part| match part {
        Part::Reasoning(reasoning) => reasoning.text.as_ref(),
        _ => None,
    }) {
        extra.insert("reasoning_content".to_owned(), Value::String(reasoning));
    }
    let spoken: Vec<&Part> = message
        .parts
        .iter()
        .filter(|part| {
            !matches!(
                part,
                Part::Reasoning(_) | Part::CacheBreakpoint(_) | Part::Stored(_) | Part::Foreign { .. }
            )
        })
        .collect();
    let (content, refusal) = match &*spoken {
        [] if message.role == Role::Assistant => (None, None),
        [Part::Text(text)] => (Some(wire::Content::Text(text.clone())), None),
        [Part::Refusal(refusal)] => (None, Some(refusal.clone())),
        [Part::Text(text), Part::Refusal(refusal)] => {
            (Some(wire::Content::Text(text.clone())), Some(refusal.clone()))
        }
        parts => {
            let parts = parts.iter().map(|part| part_to_wire(part)).collect();
            (Some(wire::Content::Parts(parts)), None)
        }
    };
    let content = if message.is_error {
        content.map(marked_as_failed)
    } else {
        content
    };
    wire::Message {
        role: role.to_owned(),
        content,
        refusal,
        name: message.name.clone(),
        tool_calls: tool_calls_to_wire(&message.tool_calls),
        tool_call_id: message.tool_call_id.clone(),
        extra,
    }
}

/// Prefix of the result of a failed tool: the format has no error flag.
const ERROR_PREFIX: &str = "Error: ";

fn marked_as_failed(content: wire::Content) -> wire::Content {
    match content {
        wire::Content::Text(text) => wire::Content::Text(format!("{ERROR_PREFIX}{text}")),
        wire::Content::Parts(mut parts) => {
            let mark = wire::ContentPart {
                kind: "text".to_owned(),
                text: Some(ERROR_PREFIX.to_owned()),
                ..wire::ContentPart::default()
            };
            parts.insert(0, mark);
            wire::Content::Parts(parts)
        }
    }
}

/// Concatenates the texts that `pick` returns; `None` if it returns none.
fn joined<'p>(parts: &'p [Part], pick: impl Fn(&'p Part) -> Option<&'p String>) -> Option<String> {
    let texts: Vec<&str> = parts.iter().filter_map(pick).map(String::as_str).collect();
    (!texts.is_empty()).then(|| texts.concat())
}

fn part_to_wire(part: &Part) -> wire::ContentPart {
    let part_of = |kind: &str| wire::ContentPart {
        kind: kind.to_owned(),
        ..wire::ContentPart::default()
    };
    match part {
        Part::Text(text) => wire::ContentPart {
            text: Some(text.clone()),
            ..part_of("text")
        },
        Part::File(File { text: Some(text), .. }) => wire::ContentPart {
            text: Some(text.clone()),
            ..part_of("text")
        },
        // Unreachable: `message_to_wire` has removed these parts.
        Part::Reasoning(_) | Part::CacheBreakpoint(_) | Part::Stored(_) | Part::Foreign { .. } => {
            part_of("text")
        }
        Part::Refusal(refusal) => wire::ContentPart {
            refusal: Some(refusal.clone()),
            ..part_of("refusal")
        },
        Part::Image { url, detail } => wire::ContentPart {
            image_url: Some(wire::ImageUrl {
                url: with_registered_type(url).into_owned(),
                detail: detail.clone(),
            }),
            ..part_of("image_url")
        },
        Part::Audio { data, format } => wire::ContentPart {
            input_audio: Some(wire::InputAudio {
                data: data.clone(),
                format: format.clone(),
            }),
            ..part_of("input_audio")
        },
        Part::File(file) => wire::ContentPart {
            file: Some(wire::File {
                file_id: None,
                file_data: file.data.clone(),
                filename: file.filename.clone(),
            }),
            ..part_of("file")
        },
    }
}

fn tool_calls_to_wire(calls: &[ToolCall]) -> Option<Vec<wire::ToolCall>> {
    (!calls.is_empty()).then(|| calls.iter().map(tool_call_to_wire).collect())
}

fn tool_call_to_wire(call: &ToolCall) -> wire::ToolCall {
    let (name, text) = (Some(call.name.clone()), Some(call.arguments.clone()));
    if call.custom {
        return wire::ToolCall {
            id: call.id.clone(),
            kind: "custom".to_owned(),
            function: None,
            custom: Some(wire::CustomCall { name, input: text }),
        };
    }
    wire::ToolCall {
        id: call.id.clone(),
        kind: "function".to_owned(),
        function: Some(wire::FunctionCall {
            name,
            arguments: text,
        }),
        custom: None,
    }
}

fn tool_to_wire(tool: &Tool) -> Option<wire::Tool> {
    Some(match tool {
        Tool::Foreign { .. } => return None,
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            ..
        } => wire::Tool {
            kind: "function".to_owned(),
            function: Some(wire::Function {
                name: name.clone(),
                description: description.clone(),
                parameters: parameters.clone(),
                strict: *strict,
            }),
            custom: None,
        },
        Tool::Custom {
            name,
            description,
            format,
        } => wire::Tool {
            kind: "custom".to_owned(),
            function: None,
            custom: Some(wire::Custom {
                name: name.clone(),
                description: description.clone(),
                format: format.clone(),
            }),
        },
    })
}

fn tool_choice_to_wire(choice: &ToolChoice, tools: &[Tool]) -> Option<wire::ToolChoice> {
    let kind_of = |wanted: &str| {
        let is_custom = |tool: &Tool| matches!(tool, Tool::Custom { name, .. } if name == wanted);
        if tools.iter().any(is_custom) {
            "custom"
        } else {
            "function"
        }
    };
    let mode = |mode: &str| Some(wire::ToolChoice::Mode(mode.to_owned()));
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => mode("none"),
        ToolChoice::Required => mode("required"),
        ToolChoice::Named(name) => {
            let kind = kind_of(name);
            let named = Some(wire::Named { name: name.clone() });
            let (function, custom) = if kind == "custom" {
                (None, named)
            } else {
                (named, None)
            };
            Some(wire::ToolChoice::Tool(wire::ChosenTool {
                kind: kind.to_owned(),
                function,
                custom,
                allowed_tools: None,
            }))
        }
        ToolChoice::Allowed { required, names } => Some(wire::ToolChoice::Tool(wire::ChosenTool {
            kind: "allowed_tools".to_owned(),
            allowed_tools: Some(wire::AllowedTools {
                mode: if *required { "required" } else { "auto" }.to_owned(),
                tools: names
                    .iter()
                    .map(|name| {
                        let kind = kind_of(name);
                        json!({"type": kind, kind: {"name": name}})
                    })
                    .collect(),
            }),
            ..wire::ChosenTool::default()
        })),
    }
}

fn response_format_to_wire(format: &ResponseFormat) -> Option<wire::ResponseFormat> {
    match format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(wire::ResponseFormat {
            kind: "json_object".to_owned(),
            json_schema: None,
        }),
        ResponseFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => Some(wire::ResponseFormat {
            kind: "json_schema".to_owned(),
            json_schema: Some(wire::JsonSchema {
                name: name.clone(),
                description: description.clone(),
                schema: Some(schema.clone()).filter(|schema| !schema.is_null()),
                strict: *strict,
            }),
        }),
    }
}

/// Writes a complete response. `public_model` is the model name from the request, `cost` the price
/// for the caller.
pub fn encode_response(response: &GenerateResponse, public_model: &str, cost: Option<Credits>) -> Vec<u8> {
    let mut extra = response.extra.clone();
    if let Some(usage) = &response.usage {
        extra.insert("usage".to_owned(), encode_usage(usage, cost));
    }
    to_bytes(&wire::Answer {
        id: response.id.clone(),
        object: "chat.completion".to_owned(),
        created: Value::from(response.created),
        model: public_model.to_owned(),
        choices: response.choices.iter().map(choice_to_wire).collect(),
        extra,
    })
}

fn choice_to_wire(choice: &Choice) -> wire::Choice {
    let text = joined(&choice.parts, |part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    });
    let refusal = joined(&choice.parts, |part| match part {
        Part::Refusal(text) => Some(text),
        _ => None,
    });
    let reasoning = joined(&choice.parts, |part| match part {
        Part::Reasoning(reasoning) => reasoning.text.as_ref(),
        _ => None,
    });
    let mut extra = choice.extra.clone();
    // The types of the official clients require the key even without a refusal.
    extra.insert("refusal".to_owned(), refusal.map_or(Value::Null, Value::String));
    if let Some(reasoning) = reasoning {
        extra.insert("reasoning_content".to_owned(), Value::String(reasoning));
    }
    wire::Choice {
        index: choice.index,
        message: Some(wire::Message {
            role: "assistant".to_owned(),
            content: text.map(wire::Content::Text),
            tool_calls: tool_calls_to_wire(&choice.tool_calls),
            extra,
            ..wire::Message::default()
        }),
        delta: None,
        text: None,
        logprobs: choice.logprobs.clone(),
        finish_reason: Some(finish_to_wire(choice.finish).to_owned()),
    }
}

/// Returns the `finish_reason` of a choice.
pub(super) fn finish_to_wire(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop | FinishReason::StopSequence => "stop",
        FinishReason::Length | FinishReason::ContextFull => "length",
        FinishReason::ToolCalls => "tool_calls",
        FinishReason::ContentFilter => "content_filter",
    }
}

/// Serializes a wire type. Wire types have only string keys and finite numbers, so serialization
/// cannot fail.
pub(super) fn to_bytes(value: &impl serde::Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
