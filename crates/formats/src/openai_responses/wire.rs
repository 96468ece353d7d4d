//! Wire types of the Responses format.
//!
//! Requests are deserialized into these types after [`validate`](super::validate()) accepted them,
//! so these types check no rules. Responses of upstreams are decoded leniently: missing fields have
//! defaults.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Body of a request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Request {
    pub(super) model: String,
    pub(super) input: Option<Input>,
    pub(super) instructions: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) temperature: Option<f64>,
    pub(super) top_p: Option<f64>,
    pub(super) presence_penalty: Option<f64>,
    pub(super) frequency_penalty: Option<f64>,
    pub(super) top_logprobs: Option<u32>,
    pub(super) include: Option<Vec<String>>,
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<Value>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) text: Option<Text>,
    pub(super) reasoning: Option<Reasoning>,
    pub(super) service_tier: Option<String>,
    pub(super) user: Option<String>,
    pub(super) safety_identifier: Option<String>,
}

/// Input of a request: a text or items.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Input {
    Text(String),
    Items(Vec<Value>),
}

/// Item of input or output. Only the fields of the item's type are present. Values of a wrong type
/// are dropped here; in requests, validation refuses such values if they affect the request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    #[serde(rename = "type", deserialize_with = "if_fits")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) role: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) content: Option<Content>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) call_id: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) name: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) arguments: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) input: Option<String>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) output: Option<Content>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) summary: Option<Vec<Part>>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) encrypted_content: Option<String>,
}

fn if_fits<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

/// Content of an item: a text or parts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// Part of the content of an item. Only the fields of the part's type are present.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(deserialize_with = "if_fits")]
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) image_url: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) file_id: Option<String>,
    pub(super) file_data: Option<String>,
    pub(super) file_url: Option<String>,
    pub(super) filename: Option<String>,
    pub(super) input_audio: Option<Audio>,
    pub(super) prompt_cache_breakpoint: Option<Value>,
    #[serde(deserialize_with = "if_fits")]
    pub(super) logprobs: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Audio {
    pub(super) data: String,
    pub(super) format: String,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Text {
    pub(super) format: Option<TextFormat>,
    pub(super) verbosity: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TextFormat {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    #[serde(default)]
    pub(super) schema: Value,
    pub(super) strict: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Reasoning {
    pub(super) effort: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) generate_summary: Option<String>,
}

/// Complete response of an upstream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) created_at: Value,
    pub(super) model: String,
    pub(super) status: Option<String>,
    pub(super) incomplete_details: Option<Incomplete>,
    pub(super) output: Vec<Value>,
    pub(super) usage: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Incomplete {
    pub(super) reason: Option<String>,
}

/// Returns the object without its null members.
pub(super) fn filled(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let present: Map<String, Value> = members
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            Value::Object(present)
        }
        other => other,
    }
}

/// Serializes a wire type. Wire types have only string keys and finite numbers, so serialization
/// cannot fail.
pub(super) fn to_bytes(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}
