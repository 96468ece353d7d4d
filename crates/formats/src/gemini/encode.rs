//! Encoding of requests from the common form.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::generate::{
    File, GenerateRequest, Message, Part, ResponseFormat, Role, Tool, ToolCall, ToolChoice,
};
use tollgate_types::{Abilities, Effort, ReasoningControl, RequestedReasoning};

use super::decode::wrapped_text;
use super::{seals, wire};
use crate::anthropic_messages::encode::media_type;

/// Signature for calls that have no signature of the upstream, such as calls of another model.
/// Models that sign their calls refuse calls without a signature, but accept this one
/// (ai.google.dev/gemini-api/docs/thought-signatures).
pub(super) const NOT_SIGNED: &str = "skip_thought_signature_validator";

/// Writes a request that [`check_compatible`](super::check_compatible()) accepted. `clamp` (tokens)
/// is sent if the caller set no limit.
pub fn encode_request(request: &GenerateRequest, abilities: &Abilities, clamp: Option<u64>) -> Vec<u8> {
    let (system, conversation) = split_system(&request.messages);
    let mut system_parts = Vec::new();
    for message in system {
        parts_of(message, &mut system_parts, false);
    }
    let tools = declarations(request);
    wire::to_bytes(&wire::Request {
        contents: contents(conversation, signs_calls(&request.model)),
        system_instruction: (!system_parts.is_empty()).then_some(wire::Content {
            role: None,
            parts: system_parts,
        }),
        generation_config: config(request, abilities, clamp),
        tool_config: tools.is_some().then(|| tool_config(request)).flatten(),
        tools,
    })
}

/// Splits the leading instructions from the conversation.
pub(super) fn split_system(messages: &[Message]) -> (&[Message], &[Message]) {
    let system = messages.iter().take_while(|message| message.role == Role::System);
    messages.split_at(system.count())
}

/// Whether a model signs its calls and uses reasoning levels, as all models since the third
/// generation do.
pub(super) fn signs_calls(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_older = ["gemini-1", "gemini-2"]
        .iter()
        .any(|older| name.starts_with(older));
    name.starts_with("gemini-") && !is_older
}

/// Joins consecutive messages into turns. Tool results come first, in the order of their calls: the
/// format requires them directly after the calls.
fn contents(messages: &[Message], signs_calls: bool) -> Vec<wire::Content> {
    let mut turns: Vec<wire::Content> = Vec::new();
    let mut calls: Vec<&ToolCall> = Vec::new();
    let is_assistant = |message: &Message| message.role == Role::Assistant;
    for group in messages.chunk_by(|one, next| is_assistant(one) == is_assistant(next)) {
        let mut group: Vec<&Message> = group.iter().collect();
        group.sort_by_key(|message| {
            let is_result = message.role == Role::Tool;
            let place = || calls.iter().position(|call| answers(message, call));
            (!is_result, is_result.then(place))
        });
        for message in group {
            let (role, mut parts) = match message.role {
                Role::Tool => ("user", vec![result(message, &calls)]),
                Role::Assistant => {
                    calls.extend(&message.tool_calls);
                    ("model", model_parts(message, signs_calls))
                }
                Role::User | Role::System => {
                    let mut parts = Vec::new();
                    parts_of(message, &mut parts, false);
                    ("user", parts)
                }
            };
            match turns.last_mut() {
                Some(last) if last.role.as_deref() == Some(role) => last.parts.append(&mut parts),
                _ => turns.push(wire::Content {
                    role: Some(role.to_owned()),
                    parts,
                }),
            }
        }
    }
    turns.retain(|turn| !turn.parts.is_empty());
    turns
}

fn answers(message: &Message, call: &ToolCall) -> bool {
    message.tool_call_id.as_deref() == Some(&*call.id)
}

fn model_parts(message: &Message, signs_calls: bool) -> Vec<wire::Part> {
    let mut parts = Vec::new();
    let mut seals = parts_of(message, &mut parts, !message.tool_calls.is_empty()).into_iter();
    for (number, call) in message.tool_calls.iter().enumerate() {
        // Models sign only the first of parallel calls.
        let stand_in = || (signs_calls && number == 0).then(|| NOT_SIGNED.to_owned());
        parts.push(wire::Part {
            thought_signature: seals.next().or_else(stand_in),
            ..call_to_wire(call)
        });
    }
    parts
}

pub(super) fn call_to_wire(call: &ToolCall) -> wire::Part {
    wire::Part {
        function_call: Some(wire::FunctionCall {
            id: Some(call.id.clone()),
            name: call.name.clone(),
            args: Some(args(&call.arguments)),
        }),
        ..wire::Part::default()
    }
}

/// Returns the arguments of a call. The format accepts only objects: empty arguments become an
/// empty object, and any other text, such as arguments truncated at the output token limit, becomes
/// the member `arguments` of an object.
fn args(arguments: &str) -> Box<RawValue> {
    let text = arguments.trim();
    let object = RawValue::from_string(text.to_owned())
        .ok()
        .filter(|raw| raw.get().starts_with('{'));
    object.unwrap_or_else(|| match text {
        "" => raw(&json!({})),
        text => raw(&json!({ "arguments": text })),
    })
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap_or_default()
}

