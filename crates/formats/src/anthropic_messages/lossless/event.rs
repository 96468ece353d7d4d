//! Events of a streamed answer.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tollgate_types::generate::Seal;
use tollgate_types::{Credits, Usage};

use super::super::usage::{read_usage, with_cost};
use crate::error::DecodeError;
use crate::seal;
use crate::sse;

/// What an event of a streamed answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Framing: the beginning of the message or of a block, the end of a block.
    Preamble,
    /// Content.
    Content,
    /// Why the answer ended, with the report.
    Finish,
    /// A sign of life.
    Ping,
    /// An error object: the upstream failed.
    Error,
    /// `message_stop`.
    Stop,
}

/// One event as the caller gets it.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// What it is.
    pub kind: EventKind,
    /// The whole event; `None` for what the caller must not see: signs of life, which are the gateway's own, and
    /// errors, which are in the upstream's words.
    pub bytes: Option<Bytes>,
    /// What was consumed, when the answer has ended.
    pub usage: Option<Usage>,
    /// Bytes of text, reasoning and tool inputs, escapes resolved.
    pub output_bytes: u64,
}

/// Passes on the events of one stream: the caller's name for the model, and reasoning sealed with its origin.
#[derive(Debug)]
pub struct Relay {
    public_model: String,
    origin: String,
    /// What the beginning of the stream reports.
    usage: Option<Value>,
}

/// As much of an event as is needed of most of them.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    #[serde(borrow)]
    content_block: Option<Block<'a>>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Cow<'a, str>,
}

impl Relay {
    /// For a caller who named the model so, and an upstream whose seals have this origin.
    pub fn new(public_model: &str, origin: &str) -> Self {
        Self {
            public_model: public_model.to_owned(),
            origin: origin.to_owned(),
            usage: None,
        }
    }

    /// The event as the caller gets it. The error is that of a text that is no JSON object.
    pub fn pass(&mut self, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let head: Head<'_> = serde_json::from_slice(&event.data)
            .map_err(|_| DecodeError::invalid_json("The event is not a JSON object."))?;
        let as_it_is = |kind| Relayed {
            kind,
            bytes: Some(whole(&head.kind, event)),
            usage: None,
            output_bytes: 0,
        };
        let unseen = |kind| Relayed {
            kind,
            bytes: None,
            usage: None,
            output_bytes: 0,
        };
        Ok(match &*head.kind {
            "content_block_delta" => self.delta(&head, event),
            "content_block_start" => match head.content_block.as_ref().map(|block| &*block.kind) {
                Some("tool_use") => as_it_is(EventKind::Content),
                Some("thinking" | "redacted_thinking") => Relayed {
                    kind: EventKind::Preamble,
                    ..self.changed(&head.kind, event, |value| self.seal_block(value))
                },
                _ => as_it_is(EventKind::Preamble),
            },
            "message_start" => self.start(&head, event)?,
            "message_delta" => self.finish(&head, event)?,
            "message_stop" => as_it_is(EventKind::Stop),
            "error" => unseen(EventKind::Error),
            "" if head.error.is_some() => unseen(EventKind::Error),
            "ping" | "" => unseen(EventKind::Ping),
            _ => as_it_is(EventKind::Preamble),
        })
    }

    fn delta(&self, head: &Head<'_>, event: &sse::Event) -> Relayed {
        let Some(delta) = &head.delta else {
            return self.changed(&head.kind, event, |_| {});
        };
        if delta.signature.is_some() {
            return self.changed(&head.kind, event, |value| {
                self.seal_at(value.pointer_mut("/delta/signature"))
            });
        }
        let said = [&delta.text, &delta.thinking, &delta.partial_json];
        let bytes: usize = said.into_iter().flatten().map(|text| text.len()).sum();
        Relayed {
            kind: EventKind::Content,
            bytes: Some(whole(&head.kind, event)),
            usage: None,
            output_bytes: bytes as u64,
        }
    }

    /// The event with something changed in its tree: only few are, and none that has numbers of the model's.
    fn changed(&self, kind: &str, event: &sse::Event, change: impl FnOnce(&mut Value)) -> Relayed {
        let mut value: Value = serde_json::from_slice(&event.data).unwrap_or_default();
        change(&mut value);
        Relayed {
            kind: EventKind::Content,
            bytes: Some(written(kind, &value)),
            usage: None,
            output_bytes: 0,
        }
    }

    fn seal_block(&self, value: &mut Value) {
        self.seal_at(value.pointer_mut("/content_block/data"));
        self.seal_at(value.pointer_mut("/content_block/signature"));
    }

    fn seal_at(&self, place: Option<&mut Value>) {
        let Some(Value::String(data)) = place else { return };
        if !data.is_empty() {
            *data = seal::wrap(&Seal {
                origin: self.origin.clone(),
                data: std::mem::take(data),
            });
        }
    }

    fn start(&mut self, head: &Head<'_>, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let mut value: Value = serde_json::from_slice(&event.data)
            .map_err(|_| DecodeError::invalid_json("The event is not a JSON object."))?;
        self.usage = value.pointer("/message/usage").cloned();
        if let Some(message) = value.get_mut("message").and_then(Value::as_object_mut) {
            message.insert("model".to_owned(), Value::String(self.public_model.clone()));
        }
        Ok(Relayed {
            kind: EventKind::Preamble,
            bytes: Some(written(&head.kind, &value)),
            usage: None,
            output_bytes: 0,
        })
    }

    fn finish(&self, head: &Head<'_>, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let value: Value = serde_json::from_slice(&event.data)
            .map_err(|_| DecodeError::invalid_json("The event is not a JSON object."))?;
        let now = value.get("usage");
        Ok(Relayed {
            kind: EventKind::Finish,
            bytes: Some(whole(&head.kind, event)),
            usage: now.and_then(|now| read_usage(self.usage.as_ref(), now)),
            output_bytes: 0,
        })
    }
}

/// The event as it came, on one line: line feeds are white space in JSON. It gets a name when it has none: official
/// clients pass over events without one.
fn whole(kind: &str, event: &sse::Event) -> Bytes {
    if memchr::memchr(b'\n', &event.data).is_none() {
        return sse::write_event(Some(kind.as_bytes()), &event.data);
    }
    let line: Vec<u8> = event.data.iter().copied().filter(|byte| *byte != b'\n').collect();
    sse::write_event(Some(kind.as_bytes()), &line)
}

fn written(kind: &str, value: &Value) -> Bytes {
    sse::write_event(
        Some(kind.as_bytes()),
        &serde_json::to_vec(value).unwrap_or_default(),
    )
}

/// A whole event that was passed on before, with the cost in its `usage`. Unchanged when it has no usage object.
pub fn event_with_cost(event: &Bytes, cost: Credits) -> Bytes {
    let changed = || {
        let text = event.strip_suffix(b"\n\n")?;
        let at = memchr::memmem::find(text, b"\ndata: ")?;
        let name = text.get(..at)?.strip_prefix(b"event: ")?;
        let mut value: Value = serde_json::from_slice(text.get(at + 7..)?).ok()?;
        with_cost(value.get_mut("usage")?.as_object_mut()?, Some(cost));
        Some(sse::write_event(Some(name), &serde_json::to_vec(&value).ok()?))
    };
    changed().unwrap_or_else(|| event.clone())
}
