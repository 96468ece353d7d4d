//! Event streams (WHATWG HTML, section 9.2 "Server-sent events"): an incremental reader, and a
//! writer of complete events.
//!
//! The reader does not decode the data, so the calling code must refuse invalid UTF-8.

mod block;
mod reader;

use bytes::Bytes;

pub use reader::{DEFAULT_MAX_EVENT_BYTES, EventReader, EventTooLarge};

/// Data of the event that ends a stream of chat completions or completions.
pub const DONE: &[u8] = b"[DONE]";

/// Complete event that ends a stream of chat completions or completions.
pub const DONE_EVENT: &[u8] = b"data: [DONE]\n\n";

/// One event with at least one `data` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The last `event` field, unless it is missing or empty.
    pub name: Option<Bytes>,
    /// The last `id` field without a NUL character.
    pub id: Option<Bytes>,
    /// The `data` fields, joined by line feeds.
    pub data: Bytes,
    /// Verbatim event, if it consists of exactly `data: …` and a blank line, ended by line feeds.
    /// It can be forwarded unchanged.
    pub raw: Option<Bytes>,
}

impl Event {
    /// Returns the event as bytes: verbatim if `raw` is set, otherwise rewritten from name and
    /// data, without the id.
    pub fn whole(&self) -> Bytes {
        match &self.raw {
            Some(raw) => raw.clone(),
            None => write_event(self.name.as_deref(), &self.data),
        }
    }
}

/// Writes a complete event with its blank line. The event must be sent in one write, because some
/// clients lose an event that is split between two reads. Each line feed in the data starts a new
/// `data` line; readers join the lines again.
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
