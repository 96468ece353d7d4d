//! Decoding of requests to the common form.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::generate::{
    CacheLife, File, GenerateRequest, Message, Part, Place, Reasoning, ResponseFormat, Role, Sampling,
    Stored, Thinking, Tool, ToolCall, ToolChoice,
};

use super::head::{Purpose, Version};
use super::{validate, wire};
use crate::error::DecodeError;
use crate::reasoning_envelope;

/// Decodes a request. Accepts every body that [`validate()`] accepts in any version.
pub fn decode_request(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    decode(body, Purpose::Generate)
}

/// Decodes a request for token counting.
pub fn decode_count(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    decode(body, Purpose::Count)
}

fn decode(body: &[u8], purpose: Purpose) -> Result<GenerateRequest, DecodeError> {
    validate(body, Version::V2023_06_01, purpose)?;
    let request: wire::Request = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    Ok(request_from_wire(request))
}

fn request_from_wire(request: wire::Request) -> GenerateRequest {
    let mut messages: Vec<Message> = request.system.into_iter().map(system_from_wire).collect();
    for (index, message) in request.messages.into_iter().enumerate() {
        messages_from_wire(message, index, &mut messages);
    }
    // Automatic caching sets the breakpoint at the end of the conversation.
    if let Some(last) = messages.last_mut() {
        let mark = request.cache_control.as_ref().and_then(cache_life);
        last.parts.extend(mark.map(Part::CacheBreakpoint));
    }
    let choice = request.tool_choice.unwrap_or_default();
    let config = request.output_config.unwrap_or_default();
    let thinking = request.thinking.unwrap_or_default();
    GenerateRequest {
        model: request.model,
        messages,
        max_tokens: request.max_tokens,
        n: 1,
        stream: request.stream.unwrap_or(false),
        // The format always reports usage.
        include_usage: true,
        stop: request.stop_sequences.unwrap_or_default(),
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            ..Sampling::default()
        },
        tools: request
            .tools
            .unwrap_or_default()
            .into_iter()
            .filter_map(tool_from_wire)
            .collect(),
        parallel_tool_calls: choice.disable_parallel_tool_use.map(|disabled| !disabled),
        tool_choice: match (&*choice.kind, choice.name) {
            ("any", _) => ToolChoice::Required,
            ("none", _) => ToolChoice::None,
            ("tool", Some(name)) => ToolChoice::Named(name),
            _ => ToolChoice::Auto,
        },
        response_format: format_from_wire(config.format.or(request.output_format), request.response_format),
        reasoning_effort: config.effort,
        thinking: match (&*thinking.kind, thinking.budget_tokens) {
            ("disabled", _) => Some(Thinking::Off),
            ("enabled", Some(tokens)) => Some(Thinking::Budget(tokens)),
            ("adaptive", _) => Some(Thinking::Adaptive),
            ("between_tools", _) => Some(Thinking::BetweenTools),
            _ => None,
        },
        hide_reasoning: thinking.display.as_deref() == Some("omitted"),
        user: request.metadata.and_then(|metadata| metadata.user_id),
        top_logprobs: None,
        extra: Map::new(),
    }
}

fn system_from_wire(system: wire::Content) -> Message {
    let place = Place {
        path: "system".to_owned(),
        content: "system".to_owned(),
        first: matches!(system, wire::Content::Blocks(_)).then_some(0),
        apart: None,
    };
    Message {
        role: Role::System,
        parts: parts_from_wire(system),
        place,
        ..Message::default()
    }
}

/// Converts a message to one message of the common form, or to several if it has tool results.
fn messages_from_wire(message: wire::Message, index: usize, into: &mut Vec<Message>) {
    let path = format!("messages[{index}]");
    let role = match &*message.role {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::User,
    };
    let blocks = match message.content {
        wire::Content::Text(text) => {
            into.push(Message {
                role,
                parts: vec![Part::Text(text)],
                place: place(&path, None),
                ..Message::default()
            });
            return;
        }
        wire::Content::Blocks(blocks) => blocks,
    };
    let results = blocks
        .iter()
        .take_while(|block| block.kind == "tool_result")
        .count();
    let has_more = blocks.len() > results || results == 0;
    let mut blocks = blocks.into_iter();
    for (number, block) in blocks.by_ref().take(results).enumerate() {
        into.push(result_from_wire(block, &format!("{path}.content[{number}]")));
    }
    if has_more {
        let mut turn = Message {
            role,
            place: place(&path, Some(results)),
            ..Message::default()
        };
        for block in blocks {
            block_into(block, &mut turn);
        }
        into.push(turn);
    }
}

fn place(path: &str, first: Option<usize>) -> Place {
    Place {
        path: path.to_owned(),
        content: format!("{path}.content"),
        first,
        apart: None,
    }
}

fn result_from_wire(block: wire::Block, path: &str) -> Message {
    let mark = block.cache_control.as_ref().and_then(cache_life);
    let content = block
        .content
        .unwrap_or_else(|| wire::Content::Text(String::new()));
    let first = matches!(content, wire::Content::Blocks(_)).then_some(0);
    let mut parts = parts_from_wire(content);
    parts.extend(mark.map(Part::CacheBreakpoint));
    Message {
        role: Role::Tool,
        parts,
        tool_call_id: block.tool_use_id,
        is_error: block.is_error.unwrap_or(false),
        place: place(path, first),
        ..Message::default()
    }
}

fn block_into(block: wire::Block, turn: &mut Message) {
    let mark = block.cache_control.as_ref().and_then(cache_life);
    if block.kind == "tool_use" {
        turn.tool_calls.push(call_from_wire(block));
    } else {
        turn.parts.push(part_from_wire(block));
    }
    // The common form has no breakpoints on calls, so the breakpoint is added after the parts
    // before the call.
    turn.parts.extend(mark.map(Part::CacheBreakpoint));
}

