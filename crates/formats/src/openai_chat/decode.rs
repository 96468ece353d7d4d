//! Decoding of requests and responses to the common form.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::generate::{
    Choice, File, FinishReason, GenerateRequest, GenerateResponse, Message, Part, Place, Reasoning,
    ResponseFormat, Role, Sampling, Stored, Tool, ToolCall, ToolChoice,
};

use super::usage::read_usage_value;
use super::{validate, wire};
use crate::error::DecodeError;

/// Decodes a request. Accepts exactly what [`validate()`] accepts; `extra` receives the top-level
/// fields that neither the format nor the common form defines.
pub fn decode_request(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    validate(body)?;
    let request: wire::Request = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    Ok(request_from_wire(request))
}

fn request_from_wire(request: wire::Request) -> GenerateRequest {
    let mut extra = request.extra;
    let options = request.stream_options.unwrap_or_default();
    if !options.extra.is_empty() {
        extra.insert("stream_options".to_owned(), Value::Object(options.extra));
    }
    let top_logprobs = request.top_logprobs.unwrap_or(0);
    GenerateRequest {
        model: request.model,
        messages: request
            .messages
            .into_iter()
            .enumerate()
            .map(|(index, message)| with_place(message, index))
            .collect(),
        max_tokens: request.max_completion_tokens.or(request.max_tokens),
        n: request.n.unwrap_or(1),
        stream: request.stream.unwrap_or(false),
        include_usage: options.include_usage.unwrap_or(false),
        stop: match request.stop {
            None => Vec::new(),
            Some(wire::Stop::One(text)) => vec![text],
            Some(wire::Stop::Several(texts)) => texts,
        },
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: None,
            frequency_penalty: request.frequency_penalty,
            presence_penalty: request.presence_penalty,
            seed: request.seed,
        },
        tools: request
            .tools
            .unwrap_or_default()
            .into_iter()
            .filter_map(tool_from_wire)
            .collect(),
        tool_choice: request.tool_choice.map(tool_choice_from_wire).unwrap_or_default(),
        parallel_tool_calls: request.parallel_tool_calls,
        response_format: request
            .response_format
            .map(response_format_from_wire)
            .unwrap_or_default(),
        reasoning_effort: request.reasoning_effort,
        thinking: None,
        hide_reasoning: false,
        user: request.user,
        top_logprobs: request.logprobs.unwrap_or(false).then_some(top_logprobs),
        extra,
    }
}

/// Decodes a message and records its index in the request.
fn with_place(message: wire::Message, index: usize) -> Message {
    let path = format!("messages[{index}]");
    let place = Place {
        content: format!("{path}.content"),
        first: matches!(message.content, Some(wire::Content::Parts(_))).then_some(0),
        apart: None,
        path,
    };
    Message {
        place,
        ..message_from_wire(message)
    }
}

/// Decodes a message. The roles `developer` and `system` are equivalent. The deprecated role
/// `function` is a tool result that contains the name of the tool instead of the id of the call.
fn message_from_wire(message: wire::Message) -> Message {
    let role = match &*message.role {
        "system" | "developer" => Role::System,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => Role::User,
    };
    let mut extra = message.extra;
    let mut parts = if role == Role::Assistant {
        take_reasoning(&mut extra)
    } else {
        Vec::new()
    };
    parts.extend(parts_from_wire(message.content));
    parts.extend(
        message
            .refusal
            .filter(|_| role == Role::Assistant)
            .map(Part::Refusal),
    );
    Message {
        role,
        parts,
        tool_calls: tool_calls_from_wire(message.tool_calls),
        tool_call_id: message.tool_call_id.filter(|_| message.role == "tool"),
        is_error: false,
        place: Place::default(),
        name: message.name,
        extra,
    }
}

/// Removes the reasoning text from `extra`. Its name is `reasoning_content` or `reasoning`. Some
/// servers send the text under both names; then `reasoning_content` is used.
fn take_reasoning(extra: &mut Map<String, Value>) -> Vec<Part> {
    let mut texts = Vec::new();
    for name in ["reasoning_content", "reasoning"] {
        if extra
            .get(name)
            .is_some_and(|value| value.is_string() || value.is_null())
            && let Some(Value::String(text)) = extra.shift_remove(name)
        {
            texts.push(text);
        }
    }
    texts.truncate(1);
    texts.retain(|text| !text.is_empty());
    texts
        .into_iter()
        .map(|text| Part::Reasoning(Reasoning::shown(text)))
        .collect()
}

/// Returns the parts of message content. Parts of unknown types are omitted.
pub(super) fn parts_from_wire(content: Option<wire::Content>) -> Vec<Part> {
    match content {
        None => Vec::new(),
        Some(wire::Content::Text(text)) => vec![Part::Text(text)],
        Some(wire::Content::Parts(parts)) => parts.into_iter().filter_map(part_from_wire).collect(),
    }
}

