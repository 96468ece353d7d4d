//! Decoding of requests to the common form.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_types::generate::{
    CacheLife, File, GenerateRequest, Message, Part, Place, Reasoning, ResponseFormat, Role, Sampling,
    Stored, Tool, ToolCall, ToolChoice,
};

use super::{validate, wire};
use crate::error::DecodeError;
use crate::reasoning_envelope;

/// Decodes a request. Accepts exactly what [`validate()`] accepts. The result does not include the
/// previous response: code that stores responses adds the items of that response to the body with
/// [`with_items`](super::with_items) first.
pub fn decode_request(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    validate(body)?;
    let request: wire::Request = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    Ok(request_from_wire(request))
}

fn request_from_wire(request: wire::Request) -> GenerateRequest {
    let mut messages: Vec<Message> = request.instructions.into_iter().map(instructions).collect();
    match request.input {
        None => {}
        Some(wire::Input::Text(text)) => messages.push(Message {
            role: Role::User,
            parts: vec![Part::Text(text)],
            place: Place {
                path: "input".to_owned(),
                content: "input".to_owned(),
                ..Place::default()
            },
            ..Message::default()
        }),
        Some(wire::Input::Items(items)) => {
            for (index, item) in items.into_iter().enumerate() {
                item_into(item, index, &mut messages);
            }
        }
    }
    let text = request.text.unwrap_or(wire::Text {
        format: None,
        verbosity: None,
    });
    let reasoning = request.reasoning.unwrap_or_default();
    let mut include = request.include.iter().flatten();
    let logprobs = include.any(|name| name == "message.output_text.logprobs");
    let top_logprobs = request.top_logprobs.unwrap_or(0);
    let mut extra = Map::new();
    // `extra` contains fields outside the common form under their names in chat completions.
    let tier = request
        .service_tier
        .filter(|tier| !matches!(&**tier, "auto" | "default"));
    let extra_fields = [
        ("verbosity", text.verbosity),
        ("service_tier", tier),
        ("safety_identifier", request.safety_identifier),
    ];
    for (name, value) in extra_fields {
        if let Some(value) = value {
            extra.insert(name.to_owned(), Value::String(value));
        }
    }
    GenerateRequest {
        model: request.model,
        messages,
        max_tokens: request.max_output_tokens,
        n: 1,
        stream: request.stream.unwrap_or(false),
        // The format always reports usage.
        include_usage: true,
        stop: Vec::new(),
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            frequency_penalty: request.frequency_penalty,
            presence_penalty: request.presence_penalty,
            ..Sampling::default()
        },
        tools: request
            .tools
            .unwrap_or_default()
            .into_iter()
            .map(tool_from_wire)
            .collect(),
        tool_choice: request
            .tool_choice
            .as_ref()
            .map(choice_from_wire)
            .unwrap_or_default(),
        parallel_tool_calls: request.parallel_tool_calls,
        response_format: text.format.map(format_from_wire).unwrap_or_default(),
        reasoning_effort: reasoning.effort,
        thinking: None,
        hide_reasoning: reasoning.summary.or(reasoning.generate_summary).is_none(),
        user: request.user,
        top_logprobs: (logprobs || top_logprobs > 0).then_some(top_logprobs),
        extra,
    }
}

fn instructions(text: String) -> Message {
    Message {
        role: Role::System,
        parts: vec![Part::Text(text)],
        place: Place {
            path: "instructions".to_owned(),
            content: "instructions".to_owned(),
            ..Place::default()
        },
        ..Message::default()
    }
}

/// Converts an input item. Consecutive messages, reasoning and calls of the model form one turn of
/// the common form.
fn item_into(value: Value, index: usize, into: &mut Vec<Message>) {
    let path = format!("input[{index}]");
    let item = wire::Item::deserialize(&value).unwrap_or_default();
    let kind = item.kind.as_deref().unwrap_or("message");
    let mut turn = Message {
        role: Role::Assistant,
        place: Place {
            content: path.clone(),
            path: path.clone(),
            ..Place::default()
        },
        ..Message::default()
    };
    match kind {
        "message" => {
            turn.role = match item.role.as_deref() {
                Some("assistant") => Role::Assistant,
                Some("user") => Role::User,
                _ => Role::System,
            };
            content_into(item.content, &format!("{path}.content"), &mut turn);
        }
        "reasoning" => turn.parts.extend(reasoning_from_wire(item).map(Part::Reasoning)),
        "function_call" | "custom_tool_call" => turn.tool_calls.extend(call_from_wire(item)),
        "function_call_output" | "custom_tool_call_output" => {
            turn.role = Role::Tool;
            turn.tool_call_id = item.call_id;
            content_into(item.output, &format!("{path}.output"), &mut turn);
        }
        kind => {
            let kind = kind.to_owned();
            turn.parts.push(Part::Foreign { kind, value });
            into.push(turn);
            return;
        }
    }
    let continues_turn = |last: &&mut Message| {
        let is_whole = last.parts.iter().any(|part| matches!(part, Part::Foreign { .. }));
        last.role == Role::Assistant && turn.role == Role::Assistant && !is_whole
    };
    match into.last_mut().filter(continues_turn) {
        Some(last) => {
            if last.tool_calls.is_empty() && !turn.tool_calls.is_empty() {
                // The path of the calls is that of the first call.
                last.place.path = turn.place.path;
            }
            last.parts.append(&mut turn.parts);
            last.tool_calls.append(&mut turn.tool_calls);
        }
        None => into.push(turn),
    }
}

