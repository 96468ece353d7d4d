//! Encoding of requests from the common form.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use tollgate_types::generate::{
    GenerateRequest, Message, Part, ResponseFormat, Role, Thinking, Tool, ToolChoice,
};

use super::compatibility::FORWARDED_FIELDS;
use super::wire::{filled, to_bytes};
use crate::anthropic_messages::encode::with_registered_type;
use crate::openai_chat::effort_of;

/// Writes a request that [`check_compatible`](super::check_compatible()) accepted. The upstream
/// stores no responses, so the encrypted content of reasoning is requested if the request has
/// reasoning parameters, or with `include_seal`. `clamp_output` (tokens) is sent if the caller set
/// no limit.
pub fn encode_request(request: &GenerateRequest, clamp_output: Option<u64>, include_seal: bool) -> Vec<u8> {
    let system = request
        .messages
        .iter()
        .take_while(|message| message.role == Role::System);
    let (system, conversation) = request.messages.split_at(system.count());
    let effort = effort_of(request);
    let shows = request.thinking.is_some_and(|thinking| thinking != Thinking::Off) && !request.hide_reasoning;
    let reasons = effort.is_some() || shows;
    let calls = conversation.iter().flat_map(|message| &message.tool_calls);
    let custom: HashSet<&str> = calls.filter(|call| call.custom).map(|call| &*call.id).collect();
    let mut include = Vec::new();
    if reasons || include_seal {
        include.push("reasoning.encrypted_content");
    }
    if request.top_logprobs.is_some() {
        include.push("message.output_text.logprobs");
    }
    let mut object = filled(json!({
        "model": request.model,
        "instructions": instructions(system),
        "input": conversation.iter().flat_map(|message| items(message, &custom)).collect::<Vec<Value>>(),
        // Some servers stream if the field is missing.
        "stream": request.stream,
        "max_output_tokens": request.max_tokens.or(clamp_output),
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "top_logprobs": request.top_logprobs,
        "tools": (!request.tools.is_empty())
            .then(|| request.tools.iter().filter_map(tool).collect::<Vec<Value>>()),
        "tool_choice": choice(&request.tool_choice, &request.tools),
        "parallel_tool_calls": request.parallel_tool_calls,
        "text": text(request),
        "reasoning": reasons.then(|| filled(json!({"effort": effort, "summary": shows.then_some("auto")}))),
        "include": (!include.is_empty()).then_some(include),
        "user": request.user,
        "store": false,
    }));
    for (name, value) in &request.extra {
        if FORWARDED_FIELDS.contains(&&**name) && !value.is_null() {
            object[name] = value.clone();
        }
    }
    to_bytes(&object)
}

