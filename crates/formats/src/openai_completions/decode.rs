//! Decoding of requests to the common form.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::generate::{GenerateRequest, Message, Part, Place, Role, Sampling, ToolChoice};

use super::head::{COMPLETIONS_ONLY, check_unsupported, is_hint};
use super::validate;
use crate::error::DecodeError;
use crate::openai_chat::decode::response_format_from_wire;
use crate::openai_chat::wire::{ResponseFormat, Stop};

/// Decoded fields of a request. `extra` contains all other fields, including those that the head
/// already contains.
#[derive(Deserialize)]
struct Request {
    prompt: Prompt,
    stop: Option<Stop>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    frequency_penalty: Option<f64>,
    presence_penalty: Option<f64>,
    seed: Option<i64>,
    response_format: Option<ResponseFormat>,
    user: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Prompt {
    One(String),
    Several([String; 1]),
}

/// Text prompts of a request.
#[derive(Deserialize)]
struct Prompts {
    prompt: Texts,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Several(Vec<String>),
    Tokens(serde::de::IgnoredAny),
}

/// Returns the text prompts of a request; empty if the prompts are tokens or the body cannot be
/// parsed.
pub fn prompts(body: &[u8]) -> Vec<String> {
    match serde_json::from_slice(body) {
        Ok(Prompts {
            prompt: Texts::One(text),
        }) => vec![text],
        Ok(Prompts {
            prompt: Texts::Several(texts),
        }) => texts,
        Ok(Prompts {
            prompt: Texts::Tokens(_),
        })
        | Err(_) => Vec::new(),
    }
}

/// Decodes a request as one user turn. Accepts what [`validate()`] accepts, except the features in
/// [`COMPLETIONS_ONLY`].
pub fn decode_request(body: &[u8]) -> Result<GenerateRequest, DecodeError> {
    let head = validate(body)?;
    check_unsupported(&head, COMPLETIONS_ONLY)?;
    let request: Request = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    let (Prompt::One(text) | Prompt::Several([text])) = request.prompt;
    let mut extra = request.extra;
    extra.retain(|name, value| is_without_place(name) && !is_hint(name) && !value.is_null());
    Ok(GenerateRequest {
        model: head.model.into_owned(),
        messages: vec![Message {
            role: Role::User,
            parts: vec![Part::Text(text)],
            place: Place {
                path: "prompt".to_owned(),
                content: "prompt".to_owned(),
                ..Place::default()
            },
            ..Message::default()
        }],
        max_tokens: Some(head.max_tokens),
        n: head.n,
        stream: head.stream,
        include_usage: head.include_usage,
        stop: match request.stop {
            None => Vec::new(),
            Some(Stop::One(text)) => vec![text],
            Some(Stop::Several(texts)) => texts,
        },
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: None,
            frequency_penalty: request.frequency_penalty,
            presence_penalty: request.presence_penalty,
            seed: request.seed,
        },
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: None,
        response_format: request
            .response_format
            .map(response_format_from_wire)
            .unwrap_or_default(),
        reasoning_effort: None,
        thinking: None,
        hide_reasoning: false,
        user: request.user,
        top_logprobs: None,
        extra,
    })
}

/// Whether a field in [`Request::extra`] belongs in `extra` of the common form. Excluded are the
/// fields that the head contains and those of [`COMPLETIONS_ONLY`], which have no effect in a
/// request that can be decoded.
fn is_without_place(name: &str) -> bool {
    let in_head = ["model", "max_tokens", "n", "stream", "stream_options"];
    !in_head.contains(&name) && !COMPLETIONS_ONLY.contains(&name)
}
