//! The answer to `POST …/embeddings`: vectors that tests can recompute.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::answer::{Answer, Usage};
use super::chat_request::ChatRequest;
use super::completion::with_member;
use super::composed::Composed;

/// Length of a vector unless the request specifies another one.
const DIMENSIONS: usize = 8;

/// The parameters of an embeddings request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Embeddings {
    /// Number of inputs.
    pub inputs: usize,
    /// `dimensions`, or `output_dimension`.
    pub dimensions: usize,
    /// Whether `encoding_format` is `base64`.
    pub base64: bool,
}

/// Returns the vector of the input at this index. Its numbers have many digits, so that tests
/// detect lossy conversions.
pub fn vector(index: usize, dimensions: usize) -> Vec<f32> {
    let sign = |position: usize| if position.is_multiple_of(2) { 1.0 } else { -1.0 };
    (0..dimensions)
        .map(|position| sign(position) / (3.0 + 7.0 * index as f32 + position as f32))
        .collect()
}

/// Parses the request; the error is the text of the 400 that a provider would send.
pub(super) fn parse(body: &[u8]) -> Result<ChatRequest, String> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("We could not parse the JSON body of your request: {error}"))?;
    let Some(model) = value.get("model").and_then(Value::as_str) else {
        return Err("you must provide a model parameter".to_owned());
    };
    let inputs: Vec<Value> = match value.get("input") {
        Some(text @ Value::String(_)) => vec![text.clone()],
        Some(Value::Array(tokens)) if tokens.first().is_some_and(Value::is_number) => {
            vec![json!(tokens)]
        }
        Some(Value::Array(inputs)) if !inputs.is_empty() => inputs.clone(),
        _ => return Err("'$.input' is invalid.".to_owned()),
    };
    let count = |input: &Value| match input {
        Value::String(text) => (text.len() as u64).div_ceil(4),
        Value::Array(tokens) => tokens.len() as u64,
        _ => 0,
    };
    let dimensions = value.get("dimensions").or_else(|| value.get("output_dimension"));
    Ok(ChatRequest {
        model: model.to_owned(),
        choices: 1,
        last_text: inputs
            .iter()
            .rev()
            .find_map(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        prompt_tokens: inputs.iter().map(count).sum(),
        embeddings: Some(Embeddings {
            inputs: inputs.len(),
            dimensions: dimensions
                .and_then(Value::as_u64)
                .map_or(DIMENSIONS, |dimensions| dimensions as usize),
            base64: value.get("encoding_format").and_then(Value::as_str) == Some("base64"),
        }),
        ..ChatRequest::default()
    })
}

/// Returns the whole body, as JSON text.
pub(super) fn body(answer: &Answer, composed: &Composed, requested: &Embeddings) -> String {
    let written = |index: usize| {
        let vector = vector(index, requested.dimensions);
        if requested.base64 {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            json!(STANDARD.encode(bytes))
        } else {
            json!(vector)
        }
    };
    let data: Vec<Value> = (0..requested.inputs)
        .map(|index| json!({"object": "embedding", "index": index, "embedding": written(index)}))
        .collect();
    let object = json!({"object": "list", "data": data, "model": composed.model});
    let usage = match &answer.usage {
        Usage::Counted | Usage::Fixed { .. } => {
            let prompt = composed.tokens.prompt;
            Some(json!({"prompt_tokens": prompt, "total_tokens": prompt}).to_string())
        }
        other => composed.usage_text(other, 0),
    };
    with_member(&object, "usage", usage.as_deref())
}
