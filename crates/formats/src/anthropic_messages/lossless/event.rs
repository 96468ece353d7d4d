//! Rewriting of the events of a streamed response.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use tollgate_types::generate::Seal;
use tollgate_types::{Credits, Usage};

use super::super::usage::{read_usage, with_cost};
use crate::error::DecodeError;
use crate::reasoning_envelope;
use crate::sse;

/// Role of an event in a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Beginning of the message, beginning of a block other than a tool call, end of a block, or an
    /// unknown event.
    Preamble,
    /// Text, reasoning or tool input: a delta, or the start of a tool call.
    Content,
    /// The stop reason, with the usage report.
    Finish,
    /// A keep-alive event, or an event without a type.
    Ping,
    /// An error object: the upstream failed.
    Error,
    /// `message_stop`.
    Stop,
}

/// Event, rewritten for the caller.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Role of the event in the stream.
    pub kind: EventKind,
    /// Complete event. `None` for events that the caller must not receive: pings, since the gateway
    /// sends its own, and errors, since their text is that of the upstream.
    pub bytes: Option<Bytes>,
    /// Usage report; set only for [`EventKind::Finish`].
    pub usage: Option<Usage>,
    /// Number of bytes of text, reasoning and tool inputs, escapes resolved.
    pub output_bytes: u64,
}

/// Relays the events of one stream. Sets the model name from the request, and wraps signatures and
/// redacted data with the upstream's origin.
#[derive(Debug)]
pub struct Relay {
    public_model: String,
    origin: String,
    /// Usage object of `message_start`.
    usage: Option<Value>,
}

/// The fields that most events need; all others are skipped.
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
    /// Creates a relay. `public_model` is the model name from the request, `origin` the origin of
    /// the upstream's signatures.
    pub fn new(public_model: &str, origin: &str) -> Self {
        Self {
            public_model: public_model.to_owned(),
            origin: origin.to_owned(),
            usage: None,
        }
    }

    /// Rewrites one event for the caller. Fails if the data is not a JSON object.
    pub fn pass(&mut self, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let head: Head<'_> = serde_json::from_slice(&event.data)
            .map_err(|_| DecodeError::invalid_json("The event is not a JSON object."))?;
        let unchanged = |kind| Relayed {
            kind,
            bytes: Some(whole(&head.kind, event)),
            usage: None,
            output_bytes: 0,
        };
        let hidden = |kind| Relayed {
            kind,
            bytes: None,
            usage: None,
            output_bytes: 0,
        };
        Ok(match &*head.kind {
            "content_block_delta" => self.delta(&head, event),
            "content_block_start" => match head.content_block.as_ref().map(|block| &*block.kind) {
                Some("tool_use") => unchanged(EventKind::Content),
                Some("thinking" | "redacted_thinking") => Relayed {
                    kind: EventKind::Preamble,
                    ..self.changed(&head.kind, event, |value| self.seal_block(value))
                },
                _ => unchanged(EventKind::Preamble),
            },
            "message_start" => self.start(&head, event)?,
            "message_delta" => self.finish(&head, event)?,
            "message_stop" => unchanged(EventKind::Stop),
            "error" => hidden(EventKind::Error),
            "" if head.error.is_some() => hidden(EventKind::Error),
            "ping" | "" => hidden(EventKind::Ping),
            _ => unchanged(EventKind::Preamble),
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
        let deltas = [&delta.text, &delta.thinking, &delta.partial_json];
        let bytes: usize = deltas.into_iter().flatten().map(|text| text.len()).sum();
        Relayed {
            kind: EventKind::Content,
            bytes: Some(whole(&head.kind, event)),
            usage: None,
            output_bytes: bytes as u64,
        }
    }

    /// Rewrites an event by parsing it into a tree. This affects few events, and none of them
    /// contains numbers that the model generated.
    fn changed(&self, kind: &str, event: &sse::Event, change: impl FnOnce(&mut Value)) -> Relayed {
        let mut value: Value = serde_json::from_slice(&event.data).unwrap_or_default();
        change(&mut value);
        Relayed {
            kind: EventKind::Content,
            bytes: Some(encode_event(kind, &value)),
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
            *data = reasoning_envelope::wrap(&Seal {
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
            bytes: Some(encode_event(&head.kind, &value)),
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

/// Returns the event on one line, without line feeds, which are white space in JSON. Adds the event
/// name if it is missing, because official clients skip events without a name.
fn whole(kind: &str, event: &sse::Event) -> Bytes {
    if memchr::memchr(b'\n', &event.data).is_none() {
        return sse::write_event(Some(kind.as_bytes()), &event.data);
    }
    let line: Vec<u8> = event.data.iter().copied().filter(|byte| *byte != b'\n').collect();
    sse::write_event(Some(kind.as_bytes()), &line)
}

fn encode_event(kind: &str, value: &Value) -> Bytes {
    sse::write_event(
        Some(kind.as_bytes()),
        &serde_json::to_vec(value).unwrap_or_default(),
    )
}

/// Adds the cost to the `usage` of an event that was already rewritten. Returns an event without a
/// usage object unchanged.
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
