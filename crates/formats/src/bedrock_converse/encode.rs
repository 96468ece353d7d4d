//! From the common form to a request.

use serde::Serialize;
use serde_json::{Value, json};
use tollgate_types::generate::{GenerateRequest, Message, ResponseFormat, Thinking, Tool, ToolChoice};

use super::blocks::{Block, Turn, blocks_of, cache_point, turns};
use crate::anthropic_messages::encode::parted;

/// The maker of a model, as far as it has fields of its own for reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `anthropic.…`
    Claude,
    /// `amazon.nova-…`
    Nova,
    /// `openai.…`
    Gpt,
    /// Any other, or one whose name does not tell: the ARN of an application's inference profile.
    Unknown,
}

impl Family {
    /// By the model's name at Bedrock: `anthropic.claude-…`, `us.anthropic.claude-…`, an ARN that ends with one.
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

/// Writes a request; the model is not in it but in the path. [`carry`](super::carry()) has said that it can be written.
/// `output_cap` is sent when the caller set no cap.
pub fn encode_request(request: &GenerateRequest, output_cap: u64) -> Vec<u8> {
    let (system, conversation) = parted(&request.messages);
    let written = Request {
        messages: turns(conversation),
        system: system
            .iter()
            .flat_map(|message| blocks_of(message, &mut 0))
            .collect(),
        inference_config: InferenceConfig {
            max_tokens: request.max_tokens.unwrap_or(output_cap),
            temperature: request.sampling.temperature,
            top_p: request.sampling.top_p,
            stop_sequences: request.stop.clone(),
        },
        tool_config: tool_config(request),
        output_config: output_config(&request.response_format),
        additional_model_request_fields: reasoning(request),
    };
    // String keys and finite numbers only: writing them cannot fail.
    serde_json::to_vec(&written).unwrap_or_default()
}

/// Whether the request says how to reason: only a known family can be told.
pub fn is_about_reasoning(request: &GenerateRequest) -> bool {
    let off = matches!(request.thinking, Some(Thinking::Off))
        || (request.thinking.is_none() && request.reasoning_effort.as_deref().is_none_or(|it| it == "none"));
    !off
}

/// Whether the conversation has calls of tools in it.
pub(super) fn calls_tools(messages: &[Message]) -> bool {
    messages
        .iter()
        .any(|message| !message.tool_calls.is_empty() || message.tool_call_id.is_some())
}

fn tool_config(request: &GenerateRequest) -> Option<Value> {
    // There is no way to say that none may be called but to name none.
    if request.tool_choice == ToolChoice::None {
        return None;
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

/// The mark behind a tool.
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

/// The schema is a text here.
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

/// What the model is told of reasoning, in the words of its maker.
fn reasoning(request: &GenerateRequest) -> Option<Value> {
    let effort = request
        .reasoning_effort
        .as_deref()
        .filter(|effort| *effort != "none");
    let says_nothing = request.thinking.is_none() && request.reasoning_effort.is_none();
    match Family::of(&request.model) {
        _ if says_nothing => None,
        Family::Claude => Some(claude(request, effort)),
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

fn claude(request: &GenerateRequest, effort: Option<&str>) -> Value {
    let mut thinking = match request.thinking {
        Some(Thinking::Off) => json!({"type": "disabled"}),
        Some(Thinking::Budget(tokens)) => json!({"type": "enabled", "budget_tokens": tokens}),
        Some(Thinking::BetweenTools) => json!({"type": "between_tools"}),
        Some(Thinking::Adaptive) => json!({"type": "adaptive"}),
        None if effort.is_none() => json!({"type": "disabled"}),
        None => json!({"type": "adaptive"}),
    };
    if request.hide_reasoning {
        thinking["display"] = json!("omitted");
    }
    let mut fields = json!({ "thinking": thinking });
    if let Some(effort) = effort {
        let effort = if effort == "minimal" { "low" } else { effort };
        fields["output_config"] = json!({ "effort": effort });
    }
    fields
}

/// One of three levels. Budgets below these are `low` and `medium`; docs/formats.md has the table.
fn level(request: &GenerateRequest, effort: Option<&str>) -> &'static str {
    match (effort, request.thinking) {
        (Some("minimal" | "low"), _) => "low",
        (Some("medium"), _) => "medium",
        (Some(_), _) => "high",
        (None, Some(Thinking::Budget(..4_096))) => "low",
        (None, Some(Thinking::Budget(4_096..16_384))) => "medium",
        (None, Some(Thinking::Budget(_))) => "high",
        (None, _) => "medium",
    }
}