fn part_from_wire(part: wire::ContentPart) -> Option<Part> {
    match &*part.kind {
        "text" => part.text.map(Part::Text),
        "refusal" => part.refusal.map(Part::Refusal),
        "image_url" => part.image_url.map(|image| Part::Image {
            url: image.url,
            detail: image.detail,
        }),
        "input_audio" => part.input_audio.map(|audio| Part::Audio {
            data: audio.data,
            format: audio.format,
        }),
        "file" => part.file.map(|file| match file.file_id {
            Some(id) => Part::Stored(Stored {
                id,
                is_image: false,
                detail: None,
                filename: file.filename,
                field: "file.file_id",
            }),
            None => Part::File(File {
                data: file.file_data,
                filename: file.filename,
                ..File::default()
            }),
        }),
        // Mistral's representation of reasoning in a response.
        "thinking" => {
            let thinking = part.extra.get("thinking")?;
            let text = plain_text(wire::Content::deserialize(thinking).ok()?);
            Some(Part::Reasoning(Reasoning::shown(text)))
        }
        _ => None,
    }
}

/// Concatenates the texts of message content.
fn plain_text(content: wire::Content) -> String {
    match content {
        wire::Content::Text(text) => text,
        wire::Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
    }
}

fn tool_calls_from_wire(calls: Option<Vec<wire::ToolCall>>) -> Vec<ToolCall> {
    calls
        .unwrap_or_default()
        .into_iter()
        .map(tool_call_from_wire)
        .collect()
}

fn tool_call_from_wire(call: wire::ToolCall) -> ToolCall {
    let custom = call.kind == "custom";
    let (name, arguments) = if custom {
        let custom = call.custom.unwrap_or_default();
        (custom.name, custom.input)
    } else {
        let function = call.function.unwrap_or_default();
        (function.name, function.arguments)
    };
    ToolCall {
        id: call.id,
        name: name.unwrap_or_default(),
        arguments: arguments.unwrap_or_default(),
        custom,
    }
}

fn tool_from_wire(tool: wire::Tool) -> Option<Tool> {
    if tool.kind == "custom" {
        let custom = tool.custom?;
        return Some(Tool::Custom {
            name: custom.name,
            description: custom.description,
            format: custom.format,
        });
    }
    let function = tool.function?;
    Some(Tool::Function {
        name: function.name,
        description: function.description,
        parameters: function.parameters,
        strict: function.strict,
        cache: None,
    })
}

fn tool_choice_from_wire(choice: wire::ToolChoice) -> ToolChoice {
    match choice {
        wire::ToolChoice::Mode(mode) => match &*mode {
            "none" => ToolChoice::None,
            "required" => ToolChoice::Required,
            _ => ToolChoice::Auto,
        },
        wire::ToolChoice::Tool(chosen) => match (&*chosen.kind, chosen.allowed_tools) {
            ("allowed_tools", Some(allowed)) => ToolChoice::Allowed {
                required: allowed.mode == "required",
                names: allowed.tools.iter().filter_map(name_of_tool).collect(),
            },
            (kind, _) => {
                let named = if kind == "custom" {
                    chosen.custom
                } else {
                    chosen.function
                };
                named.map_or(ToolChoice::Auto, |named| ToolChoice::Named(named.name))
            }
        },
    }
}

/// Returns the name in `{type, function: {name}}` or `{type, custom: {name}}`.
fn name_of_tool(tool: &Value) -> Option<String> {
    let named = ["function", "custom"].iter().find_map(|key| tool.get(key))?;
    named.get("name")?.as_str().map(str::to_owned)
}

pub(crate) fn response_format_from_wire(format: wire::ResponseFormat) -> ResponseFormat {
    match (&*format.kind, format.json_schema) {
        ("json_object", _) => ResponseFormat::JsonObject,
        ("json_schema", Some(schema)) => ResponseFormat::JsonSchema {
            name: schema.name,
            description: schema.description,
            schema: schema.schema.unwrap_or(Value::Null),
            strict: schema.strict,
        },
        _ => ResponseFormat::Text,
    }
}

/// Decodes a complete response of an upstream leniently: missing fields have defaults, and a usage
/// report without plausible totals is ignored. `extra` contains the fields that the common form
/// does not define, except the upstream's usage object.
pub fn decode_response(body: &[u8]) -> Result<GenerateResponse, DecodeError> {
    let answer: wire::Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let mut extra = answer.extra;
    let usage = extra.shift_remove("usage");
    Ok(GenerateResponse {
        id: answer.id,
        created: answer.created.as_i64().unwrap_or(0),
        model: answer.model,
        choices: answer.choices.into_iter().map(choice_from_wire).collect(),
        usage: usage.and_then(|usage| read_usage_value(&usage).usage),
        extra,
    })
}

fn choice_from_wire(choice: wire::Choice) -> Choice {
    let wire_message = choice.message.unwrap_or_default();
    let message = message_from_wire(wire::Message {
        role: "assistant".to_owned(),
        content: wire_message.content.or(choice.text.map(wire::Content::Text)),
        ..wire_message
    });
    Choice {
        index: choice.index,
        finish: finish_from_wire(choice.finish_reason.as_deref(), !message.tool_calls.is_empty()),
        stop_sequence: None,
        parts: message.parts,
        tool_calls: message.tool_calls,
        logprobs: choice.logprobs,
        extra: message.extra,
    }
}

/// Converts `finish_reason` to the common finish reason. Some servers send `stop` or no reason for
/// tool calls, and some use other names for `length`.
pub(super) fn finish_from_wire(reason: Option<&str>, called_tools: bool) -> FinishReason {
    match reason {
        Some("length" | "max_tokens" | "model_length") => FinishReason::Length,
        Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
        Some("content_filter") => FinishReason::ContentFilter,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}
