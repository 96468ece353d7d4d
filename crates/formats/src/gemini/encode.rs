//! From the common form to a request for an upstream.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate_types::generate::{
    File, GenerateRequest, Message, Part, ResponseFormat, Role, Thinking, Tool, ToolCall, ToolChoice,
};

use super::decode::wrapped_text;
use super::{seals, wire};

/// Stands in for a signature on calls that another model made: models that sign theirs refuse calls without one, and
/// take this instead (ai.google.dev/gemini-api/docs/thought-signatures).
pub(super) const NOT_SIGNED: &str = "skip_thought_signature_validator";

/// Tokens of reasoning for an effort, for models that know budgets only (ai.google.dev/gemini-api/docs/openai).
const BUDGETS: &[(&str, i64)] = &[("minimal", 1_024), ("low", 1_024), ("medium", 8_192)];
const LARGEST_BUDGET: i64 = 24_576;

/// Writes a request. [`carry`](super::carry()) has said that it can be. `clamp` is sent when the caller set no cap.
pub fn encode_request(request: &GenerateRequest, clamp: Option<u64>) -> Vec<u8> {
    let (system, conversation) = parted(&request.messages);
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
        generation_config: config(request, clamp),
        tool_config: tools.is_some().then(|| tool_config(request)).flatten(),
        tools,
    })
}

/// Instructions at the beginning, and the conversation.
pub(super) fn parted(messages: &[Message]) -> (&[Message], &[Message]) {
    let system = messages.iter().take_while(|message| message.role == Role::System);
    messages.split_at(system.count())
}

/// Whether a model signs its calls, and is told by levels how much to reason: those since the third generation.
pub(super) fn signs_calls(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let is_older = ["gemini-1", "gemini-2"]
        .iter()
        .any(|older| name.starts_with(older));
    name.starts_with("gemini-") && !is_older
}

/// Turns of one side follow each other as one; results of tools come in the order of their calls.
fn contents(messages: &[Message], signs_calls: bool) -> Vec<wire::Content> {
    let mut turns: Vec<wire::Content> = Vec::new();
    let mut calls: Vec<&ToolCall> = Vec::new();
    for group in messages.chunk_by(|one, next| one.role == next.role) {
        let mut group: Vec<&Message> = group.iter().collect();
        if group.first().is_some_and(|message| message.role == Role::Tool) {
            group.sort_by_key(|message| calls.iter().position(|call| answers(message, call)));
        }
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
        // Of calls at once only the first one is signed.
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

/// The format has objects only: a text that is none, such as one that was cut at the cap, is put into one.
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
            Part::Text(piece) | Part::Refusal(piece) => text.push_str(piece),
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

/// A result that is an object stays one, unless it would be taken for a text when it is read back.
fn response(text: &str, is_error: bool) -> Box<RawValue> {
    if is_error {
        return raw(&json!({ "error": text }));
    }
    let object = RawValue::from_string(text.to_owned())
        .ok()
        .filter(|raw| raw.get().trim_start().starts_with('{') && wrapped_text(raw.get()).is_none());
    object.unwrap_or_else(|| raw(&json!({ "result": text })))
}

/// Writes the parts of a turn. Signatures that belong to no thought stand on the part behind them; those behind which no
/// part comes are answered when there are calls for them, and get an empty part otherwise.
fn parts_of(message: &Message, into: &mut Vec<wire::Part>, has_calls: bool) -> Vec<String> {
    let mut waiting: Vec<String> = Vec::new();
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
                    None => waiting.extend(seal),
                }
            }
            part => {
                if let Some(mut written) = part_to_wire(part) {
                    if !waiting.is_empty() {
                        written.thought_signature = Some(waiting.remove(0));
                    }
                    into.push(written);
                }
            }
        }
    }
    if has_calls {
        return waiting;
    }
    into.extend(waiting.into_iter().map(|seal| wire::Part {
        thought_signature: Some(seal),
        ..wire::Part::text("")
    }));
    Vec::new()
}

/// The part that a piece of a turn becomes. Empty texts say nothing.
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

/// Type and base64 of a data URL.
pub(super) fn inline(url: &str) -> Option<(&str, &str)> {
    let scheme = url.get(..5)?;
    let rest = url.get(5..).filter(|_| scheme.eq_ignore_ascii_case("data:"))?;
    let (head, data) = rest.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
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

fn config(request: &GenerateRequest, clamp: Option<u64>) -> Option<wire::GenerationConfig> {
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
        thinking_config: thinking(request),
    };
    (config != wire::GenerationConfig::default()).then_some(config)
}

fn thinking(request: &GenerateRequest) -> Option<wire::ThinkingConfig> {
    let effort = request.reasoning_effort.as_deref();
    let (mut budget, mut level) = (None, None);
    match (request.thinking, effort) {
        (Some(Thinking::Off), _) | (None, Some("none")) => budget = Some(0),
        (Some(Thinking::Budget(tokens)), _) => budget = i64::try_from(tokens).ok(),
        (_, Some(effort)) if signs_calls(&request.model) => {
            // There is no level above.
            let effort = if effort == "max" { "xhigh" } else { effort };
            level = Some(effort.to_ascii_uppercase());
        }
        (_, Some(effort)) => {
            let known = BUDGETS.iter().find(|(name, _)| *name == effort);
            budget = Some(known.map_or(LARGEST_BUDGET, |(_, budget)| *budget));
        }
        (Some(Thinking::Adaptive | Thinking::BetweenTools), None) => budget = Some(-1),
        (None, None) => return None,
    }
    Some(wire::ThinkingConfig {
        include_thoughts: (budget != Some(0)).then_some(!request.hide_reasoning),
        thinking_budget: budget,
        thinking_level: level,
    })
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