fn result(message: &Message, calls: &[&ToolCall]) -> wire::Part {
    let id = message.tool_call_id.clone();
    let name = calls.iter().rev().find(|call| answers(message, call));
    let (mut text, mut media) = (String::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text(part_text) | Part::Refusal(part_text) => text.push_str(part_text),
            part => media.extend(part_to_wire(part)),
        }
    }
    wire::Part {
        function_response: Some(wire::FunctionResponse {
            name: name
                .map(|call| call.name.clone())
                .or_else(|| id.clone())
                .unwrap_or_default(),
            id,
            response: response(&text, message.is_error),
            parts: (!media.is_empty()).then_some(media),
        }),
        ..wire::Part::default()
    }
}

/// Returns the result of a tool. An object stays unchanged, unless the decoder would mistake the
/// object for an encoded text; any other text becomes the member `result` of an object. The text of
/// an error becomes the member `error`.
pub(super) fn response(text: &str, is_error: bool) -> Box<RawValue> {
    if is_error {
        return raw(&json!({ "error": text }));
    }
    let object = RawValue::from_string(text.to_owned())
        .ok()
        .filter(|raw| raw.get().trim_start().starts_with('{') && wrapped_text(raw.get()).is_none());
    object.unwrap_or_else(|| raw(&json!({ "result": text })))
}

/// Writes the parts of a turn. A signature that belongs to no thought is added to the next part
/// that is not a thought. The remaining signatures are returned if the turn has calls; otherwise an
/// empty part is added for each of them.
fn parts_of(message: &Message, into: &mut Vec<wire::Part>, has_calls: bool) -> Vec<String> {
    let mut pending: Vec<String> = Vec::new();
    for part in &message.parts {
        match part {
            Part::Reasoning(reasoning) => {
                let seal = reasoning.seal.as_ref().map(|seal| seal.data.clone());
                let seal = seal.filter(|data| !data.is_empty());
                match &reasoning.text {
                    Some(text) => into.push(wire::Part {
                        thought: Some(true),
                        thought_signature: seal,
                        ..wire::Part::text(text)
                    }),
                    None => pending.extend(seal),
                }
            }
            part => {
                if let Some(mut written) = part_to_wire(part) {
                    if !pending.is_empty() {
                        written.thought_signature = Some(pending.remove(0));
                    }
                    into.push(written);
                }
            }
        }
    }
    if has_calls {
        return pending;
    }
    into.extend(pending.into_iter().map(|seal| wire::Part {
        thought_signature: Some(seal),
        ..wire::Part::text("")
    }));
    Vec::new()
}

/// Converts a part of the common form to a part on the wire; `None` for an empty text and for parts
/// that have no equivalent.
fn part_to_wire(part: &Part) -> Option<wire::Part> {
    match part {
        Part::Text(text) | Part::Refusal(text) => (!text.is_empty()).then(|| wire::Part::text(text)),
        Part::Image { url, .. } => Some(at_url(url, None)),
        Part::Audio { data, format } => Some(wire::Part::inline(&format!("audio/{format}"), data, None)),
        Part::File(File {
            text: Some(text),
            filename,
            ..
        }) => {
            let data = seals::encode(text.as_bytes());
            Some(wire::Part::inline("text/plain", data, filename.clone()))
        }
        Part::File(file) => Some(at_url(file.data.as_deref()?, file.filename.clone())),
        Part::Foreign { kind, value } if kind == "inlineData" => serde_json::from_value(value.clone()).ok(),
        Part::Stored(_) | Part::Foreign { .. } | Part::Reasoning(_) | Part::CacheBreakpoint(_) => None,
    }
}

/// Returns the media type, by its registered name, and the base64 data of a data URL; `None` for
/// other URLs.
pub(super) fn inline(url: &str) -> Option<(&str, &str)> {
    let scheme = url.get(..5)?;
    let rest = url.get(5..).filter(|_| scheme.eq_ignore_ascii_case("data:"))?;
    let (head, data) = rest.split_once(',')?;
    Some((media_type(head.strip_suffix(";base64")?), data))
}

fn at_url(url: &str, name: Option<String>) -> wire::Part {
    match inline(url) {
        Some((mime_type, data)) => wire::Part::inline(mime_type, data, name),
        None => wire::Part {
            file_data: Some(wire::FileData {
                mime_type: None,
                file_uri: url.to_owned(),
            }),
            ..wire::Part::default()
        },
    }
}

