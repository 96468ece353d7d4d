//! Rewriting of the events of a streamed response.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::{Credits, Usage};

use super::super::identity::Identity;
use super::super::wire::to_bytes;
use super::numbering::{Numbered, Numbering};
use super::places::{Item, ObjectPlaces};
use super::{changed, seal_edits};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};
use crate::lossless::Span;
use crate::sse;

/// Role of an event in a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Framing: the start of the response, the start and end of items and parts.
    Preamble,
    /// Text, reasoning or tool arguments, or the start of a call.
    Content,
    /// A keep-alive event.
    Ping,
    /// Report of a failure.
    Error,
    /// Last event, with the complete response.
    End,
}

/// Event, rewritten for forwarding.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Role of the event in the stream.
    pub kind: EventKind,
    /// Complete event. `None` for events that the caller must not receive: pings, since the gateway
    /// sends its own, and failures, since their text is that of the upstream.
    pub bytes: Option<Bytes>,
    /// Usage report; set only for [`EventKind::End`].
    pub usage: Option<Usage>,
    /// Number of bytes of the event's `delta`, with escapes resolved; 0 without a delta.
    pub output_bytes: u64,
    /// Upstream's failure in the format of an error body.
    pub failure: Option<Bytes>,
}

/// Relays the events of one stream. Wraps the encrypted content of reasoning with the upstream's
/// origin, and adds missing sequence numbers and indices. [`apply_identity`] then sets the
/// gateway's own members of the response.
#[derive(Debug)]
pub struct Relay {
    origin: String,
    numbering: Numbering,
}

impl Relay {
    /// Creates a relay for an upstream whose encrypted reasoning has this origin.
    pub fn new(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            numbering: Numbering::default(),
        }
    }

    /// Rewrites one event for forwarding. Fails if the data is not a JSON object.
    pub fn pass(&mut self, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let places = EventPlaces::read(&event.data)?;
        let kind = places.event_kind();
        let is_visible = !matches!(kind, EventKind::Ping | EventKind::Error);
        let missing = match is_visible {
            true => self.numbering.missing(&places.numbered()),
            false => Vec::new(),
        };
        let response = places.response.as_ref();
        Ok(Relayed {
            kind,
            bytes: is_visible.then(|| self.written(&places, missing, event)),
            usage: response
                .filter(|_| kind == EventKind::End)
                .and_then(|response| response.usage(&event.data)),
            output_bytes: places.delta_bytes,
            failure: (kind == EventKind::Error).then(|| failure(&event.data)),
        })
    }

    fn written(&self, places: &EventPlaces<'_>, missing: Vec<u8>, event: &sse::Event) -> Bytes {
        let seals = places
            .response
            .as_ref()
            .map_or(&places.seals, |response| &response.seals);
        if seals.is_empty() && missing.is_empty() {
            return named(&places.kind, &event.data);
        }
        let mut changes = seal_edits(&event.data, seals, &self.origin);
        if !missing.is_empty() {
            changes.push((Span::at(places.open), missing));
        }
        named(&places.kind, &changed(&event.data, changes))
    }
}

/// Positions of values in the data of an event.
#[derive(Debug, Default)]
struct EventPlaces<'a> {
    kind: Cow<'a, str>,
    /// Position just after the opening brace.
    open: u32,
    item: Item<'a>,
    item_id: Cow<'a, str>,
    has_output_index: bool,
    has_inner_index: bool,
    seals: Vec<Span>,
    response: Option<ObjectPlaces>,
    response_place: Option<Span>,
    sequence: Option<Span>,
    delta_bytes: u64,
    has_error: bool,
}

