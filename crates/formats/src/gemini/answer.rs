//! Conversion of complete (non-streaming) responses to the common form and back.

use serde_json::Map;
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, Seal, ToolCall};

use super::decode::parts_and_calls;
use super::encode::call_to_wire;
use super::usage::{encode_usage, read_usage};
use super::wire::{self, Answer, EncodedCandidate, EncodedResponse, to_bytes};
use super::{ids, logprobs, seals};
use crate::error::DecodeError;

/// Decodes a complete response of an upstream leniently. The format has no creation time and the id
/// is optional, so the caller supplies `created` and `fallback_id`.
pub fn decode_response(
    body: &[u8],
    created: i64,
    fallback_id: &str,
) -> Result<GenerateResponse, DecodeError> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let id = answer.response_id.unwrap_or_else(|| fallback_id.to_owned());
    let candidates = answer.candidates.unwrap_or_default().into_iter().enumerate();
    let choices = candidates
        .map(|(place, candidate)| {
            let index = candidate.index.unwrap_or(place as u32);
            choice(candidate, index, &id)
        })
        .collect();
    Ok(GenerateResponse {
        id,
        created,
        model: answer.model_version.unwrap_or_default(),
        choices,
        usage: answer.usage_metadata.as_ref().and_then(read_usage),
        extra: Map::new(),
    })
}

fn choice(candidate: wire::Candidate, index: u32, id: &str) -> Choice {
    let parts = candidate.content.unwrap_or_default().parts;
    let (parts, tool_calls) = parts_and_calls(parts, |number, given, _| {
        given
            .filter(|given| !given.is_empty())
            .unwrap_or_else(|| ids::in_answer(id, index, number))
    });
    Choice {
        index,
        finish: finish_from_wire(candidate.finish_reason.as_deref(), !tool_calls.is_empty()),
        parts,
        tool_calls,
        stop_sequence: None,
        logprobs: candidate.logprobs_result.as_ref().and_then(logprobs::to_common),
        extra: Map::new(),
    }
}

/// Values of `finishReason` that mean that a content filter ended the response.
const FILTER_REASONS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "LANGUAGE",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

/// Converts `finishReason` to the common finish reason. The format has no reason for tool calls, so
/// `called_tools` distinguishes them from a stop.
pub(super) fn finish_from_wire(reason: Option<&str>, called_tools: bool) -> FinishReason {
    match reason {
        Some("MAX_TOKENS") => FinishReason::Length,
        Some(reason) if FILTER_REASONS.contains(&reason) => FinishReason::ContentFilter,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

/// Whether the finish reason means that the model failed to generate a valid response.
pub(super) fn is_malformed(reason: &str) -> bool {
    reason.starts_with("MALFORMED_")
        || matches!(
            reason,
            "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MISSING_THOUGHT_SIGNATURE"
        )
}

/// Returns the finish reason on the wire. The format has no separate reason for tool calls, stop
/// sequences or a full context window.
pub(super) fn finish_to_wire(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => "STOP",
        FinishReason::Length | FinishReason::ContextFull => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
    }
}

/// Encodes a complete response. `public_model` is the model name from the request, `cost` the price
/// for the caller. Without `show_reasoning`, thoughts have no text, only their signatures.
pub fn encode_response(
    response: &GenerateResponse,
    public_model: &str,
    cost: Option<Credits>,
    show_reasoning: bool,
) -> Vec<u8> {
    let candidates = response.choices.iter().map(|choice| {
        let parts = parts_of(&choice.parts, &choice.tool_calls, show_reasoning);
        EncodedCandidate {
            finish_reason: Some(finish_to_wire(choice.finish)),
            logprobs_result: choice.logprobs.as_ref().and_then(logprobs::to_wire),
            ..EncodedCandidate::new(choice.index, parts)
        }
    });
    to_bytes(&EncodedResponse {
        candidates: candidates.collect(),
        usage_metadata: Some(encode_usage(&response.usage.unwrap_or_default(), cost)),
        model_version: public_model,
        response_id: &response.id,
    })
}

fn parts_of(parts: &[Part], calls: &[ToolCall], show_reasoning: bool) -> Vec<wire::Part> {
    let mut out = Writer::default();
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => out.push_text(text),
            Part::Reasoning(reasoning) => {
                let seal = reasoning.seal.as_ref();
                match &reasoning.text {
                    Some(text) => out.push_thought(show_reasoning.then_some(text), seal),
                    None => out.pending.extend(seal.map(seals::wrap)),
                }
            }
            _ => {}
        }
    }
    for call in calls {
        out.push(call_to_wire(call));
    }
    out.finish()
}

/// Collects the parts of a turn. A signature that belongs to no thought is added to the next part
/// that is not a thought.
#[derive(Debug, Default)]
pub(super) struct Writer {
    parts: Vec<wire::Part>,
    pending: Vec<String>,
}

impl Writer {
    pub(super) fn push(&mut self, mut part: wire::Part) {
        if !self.pending.is_empty() {
            part.thought_signature = Some(self.pending.remove(0));
        }
        self.parts.push(part);
    }

    pub(super) fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(wire::Part::text(text));
        }
    }

    /// Adds a thought; without `text`, only its signature. Adds nothing without text and signature.
    pub(super) fn push_thought(&mut self, text: Option<&String>, seal: Option<&Seal>) {
        let is_sealed = seal.is_some_and(|seal| !seal.data.is_empty());
        if text.is_some() || is_sealed {
            self.parts.push(wire::Part {
                thought: Some(true),
                thought_signature: seal.map(seals::wrap),
                ..wire::Part::text(text.cloned().unwrap_or_default())
            });
        }
    }

    pub(super) fn hold(&mut self, seal: &Seal) {
        self.pending.push(seals::wrap(seal));
    }

    /// Returns the parts added since the last call. Pending signatures remain pending.
    pub(super) fn take(&mut self) -> Vec<wire::Part> {
        std::mem::take(&mut self.parts)
    }

    /// Returns the remaining parts. Adds an empty part for each pending signature.
    pub(super) fn finish(mut self) -> Vec<wire::Part> {
        for seal in std::mem::take(&mut self.pending) {
            self.parts.push(wire::Part {
                thought_signature: Some(seal),
                ..wire::Part::text("")
            });
        }
        self.parts
    }
}
