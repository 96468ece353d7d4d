//! Events of a streamed answer.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::stream::event_of;
use super::response::{inspect_response, splice_response, usage_with_cost};
use crate::error::DecodeError;
use crate::lossless::{Edit, Span, splice};
use crate::sse;

/// One event as the caller gets it.
#[derive(Clone, Debug)]
pub struct Relayed {
    /// The whole event; `None` for what the caller must not see: errors, which are in the upstream's words.
    pub bytes: Option<Bytes>,
    /// Whether it is an error object.
    pub is_error: bool,
    /// Whether the prompt was blocked.
    pub is_blocked: bool,
    /// Whether a candidate ended because the model failed at its own answer, and nothing was said before.
    pub is_malformed: bool,
    /// Whether anything was said or called, or it was told why a candidate ended.
    pub is_content: bool,
    /// What was consumed, when the answer has ended.
    pub usage: Option<Usage>,
    /// Bytes of text, reasoning and arguments, escapes resolved.
    pub output_bytes: u64,
}

/// Passes on the events of one stream: the caller's name for the model, and reasoning sealed with its origin.
#[derive(Debug)]
pub struct Relay {
    public_model: String,
    origin: String,
    has_content: bool,
    /// Candidates that appeared and that ended, a bit for each.
    seen: u32,
    finished: u32,
}

impl Relay {
    /// For a caller who named the model so, and an upstream whose seals have this origin.
    pub fn new(public_model: &str, origin: &str) -> Self {
        Self {
            public_model: public_model.to_owned(),
            origin: origin.to_owned(),
            has_content: false,
            seen: 0,
            finished: 0,
        }
    }

    /// Whether every candidate that appeared has ended, and one did.
    pub fn is_finished(&self) -> bool {
        self.finished != 0 && self.seen & !self.finished == 0
    }

    /// The event as the caller gets it. The error is that of a text that is no JSON object.
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
            // Reports of a stream that goes on are of a part of the answer.
            usage: head.usage.filter(|_| self.finished != 0),
            output_bytes: head.output_bytes,
        })
    }
}

/// A whole event that was passed on before, with the cost in its usage. Unchanged when it has no usage object.
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
