//! Encoding of requests from the common form.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use tollgate_types::generate::{GenerateRequest, Message, ResponseFormat, Thinking, Tool, ToolChoice};
use tollgate_types::{Abilities, Effort};

use super::blocks::{Block, Turn, blocks_of, cache_point, turns};
use crate::anthropic_messages::encode::split_system;
use crate::anthropic_messages::reasoning::control;

/// Model family, which determines the reasoning fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Claude models: `anthropic.…`.
    Claude,
    /// Nova models: `amazon.nova-…`.
    Nova,
    /// OpenAI's models: `openai.…`.
    Gpt,
    /// Any other model, or an ARN without the model's name (of an application inference profile).
    Unknown,
}

impl Family {
    /// Detects the family from the model's name at Bedrock: `anthropic.claude-…`,
    /// `us.anthropic.claude-…`, or an ARN that contains such a name.
    pub fn of(model: &str) -> Family {
        let families = [
            ("anthropic.", Family::Claude),
            ("amazon.nova", Family::Nova),
            ("openai.", Family::Gpt),
        ];
        let known = families.into_iter().find(|(mark, _)| model.contains(mark));
        known.map_or(Family::Unknown, |(_, family)| family)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    messages: Vec<Turn>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_model_request_fields: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<String>,
}

/// Writes a request that [`check_compatible`](super::check_compatible()) accepted. The model is in
/// the path, not in the body. `output_cap` (tokens) is sent if the caller set no limit.
pub fn encode_request(request: &GenerateRequest, abilities: &Abilities, output_cap: u64) -> Vec<u8> {
    let max_tokens = request.max_tokens.unwrap_or(output_cap);
    let (system, conversation) = split_system(&request.messages);
    let written = Request {
        messages: turns(conversation),
        system: system
            .iter()
            .flat_map(|message| blocks_of(message, &mut 0))
            .collect(),
        inference_config: InferenceConfig {
            max_tokens,
            temperature: request.sampling.temperature,
            top_p: request.sampling.top_p,
            stop_sequences: request.stop.clone(),
        },
        tool_config: tool_config(request),
        output_config: output_config(&request.response_format),
        additional_model_request_fields: reasoning(request, abilities, max_tokens),
    };
    // The request has only string keys and finite numbers, so serialization cannot fail.
    serde_json::to_vec(&written).unwrap_or_default()
}

/// Whether the request enables reasoning, which only models of known families support.
pub fn is_about_reasoning(request: &GenerateRequest) -> bool {
    let off = matches!(request.thinking, Some(Thinking::Off))
        || (request.thinking.is_none() && request.reasoning_effort.as_deref().is_none_or(|it| it == "none"));
    !off
}

fn tool_config(request: &GenerateRequest) -> Option<Value> {
    // The format cannot forbid calls, so the tools of the request are omitted.
    if request.tool_choice == ToolChoice::None || request.tools.is_empty() {
        return inert_tools(&request.messages);
    }
    let allowed = |tool: &&Tool| match &request.tool_choice {
        ToolChoice::Allowed { names, .. } => names.iter().any(|name| name == tool.name()),
        _ => true,
    };
    let tools: Vec<Value> = request
        .tools
        .iter()
        .filter(allowed)
        .flat_map(|tool| [tool_spec(tool), tool_mark(tool)])
        .flatten()
        .collect();
    if tools.is_empty() {
        return None;
    }
    let mut config = json!({ "tools": tools });
    match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None | ToolChoice::Allowed { required: false, .. } => {}
        ToolChoice::Required | ToolChoice::Allowed { required: true, .. } => {
            config["toolChoice"] = json!({"any": {}});
        }
        ToolChoice::Named(name) => config["toolChoice"] = json!({"tool": {"name": name}}),
    }
    Some(config)
}