fn config(
    request: &GenerateRequest,
    abilities: &Abilities,
    clamp: Option<u64>,
) -> Option<wire::GenerationConfig> {
    let sampling = &request.sampling;
    let schema = match &request.response_format {
        ResponseFormat::JsonSchema { schema, .. } => Some(schema.clone()),
        ResponseFormat::Text | ResponseFormat::JsonObject => None,
    };
    let is_text = request.response_format == ResponseFormat::Text;
    let config = wire::GenerationConfig {
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k.map(wire::Whole),
        candidate_count: (request.n > 1).then_some(request.n),
        max_output_tokens: request.max_tokens.or(clamp),
        stop_sequences: (!request.stop.is_empty()).then(|| request.stop.clone()),
        response_mime_type: (!is_text).then(|| "application/json".to_owned()),
        response_schema: None,
        response_json_schema: schema,
        presence_penalty: sampling.presence_penalty,
        frequency_penalty: sampling.frequency_penalty,
        seed: sampling.seed,
        response_logprobs: request.top_logprobs.is_some().then_some(true),
        logprobs: request.top_logprobs.filter(|count| *count > 0),
        thinking_config: thinking(request, abilities),
    };
    (config != wire::GenerationConfig::default()).then_some(config)
}

fn thinking(request: &GenerateRequest, abilities: &Abilities) -> Option<wire::ThinkingConfig> {
    let requested = RequestedReasoning::of(request)?;
    let supports_levels = match abilities.reasoning_control {
        Some(control) => control != ReasoningControl::Budget,
        None => signs_calls(&request.model),
    };
    let (mut budget, mut level) = (None, None);
    match requested {
        RequestedReasoning::Off if abilities.can_stop_reasoning() => budget = Some(0),
        RequestedReasoning::Off => level = Some(abilities.min_effort()),
        RequestedReasoning::Budget(tokens) => budget = i64::try_from(tokens).ok(),
        RequestedReasoning::Effort(effort) if supports_levels => {
            level = Some(abilities.nearest_effort(effort))
        }
        RequestedReasoning::Effort(effort) => budget = Some(budget_of(effort)),
        RequestedReasoning::Adaptive => budget = Some(-1),
    }
    Some(wire::ThinkingConfig {
        include_thoughts: (budget != Some(0)).then_some(!request.hide_reasoning),
        thinking_budget: budget,
        // `XHIGH` is the highest level of the format.
        thinking_level: level.map(|level| level.min(Effort::Xhigh).as_str().to_ascii_uppercase()),
    })
}

/// Returns the reasoning budget in tokens for an effort, for models that accept only budgets
/// (ai.google.dev/gemini-api/docs/openai).
fn budget_of(effort: Effort) -> i64 {
    match effort {
        Effort::None => 0,
        Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 8_192,
        Effort::High | Effort::Xhigh | Effort::Max => 24_576,
    }
}

fn declarations(request: &GenerateRequest) -> Option<Vec<wire::Tool>> {
    let declarations: Vec<wire::FunctionDeclaration> = request
        .tools
        .iter()
        .filter_map(|tool| match tool {
            Tool::Function {
                name,
                description,
                parameters,
                ..
            } => Some(wire::FunctionDeclaration {
                name: name.clone(),
                description: description.clone(),
                parameters: None,
                parameters_json_schema: parameters.clone(),
            }),
            Tool::Custom { .. } | Tool::Foreign { .. } => None,
        })
        .collect();
    (!declarations.is_empty()).then(|| {
        vec![wire::Tool {
            function_declarations: Some(declarations),
        }]
    })
}

fn tool_config(request: &GenerateRequest) -> Option<wire::ToolConfig> {
    let is_strict = |tool: &Tool| {
        matches!(
            tool,
            Tool::Function {
                strict: Some(true),
                ..
            }
        )
    };
    let (mode, names) = match &request.tool_choice {
        ToolChoice::Auto if request.tools.iter().any(is_strict) => ("VALIDATED", None),
        ToolChoice::Auto => return None,
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some(vec![name.clone()])),
        ToolChoice::Allowed {
            required: true,
            names,
        } => ("ANY", Some(names.clone())),
        ToolChoice::Allowed {
            required: false,
            names,
        } => ("VALIDATED", Some(names.clone())),
    };
    Some(wire::ToolConfig {
        function_calling_config: Some(wire::FunctionCallingConfig {
            mode: Some(mode.to_owned()),
            allowed_function_names: names,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openai_chat;

    #[test]
    fn tool_results_directly_follow_their_calls() {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
        let chat = json!({"model": "m", "messages": [
            {"role": "user", "content": "Begin."},
            {"role": "assistant", "content": null, "tool_calls": [call("a"), call("b")]},
            {"role": "user", "content": "A reminder."},
            result("b"),
            {"role": "user", "content": "Another one."},
            result("a"),
        ]});
        let request = openai_chat::decode_request(chat.to_string().as_bytes()).unwrap();
        let body = encode_request(&request, &Abilities::default(), None);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let parts = body["contents"][2]["parts"].as_array().unwrap();
        let found: Vec<&str> = parts
            .iter()
            .filter_map(|part| {
                part["functionResponse"]["name"]
                    .as_str()
                    .or_else(|| part["text"].as_str())
            })
            .collect();
        assert_eq!(found, ["a", "b", "A reminder.", "Another one."], "{body}");
    }
}
