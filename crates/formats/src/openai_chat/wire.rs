//! Wire types of chat completions. `extra` contains the fields that a type does not define.
//!
//! Requests are deserialized into these types after [`validate`](super::validate()) accepted them,
//! so these types check no rules.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Body of a request.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) messages: Vec<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) n: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop: Option<Stop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<Tool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_choice: Option<ToolChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<ResponseFormat>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) top_logprobs: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) user: Option<String>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StreamOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) include_usage: Option<bool>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Stop {
    One(String),
    Several(Vec<String>),
}

/// Message of a request or of a response.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Message {
    #[serde(default)]
    pub(super) role: String,
    pub(super) content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<Vec<ToolCall>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_call_id: Option<String>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ContentPart {
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) image_url: Option<ImageUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input_audio: Option<InputAudio>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<File>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ImageUrl {
    pub(super) url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InputAudio {
    pub(super) data: String,
    pub(super) format: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) filename: Option<String>,
}

/// Tool call in a message; `kind` is `function` or `custom`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ToolCall {
    #[serde(default)]
    pub(super) id: String,
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<FunctionCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<CustomCall>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FunctionCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CustomCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<String>,
}

/// Tool definition; `kind` is `function` or `custom`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tool {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<Function>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<Custom>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parameters: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Custom {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ToolChoice {
    Mode(String),
    Tool(ChosenTool),
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ChosenTool {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<Named>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) allowed_tools: Option<AllowedTools>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AllowedTools {
    pub(super) mode: String,
    pub(super) tools: Vec<Value>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ResponseFormat {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) json_schema: Option<JsonSchema>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JsonSchema {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) strict: Option<bool>,
}

/// Complete response, or one chunk of a stream. Decoded leniently: missing fields have defaults.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) object: String,
    #[serde(default)]
    pub(super) created: Value,
    #[serde(default)]
    pub(super) model: String,
    #[serde(default)]
    pub(super) choices: Vec<Choice>,
    #[serde(flatten)]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Choice {
    #[serde(default)]
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) delta: Option<Delta>,
    /// Text of the choice in completions, the older format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) logprobs: Option<Value>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

/// New parts of a choice's message in a chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_calls: Option<Vec<CallDelta>>,
}

/// Delta of a tool call. The first delta has the id and the name; the others continue the
/// arguments.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct CallDelta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) function: Option<FunctionCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) custom: Option<CustomCall>,
}
