//! Encoding of requests from the common form, for an upstream.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::Abilities;
use tollgate_types::adaptation::as_reminder;
use tollgate_types::generate::{
    CacheLife, File, GenerateRequest, Message, Part, ResponseFormat, Role, Tool, ToolChoice,
};

use super::head::Version;
use super::reasoning::{self, Control};
use super::wire::{self, Block, Content};

/// Writes a request that [`check_compatible`](super::check_compatible()) accepted. `output_cap`
/// (tokens) is sent if the caller set no limit, because the format requires a limit.
pub fn encode_request(request: &GenerateRequest, abilities: &Abilities, output_cap: u64) -> Vec<u8> {
    let (system, conversation) = split_system(&request.messages);
    let max_tokens = request.max_tokens.unwrap_or(output_cap);
    let control = reasoning::control(request, abilities, max_tokens);
    wire::to_bytes(&wire::Request {
        model: request.model.clone(),
        max_tokens: Some(max_tokens),
        system: system_to_wire(system),
        messages: messages_to_wire(conversation),
        stream: request.stream.then_some(true),
        stop_sequences: (!request.stop.is_empty()).then(|| request.stop.clone()),
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        top_k: request.sampling.top_k,
        tools: tools_to_wire(request),
        tool_choice: choice_to_wire(request),
        output_config: config_to_wire(request, control.as_ref()),
        thinking: control.map(|control| wire::Thinking {
            kind: control.kind.to_owned(),
            budget_tokens: control.budget_tokens,
            display: request.hide_reasoning.then(|| "omitted".to_owned()),
        }),
        output_format: None,
        response_format: None,
        cache_control: None,
        metadata: end_user(request).map(|user| wire::Metadata {
            user_id: Some(user.to_owned()),
        }),
    })
}

/// Returns the id of the end user: `user`, otherwise `safety_identifier`.
pub(super) fn end_user(request: &GenerateRequest) -> Option<&str> {
    let for_safety = || request.extra.get(SAFETY_IDENTIFIER).and_then(Value::as_str);
    request.user.as_deref().or_else(for_safety)
}

/// Name of the end user's id in newer versions of OpenAI's formats.
pub(super) const SAFETY_IDENTIFIER: &str = "safety_identifier";

/// Returns the version of the format to send: instructions within the conversation require the
/// newer one.
pub fn version_for(request: &GenerateRequest) -> Version {
    let (_, conversation) = split_system(&request.messages);
    match conversation.iter().any(|message| message.role == Role::System) {
        true => Version::V2026_10_21,
        false => Version::V2023_06_01,
    }
}

/// Splits the leading instructions from the conversation.
pub(crate) fn split_system(messages: &[Message]) -> (&[Message], &[Message]) {
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

/// Joins consecutive messages into turns. Between two turns of the assistant, the order is tool
/// results, user content, instructions: the format accepts instructions only after a user turn.
/// Without user content or tool results, the instructions become a user turn.
fn messages_to_wire(messages: &[Message]) -> Vec<wire::Message> {
    let mut turns: Vec<(&'static str, Vec<Block>)> = Vec::new();
    let is_assistant = |message: &Message| message.role == Role::Assistant;
    for group in messages.chunk_by(|one, next| is_assistant(one) == is_assistant(next)) {
        if group.first().is_some_and(is_assistant) {
            turns.push(("assistant", group.iter().flat_map(assistant_blocks).collect()));
            continue;
        }
        let of = |role: Role| group.iter().filter(move |message| message.role == role);
        let mut user_blocks: Vec<Block> = of(Role::Tool).map(result_to_wire).collect();
        user_blocks.extend(of(Role::User).flat_map(blocks_of));
        let mut instructions: Vec<Block> = of(Role::System).flat_map(blocks_of).collect();
        if user_blocks.is_empty() {
            user_blocks = instructions.drain(..).map(Block::into_reminder).collect();
        }
        turns.push(("user", user_blocks));
        turns.push(("system", instructions));
    }
    let turns = turns.into_iter().filter(|(_, blocks)| !blocks.is_empty());
    turns
        .map(|(role, blocks)| wire::Message {
            role: role.to_owned(),
            content: content_of(blocks),
        })
        .collect()
}

/// Returns the blocks of an assistant turn: content, then tool calls.
fn assistant_blocks(message: &Message) -> Vec<Block> {
    let mut blocks = blocks_of(message);
    blocks.extend(message.tool_calls.iter().map(|call| Block {
        id: Some(call.id.clone()),
        name: Some(call.name.clone()),
        input: Some(input_of(&call.arguments)),
        ..Block::of("tool_use")
    }));
    blocks
}

impl Block {
    fn into_reminder(self) -> Self {
        Self {
            text: self.text.as_deref().map(as_reminder),
            ..self
        }
    }
}

fn content_of(mut blocks: Vec<Block>) -> Content {
    match &mut *blocks {
        [one] if one.kind == "text" && one.cache_control.is_none() => {
            Content::Text(one.text.take().unwrap_or_default())
        }
        _ => Content::Blocks(blocks),
    }
}

/// Returns the input of a call: an empty object if it has no arguments. The compatibility check has
/// already refused arguments that are not a JSON object.
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
                // The format does not allow breakpoints on reasoning.
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

/// Returns the `cache_control` object. Its default lifetime is five minutes.
fn cache_control(life: CacheLife) -> Value {
    match life {
        CacheLife::FiveMinutes => json!({"type": "ephemeral"}),
        CacheLife::OneHour => json!({"type": "ephemeral", "ttl": "1h"}),
    }
}

/// Returns the block of a part; `None` for an empty text, which the format refuses, for reasoning
/// without a signature, and for parts that the format cannot represent.
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

/// Returns the media type, by its registered name, and the base64 data of a data URL; `None` for
/// other URLs.
pub(crate) fn inline(url: &str) -> Option<(&str, &str)> {
    let scheme = url.get(..5)?;
    let rest = url.get(5..).filter(|_| scheme.eq_ignore_ascii_case("data:"))?;
    let (head, data) = rest.split_once(',')?;
    Some((media_type(head.strip_suffix(";base64")?), data))
}

/// Returns a data URL with the registered name of its media type, and any other URL unchanged.
pub(crate) fn with_registered_type(url: &str) -> Cow<'_, str> {
    let written = url.get(5..).and_then(|rest| rest.split_once(";base64,"));
    match (inline(url), written) {
        (Some((name, data)), Some((before, _))) if name != before => {
            Cow::Owned(format!("data:{name};base64,{data}"))
        }
        _ => Cow::Borrowed(url),
    }
}

/// Returns the registered name of a media type: `image/jpg` is a common mistake for `image/jpeg`.
pub(crate) fn media_type(name: &str) -> &str {
    match name.eq_ignore_ascii_case("image/jpg") {
        true => "image/jpeg",
        false => name,
    }
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
        // The format cannot restrict the choice to some tools, so the other tools are omitted.
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

fn config_to_wire(request: &GenerateRequest, control: Option<&Control>) -> Option<wire::OutputConfig> {
    let effort = control.and_then(|control| control.effort).map(str::to_owned);
    let format = match &request.response_format {
        ResponseFormat::JsonSchema { schema, .. } => Some(wire::OutputFormat {
            kind: "json_schema".to_owned(),
            schema: schema.clone(),
        }),
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    };
    (effort.is_some() || format.is_some()).then_some(wire::OutputConfig { effort, format })
}
