//! Whole answers, from the wire to the common form and back.

use serde_json::Map;
use tollgate_types::Credits;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, Seal, ToolCall};

use super::decode::said;
use super::encode::call_to_wire;
use super::usage::{encode_usage, read_usage};
use super::wire::{self, Answer, Written, WrittenCandidate, to_bytes};
use super::{ids, logprobs, seals};
use crate::error::DecodeError;

/// Reads a whole answer of an upstream, leniently. The format has no seconds in it, and may have no id: `created` and
/// `fallback_id` are the caller's.
pub fn decode_response(
    body: &[u8],
    created: i64,
    fallback_id: &str,
) -> Result<GenerateResponse, DecodeError> {
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The answer cannot be read: {error}.")))?;
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
    let (parts, tool_calls) = said(parts, |number, given, _| {
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

/// Reasons of filters.
const FILTERED: &[&str] = &[
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

/// Why an answer ended. Whoever calls tools wants them called, which the format does not say.
pub(super) fn finish_from_wire(reason: Option<&str>, called_tools: bool) -> FinishReason {
    match reason {
        Some("MAX_TOKENS") => FinishReason::Length,
        Some(reason) if FILTERED.contains(&reason) => FinishReason::ContentFilter,
        _ if called_tools => FinishReason::ToolCalls,
        _ => FinishReason::Stop,
    }
}

/// Whether a reason says that the model has failed at its own answer.
pub(super) fn is_malformed(reason: &str) -> bool {
    reason.starts_with("MALFORMED_")
        || matches!(
            reason,
            "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MISSING_THOUGHT_SIGNATURE"
        )
}

/// The word for the reason why an answer ended. Calls of tools have none of their own.
pub(super) fn finish_to_wire(finish: FinishReason) -> &'static str {
    match finish {
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => "STOP",
        FinishReason::Length | FinishReason::ContextFull => "MAX_TOKENS",
        FinishReason::ContentFilter => "SAFETY",
    }
}

/// Writes a whole answer: `public_model` is the model as the caller named it, `cost` what it costs the caller. Without
/// `show_reasoning`, what was reasoned is left out and only its seals are kept.
pub fn encode_response(
    response: &GenerateResponse,
    public_model: &str,
    cost: Option<Credits>,
    show_reasoning: bool,
) -> Vec<u8> {
    let candidates = response.choices.iter().map(|choice| {
        let parts = parts_of(&choice.parts, &choice.tool_calls, show_reasoning);
        WrittenCandidate {
            finish_reason: Some(finish_to_wire(choice.finish)),
            logprobs_result: choice.logprobs.as_ref().and_then(logprobs::to_wire),
            ..WrittenCandidate::new(choice.index, parts)
        }
    });
    to_bytes(&Written {
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
                    None => out.waiting.extend(seal.map(seals::wrap)),
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

/// Parts while they are written: a signature that is of no thought stands on the part behind it.
#[derive(Debug, Default)]
pub(super) struct Writer {
    parts: Vec<wire::Part>,
    waiting: Vec<String>,
}

impl Writer {
    pub(super) fn push(&mut self, mut part: wire::Part) {
        if !self.waiting.is_empty() {
            part.thought_signature = Some(self.waiting.remove(0));
        }
        self.parts.push(part);
    }

    pub(super) fn push_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(wire::Part::text(text));
        }
    }

    /// A thought; without its text only what seals it.
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
        self.waiting.push(seals::wrap(seal));
    }

    /// What was pushed since the last time. Signatures that wait go on waiting.
    pub(super) fn take(&mut self) -> Vec<wire::Part> {
        std::mem::take(&mut self.parts)
    }

    /// All that is left.
    pub(super) fn finish(mut self) -> Vec<wire::Part> {
        for seal in std::mem::take(&mut self.waiting) {
            self.parts.push(wire::Part {
                thought_signature: Some(seal),
                ..wire::Part::text("")
            });
        }
        self.parts
    }
}