/// Returns the lifetime of a cache breakpoint, five minutes unless `ttl` is `1h`; `None` for null.
fn cache_life(mark: &Value) -> Option<CacheLife> {
    match mark {
        Value::Null => None,
        mark if mark["ttl"] == "1h" => Some(CacheLife::OneHour),
        _ => Some(CacheLife::FiveMinutes),
    }
}

pub(super) fn call_from_wire(block: wire::Block) -> ToolCall {
    ToolCall {
        id: block.id.unwrap_or_default(),
        name: block.name.unwrap_or_default(),
        arguments: block
            .input
            .map_or_else(|| "{}".to_owned(), |input| input.get().to_owned()),
        custom: false,
    }
}

fn parts_from_wire(content: wire::Content) -> Vec<Part> {
    let mut turn = Message::default();
    match content {
        wire::Content::Text(text) => turn.parts.push(Part::Text(text)),
        wire::Content::Blocks(blocks) => blocks.into_iter().for_each(|block| block_into(block, &mut turn)),
    }
    turn.parts
}

pub(super) fn part_from_wire(mut block: wire::Block) -> Part {
    let cites = block.citations.as_ref().is_some_and(cites);
    let source = match block.source.take() {
        Some(wire::Source::Object(source)) => source,
        other => {
            block.source = other;
            wire::SourceObject::default()
        }
    };
    match (&*block.kind, &*source.kind) {
        ("text", _) => Part::Text(block.text.unwrap_or_default()),
        ("thinking", _) => Part::Reasoning(Reasoning {
            text: Some(block.thinking.unwrap_or_default()),
            seal: reasoning_envelope::unwrap(&block.signature.unwrap_or_default()),
        }),
        ("redacted_thinking", _) => Part::Reasoning(Reasoning {
            text: None,
            seal: reasoning_envelope::unwrap(&block.data.unwrap_or_default()),
        }),
        ("image", "url") => Part::Image {
            url: source.url.unwrap_or_default(),
            detail: None,
        },
        ("image", "base64") => Part::Image {
            url: data_url(source),
            detail: None,
        },
        ("image", "file") => stored(source, None, true),
        // The common form cannot represent citations or a context.
        ("document", "base64") if !cites && block.context.is_none() => Part::File(File {
            filename: block.title,
            data: Some(data_url(source)),
            ..File::default()
        }),
        ("document", "url") if !cites && block.context.is_none() => Part::File(File {
            filename: block.title,
            url: source.url,
            ..File::default()
        }),
        ("document", "file") if !cites && block.context.is_none() => stored(source, block.title, false),
        ("document", "text") if !cites && block.context.is_none() => Part::File(File {
            filename: block.title,
            text: source.data,
            ..File::default()
        }),
        _ => {
            if !source.kind.is_empty() {
                block.source = Some(wire::Source::Object(source));
            }
            Part::Foreign {
                kind: block.kind.clone(),
                value: serde_json::to_value(&block).unwrap_or_default(),
            }
        }
    }
}

fn stored(source: wire::SourceObject, filename: Option<String>, is_image: bool) -> Part {
    Part::Stored(Stored {
        id: source.file_id.unwrap_or_default(),
        is_image,
        detail: None,
        filename,
        field: "source.file_id",
    })
}

/// Whether a block has citations, or settings that enable them. Settings without `enabled` do not
/// enable citations.
fn cites(citations: &Value) -> bool {
    match citations {
        Value::Null => false,
        Value::Object(settings) => settings.get("enabled").and_then(Value::as_bool).unwrap_or(false),
        Value::Array(citations) => !citations.is_empty(),
        _ => true,
    }
}

fn data_url(source: wire::SourceObject) -> String {
    let media_type = source.media_type.unwrap_or_default();
    let data = source.data.unwrap_or_default();
    format!("data:{media_type};base64,{data}")
}

fn tool_from_wire(tool: Value) -> Option<Tool> {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or("custom");
    let name = tool.get("name")?.as_str()?.to_owned();
    if kind != "custom" {
        return Some(Tool::Foreign {
            name,
            kind: kind.to_owned(),
            value: tool,
        });
    }
    Some(Tool::Function {
        name,
        description: tool.get("description").and_then(Value::as_str).map(str::to_owned),
        parameters: tool.get("input_schema").cloned(),
        strict: tool.get("strict").and_then(Value::as_bool),
        cache: tool.get("cache_control").and_then(cache_life),
    })
}

/// Name for a schema without one: the common form requires a name.
const DEFAULT_SCHEMA_NAME: &str = "answer";

fn format_from_wire(
    format: Option<wire::OutputFormat>,
    extension: Option<wire::ResponseFormat>,
) -> ResponseFormat {
    if let Some(format) = format {
        return ResponseFormat::JsonSchema {
            name: DEFAULT_SCHEMA_NAME.to_owned(),
            description: None,
            schema: format.schema,
            strict: Some(true),
        };
    }
    let Some(extension) = extension else {
        return ResponseFormat::Text;
    };
    match (&*extension.kind, extension.json_schema) {
        ("json_object", _) => ResponseFormat::JsonObject,
        ("json_schema", Some(schema)) => ResponseFormat::JsonSchema {
            name: schema.name.unwrap_or_else(|| DEFAULT_SCHEMA_NAME.to_owned()),
            description: schema.description,
            schema: schema.schema,
            strict: schema.strict.or(Some(true)),
        },
        _ => ResponseFormat::Text,
    }
}

/// Deserializes a wire type without any further validation.
pub(super) fn lenient<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))
}
