//! Decoding of stream events to the common form.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_types::generate::Seal;
use tollgate_types::stream::StreamEvent;

use super::super::answer::finish_from_wire;
use super::super::usage::read_usage;
use super::super::wire::{Answer, Candidate, Part};
use super::super::{ids, logprobs};
use crate::error::DecodeError;

/// Decodes the events of one streamed response leniently: unknown fields are skipped.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    created: i64,
    /// Id of the response, from the first event; the fallback if the first event has none.
    id: String,
    is_started: bool,
    is_finished: bool,
    candidates: BTreeMap<u32, State>,
}

/// State of one candidate.
#[derive(Debug, Default)]
struct State {
    calls: u32,
    /// Whether the candidate has thoughts whose signature has not arrived.
    unsealed: bool,
}

impl StreamDecoder {
    /// Creates a decoder. The format has no creation time and the id is optional, so the caller
    /// supplies both.
    pub fn new(created: i64, fallback_id: &str) -> Self {
        Self {
            created,
            id: fallback_id.to_owned(),
            ..Self::default()
        }
    }

    /// Decodes the data of one event. Fails if the data cannot be parsed as a response object.
    /// Error objects and blocked prompts yield no content: [`Relay`](super::super::Relay) reports
    /// them.
    pub fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let answer: Answer = serde_json::from_slice(data)
            .map_err(|error| DecodeError::invalid_json(format!("The event cannot be parsed: {error}.")))?;
        let mut events = Vec::new();
        self.start(answer.response_id, answer.model_version, &mut events);
        let candidates = answer.candidates.unwrap_or_default().into_iter().enumerate();
        for (place, candidate) in candidates {
            let choice = candidate.index.unwrap_or(place as u32);
            self.candidate(choice, candidate, &mut events);
        }
        // Before the end, a report covers only a part of the response.
        if self.is_finished {
            let usage = answer.usage_metadata.as_ref().and_then(read_usage);
            events.extend(usage.map(StreamEvent::Usage));
        }
        Ok(events)
    }

    fn start(&mut self, id: Option<String>, model: Option<String>, events: &mut Vec<StreamEvent>) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        if let Some(id) = id {
            self.id = id;
        }
        events.push(StreamEvent::Start {
            id: self.id.clone(),
            created: self.created,
            model: model.unwrap_or_default(),
        });
    }

    fn candidate(&mut self, choice: u32, candidate: Candidate, events: &mut Vec<StreamEvent>) {
        let state = self.candidates.entry(choice).or_default();
        let mut logprobs = candidate.logprobs_result.as_ref().and_then(logprobs::to_common);
        for part in candidate.content.unwrap_or_default().parts {
            state.part(choice, part, &self.id, &mut logprobs, events);
        }
        if let Some(reason) = candidate
            .finish_reason
            .filter(|reason| reason != "FINISH_REASON_UNSPECIFIED")
        {
            state.seal_thoughts(choice, events);
            self.is_finished = true;
            events.push(StreamEvent::Finish {
                choice,
                reason: finish_from_wire(Some(&reason), state.calls > 0),
                stop_sequence: None,
            });
        }
    }
}

impl State {
    fn part(
        &mut self,
        choice: u32,
        part: Part,
        id: &str,
        logprobs: &mut Option<Value>,
        events: &mut Vec<StreamEvent>,
    ) {
        let seal = part
            .thought_signature
            .filter(|data| !data.is_empty())
            .map(|data| Seal {
                // The adapter sets the origin.
                origin: String::new(),
                data,
            });
        if part.thought == Some(true) {
            let text = part.text.unwrap_or_default();
            if !text.is_empty() {
                events.push(StreamEvent::Reasoning { choice, text });
                self.unsealed = true;
            }
            if let Some(seal) = seal {
                self.unsealed = false;
                events.push(StreamEvent::ReasoningSeal {
                    choice,
                    seal,
                    hidden: false,
                });
            }
            return;
        }
        self.seal_thoughts(choice, events);
        if let Some(seal) = seal {
            events.push(StreamEvent::ReasoningSeal {
                choice,
                seal,
                hidden: true,
            });
        }
        if let Some(call) = part.function_call {
            let number = self.calls;
            self.calls += 1;
            events.push(StreamEvent::ToolCallStart {
                choice,
                call: number,
                id: call
                    .id
                    .filter(|given| !given.is_empty())
                    .unwrap_or_else(|| ids::in_answer(id, choice, number as usize)),
                name: call.name,
            });
            events.push(StreamEvent::ToolCallArguments {
                choice,
                call: number,
                arguments: call
                    .args
                    .map_or_else(|| "{}".to_owned(), |args| args.get().to_owned()),
            });
        } else if let Some(text) = part.text.filter(|text| !text.is_empty()) {
            events.push(StreamEvent::Text {
                choice,
                text,
                logprobs: logprobs.take(),
            });
        }
    }

    fn seal_thoughts(&mut self, choice: u32, events: &mut Vec<StreamEvent>) {
        if std::mem::take(&mut self.unsealed) {
            events.push(StreamEvent::ReasoningSeal {
                choice,
                seal: Seal::default(),
                hidden: false,
            });
        }
    }
}
