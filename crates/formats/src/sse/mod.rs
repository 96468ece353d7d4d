//! Event streams (WHATWG HTML, section 9.2 "Server-sent events"): a reader that takes bytes as they come, and a
//! writer of whole events.
//!
//! The reader leaves the data as bytes: what is not UTF-8 is refused by whoever reads the data.

mod block;
mod reader;

use bytes::Bytes;

pub use reader::{DEFAULT_MAX_EVENT, EventReader, EventTooLarge};

/// The data that ends a stream of the OpenAI family.
pub const DONE: &[u8] = b"[DONE]";

/// The whole event that ends a stream of the OpenAI family.
pub const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The last `event` field, if there was one that is not empty.
    pub name: Option<Bytes>,
    /// The last `id` field, if there was one.
    pub id: Option<Bytes>,
    /// The `data` fields, joined by line feeds.
    pub data: Bytes,
    /// The event as it came, when it was exactly `data: …` and a blank line, ended by line feeds: it can be passed on
    /// as it is.
    pub raw: Option<Bytes>,
}

impl Event {
    /// The whole event in the one form that every client reads: as it came, if it came so.
    pub fn whole(&self) -> Bytes {
        match &self.raw {
            Some(raw) => raw.clone(),
            None => write_event(self.name.as_deref(), &self.data),
        }
    }
}

/// A whole event with its blank line, to be sent in one write: some clients forget half an event at the boundary of
/// two reads. Line feeds within the data begin a new `data` line; a JSON text has none that matter.
pub fn write_event(name: Option<&[u8]>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + name.map_or(0, |name| name.len() + 8) + 8);
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name);
        out.push(b'\n');
    }
    for line in data.split(|byte| *byte == b'\n') {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.push(b'\n');
    Bytes::from(out)
}

#[cfg(test)]
mod tests;
