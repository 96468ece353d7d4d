//! Events of a streamed answer.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::{Credits, Usage};

use super::super::identity::Identity;
use super::super::wire::to_bytes;
use super::places::{Item, ObjectPlaces};
use super::{changed, seal_edits};
use crate::error::{DecodeError, Flaw};
use crate::json::{Kind, Reader};
use crate::lossless::Span;
use crate::sse;

/// What an event of a streamed answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Framing: the beginning of the response, the beginning and the end of items and parts.
    Preamble,
    /// Content.
    Content,
    /// A sign of life.
    Ping,
    /// The upstream failed.
    Error,
    /// The end, with the whole response.
    End,
}

/// One event as it is passed on.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// What it is.
    pub kind: EventKind,
    /// The whole event; `None` for what the caller must not see: signs of life, which are the gateway's own, and
    /// failures, which are in the upstream's words.
    pub bytes: Option<Bytes>,
    /// What was consumed, when the answer has ended.
    pub usage: Option<Usage>,
    /// Bytes of text, reasoning and arguments, escapes resolved.
    pub output_bytes: u64,
    /// Why the upstream failed, as the body of an error.
    pub failure: Option<Bytes>,
}

/// Passes on the events of one stream with reasoning sealed with its origin. What the gateway itself says about the
/// response is put in by [`dress_event`].
#[derive(Debug)]
pub struct Relay {
    origin: String,
}

impl Relay {
    /// For an upstream whose seals have this origin.
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
        }
    }

    /// The event as it is passed on. The error is that of a text that is no JSON object.
    pub fn pass(&self, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let places = EventPlaces::read(&event.data)?;
        let kind = places.event_kind();
        let is_seen = !matches!(kind, EventKind::Ping | EventKind::Error);
        let response = places.response.as_ref();
        Ok(Relayed {
            kind,
            bytes: is_seen.then(|| self.sealed(&places, event)),
            usage: response
                .filter(|_| kind == EventKind::End)
                .and_then(|response| response.usage(&event.data)),
            output_bytes: places.delta_bytes,
            failure: (kind == EventKind::Error).then(|| failure(&event.data)),
        })
    }

    fn sealed(&self, places: &EventPlaces<'_>, event: &sse::Event) -> Bytes {
        let seals = places
            .response
            .as_ref()
            .map_or(&places.seals, |response| &response.seals);
        if seals.is_empty() {
            return named(&places.kind, &event.data);
        }
        let changes = seal_edits(&event.data, seals, &self.origin);
        named(&places.kind, &changed(&event.data, changes))
    }
}

/// Where things stand in the data of an event.
#[derive(Debug, Default)]
struct EventPlaces<'a> {
    kind: Cow<'a, str>,
    item: Cow<'a, str>,
    seals: Vec<Span>,
    response: Option<ObjectPlaces>,
    response_place: Option<Span>,
    sequence: Option<Span>,
    delta_bytes: u64,
    has_error: bool,
}

impl<'a> EventPlaces<'a> {
    fn read(data: &'a [u8]) -> Result<Self, Flaw> {
        let mut reader = Reader::new(data, u32::MAX)?;
        let mut places = EventPlaces::default();
        reader.kind()?;
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            let start = reader.place();
            match (&*key.name, reader.kind()?) {
                ("type", Kind::String) => places.kind = reader.string()?.decoded(),
                ("delta", Kind::String) => places.delta_bytes = reader.string()?.len as u64,
                ("sequence_number", Kind::Number) => {
                    reader.skip()?;
                    places.sequence = Some(Span::new(start, reader.end()));
                }
                ("item", Kind::Object) => {
                    let item = Item::read(&mut reader)?;
                    places.seals.extend(item.seal);
                    places.item = item.kind;
                }
                ("response", Kind::Object) => {
                    places.response = Some(ObjectPlaces::read(&mut reader)?);
                    places.response_place = Some(Span::new(start, reader.end()));
                }
                ("error", Kind::Object | Kind::String) => {
                    places.has_error = true;
                    reader.skip()?;
                }
                _ => reader.skip()?,
            }
        }
        reader.finish()?;
        Ok(places)
    }

    fn event_kind(&self) -> EventKind {
        match (&*self.kind, &*self.item) {
            ("response.completed" | "response.incomplete", _) => EventKind::End,
            ("response.failed" | "response.cancelled" | "error", _) => EventKind::Error,
            ("", _) if self.has_error => EventKind::Error,
            ("" | "ping" | "keepalive", _) => EventKind::Ping,
            ("response.output_item.added", "function_call" | "custom_tool_call") => EventKind::Content,
            (kind, _) if kind.ends_with(".delta") => EventKind::Content,
            _ => EventKind::Preamble,
        }
    }
}

