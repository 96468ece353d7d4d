//! Encoding of stream events from the common form.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;
use tollgate_types::generate::{FinishReason, ToolCall};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Usage};

use super::super::answer::{Writer, finish_to_wire};
use super::super::encode::call_to_wire;
use super::super::logprobs;
use super::super::usage::encode_usage;
use super::super::wire::{EncodedCandidate, EncodedResponse, Part, to_bytes};
use super::event_of;

/// Encodes a streamed response for one caller. Rules of the format: a tool call is complete, in one
/// part; the last event has the finish reasons and the usage.
#[derive(Debug)]
pub struct StreamEncoder {
    model: String,
    show_reasoning: bool,
    id: String,
    candidates: BTreeMap<u32, State>,
    usage: Usage,
}

#[derive(Debug, Default)]
struct State {
    writer: Writer,
    /// Unfinished calls by index: the deltas of several calls may be interleaved.
    calls: BTreeMap<u32, ToolCall>,
    finish: Option<FinishReason>,
}

impl StreamEncoder {
    /// Creates an encoder. `public_model` is the model name from the request. Without
    /// `show_reasoning`, thoughts have no text, only their signatures.
    pub fn new(public_model: &str, show_reasoning: bool) -> Self {
        Self {
            model: public_model.to_owned(),
            show_reasoning,
            id: String::new(),
            candidates: BTreeMap::new(),
            usage: Usage::ZERO,
        }
    }

    /// Encodes one event as complete events of the format. The result is empty if the data is sent
    /// with a later event, as calls, finish reasons and usage are.
    pub fn encode(&mut self, event: &StreamEvent) -> Bytes {
        match event {
            StreamEvent::Start { id, .. } => self.id.clone_from(id),
            StreamEvent::Text {
                choice,
                text,
                logprobs,
            } => {
                self.state(*choice).text(text);
                return self.flush(*choice, logprobs.as_ref());
            }
            StreamEvent::Refusal { choice, text } => {
                self.state(*choice).text(text);
                return self.flush(*choice, None);
            }
            StreamEvent::Reasoning { choice, text } => {
                if self.show_reasoning {
                    self.state(*choice).writer.push_thought(Some(text), None);
                    return self.flush(*choice, None);
                }
            }
            StreamEvent::ReasoningSeal { choice, seal, hidden } => {
                let writer = &mut self.state(*choice).writer;
                match hidden {
                    true => writer.hold(seal),
                    false => writer.push_thought(None, Some(seal)),
                }
                return self.flush(*choice, None);
            }
            StreamEvent::ToolCallStart {
                choice,
                call,
                id,
                name,
            } => {
                let started_call = ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: String::new(),
                    custom: false,
                };
                self.state(*choice).calls.insert(*call, started_call);
            }
            StreamEvent::ToolCallArguments {
                choice,
                call,
                arguments,
            } => {
                if let Some(call) = self.state(*choice).calls.get_mut(call) {
                    call.arguments.push_str(arguments);
                }
            }
            StreamEvent::Finish { choice, reason, .. } => {
                let state = self.state(*choice);
                state.finish = Some(*reason);
                state.write_calls();
                return self.flush(*choice, None);
            }
            StreamEvent::Usage(usage) => self.usage = *usage,
        }
        Bytes::new()
    }

    /// Returns the event that ends the stream, with the remaining parts, the finish reasons, the
    /// usage and `cost`. `usage` replaces the usage that the stream reported.
    pub fn end(&mut self, usage: Option<&Usage>, cost: Option<Credits>) -> Bytes {
        if self.candidates.is_empty() {
            self.candidates.insert(0, State::default());
        }
        let candidates = std::mem::take(&mut self.candidates)
            .into_iter()
            .map(|(index, mut state)| {
                state.write_calls();
                let mut parts = state.writer.finish();
                if parts.is_empty() {
                    parts.push(Part::text(""));
                }
                EncodedCandidate {
                    finish_reason: Some(finish_to_wire(state.finish.unwrap_or(FinishReason::Stop))),
                    ..EncodedCandidate::new(index, parts)
                }
            });
        let candidates = candidates.collect();
        self.event(candidates, Some(encode_usage(usage.unwrap_or(&self.usage), cost)))
    }

    fn state(&mut self, choice: u32) -> &mut State {
        self.candidates.entry(choice).or_default()
    }

    /// Returns an event with the new parts of a candidate; empty if there are none.
    fn flush(&mut self, choice: u32, logprobs: Option<&Value>) -> Bytes {
        let parts = self.state(choice).writer.take();
        if parts.is_empty() {
            return Bytes::new();
        }
        let candidate = EncodedCandidate {
            logprobs_result: logprobs.and_then(logprobs::to_wire),
            ..EncodedCandidate::new(choice, parts)
        };
        self.event(vec![candidate], None)
    }

    fn event(&self, candidates: Vec<EncodedCandidate>, usage: Option<Value>) -> Bytes {
        let event = EncodedResponse {
            candidates,
            usage_metadata: usage,
            model_version: &self.model,
            response_id: &self.id,
        };
        event_of(&to_bytes(&event))
    }
}

impl State {
    fn text(&mut self, text: &str) {
        self.write_calls();
        self.writer.push_text(text);
    }

    fn write_calls(&mut self) {
        for (_, call) in std::mem::take(&mut self.calls) {
            self.writer.push(call_to_wire(&call));
        }
    }
}
