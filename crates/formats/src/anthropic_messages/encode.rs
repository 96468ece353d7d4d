//! From the common form to a request for an upstream.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::generate::{
    CacheLife, File, GenerateRequest, Message, Part, ResponseFormat, Role, Thinking, Tool, ToolChoice,
};

use super::head::Version;
use super::wire::{self, Block, Content};

/// Writes a request. [`carry`](super::carry()) has said that it can be. `output_cap` is sent when the caller set no cap:
/// the format needs one.
pub fn encode_request(request: &GenerateRequest, output_cap: u64) -> Vec<u8> {
    let (system, conversation) = parted(&request.messages);
    let thinking = thinking(request);
    wire::to_bytes(&wire::Request {
        model: request.model.clone(),
        max_tokens: Some(request.max_tokens.unwrap_or(output_cap)),
        system: system_to_wire(system),
        messages: messages_to_wire(conversation),
        stream: request.stream.then_some(true),
        stop_sequences: (!request.stop.is_empty()).then(|| request.stop.clone()),
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        top_k: request.sampling.top_k,
        tools: tools_to_wire(request),
        tool_choice: choice_to_wire(request),
        output_config: config_to_wire(request),
        thinking,
        response_format: None,
        cache_control: None,
        metadata: end_user(request).map(|user| wire::Metadata {
            user_id: Some(user.to_owned()),
        }),
    })
}

/// The end user, by either of the names that other formats have.
pub(super) fn end_user(request: &GenerateRequest) -> Option<&str> {
    let for_safety = || request.extra.get(SAFETY_IDENTIFIER).and_then(Value::as_str);
    request.user.as_deref().or_else(for_safety)
}

/// The name that newer formats have for the end user.
pub(super) const SAFETY_IDENTIFIER: &str = "safety_identifier";

/// The version in which a request is sent: instructions within the conversation are of the newer one.
pub fn version_for(request: &GenerateRequest) -> Version {
    let (_, conversation) = parted(&request.messages);
    match conversation.iter().any(|message| message.role == Role::System) {
        true => Version::V2026_10_21,
        false => Version::V2023_06_01,
    }
}

/// Instructions at the beginning, and the conversation.
pub(crate) fn parted(messages: &[Message]) -> (&[Message], &[Message]) {
    let system = messages.iter().take_while(|message| message.role == Role::System);
    messages.split_at(system.count())
}

fn system_to_wire(system: &[Message]) -> Option<Content> {
    let blocks: Vec<Block> = system.iter().flat_map(blocks_of).collect();
    match &*blocks {
        [] => None,
        [one] if one.cache_control.is_none() => one.text.clone().map(Content::Text),
        _ => Some(Content::Blocks(blocks)),
    }
}