/// Declares the tools that earlier turns called: the format refuses a conversation with calls but
/// without tools.
fn inert_tools(messages: &[Message]) -> Option<Value> {
    let calls = messages.iter().flat_map(|message| &message.tool_calls);
    let names: BTreeSet<&str> = calls.map(|call| &*call.name).collect();
    let tools: Vec<Value> = names
        .into_iter()
        .map(|name| {
            json!({"toolSpec": {
                "name": name,
                "description": "This tool is no longer available. Do not call it.",
                "inputSchema": {"json": {"type": "object", "properties": {}}},
            }})
        })
        .collect();
    (!tools.is_empty()).then(|| json!({ "tools": tools }))
}

/// Returns the cache point after a tool, if it has one.
fn tool_mark(tool: &Tool) -> Option<Value> {
    match tool {
        Tool::Function { cache, .. } => cache.map(|life| json!({ "cachePoint": cache_point(life) })),
        Tool::Custom { .. } | Tool::Foreign { .. } => None,
    }
}

fn tool_spec(tool: &Tool) -> Option<Value> {
    let Tool::Function {
        name,
        description,
        parameters,
        strict,
        ..
    } = tool
    else {
        return None;
    };
    let nothing = || json!({"type": "object", "properties": {}});
    let schema = parameters.clone().unwrap_or_else(nothing);
    let mut spec = json!({"name": name, "inputSchema": {"json": schema}});
    if let Some(description) = description.as_deref().filter(|text| !text.is_empty()) {
        spec["description"] = json!(description);
    }
    if *strict == Some(true) {
        spec["strict"] = json!(true);
    }
    Some(json!({ "toolSpec": spec }))
}

/// Returns the output format, with the schema as JSON text; `None` unless the request has a schema.
fn output_config(format: &ResponseFormat) -> Option<Value> {
    let ResponseFormat::JsonSchema {
        name,
        description,
        schema,
        ..
    } = format
    else {
        return None;
    };
    let mut definition = json!({"schema": schema.to_string(), "name": name});
    if let Some(description) = description {
        definition["description"] = json!(description);
    }
    Some(json!({"textFormat": {"type": "json_schema", "structure": {"jsonSchema": definition}}}))
}

/// Returns the reasoning fields of the model's family; `None` for a request without reasoning
/// parameters and for unknown families.
fn reasoning(request: &GenerateRequest, abilities: &Abilities, cap: u64) -> Option<Value> {
    let effort = request
        .reasoning_effort
        .as_deref()
        .filter(|effort| *effort != "none");
    let is_unset = request.thinking.is_none() && request.reasoning_effort.is_none();
    match Family::of(&request.model) {
        _ if is_unset => None,
        Family::Claude => claude(request, abilities, cap),
        Family::Nova => Some(match is_about_reasoning(request) {
            true => {
                json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level(request, effort)}})
            }
            false => json!({"reasoningConfig": {"type": "disabled"}}),
        }),
        Family::Gpt => {
            is_about_reasoning(request).then(|| json!({"reasoning_effort": level(request, effort)}))
        }
        Family::Unknown => None,
    }
}

fn claude(request: &GenerateRequest, abilities: &Abilities, cap: u64) -> Option<Value> {
    let control = control(request, abilities, cap)?;
    let mut thinking = json!({"type": control.kind});
    if let Some(tokens) = control.budget_tokens {
        thinking["budget_tokens"] = json!(tokens);
    }
    if request.hide_reasoning {
        thinking["display"] = json!("omitted");
    }
    let mut fields = json!({ "thinking": thinking });
    if let Some(effort) = control.effort {
        fields["output_config"] = json!({ "effort": effort });
    }
    Some(fields)
}

/// Returns one of the three reasoning levels. A budget is mapped to a level by the table in
/// docs/formats.md.
fn level(request: &GenerateRequest, effort: Option<&str>) -> &'static str {
    match (effort, request.thinking) {
        (Some("minimal" | "low"), _) => "low",
        (Some("medium"), _) => "medium",
        (Some(_), _) => "high",
        (None, Some(Thinking::Budget(tokens))) => Effort::of_budget(tokens).as_str(),
        (None, _) => "medium",
    }
}