impl<'a> EventPlaces<'a> {
    fn read(data: &'a [u8]) -> Result<Self, BoxedError> {
        let mut reader = Reader::new(data, u32::MAX)?;
        let mut places = EventPlaces::default();
        reader.kind()?;
        reader.begin_object()?;
        places.open = reader.end();
        while let Some(key) = reader.key()? {
            let start = reader.place();
            match (&*key.name, reader.kind()?) {
                ("type", Kind::String) => places.kind = reader.string()?.decoded(),
                ("item_id", Kind::String) => places.item_id = reader.string()?.decoded(),
                ("output_index", Kind::Number) => {
                    reader.skip()?;
                    places.has_output_index = true;
                }
                ("content_index" | "summary_index", Kind::Number) => {
                    reader.skip()?;
                    places.has_inner_index = true;
                }
                ("delta", Kind::String) => places.delta_bytes = reader.string()?.len as u64,
                ("sequence_number", Kind::Number) => {
                    reader.skip()?;
                    places.sequence = Some(Span::new(start, reader.end()));
                }
                ("item", Kind::Object) => {
                    places.item = Item::read(&mut reader)?;
                    places.seals.extend(places.item.seal);
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

    fn numbered(&self) -> Numbered<'_> {
        let item = match (&*self.item_id, &*self.item.id) {
            ("", id) => id,
            (id, _) => id,
        };
        Numbered {
            kind: &self.kind,
            item,
            has_sequence: self.sequence.is_some(),
            has_output_index: self.has_output_index,
            has_inner_index: self.has_inner_index,
        }
    }

    fn event_kind(&self) -> EventKind {
        match (&*self.kind, &*self.item.kind) {
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

/// Returns the error of a failure event as an error body. The error is in the response, in a
/// separate object, or next to the type.
fn failure(data: &[u8]) -> Bytes {
    let event: Value = serde_json::from_slice(data).unwrap_or_default();
    let candidates = [event.pointer("/response/error"), event.get("error")];
    let error = candidates.into_iter().flatten().find(|error| !error.is_null());
    let error = error.cloned().unwrap_or_else(
        || json!({"code": event["code"], "message": event["message"], "param": event["param"]}),
    );
    Bytes::from(to_bytes(&json!({ "error": error })))
}

/// Writes the event with its data on one line: line feeds are white space in JSON. The name of the
/// event, which some clients require, is its type. A malformed type is omitted, because it could
/// inject other fields.
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

/// Returns the name and the data of an event that this module wrote.
fn parts(event: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = event.strip_suffix(b"\n\n")?;
    let at = memchr::memmem::find(text, b"\ndata: ")?;
    Some((text.get(..at)?.strip_prefix(b"event: ")?, text.get(at + 7..)?))
}

/// Types of events that contain the response object.
const RESPONSE_EVENTS: &[&[u8]] = &[
    b"response.created",
    b"response.queued",
    b"response.in_progress",
    b"response.completed",
    b"response.incomplete",
    b"response.failed",
];

/// Rewrites an event for the caller: sets the gateway's own members of the response, if the event
/// contains a response. `end` adds the cost, and the counted usage if the response has no usage
/// object. Returns other events unchanged.
pub fn apply_identity(event: &Bytes, identity: &Identity, end: Option<(&Usage, Credits)>) -> Bytes {
    let rewritten = || {
        let (name, data) = parts(event)?;
        if !RESPONSE_EVENTS.contains(&name) {
            return None;
        }
        let response = EventPlaces::read(data).ok()?.response?;
        let mut changes = response.edits(identity);
        changes.extend(end.map(|(counted, cost)| response.usage_edit(data, counted, cost)));
        Some(sse::write_event(Some(name), &changed(data, changes)))
    };
    rewritten().unwrap_or_else(|| event.clone())
}

/// Returns the response object of an event; the object is complete only in the last event of a
/// stream.
pub fn response_in_event(event: &Bytes) -> Option<Bytes> {
    let (_, data) = parts(event)?;
    let place = EventPlaces::read(data).ok()?.response_place?;
    Some(event.slice_ref(place.of(data)))
}

/// Returns the `sequence_number` of an event.
pub fn sequence_number(event: &Bytes) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        sequence_number: u64,
    }
    let (_, data) = parts(event)?;
    let numbered: Numbered = serde_json::from_slice(data).ok()?;
    Some(numbered.sequence_number)
}

/// Replaces or adds the `sequence_number` of an event. Returns an event without name or data
/// unchanged.
pub fn with_sequence_number(event: &Bytes, number: u64) -> Bytes {
    let numbered = || {
        let (name, data) = parts(event)?;
        let text = number.to_string().into_bytes();
        let change = match EventPlaces::read(data).ok()?.sequence {
            Some(place) => (place, text),
            // The object has at least the member `type`, so a comma after the inserted member is
            // valid.
            None => (Span::at(1), [b"\"sequence_number\":", &*text, b","].concat()),
        };
        Some(sse::write_event(Some(name), &changed(data, vec![change])))
    };
    numbered().unwrap_or_else(|| event.clone())
}

/// Writes an event of type `kind` that contains the response object. `number` is its
/// `sequence_number`.
pub fn encode_response_event(kind: &str, response: &Value, number: u64) -> Bytes {
    let event = json!({"type": kind, "response": response, "sequence_number": number});
    sse::write_event(Some(kind.as_bytes()), &to_bytes(&event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_are_replaced_or_inserted() {
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