fn content_into(content: Option<wire::Content>, path: &str, turn: &mut Message) {
    path.clone_into(&mut turn.place.content);
    match content {
        None => {}
        Some(wire::Content::Text(text)) => turn.parts.push(Part::Text(text)),
        Some(wire::Content::Parts(parts)) => {
            turn.place.first = Some(0);
            for part in parts {
                let is_cached = part
                    .prompt_cache_breakpoint
                    .as_ref()
                    .is_some_and(|mark| !mark.is_null());
                turn.parts.extend(part_from_wire(part));
                if is_cached {
                    turn.parts.push(Part::CacheBreakpoint(CacheLife::FiveMinutes));
                }
            }
        }
    }
}

pub(super) fn part_from_wire(part: wire::Part) -> Option<Part> {
    match &*part.kind {
        "input_text" | "output_text" => part.text.map(Part::Text),
        "refusal" => part.refusal.map(Part::Refusal),
        "input_image" | "input_file" if part.file_id.is_some() => Some(Part::Stored(Stored {
            id: part.file_id?,
            is_image: part.kind == "input_image",
            detail: part.detail,
            filename: part.filename,
            field: "file_id",
        })),
        "input_image" => Some(Part::Image {
            url: part.image_url?,
            detail: part.detail,
        }),
        "input_audio" => part.input_audio.map(|audio| Part::Audio {
            data: audio.data,
            format: audio.format,
        }),
        "input_file" => Some(Part::File(File {
            data: part.file_data,
            url: part.file_url,
            filename: part.filename,
            ..File::default()
        })),
        _ => None,
    }
}

/// Prefix of the encrypted content of hidden reasoning, because the format has no flag for hidden
/// reasoning.
pub(super) const HIDDEN_PREFIX: &str = "hidden.";

/// Decodes reasoning from a caller; `None` if the item has neither text nor encrypted content.
fn reasoning_from_wire(item: wire::Item) -> Option<Reasoning> {
    let text = reasoned(&item);
    let seal = reasoning_envelope::unwrap(&item.encrypted_content.unwrap_or_default());
    let Some(mut seal) = seal else {
        return (!text.is_empty()).then(|| Reasoning::shown(text));
    };
    if let Some(data) = seal.data.strip_prefix(HIDDEN_PREFIX) {
        seal.data = data.to_owned();
        return Some(Reasoning {
            text: None,
            seal: Some(seal),
        });
    }
    let has_content = !text.is_empty() || !seal.data.is_empty();
    has_content.then_some(Reasoning {
        text: Some(text),
        seal: Some(seal),
    })
}

/// Returns the text of reasoning: its summary, or the full text if it has no summary.
pub(super) fn reasoned(item: &wire::Item) -> String {
    let joined = |parts: &[wire::Part]| {
        let texts: Vec<&str> = parts.iter().filter_map(|part| part.text.as_deref()).collect();
        texts.join("\n\n")
    };
    match (&item.summary, &item.content) {
        (Some(summary), _) if !summary.is_empty() => joined(summary),
        (_, Some(wire::Content::Parts(parts))) => joined(parts),
        _ => String::new(),
    }
}

pub(super) fn call_from_wire(item: wire::Item) -> Option<ToolCall> {
    let custom = item.kind.as_deref() == Some("custom_tool_call");
    Some(ToolCall {
        id: item.call_id?,
        name: item.name.unwrap_or_default(),
        arguments: if custom { item.input } else { item.arguments }.unwrap_or_default(),
        custom,
    })
}

fn tool_from_wire(tool: Value) -> Tool {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = text("type").unwrap_or_default();
    let name = text("name").unwrap_or_else(|| kind.clone());
    let some = |name: &str| tool.get(name).filter(|value| !value.is_null());
    match &*kind {
        "function" => Tool::Function {
            name,
            description: text("description"),
            parameters: some("parameters").cloned(),
            strict: some("strict").and_then(Value::as_bool),
            cache: None,
        },
        "custom" => Tool::Custom {
            name,
            description: text("description"),
            format: some("format").map(format_of_custom),
        },
        _ => Tool::Foreign {
            name,
            kind,
            value: tool,
        },
    }
}

/// Moves a grammar into a nested object, as in chat completions and in the common form.
fn format_of_custom(format: &Value) -> Value {
    match format["type"] == "grammar" {
        true => json!({
            "type": "grammar",
            "grammar": {"definition": format["definition"], "syntax": format["syntax"]},
        }),
        false => format.clone(),
    }
}

fn choice_from_wire(choice: &Value) -> ToolChoice {
    let name = || choice["name"].as_str().map(str::to_owned);
    match (choice.as_str(), choice["type"].as_str()) {
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Required,
        (None, Some("allowed_tools")) => {
            let tools = choice["tools"].as_array().into_iter().flatten();
            ToolChoice::Allowed {
                required: choice["mode"] == "required",
                names: tools
                    .filter_map(|tool| tool["name"].as_str().map(str::to_owned))
                    .collect(),
            }
        }
        (None, Some(kind)) => ToolChoice::Named(name().unwrap_or_else(|| kind.to_owned())),
        _ => ToolChoice::Auto,
    }
}

fn format_from_wire(format: wire::TextFormat) -> ResponseFormat {
    match &*format.kind {
        "json_object" => ResponseFormat::JsonObject,
        "json_schema" => ResponseFormat::JsonSchema {
            name: format.name.unwrap_or_default(),
            description: format.description,
            schema: format.schema,
            strict: format.strict,
        },
        _ => ResponseFormat::Text,
    }
}

/// Deserializes a wire type without any further validation.
pub(super) fn lenient<'de, T: Deserialize<'de>>(body: &'de [u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))
}
