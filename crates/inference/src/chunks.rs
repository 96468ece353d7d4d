//! From the pieces of a streamed answer to server-sent events, for the formats whose events have no names: chunks, ended
//! by `[DONE]`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_billing::Charge;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::{openai_chat, openai_completions};
use tollgate_pipeline::{DeliveredStream, Piece};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format, Usage};
use tollgate_upstream::Payload;

/// Writes the chunks of one format.
pub(crate) trait ChunkEncoder {
    /// Which one.
    const FORMAT: Format;

    /// For a caller who named the model so, and asked for usage or did not.
    fn new(public_model: &str, include_usage: bool) -> Self;

    /// The bytes of one step of the answer; `None` for what the caller does not see. `cost` goes into the usage event.
    fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes>;

    /// A usage event for a stream whose chunks have this `id` and were `created` then.
    fn usage_event(id: &str, created: i64, public_model: &str, usage: &Usage, cost: Credits) -> Bytes;
}

impl ChunkEncoder for openai_chat::StreamEncoder {
    const FORMAT: Format = Format::ChatCompletions;

    fn new(public_model: &str, include_usage: bool) -> Self {
        openai_chat::StreamEncoder::new(public_model, include_usage)
    }

    fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes> {
        openai_chat::StreamEncoder::encode(self, event, cost)
    }

    fn usage_event(id: &str, created: i64, public_model: &str, usage: &Usage, cost: Credits) -> Bytes {
        openai_chat::encode_usage_event(id, created, public_model, usage, Some(cost))
    }
}

impl ChunkEncoder for openai_completions::StreamEncoder {
    const FORMAT: Format = Format::Completions;

    fn new(public_model: &str, include_usage: bool) -> Self {
        openai_completions::StreamEncoder::new(public_model, include_usage)
    }

    fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes> {
        openai_completions::StreamEncoder::encode(self, event, cost)
    }

    fn usage_event(id: &str, created: i64, public_model: &str, usage: &Usage, cost: Credits) -> Bytes {
        openai_completions::encode_usage_event(id, created, public_model, usage, Some(cost))
    }
}

/// The events of one answer.
pub(crate) struct Events<E> {
    pieces: DeliveredStream,
    encoder: E,
    public_model: Arc<str>,
    /// Whether a usage report is still owed to the caller.
    owes_usage: bool,
    /// `id` and `created` of the chunks, known while a report may have to be made that fits them.
    identity: Option<(String, i64)>,
    /// Events that were made together with the last one: each is sent in a chunk of its own.
    waiting: Bytes,
}

impl<E: ChunkEncoder> Events<E> {
    pub(crate) fn new(pieces: DeliveredStream, public_model: Arc<str>, include_usage: bool) -> Self {
        Self {
            pieces,
            encoder: E::new(&public_model, include_usage),
            public_model,
            owes_usage: include_usage,
            identity: None,
            waiting: Bytes::new(),
        }
    }

    /// The bytes of a piece; `None` for one that the caller does not see.
    fn encode(&mut self, piece: Piece) -> Option<Bytes> {
        match piece {
            Piece::Event(payload) => self.event(payload, None),
            Piece::Usage(payload, cost) => {
                self.owes_usage = false;
                self.event(payload, Some(cost))
            }
            Piece::End(payload, charge) => {
                let end = match payload {
                    Some(Payload::Raw(_, bytes)) => bytes,
                    _ => openai_chat::StreamEncoder::done(),
                };
                self.waiting = match self.owes_usage {
                    true => [self.own_report(&charge), end].concat().into(),
                    false => end,
                };
                sse::split_first(&mut self.waiting)
            }
            Piece::Ping => Some(sse::PING),
            // Without `[DONE]`: clients would take it for the end of a whole answer.
            Piece::Failed(error) => Some(openai_chat::encode_error_event(&error, error_type(error.code))),
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>, cost: Option<Credits>) -> Option<Bytes> {
        match (payload, cost) {
            (Payload::Raw(format, bytes), None) if format == E::FORMAT => {
                if self.owes_usage && self.identity.is_none() {
                    self.identity = identity(&bytes);
                }
                Some(bytes)
            }
            (Payload::Raw(format, bytes), Some(cost)) if format == E::FORMAT => {
                Some(openai_chat::event_with_cost(&bytes, cost).unwrap_or(bytes))
            }
            // Adapters answer in the caller's format or in the common form.
            (Payload::Raw(..), _) => None,
            (Payload::Common(event), cost) => {
                self.waiting = self.encoder.encode(&event, cost)?;
                sse::split_first(&mut self.waiting)
            }
        }
    }

    /// The usage event of an answer whose upstream reported none: what the gateway counted, and what it cost.
    fn own_report(&self, charge: &Charge) -> Bytes {
        let (id, created) = self.identity.clone().unwrap_or_default();
        E::usage_event(&id, created, &self.public_model, &charge.usage, charge.amount)
    }
}

/// `id` and `created` of a chunk.
fn identity(event: &Bytes) -> Option<(String, i64)> {
    let chunk: serde_json::Value = serde_json::from_slice(event.strip_prefix(b"data: ")?).ok()?;
    Some((
        // Azure begins with a chunk about the prompt, which has no id.
        chunk.get("id")?.as_str().filter(|id| !id.is_empty())?.to_owned(),
        chunk.get("created")?.as_i64()?,
    ))
}

impl<E: ChunkEncoder + Unpin> Stream for Events<E> {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = sse::split_first(&mut self.waiting) {
                return Poll::Ready(Some(bytes));
            }
            match self.pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(piece)) => {
                    if let Some(bytes) = self.encode(piece) {
                        return Poll::Ready(Some(bytes));
                    }
                }
            }
        }
    }
}
