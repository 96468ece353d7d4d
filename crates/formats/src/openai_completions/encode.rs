//! Encoding of complete responses from the common form.

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part};

use crate::openai_chat::encode_usage;

/// Value of `object` in a response and in each chunk.
pub(super) const OBJECT: &str = "text_completion";

/// Choice of a complete response or of a chunk.
#[derive(Serialize)]
pub(super) struct EncodedChoice {
    pub(super) text: String,
    pub(super) index: u32,
    pub(super) logprobs: Option<Value>,
    pub(super) finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: Vec<EncodedChoice>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Writes a complete response. `public_model` is the model name from the request, `cost` the price
/// for the caller. The format cannot express reasoning or tool calls, so both are omitted.
pub fn encode_response(response: &GenerateResponse, public_model: &str, cost: Option<Credits>) -> Vec<u8> {
    let mut extra = response.extra.clone();
    if let Some(usage) = &response.usage {
        extra.insert("usage".to_owned(), encode_usage(usage, cost));
    }
    let answer = Answer {
        id: &response.id,
        object: OBJECT,
        created: response.created,
        model: public_model,
        choices: response.choices.iter().map(choice_to_wire).collect(),
        extra,
    };
    // Only string keys and finite numbers, so serialization cannot fail.
    serde_json::to_vec(&answer).unwrap_or_default()
}

fn choice_to_wire(choice: &Choice) -> EncodedChoice {
    let texts = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::Refusal(text) => Some(text.as_str()),
        _ => None,
    });
    EncodedChoice {
        text: texts.collect(),
        index: choice.index,
        logprobs: None,
        finish_reason: Some(finish_to_wire(choice.finish)),
    }
}

/// Returns the `finish_reason` of a choice.
pub(super) fn finish_to_wire(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => "stop",
        FinishReason::Length | FinishReason::ContextFull => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}
