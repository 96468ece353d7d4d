//! Decoding of stream events to the common form.

use serde_json::Value;
use tollgate_types::generate::Seal;
use tollgate_types::stream::StreamEvent;

use super::super::answer::finish_from_wire;
use super::super::decode::lenient;
use super::super::usage::read_usage;
use crate::error::DecodeError;
use crate::reasoning_envelope;

/// Decodes the events of one streamed response leniently: unknown events and fields are skipped.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    created: i64,
    /// Usage object of `message_start`.
    usage: Option<Value>,
    /// Number of tool calls so far.
    calls: u32,
    /// Whether the open block is reasoning whose signature has not arrived.
    unsealed: bool,
}

impl StreamDecoder {
    /// Creates a decoder. The format has no creation time, so the caller supplies `created`.
    pub fn new(created: i64) -> Self {
        Self {
            created,
            ..Self::default()
        }
    }

    /// Decodes the data of one event. Fails if the data is not JSON. Error objects and the end of
    /// the stream yield no events: [`Relay`](super::super::Relay) reports them.
    pub fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let event: Value = lenient(data)?;
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let mut events = Vec::new();
        match text("/type") {
            "message_start" => {
                self.usage = event.pointer("/message/usage").cloned();
                events.push(StreamEvent::Start {
                    id: text("/message/id").to_owned(),
                    created: self.created,
                    model: text("/message/model").to_owned(),
                });
            }
            "content_block_start" => self.block_start(&event, &mut events),
            "content_block_delta" => self.delta(&event, &mut events),
            "content_block_stop" if std::mem::take(&mut self.unsealed) => {
                events.push(StreamEvent::ReasoningSeal {
                    choice: 0,
                    seal: Seal::default(),
                    hidden: false,
                });
            }
            "message_delta" => {
                if let Some(reason) = event.pointer("/delta/stop_reason").and_then(Value::as_str) {
                    let sequence = event.pointer("/delta/stop_sequence").and_then(Value::as_str);
                    events.push(StreamEvent::Finish {
                        choice: 0,
                        reason: finish_from_wire(Some(reason), self.calls > 0),
                        stop_sequence: sequence.map(str::to_owned),
                    });
                }
                let usage = event
                    .get("usage")
                    .and_then(|now| read_usage(self.usage.as_ref(), now));
                events.extend(usage.map(StreamEvent::Usage));
            }
            _ => {}
        }
        Ok(events)
    }

    fn block_start(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match text("/content_block/type") {
            "tool_use" => {
                events.push(StreamEvent::ToolCallStart {
                    choice: 0,
                    call: self.calls,
                    id: text("/content_block/id").to_owned(),
                    name: text("/content_block/name").to_owned(),
                });
                self.calls += 1;
            }
            "thinking" => self.unsealed = true,
            "redacted_thinking" => events.push(StreamEvent::ReasoningSeal {
                choice: 0,
                seal: sealed(text("/content_block/data")),
                hidden: true,
            }),
            _ => {}
        }
    }

    fn delta(&mut self, event: &Value, events: &mut Vec<StreamEvent>) {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let delta_text = |name: &str| text(&format!("/delta/{name}")).to_owned();
        events.push(match text("/delta/type") {
            "text_delta" => StreamEvent::Text {
                choice: 0,
                text: delta_text("text"),
                logprobs: None,
            },
            "thinking_delta" => StreamEvent::Reasoning {
                choice: 0,
                text: delta_text("thinking"),
            },
            "signature_delta" => {
                self.unsealed = false;
                StreamEvent::ReasoningSeal {
                    choice: 0,
                    seal: sealed(&delta_text("signature")),
                    hidden: false,
                }
            }
            "input_json_delta" if self.calls > 0 => StreamEvent::ToolCallArguments {
                choice: 0,
                call: self.calls - 1,
                arguments: delta_text("partial_json"),
            },
            _ => return,
        });
    }
}

/// Parses a signature or redacted data. The origin is empty unless a [`Relay`](super::super::Relay)
/// has already wrapped the value. The adapter replaces an empty origin.
fn sealed(data: &str) -> Seal {
    reasoning_envelope::unwrap(data).unwrap_or_default()
}
