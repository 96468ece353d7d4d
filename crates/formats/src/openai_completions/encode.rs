//! From the common form to a whole answer.

use serde::Serialize;
use serde_json::{Map, Value};
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part};

use crate::openai_chat::encode_usage;

/// The kind of an answer, and of each chunk of one.
pub(super) const OBJECT: &str = "text_completion";

/// One of the answers, or a piece of one.
#[derive(Serialize)]
pub(super) struct Written {
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
    choices: Vec<Written>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

/// Writes a whole answer: `public_model` is the model as the caller named it, `cost` what it costs the caller. Reasoning
/// and calls of tools have no place in the format.
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
    // String keys and finite numbers only: writing them cannot fail.
    serde_json::to_vec(&answer).unwrap_or_default()
}

fn choice_to_wire(choice: &Choice) -> Written {
    let said = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::Refusal(text) => Some(text.as_str()),
        _ => None,
    });
    Written {
        text: said.collect(),
        index: choice.index,
        logprobs: None,
        finish_reason: Some(finish_to_wire(choice.finish)),
    }
}

/// The word for the reason why a choice ended.
pub(super) fn finish_to_wire(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => "stop",
        FinishReason::Length | FinishReason::ContextFull => "length",
        FinishReason::ContentFilter => "content_filter",
    }
}
