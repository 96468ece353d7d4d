//! Settings of a request that the response repeats.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::DecodeError;

/// Settings of a request that the response repeats. Defaults are added when the settings are
/// written to the response.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Echo {
    instructions: Value,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    text: Option<Map<String, Value>>,
    reasoning: Option<Map<String, Value>>,
    temperature: Option<Value>,
    top_p: Option<Value>,
    presence_penalty: Option<Value>,
    frequency_penalty: Option<Value>,
    top_logprobs: Option<u64>,
    max_output_tokens: Value,
    max_tool_calls: Value,
    truncation: Option<String>,
    service_tier: Option<String>,
    metadata: Option<Map<String, Value>>,
    safety_identifier: Value,
    prompt_cache_key: Value,
}

impl Echo {
    /// Reads the settings of a request that [`validate`](super::validate()) accepted. Does not
    /// decode the input.
    pub fn of(body: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(body)
            .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))
    }

    /// Whether the tool with this name is a custom tool, which accepts free text.
    pub(super) fn is_custom(&self, name: &str) -> bool {
        let mut tools = self.tools.iter().flatten();
        tools.any(|tool| tool["type"] == "custom" && tool["name"] == name)
    }

    /// Returns the members of a response that repeat the request.
    pub(super) fn members(&self) -> Map<String, Value> {
        let tools: Vec<Value> = self.tools.iter().flatten().map(tool).collect();
        let number =
            |value: &Option<Value>, default_value: f64| value.clone().unwrap_or_else(|| json!(default_value));
        // The gateway always serves calls in the default tier, even if the caller sent `auto`.
        let tier = self.service_tier.as_deref().filter(|tier| *tier != "auto");
        let members = json!({
            "instructions": self.instructions,
            "tools": tools,
            "tool_choice": self.tool_choice.clone().unwrap_or_else(|| json!("auto")),
            "parallel_tool_calls": self.parallel_tool_calls.unwrap_or(true),
            "text": self.text(),
            "reasoning": self.reasoning(),
            "temperature": number(&self.temperature, 1.0),
            "top_p": number(&self.top_p, 1.0),
            "presence_penalty": number(&self.presence_penalty, 0.0),
            "frequency_penalty": number(&self.frequency_penalty, 0.0),
            "top_logprobs": self.top_logprobs.unwrap_or(0),
            "max_output_tokens": self.max_output_tokens,
            "max_tool_calls": self.max_tool_calls,
            "truncation": self.truncation.as_deref().unwrap_or("disabled"),
            "background": false,
            "service_tier": tier.unwrap_or("default"),
            "metadata": self.metadata.clone().unwrap_or_default(),
            "safety_identifier": self.safety_identifier,
            "prompt_cache_key": self.prompt_cache_key,
        });
        match members {
            Value::Object(members) => members,
            _ => Map::new(),
        }
    }

    fn text(&self) -> Map<String, Value> {
        let mut text = self.text.clone().unwrap_or_default();
        let format = text.remove("format").filter(|format| !format.is_null());
        let mut format = format.unwrap_or_else(|| json!({"type": "text"}));
        if format["type"] == "json_schema" {
            fill(&mut format, &["description", "strict"]);
        }
        text.insert("format".to_owned(), format);
        text.retain(|_, value| !value.is_null());
        text
    }

    fn reasoning(&self) -> Value {
        let mut reasoning = Value::Object(self.reasoning.clone().unwrap_or_default());
        fill(&mut reasoning, &["effort", "summary"]);
        reasoning
    }
}

/// Returns the tool as echoed in a response: a function tool has all its optional members, missing
/// ones as null.
fn tool(tool: &Value) -> Value {
    let mut tool = tool.clone();
    if tool["type"] == "function" {
        fill(&mut tool, &["description", "parameters", "strict"]);
    }
    tool
}

/// Adds missing members as null.
fn fill(object: &mut Value, names: &[&str]) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    for name in names {
        object.entry(*name).or_insert(Value::Null);
    }
}
