//! Decoding of streamed responses. The data of an event does not contain the event's name, so each
//! function has the name as a parameter.

use serde_json::Value;
use tollgate_types::Usage;
use tollgate_types::generate::Seal;
use tollgate_types::stream::StreamEvent;

use super::answer::finish_from_wire;
use super::usage::read_usage;

/// Role of an event in a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Events without content: boundaries, signatures, and unknown events.
    Preamble,
    /// Text, reasoning or tool arguments, or the start of a tool call.
    Content,
    /// Reason why the response ended.
    Finish,
    /// Usage report of the response.
    Usage,
}

/// Returns the kind of an event, its reported usage, and its number of bytes of text, reasoning and
/// tool arguments.
pub fn inspect_event(name: &str, event: &Value) -> (EventKind, Option<Usage>, u64) {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    match name {
        "contentBlockStart" if text("/start/toolUse/name").is_some() => (EventKind::Content, None, 0),
        "contentBlockDelta" => {
            let texts = [
                "/delta/text",
                "/delta/toolUse/input",
                "/delta/reasoningContent/text",
            ];
            let bytes: usize = texts.into_iter().filter_map(text).map(str::len).sum();
            let kind = if bytes > 0 {
                EventKind::Content
            } else {
                EventKind::Preamble
            };
            (kind, None, bytes as u64)
        }
        "messageStop" => (EventKind::Finish, None, 0),
        "metadata" => (EventKind::Usage, event.get("usage").and_then(read_usage), 0),
        _ => (EventKind::Preamble, None, 0),
    }
}

/// Decodes the events of one streamed response leniently: unknown events are skipped.
#[derive(Debug)]
pub struct StreamDecoder {
    id: String,
    created: i64,
    model: String,
    /// Number of tool calls so far.
    calls: u32,
}

impl StreamDecoder {
    /// Creates a decoder. The format has no id, creation time or model, so the caller supplies
    /// them.
    pub fn new(id: &str, created: i64, model: &str) -> Self {
        Self {
            id: id.to_owned(),
            created,
            model: model.to_owned(),
            calls: 0,
        }
    }

    /// Decodes one event, identified by its name. Unknown events yield no events.
    pub fn decode(&mut self, name: &str, event: &Value) -> Vec<StreamEvent> {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
        match name {
            "messageStart" => vec![StreamEvent::Start {
                id: self.id.clone(),
                created: self.created,
                model: self.model.clone(),
            }],
            "contentBlockStart" => {
                let Some(name) = text("/start/toolUse/name") else {
                    return Vec::new();
                };
                self.calls += 1;
                vec![StreamEvent::ToolCallStart {
                    choice: 0,
                    call: self.calls - 1,
                    id: text("/start/toolUse/toolUseId").unwrap_or_default().to_owned(),
                    name: name.to_owned(),
                }]
            }
            "contentBlockDelta" => self.delta(event).into_iter().collect(),
            "messageStop" => vec![StreamEvent::Finish {
                choice: 0,
                reason: finish_from_wire(text("/stopReason"), self.calls > 0),
                stop_sequence: None,
            }],
            "metadata" => {
                let usage = event.get("usage").and_then(read_usage);
                usage.map(StreamEvent::Usage).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn delta(&self, event: &Value) -> Option<StreamEvent> {
        let delta_text = |pointer: &str| {
            let text = event.pointer(pointer).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let choice = 0;
        let seal = |data: String, hidden: bool| StreamEvent::ReasoningSeal {
            choice,
            seal: Seal {
                origin: String::new(),
                data,
            },
            hidden,
        };
        if let Some(text) = delta_text("/delta/text") {
            let logprobs = None;
            return Some(StreamEvent::Text {
                choice,
                text,
                logprobs,
            });
        }
        if let Some(text) = delta_text("/delta/reasoningContent/text") {
            return Some(StreamEvent::Reasoning { choice, text });
        }
        if let Some(data) = delta_text("/delta/reasoningContent/signature") {
            return Some(seal(data, false));
        }
        if let Some(data) = delta_text("/delta/reasoningContent/redactedContent") {
            return Some(seal(data, true));
        }
        let call = self.calls.checked_sub(1)?;
        let arguments = delta_text("/delta/toolUse/input")?;
        Some(StreamEvent::ToolCallArguments {
            choice,
            call,
            arguments,
        })
    }
}
