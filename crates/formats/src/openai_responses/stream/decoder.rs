//! Decoding of stream events to the common form.

use serde_json::{Value, json};
use tollgate_types::generate::Seal;
use tollgate_types::stream::StreamEvent;

use super::super::answer::finish_from_wire;
use super::super::decode::lenient;
use super::super::usage::read_usage;
use crate::error::DecodeError;

/// Decodes the events of one streamed response leniently: unknown events and fields are skipped.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    /// Calls so far: index of the item, and whether any arguments were received.
    calls: Vec<(u64, bool)>,
    /// Source of the text of the open reasoning item: `summary` or `content`.
    reasoned: Option<&'static str>,
    /// Whether a further part of the reasoning summary has started.
    starts_part: bool,
}

impl StreamDecoder {
    /// Decodes the data of one event. Fails if the data is not JSON. Error objects yield no events:
    /// [`Relay`](super::super::Relay) reports them.
    pub fn decode(&mut self, data: &[u8]) -> Result<Vec<StreamEvent>, DecodeError> {
        let event: Value = lenient(data)?;
        let delta_text = || event["delta"].as_str().unwrap_or_default().to_owned();
        let index = event["output_index"].as_u64().unwrap_or(0);
        let mut events = Vec::new();
        match event["type"].as_str().unwrap_or_default() {
            "response.created" => events.push(start(&event["response"])),
            "response.output_text.delta" => events.push(StreamEvent::Text {
                choice: 0,
                text: delta_text(),
                logprobs: logprobs(&event["logprobs"]),
            }),
            "response.refusal.delta" => events.push(StreamEvent::Refusal {
                choice: 0,
                text: delta_text(),
            }),
            "response.reasoning_summary_part.added" => self.starts_part = self.reasoned.is_some(),
            "response.reasoning_summary_text.delta" => self.reasoning("summary", delta_text(), &mut events),
            // Servers use both names for the same event.
            "response.reasoning_text.delta" | "response.reasoning.delta" => {
                self.reasoning("content", delta_text(), &mut events);
            }
            "response.output_item.added" => self.added(index, &event["item"], &mut events),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(index, delta_text(), &mut events);
            }
            "response.output_item.done" => self.done(index, &event["item"], &mut events),
            "response.completed" | "response.incomplete" => self.end(&event["response"], &mut events),
            _ => {}
        }
        Ok(events)
    }

    fn reasoning(&mut self, source: &'static str, delta_text: String, events: &mut Vec<StreamEvent>) {
        // If a server sends both sources, only the first one is used.
        if *self.reasoned.get_or_insert(source) != source {
            return;
        }
        if std::mem::take(&mut self.starts_part) {
            events.push(reasoned("\n\n".to_owned()));
        }
        events.push(reasoned(delta_text));
    }

    fn added(&mut self, index: u64, item: &Value, events: &mut Vec<StreamEvent>) {
        let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
        if matches!(&*text("type"), "function_call" | "custom_tool_call") {
            events.push(StreamEvent::ToolCallStart {
                choice: 0,
                call: self.calls.len() as u32,
                id: text("call_id"),
                name: text("name"),
            });
            self.calls.push((index, false));
        }
    }

    fn arguments(&mut self, index: u64, arguments: String, events: &mut Vec<StreamEvent>) {
        let Some(call) = self.calls.iter().position(|(place, _)| *place == index) else {
            return;
        };
        self.calls[call].1 |= !arguments.is_empty();
        events.push(StreamEvent::ToolCallArguments {
            choice: 0,
            call: call as u32,
            arguments,
        });
    }

    fn done(&mut self, index: u64, item: &Value, events: &mut Vec<StreamEvent>) {
        match item["type"].as_str() {
            Some("reasoning") => {
                let shown = self.reasoned.take().is_some();
                let data = item["encrypted_content"].as_str().unwrap_or_default().to_owned();
                if shown || !data.is_empty() {
                    events.push(StreamEvent::ReasoningSeal {
                        choice: 0,
                        seal: Seal {
                            origin: String::new(),
                            data,
                        },
                        hidden: !shown,
                    });
                }
            }
            // Some servers send no deltas of the arguments, so the arguments are read from the
            // finished item.
            Some("function_call" | "custom_tool_call") if self.calls.contains(&(index, false)) => {
                let whole = item["arguments"].as_str().or_else(|| item["input"].as_str());
                self.arguments(index, whole.unwrap_or_default().to_owned(), events);
            }
            _ => {}
        }
    }

    fn end(&self, response: &Value, events: &mut Vec<StreamEvent>) {
        let reason = response
            .pointer("/incomplete_details/reason")
            .and_then(Value::as_str);
        events.push(StreamEvent::Finish {
            choice: 0,
            reason: finish_from_wire(response["status"].as_str(), reason, !self.calls.is_empty()),
            stop_sequence: None,
        });
        events.extend(read_usage(&response["usage"]).map(StreamEvent::Usage));
    }
}

fn start(response: &Value) -> StreamEvent {
    StreamEvent::Start {
        id: response["id"].as_str().unwrap_or_default().to_owned(),
        created: response["created_at"]
            .as_f64()
            .map_or(0, |seconds| seconds as i64),
        model: response["model"].as_str().unwrap_or_default().to_owned(),
    }
}

fn reasoned(text: String) -> StreamEvent {
    StreamEvent::Reasoning { choice: 0, text }
}

/// Returns the token probabilities in the format of chat completions; `None` without any.
fn logprobs(tokens: &Value) -> Option<Value> {
    let tokens = tokens.as_array().filter(|tokens| !tokens.is_empty())?;
    Some(json!({"content": tokens, "refusal": null}))
}