/// Turns of one side follow each other as one, and the results of tools come first in the user's.
fn messages_to_wire(messages: &[Message]) -> Vec<wire::Message> {
    let mut turns: Vec<(&'static str, Vec<Block>)> = Vec::new();
    for message in messages {
        let role = match message.role {
            Role::System => "system",
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        let mut blocks = match message.role {
            Role::Tool => vec![result_to_wire(message)],
            _ => blocks_of(message),
        };
        blocks.extend(message.tool_calls.iter().map(|call| Block {
            id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            input: Some(input_of(&call.arguments)),
            ..Block::of("tool_use")
        }));
        match turns.last_mut() {
            Some((last, before)) if *last == role => before.append(&mut blocks),
            _ => turns.push((role, blocks)),
        }
    }
    let turns = turns.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    turns
        .map(|(role, blocks)| wire::Message {
            role: role.to_owned(),
            content: content_of(blocks),
        })
        .collect()
}

fn content_of(mut blocks: Vec<Block>) -> Content {
    match &mut *blocks {
        [one] if one.kind == "text" && one.cache_control.is_none() => {
            Content::Text(one.text.take().unwrap_or_default())
        }
        _ => Content::Blocks(blocks),
    }
}

/// A call without arguments has an empty object. Other texts that are no JSON were refused before.
pub(crate) fn input_of(arguments: &str) -> Box<RawValue> {
    let text = match arguments.trim() {
        "" => "{}",
        text => text,
    };
    RawValue::from_string(text.to_owned()).unwrap_or_default()
}

fn result_to_wire(message: &Message) -> Block {
    let blocks = blocks_of(message);
    Block {
        tool_use_id: message.tool_call_id.clone(),
        content: (!blocks.is_empty()).then(|| content_of(blocks)),
        is_error: message.is_error.then_some(true),
        ..Block::of("tool_result")
    }
}

fn blocks_of(message: &Message) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for part in &message.parts {
        match part {
            Part::CacheBreakpoint(life) => {
                // Reasoning cannot be marked.
                let is_markable = |block: &&mut Block| !block.kind.ends_with("thinking");
                if let Some(last) = blocks.iter_mut().rev().find(is_markable) {
                    last.cache_control = Some(cache_control(*life));
                }
            }
            part => blocks.extend(block_of(part)),
        }
    }
    blocks
}

/// The mark. Five minutes are what is meant when nothing is said.
fn cache_control(life: CacheLife) -> Value {
    match life {
        CacheLife::FiveMinutes => json!({"type": "ephemeral"}),
        CacheLife::OneHour => json!({"type": "ephemeral", "ttl": "1h"}),
    }
}

/// The block of a part. Empty texts are refused by the format and say nothing.
fn block_of(part: &Part) -> Option<Block> {
    Some(match part {
        Part::Text(text) | Part::Refusal(text) if text.is_empty() => return None,
        Part::Text(text) | Part::Refusal(text) => Block::text(text),
        Part::Reasoning(reasoning) => {
            let data = reasoning.seal.as_ref()?.data.clone();
            match &reasoning.text {
                Some(text) => Block {
                    thinking: Some(text.clone()),
                    signature: Some(data),
                    ..Block::of("thinking")
                },
                None => Block {
                    data: Some(data),
                    ..Block::of("redacted_thinking")
                },
            }
        }
        Part::Image { url, .. } => Block {
            source: Some(wire::Source::Object(source_of(url))),
            ..Block::of("image")
        },
        Part::File(file) => document_of(file)?,
        Part::Audio { .. } | Part::Stored(_) | Part::Foreign { .. } | Part::CacheBreakpoint(_) => {
            return None;
        }
    })
}

/// Type and base64 of a data URL.
pub(crate) fn inline(url: &str) -> Option<(&str, &str)> {
    let scheme = url.get(..5)?;
    let rest = url.get(5..).filter(|_| scheme.eq_ignore_ascii_case("data:"))?;
    let (head, data) = rest.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

fn source_of(url: &str) -> wire::SourceObject {
    match inline(url) {
        Some((media_type, data)) => wire::SourceObject {
            kind: "base64".to_owned(),
            media_type: Some(media_type.to_owned()),
            data: Some(data.to_owned()),
            ..wire::SourceObject::default()
        },
        None => wire::SourceObject {
            kind: "url".to_owned(),
            url: Some(url.to_owned()),
            ..wire::SourceObject::default()
        },
    }
}

fn document_of(file: &File) -> Option<Block> {
    let source = match (&file.text, &file.data) {
        (Some(text), _) => wire::SourceObject {
            kind: "text".to_owned(),
            media_type: Some("text/plain".to_owned()),
            data: Some(text.clone()),
            ..wire::SourceObject::default()
        },
        (None, Some(data)) => source_of(data),
        (None, None) => return None,
    };
    Some(Block {
        source: Some(wire::Source::Object(source)),
        title: file.filename.clone(),
        ..Block::of("document")
    })
}

fn tools_to_wire(request: &GenerateRequest) -> Option<Vec<Value>> {
    let allowed = |tool: &&Tool| match &request.tool_choice {
        // The format cannot allow some of the tools: the others are left out.
        ToolChoice::Allowed { names, .. } => names.iter().any(|name| name == tool.name()),
        _ => true,
    };
    let tools: Vec<Value> = request
        .tools
        .iter()
        .filter(allowed)
        .filter_map(tool_to_wire)
        .collect();
    (!tools.is_empty()).then_some(tools)
}

fn tool_to_wire(tool: &Tool) -> Option<Value> {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            cache,
        } => {
            let nothing = || json!({"type": "object", "properties": {}});
            let mut object =
                json!({"name": name, "input_schema": parameters.clone().unwrap_or_else(nothing)});
            if let Some(description) = description {
                object["description"] = json!(description);
            }
            if *strict == Some(true) {
                object["strict"] = json!(true);
            }
            if let Some(life) = cache {
                object["cache_control"] = cache_control(*life);
            }
            Some(object)
        }
        Tool::Foreign { value, .. } => Some(value.clone()),
        Tool::Custom { .. } => None,
    }
}

fn choice_to_wire(request: &GenerateRequest) -> Option<wire::ToolChoice> {
    if request.tools.is_empty() {
        return None;
    }
    let (kind, name) = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Allowed { required: false, .. } => ("auto", None),
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => ("any", None),
        ToolChoice::None => ("none", None),
        ToolChoice::Named(name) => ("tool", Some(name.clone())),
    };
    let disabled = request.parallel_tool_calls.map(|parallel| !parallel);
    if kind == "auto" && disabled.is_none() {
        return None;
    }
    Some(wire::ToolChoice {
        kind: kind.to_owned(),
        name,
        disable_parallel_tool_use: disabled.filter(|_| kind != "none"),
    })
}

fn thinking(request: &GenerateRequest) -> Option<wire::Thinking> {
    let effort = request.reasoning_effort.as_deref();
    let (kind, budget_tokens) = match (request.thinking, effort) {
        (Some(Thinking::Off), _) | (None, Some("none")) => ("disabled", None),
        (Some(Thinking::Budget(tokens)), _) => ("enabled", Some(tokens)),
        (Some(Thinking::BetweenTools), _) => ("between_tools", None),
        (Some(Thinking::Adaptive), _) | (None, Some(_)) => ("adaptive", None),
        (None, None) => return None,
    };
    Some(wire::Thinking {
        kind: kind.to_owned(),
        budget_tokens,
        display: request.hide_reasoning.then(|| "omitted".to_owned()),
    })
}

fn config_to_wire(request: &GenerateRequest) -> Option<wire::OutputConfig> {
    let effort = match request.reasoning_effort.as_deref() {
        None | Some("none") => None,
        Some("minimal") => Some("low".to_owned()),
        Some(effort) => Some(effort.to_owned()),
    };
    let format = match &request.response_format {
        ResponseFormat::JsonSchema { schema, .. } => Some(wire::OutputFormat {
            kind: "json_schema".to_owned(),
            schema: schema.clone(),
        }),
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    };
    (effort.is_some() || format.is_some()).then_some(wire::OutputConfig { effort, format })
}
