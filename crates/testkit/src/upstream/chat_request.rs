//! The members of a chat completion request that the fake upstream reads.

use serde_json::{Value, json};

use super::converse;
use super::embeddings::Embeddings;
use super::generate_content;

/// The format of a request and of its answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Shape {
    #[default]
    Chat,
    Text,
    Messages,
    Responses,
    Content,
    Converse,
}

impl Shape {
    /// Returns the format of requests at this path; `None` if the path generates no text.
    pub fn of(path: &str) -> Option<Self> {
        let ends = [
            ("/chat/completions", Shape::Chat),
            ("/completions", Shape::Text),
            ("/messages", Shape::Messages),
            ("/responses", Shape::Responses),
        ];
        let found = ends.into_iter().find(|(end, _)| path.ends_with(end));
        let makes_text = |action: &str| !matches!(action, "batchEmbedContents" | "predict" | "embedContent");
        let is_content = generate_content::target(path).is_some_and(|(_, action)| makes_text(action));
        found
            .map(|(_, shape)| shape)
            .or_else(|| is_content.then_some(Shape::Content))
            .or_else(|| converse::target(path).map(|_| Shape::Converse))
    }
}

/// The members of a `POST …/chat/completions` body that determine the answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChatRequest {
    /// The format of the request.
    pub shape: Shape,
    /// `model`, as sent.
    pub model: String,
    /// `stream`, false if absent.
    pub stream: bool,
    /// `stream_options.include_usage`, false if absent.
    pub include_usage: bool,
    /// `stream_options.include_obfuscation`, true if absent (the provider's default).
    pub include_obfuscation: bool,
    /// `n`, 1 if absent.
    pub choices: usize,
    /// `max_completion_tokens`, else `max_tokens`.
    pub max_tokens: Option<u64>,
    /// `stop`, one string or several.
    pub stops: Vec<String>,
    /// `logprobs`, with the number of alternatives of `top_logprobs`.
    pub logprobs: Option<usize>,
    /// `response_format`, verbatim.
    pub response_format: Option<Value>,
    /// The text or tool result that the caller sent last; empty if there is none.
    pub last_text: String,
    /// The text in front of an echo of the caller's text.
    pub preface: &'static str,
    /// Number of prompt tokens: one for each four bytes of message text, at least one.
    pub prompt_tokens: u64,
    /// Parameters of an embeddings request; `None` for other requests.
    pub embeddings: Option<Embeddings>,
}

impl ChatRequest {
    /// Parses a request body. The error is the text of the 400 that a provider would send.
    pub fn parse(body: &[u8], shape: Shape) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(body)
            .map_err(|error| format!("We could not parse the JSON body of your request: {error}"))?;
        let Some(model) = value.get("model").and_then(Value::as_str) else {
            return Err("you must provide a model parameter".to_owned());
        };
        let given = match shape {
            Shape::Responses => responses_input(&value),
            Shape::Chat | Shape::Text | Shape::Messages | Shape::Content | Shape::Converse => {
                value.get("messages").and_then(Value::as_array).cloned()
            }
        };
        let Some(messages) = given.filter(|list| !list.is_empty()) else {
            return Err(
                "Invalid 'messages': empty array. Expected an array with minimum length 1.".to_owned(),
            );
        };
        let options = value.get("stream_options");
        let option = |name: &str| options.and_then(|all| all.get(name)).and_then(Value::as_bool);
        let wants_logprobs = value.get("logprobs").and_then(Value::as_bool).unwrap_or(false);
        let alternatives = value.get("top_logprobs").and_then(Value::as_u64).unwrap_or(0);
        let text_bytes: usize = messages.iter().map(|message| message_text(message).len()).sum();
        if shape == Shape::Messages && value.get("max_tokens").and_then(Value::as_u64).is_none() {
            return Err("max_tokens: Field required".to_owned());
        }
        Ok(Self {
            shape,
            model: model.to_owned(),
            stream: value.get("stream").and_then(Value::as_bool).unwrap_or(false),
            include_usage: option("include_usage").unwrap_or(false),
            include_obfuscation: option("include_obfuscation").unwrap_or(true),
            choices: value
                .get("n")
                .and_then(Value::as_u64)
                .map_or(1, |n| n.clamp(1, 128) as usize),
            max_tokens: (value.get("max_completion_tokens").and_then(Value::as_u64))
                .or_else(|| value.get("max_tokens").and_then(Value::as_u64))
                .or_else(|| value.get("max_output_tokens").and_then(Value::as_u64)),
            stops: stops(value.get("stop").or_else(|| value.get("stop_sequences"))),
            logprobs: wants_logprobs.then_some(alternatives as usize),
            response_format: requested_format(&value),
            last_text: messages
                .iter()
                .rev()
                .find(|message| is_callers(message))
                .map(message_text)
                .unwrap_or_default(),
            prompt_tokens: (text_bytes as u64).div_ceil(4).max(1),
            ..Self::default()
        })
    }
}

/// Returns the input items of a responses request. A plain text is a user message.
fn responses_input(value: &Value) -> Option<Vec<Value>> {
    match value.get("input")? {
        Value::String(text) => Some(vec![json!({"role": "user", "content": text})]),
        Value::Array(items) => Some(items.clone()),
        _ => None,
    }
}

fn stops(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Returns the output format in the form of a chat completion. The other formats have it elsewhere,
/// without the name.
fn requested_format(value: &Value) -> Option<Value> {
    if let Some(format) = value.get("response_format").filter(|format| !format.is_null()) {
        return Some(format.clone());
    }
    let format = ["/text/format", "/output_config/format", "/output_format"]
        .iter()
        .find_map(|position| value.pointer(position))?;
    match format.get("schema") {
        Some(schema) => Some(json!({"type": "json_schema", "json_schema": {"schema": schema}})),
        None => Some(format.clone()),
    }
}

/// Whether a message or an item comes from the caller: a user turn or a tool result.
fn is_callers(message: &Value) -> bool {
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    matches!(text("role"), Some("user" | "tool")) || text("type") == Some("function_call_output")
}

/// Returns the text of one message: a plain string, the last tool result in it, or its joined text
/// parts.
fn message_text(message: &Value) -> String {
    match message.get("content").or_else(|| message.get("output")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let result = parts
                .iter()
                .rfind(|part| part.get("type").and_then(Value::as_str) == Some("tool_result"));
            match result {
                Some(result) => message_text(result),
                None => parts
                    .iter()
                    .filter_map(|part| part.get("text").and_then(Value::as_str))
                    .collect(),
            }
        }
        _ => String::new(),
    }
}