fn instructions(system: &[Message]) -> Option<String> {
    let texts = system.iter().flat_map(|message| &message.parts);
    let texts: Vec<&str> = texts
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// Returns the items of a turn: reasoning, a message, and calls, in this order; for a tool result,
/// the output of the call. `custom` contains the ids of the calls of custom tools.
fn items(message: &Message, custom: &HashSet<&str>) -> Vec<Value> {
    if message.role == Role::Tool {
        let answers = message.tool_call_id.as_deref();
        return vec![json!({
            "type": if answers.is_some_and(|id| custom.contains(id)) { "custom_tool_call_output" } else { "function_call_output" },
            "call_id": message.tool_call_id,
            "output": output(message),
        })];
    }
    let mut items: Vec<Value> = message.parts.iter().filter_map(reasoning).collect();
    let content = parts(message);
    if !content.is_empty() {
        let role = match message.role {
            Role::System => "developer",
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        items.push(json!({"type": "message", "role": role, "content": content}));
    }
    items.extend(message.tool_calls.iter().map(|call| match call.custom {
        true => json!({
            "type": "custom_tool_call",
            "call_id": call.id,
            "name": call.name,
            "input": call.arguments,
        }),
        false => json!({
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
        }),
    }));
    items
}

/// Returns a reasoning item with its encrypted content, from which the provider can continue;
/// `None` for other parts and for reasoning without encrypted content.
fn reasoning(part: &Part) -> Option<Value> {
    let Part::Reasoning(reasoning) = part else {
        return None;
    };
    let seal = reasoning.seal.as_ref().filter(|seal| !seal.data.is_empty())?;
    let text = reasoning.text.as_deref().filter(|text| !text.is_empty());
    let summary: Vec<Value> = text
        .map(|text| json!({"type": "summary_text", "text": text}))
        .into_iter()
        .collect();
    Some(json!({"type": "reasoning", "summary": summary, "encrypted_content": seal.data}))
}

/// Prefix of the result of a failed tool, because the format has no error flag.
const ERROR_PREFIX: &str = "Error: ";

fn output(message: &Message) -> Value {
    let mark = if message.is_error { ERROR_PREFIX } else { "" };
    match &*message.parts {
        [] => json!(mark),
        [Part::Text(text)] => json!(format!("{mark}{text}")),
        _ => {
            let mut parts = parts(message);
            if message.is_error {
                parts.insert(0, json!({"type": "input_text", "text": ERROR_PREFIX}));
            }
            Value::Array(parts)
        }
    }
}

fn parts(message: &Message) -> Vec<Value> {
    let is_assistant = message.role == Role::Assistant;
    let mut parts: Vec<Value> = Vec::new();
    for part in &message.parts {
        parts.push(match part {
            Part::Text(text) if is_assistant => {
                json!({"type": "output_text", "text": text, "annotations": []})
            }
            Part::Text(text) => json!({"type": "input_text", "text": text}),
            Part::Refusal(refusal) => json!({"type": "refusal", "refusal": refusal}),
            Part::Image { url, detail } => filled(json!({
                "type": "input_image",
                "image_url": with_registered_type(url),
                "detail": detail,
            })),
            Part::Audio { data, format } => json!({
                "type": "input_audio",
                "input_audio": {"data": data, "format": format},
            }),
            Part::File(file) => filled(json!({
                "type": "input_file",
                "file_data": file.data,
                "filename": file.filename,
            })),
            Part::Reasoning(_) | Part::CacheBreakpoint(_) | Part::Stored(_) | Part::Foreign { .. } => {
                continue;
            }
        });
    }
    parts
}

fn tool(tool: &Tool) -> Option<Value> {
    match tool {
        Tool::Function {
            name,
            description,
            parameters,
            strict,
            ..
        } => {
            let mut object = filled(json!({
                "type": "function",
                "name": name,
                "description": description,
                "parameters": parameters,
            }));
            // This format defaults to strict schemas; other formats do not.
            object["strict"] = json!(strict.unwrap_or(false));
            Some(object)
        }
        Tool::Custom {
            name,
            description,
            format,
        } => Some(filled(json!({
            "type": "custom",
            "name": name,
            "description": description,
            "format": format.as_ref().map(format_of_custom),
        }))),
        Tool::Foreign { .. } => None,
    }
}

fn format_of_custom(format: &Value) -> Value {
    match format.get("grammar").and_then(Value::as_object) {
        Some(grammar) => {
            let mut flat = Map::from_iter([("type".to_owned(), json!("grammar"))]);
            flat.extend(grammar.clone());
            Value::Object(flat)
        }
        None => format.clone(),
    }
}

fn choice(choice: &ToolChoice, tools: &[Tool]) -> Option<Value> {
    let named = |name: &String| {
        let is_custom = |tool: &Tool| matches!(tool, Tool::Custom { name: custom, .. } if custom == name);
        let kind = if tools.iter().any(is_custom) {
            "custom"
        } else {
            "function"
        };
        json!({"type": kind, "name": name})
    };
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::None => Some(json!("none")),
        ToolChoice::Required => Some(json!("required")),
        ToolChoice::Named(name) => Some(named(name)),
        ToolChoice::Allowed { required, names } => Some(json!({
            "type": "allowed_tools",
            "mode": if *required { "required" } else { "auto" },
            "tools": names.iter().map(named).collect::<Vec<Value>>(),
        })),
    }
}

fn text(request: &GenerateRequest) -> Option<Value> {
    let format = match &request.response_format {
        ResponseFormat::Text => None,
        ResponseFormat::JsonObject => Some(json!({"type": "json_object"})),
        ResponseFormat::JsonSchema {
            name,
            description,
            schema,
            strict,
        } => Some(filled(json!({
            "type": "json_schema",
            "name": name,
            "description": description,
            "schema": schema,
            "strict": strict,
        }))),
    };
    let verbosity = request
        .extra
        .get("verbosity")
        .filter(|verbosity| !verbosity.is_null());
    let text = filled(json!({"format": format, "verbosity": verbosity}));
    text.as_object()
        .is_some_and(|text| !text.is_empty())
        .then_some(text)
}
