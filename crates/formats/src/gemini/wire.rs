//! Wire types of Gemini's format, read in both spellings and written in camel case.
//!
//! Requests are deserialized into these types after [`validate`](super::validate()) accepted them,
//! so these types check no rules.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Body of a request.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    pub(super) contents: Vec<Content>,
    #[serde(alias = "system_instruction", skip_serializing_if = "Option::is_none")]
    pub(super) system_instruction: Option<Content>,
    #[serde(alias = "generation_config", skip_serializing_if = "Option::is_none")]
    pub(super) generation_config: Option<GenerationConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<Vec<Tool>>,
    #[serde(alias = "tool_config", skip_serializing_if = "Option::is_none")]
    pub(super) tool_config: Option<ToolConfig>,
}

/// Token-count request that contains a generate request.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CountRequest {
    #[serde(alias = "generate_content_request")]
    pub(super) generate_content_request: Option<Request>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Content {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    #[serde(default)]
    pub(super) parts: Vec<Part>,
}

/// Part of a turn. Exactly one field determines its kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<bool>,
    #[serde(alias = "inline_data", skip_serializing_if = "Option::is_none")]
    pub(super) inline_data: Option<Blob>,
    #[serde(alias = "file_data", skip_serializing_if = "Option::is_none")]
    pub(super) file_data: Option<FileData>,
    #[serde(alias = "function_call", skip_serializing_if = "Option::is_none")]
    pub(super) function_call: Option<FunctionCall>,
    #[serde(alias = "function_response", skip_serializing_if = "Option::is_none")]
    pub(super) function_response: Option<FunctionResponse>,
    #[serde(alias = "thought_signature", skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<String>,
}

impl Part {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    pub(super) fn inline(mime_type: &str, data: impl Into<String>, name: Option<String>) -> Self {
        Self {
            inline_data: Some(Blob {
                mime_type: mime_type.to_owned(),
                data: data.into(),
                display_name: name,
            }),
            ..Self::default()
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob {
    #[serde(alias = "mime_type")]
    pub(super) mime_type: String,
    pub(super) data: String,
    #[serde(alias = "display_name", skip_serializing_if = "Option::is_none")]
    pub(super) display_name: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileData {
    #[serde(alias = "mime_type", skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<String>,
    #[serde(alias = "file_uri")]
    pub(super) file_uri: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FunctionCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default)]
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FunctionResponse {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) response: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parts: Option<Vec<Part>>,
}

#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) temperature: Option<f64>,
    #[serde(alias = "top_p", skip_serializing_if = "Option::is_none")]
    pub(super) top_p: Option<f64>,
    /// Read as a float, because the official Python client sends one.
    #[serde(alias = "top_k", skip_serializing_if = "Option::is_none")]
    pub(super) top_k: Option<Whole>,
    #[serde(alias = "candidate_count", skip_serializing_if = "Option::is_none")]
    pub(super) candidate_count: Option<u32>,
    #[serde(alias = "max_output_tokens", skip_serializing_if = "Option::is_none")]
    pub(super) max_output_tokens: Option<u64>,
    #[serde(alias = "stop_sequences", skip_serializing_if = "Option::is_none")]
    pub(super) stop_sequences: Option<Vec<String>>,
    #[serde(alias = "response_mime_type", skip_serializing_if = "Option::is_none")]
    pub(super) response_mime_type: Option<String>,
    #[serde(alias = "response_schema", skip_serializing)]
    pub(super) response_schema: Option<Value>,
    #[serde(alias = "response_json_schema", skip_serializing_if = "Option::is_none")]
    pub(super) response_json_schema: Option<Value>,
    #[serde(alias = "presence_penalty", skip_serializing_if = "Option::is_none")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(alias = "frequency_penalty", skip_serializing_if = "Option::is_none")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) seed: Option<i64>,
    #[serde(alias = "response_logprobs", skip_serializing_if = "Option::is_none")]
    pub(super) response_logprobs: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs: Option<u32>,
    #[serde(alias = "thinking_config", skip_serializing_if = "Option::is_none")]
    pub(super) thinking_config: Option<ThinkingConfig>,
}

/// Integer that may be written with a fraction of zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        f64::deserialize(deserializer).map(|value| Self(value as u64))
    }
}

#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThinkingConfig {
    #[serde(alias = "include_thoughts", skip_serializing_if = "Option::is_none")]
    pub(super) include_thoughts: Option<bool>,
    #[serde(alias = "thinking_budget", skip_serializing_if = "Option::is_none")]
    pub(super) thinking_budget: Option<i64>,
    #[serde(alias = "thinking_level", skip_serializing_if = "Option::is_none")]
    pub(super) thinking_level: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tool {
    #[serde(alias = "function_declarations", default)]
    pub(super) function_declarations: Option<Vec<FunctionDeclaration>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionDeclaration {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    /// Schema in the OpenAPI subset. Decoded, but never encoded.
    #[serde(skip_serializing)]
    pub(super) parameters: Option<Value>,
    #[serde(alias = "parameters_json_schema", skip_serializing_if = "Option::is_none")]
    pub(super) parameters_json_schema: Option<Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolConfig {
    #[serde(alias = "function_calling_config")]
    pub(super) function_calling_config: Option<FunctionCallingConfig>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FunctionCallingConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<String>,
    #[serde(alias = "allowed_function_names", skip_serializing_if = "Option::is_none")]
    pub(super) allowed_function_names: Option<Vec<String>>,
}

/// Complete response or one event of a stream, from an upstream.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Answer {
    pub(super) response_id: Option<String>,
    pub(super) model_version: Option<String>,
    pub(super) candidates: Option<Vec<Candidate>>,
    pub(super) usage_metadata: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Candidate {
    pub(super) index: Option<u32>,
    pub(super) content: Option<Content>,
    pub(super) finish_reason: Option<String>,
    pub(super) logprobs_result: Option<Value>,
}

/// Complete response or one event of a stream, for a caller. A struct instead of a [`Value`], so
/// that the arguments of calls keep their JSON text.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EncodedResponse<'a> {
    pub(super) candidates: Vec<EncodedCandidate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage_metadata: Option<Value>,
    pub(super) model_version: &'a str,
    pub(super) response_id: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EncodedCandidate {
    pub(super) content: Content,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<&'static str>,
    pub(super) index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logprobs_result: Option<Value>,
}

impl EncodedCandidate {
    pub(super) fn new(index: u32, parts: Vec<Part>) -> Self {
        Self {
            content: Content {
                role: Some("model".to_owned()),
                parts,
            },
            finish_reason: None,
            index,
            logprobs_result: None,
        }
    }
}

/// Serializes a wire type. Wire types have only string keys and finite numbers, so serialization
/// cannot fail.
pub(super) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