/// The error that an event tells of. It stands in the response, in an object of its own, or beside the type.
fn failure(data: &[u8]) -> Bytes {
    let event: Value = serde_json::from_slice(data).unwrap_or_default();
    let told = [event.pointer("/response/error"), event.get("error")];
    let error = told.into_iter().flatten().find(|error| !error.is_null());
    let error = error.cloned().unwrap_or_else(
        || json!({"code": event["code"], "message": event["message"], "param": event["param"]}),
    );
    Bytes::from(to_bytes(&json!({ "error": error })))
}

/// The event on one line: line feeds are white space in JSON. It has its type as its name, which some clients go by; a
/// type that is no word would be more than a name.
fn named(kind: &str, data: &[u8]) -> Bytes {
    let name = kind
        .bytes()
        .all(|byte| byte.is_ascii_graphic())
        .then_some(kind.as_bytes());
    if memchr::memchr(b'\n', data).is_none() {
        return sse::write_event(name, data);
    }
    let line: Vec<u8> = data.iter().copied().filter(|byte| *byte != b'\n').collect();
    sse::write_event(name, &line)
}

/// Name and data of a whole event that was written here.
fn parts(event: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = event.strip_suffix(b"\n\n")?;
    let at = memchr::memmem::find(text, b"\ndata: ")?;
    Some((text.get(..at)?.strip_prefix(b"event: ")?, text.get(at + 7..)?))
}

/// Events that have the whole response in them.
const OF_THE_RESPONSE: &[&[u8]] = &[
    b"response.created",
    b"response.queued",
    b"response.in_progress",
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
];

/// An event as the caller gets it: in those that have the response in them, what the gateway itself says about it. At
/// the end there are what was counted, for a response without a report, and the cost.
pub fn dress_event(event: &Bytes, identity: &Identity, end: Option<(&Usage, Credits)>) -> Bytes {
    let dressed = || {
        let (name, data) = parts(event)?;
        if !OF_THE_RESPONSE.contains(&name) {
            return None;
        }
        let response = EventPlaces::read(data).ok()?.response?;
        let mut changes = response.edits(identity);
        changes.extend(end.map(|(counted, cost)| response.usage_edit(data, counted, cost)));
        Some(sse::write_event(Some(name), &changed(data, changes)))
    };
    dressed().unwrap_or_else(|| event.clone())
}

/// The response object in an event that has it: the last one of a stream has all of it.
pub fn response_in_event(event: &Bytes) -> Option<Bytes> {
    let (_, data) = parts(event)?;
    let place = EventPlaces::read(data).ok()?.response_place?;
    Some(event.slice_ref(place.of(data)))
}

/// The number of an event.
pub fn sequence_number(event: &Bytes) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        sequence_number: u64,
    }
    let (_, data) = parts(event)?;
    let numbered: Numbered = serde_json::from_slice(data).ok()?;
    Some(numbered.sequence_number)
}

/// The event with this number instead of its own.
pub fn with_sequence_number(event: &Bytes, number: u64) -> Bytes {
    let numbered = || {
        let (name, data) = parts(event)?;
        let text = number.to_string().into_bytes();
        let change = match EventPlaces::read(data).ok()?.sequence {
            Some(place) => (place, text),
            // An object that has a type has a member behind its brace.
            None => (Span::at(1), [b"\"sequence_number\":", &*text, b","].concat()),
        };
        Some(sse::write_event(Some(name), &changed(data, vec![change])))
    };
    numbered().unwrap_or_else(|| event.clone())
}

/// An event of this type that has the whole response in it.
pub fn encode_event_of(kind: &str, response: &Value, number: u64) -> Bytes {
    let event = json!({"type": kind, "response": response, "sequence_number": number});
    sse::write_event(Some(kind.as_bytes()), &to_bytes(&event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_replaced_or_put_in() {
        for (data, expected) in [
            (
                r#"{"type":"x","sequence_number":7,"delta":"a"}"#,
                r#"{"type":"x","sequence_number":12,"delta":"a"}"#,
            ),
            (
                r#"{"sequence_number" : 70 ,"item":{"sequence_number":1},"type":"x"}"#,
                r#"{"sequence_number" : 12 ,"item":{"sequence_number":1},"type":"x"}"#,
            ),
            (
                r#"{"type":"x","delta":"sequence_number"}"#,
                r#"{"sequence_number":12,"type":"x","delta":"sequence_number"}"#,
            ),
        ] {
            let event = sse::write_event(Some(b"x"), data.as_bytes());
            let numbered = with_sequence_number(&event, 12);
            assert_eq!(numbered, sse::write_event(Some(b"x"), expected.as_bytes()));
            assert_eq!(sequence_number(&numbered), Some(12));
        }
        assert_eq!(
            with_sequence_number(&Bytes::from_static(b": ping\n\n"), 1),
            ": ping\n\n"
        );
    }
}
