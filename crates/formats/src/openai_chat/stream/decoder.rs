//! Decoding of stream events to the common form.

use tollgate_types::generate::Part;
use tollgate_types::stream::StreamEvent;

use super::super::decode::{finish_from_wire, parts_from_wire};
use super::super::usage::read_usage_value;
use super::super::wire::{Answer, CallDelta, Choice, Content, Delta};
use crate::error::DecodeError;
use crate::sse;

/// Decodes the events of one streamed response leniently: missing fields have defaults, and unknown
/// fields are skipped.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    started: bool,
    /// Choice and index of every tool call so far.
    calls: Vec<(u32, u32)>,
}

impl StreamDecoder {
    /// Creates a decoder for one stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the data of one event; empty for `[DONE]`. Fails if the text is not a chunk. Error
    /// objects yield no events: [`inspect_event`](super::super::inspect_event) reports them.
    pub fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        if data.trim_ascii() == sse::DONE {
            return Ok(Vec::new());
        }
        let chunk: Answer = serde_json::from_slice(data)
            .map_err(|error| DecodeError::invalid_json(format!("The chunk cannot be parsed: {error}.")))?;
        let usage = chunk.extra.get("usage").filter(|usage| !usage.is_null());
        let usage = usage.or_else(|| chunk.extra.get("x_groq")?.get("usage"));
        let usage = usage.and_then(|usage| read_usage_value(usage).usage);
        // Azure's first chunk is about the prompt and has no response id.
        let is_empty_chunk = chunk.choices.is_empty() && usage.is_none();
        let mut events = Vec::new();
        if is_empty_chunk {
            return Ok(events);
        }
        if !std::mem::replace(&mut self.started, true) {
            events.push(StreamEvent::Start {
                id: chunk.id,
                created: chunk.created.as_i64().unwrap_or(0),
                model: chunk.model,
            });
        }
        for choice in chunk.choices {
            self.decode_choice(choice, &mut events);
        }
        events.extend(usage.map(StreamEvent::Usage));
        Ok(events)
    }

    fn decode_choice(&mut self, choice: Choice, events: &mut Vec<StreamEvent>) {
        let Choice {
            index,
            delta,
            text,
            logprobs,
            finish_reason,
            ..
        } = choice;
        let mut delta = delta.unwrap_or_default();
        delta.content = delta.content.or(text.map(Content::Text));
        let calls = self.decode_texts(index, delta, logprobs, events);
        for (place, call) in calls.into_iter().enumerate() {
            self.decode_call(index, place as u32, call, events);
        }
        if let Some(reason) = finish_reason {
            let called_tools = self.calls.iter().any(|(choice, _)| *choice == index);
            events.push(StreamEvent::Finish {
                choice: index,
                reason: finish_from_wire(Some(&reason), called_tools),
                stop_sequence: None,
            });
        }
    }

    /// Decodes the texts of a delta, and returns its tool calls for further decoding.
    fn decode_texts(
        &self,
        choice: u32,
        delta: Delta,
        logprobs: Option<serde_json::Value>,
        events: &mut Vec<StreamEvent>,
    ) -> Vec<CallDelta> {
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let reasoning = filled(delta.reasoning_content).or_else(|| filled(delta.reasoning));
        if let Some(text) = reasoning {
            events.push(StreamEvent::Reasoning { choice, text });
        }
        let mut content_text = String::new();
        for part in parts_from_wire(delta.content) {
            match part {
                Part::Text(text) => content_text.push_str(&text),
                Part::Reasoning(reasoning) => {
                    let text = reasoning.text.unwrap_or_default();
                    events.push(StreamEvent::Reasoning { choice, text });
                }
                _ => {}
            }
        }
        if !content_text.is_empty() || logprobs.is_some() {
            events.push(StreamEvent::Text {
                choice,
                text: content_text,
                logprobs,
            });
        }
        if let Some(text) = filled(delta.refusal) {
            events.push(StreamEvent::Refusal { choice, text });
        }
        delta.tool_calls.unwrap_or_default()
    }

    fn decode_call(&mut self, choice: u32, place: u32, call_delta: CallDelta, events: &mut Vec<StreamEvent>) {
        let call = call_delta.index.unwrap_or(place);
        let (name, arguments) = match (call_delta.function, call_delta.custom) {
            (Some(function), _) => (function.name, function.arguments),
            (None, Some(custom)) => (custom.name, custom.input),
            (None, None) => (None, None),
        };
        // Some servers repeat id and name in every delta.
        if !self.calls.contains(&(choice, call)) {
            self.calls.push((choice, call));
            events.push(StreamEvent::ToolCallStart {
                choice,
                call,
                id: call_delta.id.unwrap_or_default(),
                name: name.unwrap_or_default(),
            });
        }
        if let Some(arguments) = arguments.filter(|arguments| !arguments.is_empty()) {
            events.push(StreamEvent::ToolCallArguments {
                choice,
                call,
                arguments,
            });
        }
    }
}
