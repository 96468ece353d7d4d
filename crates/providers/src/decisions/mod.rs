//! Decisions by text models. The prompt requests a label. The gateway reads the label's probability
//! from the first token of the response, or counts the labels of several responses. This module
//! contains the shared code; each provider's folder contains its requests.

mod labels;
mod memory;
pub(crate) mod native;
mod text_labels;

use std::future::Future;

use serde_json::{Value, json};
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part};
use tollgate_upstream::{LabelCall, LabelDraws, UpstreamError, UpstreamErrorKind};

pub(crate) use labels::{chat_logprobs, label_index, reading, token_logprobs};
pub(crate) use memory::{Capability, Memory};
pub(crate) use text_labels::{TextLabels, base64_of};

/// Whether all media of the state are of these kinds.
pub(crate) fn accepts_media(kinds: &[StateMediaKind], state: &State) -> bool {
    state.media.iter().all(|one| kinds.contains(&one.kind))
}

/// Returns the JSON schema of a response: an object whose `answer` is one of the labels.
pub(crate) fn schema(labels: &[String]) -> Value {
    json!({
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": labels}},
        "required": ["answer"],
        "additionalProperties": false,
    })
}

/// Returns the index of the label in a response, which is JSON of [`schema`] or the label alone;
/// `None` for any other response.
pub(crate) fn answered_label(text: &str, labels: &[String]) -> Option<usize> {
    let shaped: Option<Value> = serde_json::from_str(text.trim()).ok();
    match shaped.as_ref().and_then(|value| value.get("answer")?.as_str()) {
        Some(label) => label_index(label, labels),
        None => label_index(text, labels),
    }
}

/// Counts the labels in the choices of one response. Reads at most `asked` choices, because a
/// server may return more.
pub(crate) fn count_answers(
    response: &GenerateResponse,
    call: &LabelCall,
    asked: u32,
) -> Result<LabelDraws, UpstreamError> {
    if response.choices.is_empty() {
        return Err(UpstreamError::protocol("the response has no choices"));
    }
    let mut draws = LabelDraws {
        counts: vec![0; call.labels.len()],
        usage: response.usage,
        ..LabelDraws::default()
    };
    for choice in response.choices.iter().take(asked as usize) {
        let text = text_of(choice);
        match answered_label(&text, &call.labels).and_then(|index| draws.counts.get_mut(index)) {
            Some(count) => *count += 1,
            None => {
                draws.others += 1;
                draws.unfinished += u32::from(is_unfinished(choice, &text));
            }
        }
    }
    Ok(draws)
}

fn text_of(choice: &Choice) -> String {
    let texts = choice.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Whether the output limit ended the choice during reasoning: the text is empty, or starts with
/// reasoning that the server does not separate from the text.
fn is_unfinished(choice: &Choice, text: &str) -> bool {
    let text = text.trim_start();
    choice.finish == FinishReason::Length && (text.is_empty() || text.starts_with("<think"))
}

/// Returns a minimal call that every deployment with the capability accepts. The outcome of this
/// call shows whether the deployment or the caller's request caused a rejection.
pub(crate) fn probe(call: &LabelCall) -> LabelCall {
    LabelCall {
        upstream_model: call.upstream_model.clone(),
        state: State {
            text: "The sky is blue.".to_owned(),
            media: Vec::new(),
        }
        .into(),
        question: "Does the text say what colour the sky is?\nA) yes\nB) no\nAnswer with the letter alone."
            .into(),
        labels: ["A".to_owned(), "B".to_owned()].into(),
        seed: 0,
    }
}

/// Evaluates an attempt. If the deployment lacks the capability, records this for the model and
/// returns `None`. Runs `probe` only after a rejection that does not name its cause.
pub(crate) async fn attempt_outcome<T, P>(
    memory: &Memory,
    model: &str,
    capability: Capability,
    attempt: Result<Option<T>, UpstreamError>,
    probe: impl Future<Output = Result<Option<P>, UpstreamError>>,
) -> Result<Option<T>, UpstreamError> {
    let lacks = match &attempt {
        Ok(found) => found.is_none(),
        Err(error) if capability.is_missing(error) => true,
        Err(error) if error.kind == UpstreamErrorKind::Rejected => match probe.await {
            Ok(found) => found.is_none(),
            Err(other) => other.kind == UpstreamErrorKind::Rejected || capability.is_missing(&other),
        },
        Err(_) => false,
    };
    if !lacks {
        return attempt;
    }
    if let Err(error) = &attempt {
        tracing::info!(model, ?capability, %error, "the deployment lacks a capability for decisions");
    }
    memory.lacks(model, capability);
    Ok(None)
}

#[cfg(test)]
mod tests;
