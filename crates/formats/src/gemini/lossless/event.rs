//! Rewriting of the events of a streamed response.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::stream::event_of;
use super::response::{inspect_response, splice_response, usage_with_cost};
use crate::error::DecodeError;
use crate::lossless::{Edit, Span, splice};
use crate::sse;

/// Event, rewritten for the caller.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// Complete event. `None` if `is_error`, `is_blocked` or `is_malformed` is set: the caller must
    /// not receive such events.
    pub bytes: Option<Bytes>,
    /// Whether the event is an error object.
    pub is_error: bool,
    /// Whether the prompt was blocked and no event so far, including this one, had content.
    pub is_blocked: bool,
    /// Whether a candidate ended because the model failed to generate a valid response and no event
    /// so far, including this one, had content.
    pub is_malformed: bool,
    /// Whether the event has content, a call or a finish reason.
    pub is_content: bool,
    /// Usage report; set only if a candidate ended in this event or an earlier one.
    pub usage: Option<Usage>,
    /// Number of bytes of text and thoughts, escapes resolved, and of calls and inline data as
    /// JSON.
    pub output_bytes: u64,
}

/// Relays the events of one stream. Sets the model name from the request, and wraps signatures with
/// the upstream's origin.
#[derive(Debug)]
pub struct Relay {
    public_model: String,
    origin: String,
    has_content: bool,
    /// Bit mask, by index, of the candidates that have appeared.
    seen: u32,
    /// Bit mask, by index, of the candidates that have ended.
    finished: u32,
}

impl Relay {
    /// Creates a relay. `public_model` is the model name from the request, `origin` the origin of
    /// the upstream's signatures.
    pub fn new(public_model: &str, origin: &str) -> Self {
        Self {
            public_model: public_model.to_owned(),
            origin: origin.to_owned(),
            has_content: false,
            seen: 0,
            finished: 0,
        }
    }

    /// Whether at least one candidate appeared and all of them have ended.
    pub fn is_finished(&self) -> bool {
        self.finished != 0 && self.seen & !self.finished == 0
    }

    /// Rewrites one event for the caller. Fails if the data is not a JSON object.
    pub fn pass(&mut self, event: &sse::Event) -> Result<Relayed, DecodeError> {
        let head = inspect_response(&event.data, &self.origin)?;
        self.seen |= head.seen;
        self.finished |= head.finished;
        self.has_content |= head.has_content;
        let is_blocked = head.is_blocked && !self.has_content;
        let is_malformed = head.is_malformed && !self.has_content;
        let is_shown = !head.is_error && !is_blocked && !is_malformed;
        let bytes = is_shown.then(|| {
            let spliced = splice_response(&event.data, &head, &self.public_model, None);
            event_of(&spliced)
        });
        Ok(Relayed {
            bytes,
            is_error: head.is_error,
            is_blocked,
            is_malformed,
            is_content: head.has_content || head.finished != 0,
            // Before the end, a report covers only a part of the response.
            usage: head.usage.filter(|_| self.finished != 0),
            output_bytes: head.output_bytes,
        })
    }
}

/// Adds the cost to the usage of an event that was already rewritten. Returns an event without a
/// usage object unchanged.
pub fn event_with_cost(event: &Bytes, cost: Credits) -> Bytes {
    let changed = || {
        let data = event.strip_prefix(b"data: ")?.strip_suffix(b"\n\n")?;
        let place = inspect_response(data, "").ok()?.usage_place()?;
        let with = usage_with_cost(place.of(data), cost);
        let place = Span::new(place.start + 6, place.end + 6);
        Some(splice(b"", event, &[Edit::replace(place, &with)], b""))
    };
    changed().unwrap_or_else(|| event.clone())
}
