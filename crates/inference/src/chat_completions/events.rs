//! From the pieces of a streamed answer to server-sent events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_billing::Charge;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::openai_chat::{self, StreamEncoder};
use tollgate_pipeline::{DeliveredStream, Piece};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format};
use tollgate_upstream::Payload;

/// The events of one answer.
pub(super) struct Events {
    pieces: DeliveredStream,
    encoder: StreamEncoder,
    public_model: Arc<str>,
    /// Whether a usage report is still owed to the caller.
    owes_usage: bool,
    /// `id` and `created` of the chunks, known while a report may have to be made that fits them.
    identity: Option<(String, i64)>,
    /// Events that were made together with the last one: each is sent in a chunk of its own.
    waiting: Bytes,
}

impl Events {
    pub(super) fn new(pieces: DeliveredStream, public_model: Arc<str>, include_usage: bool) -> Self {
        Self {
            pieces,
            encoder: StreamEncoder::new(&public_model, include_usage),
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
                    _ => StreamEncoder::done(),
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
            (Payload::Raw(Format::ChatCompletions, bytes), None) => {
                if self.owes_usage && self.identity.is_none() {
                    self.identity = identity(&bytes);
                }
                Some(bytes)
            }
            (Payload::Raw(Format::ChatCompletions, bytes), Some(cost)) => {
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
}

impl Events {
    /// The usage event of an answer whose upstream reported none: what the gateway counted, and what it cost.
    fn own_report(&self, charge: &Charge) -> Bytes {
        let (id, created) = self.identity.clone().unwrap_or_default();
        openai_chat::encode_usage_event(
            &id,
            created,
            &self.public_model,
            &charge.usage,
            Some(charge.amount),
        )
    }
}

/// `id` and `created` of a chunk.
fn identity(event: &Bytes) -> Option<(String, i64)> {
    let chunk: serde_json::Value = serde_json::from_slice(event.strip_prefix(b"data: ")?).ok()?;
    Some((
        chunk.get("id")?.as_str()?.to_owned(),
        chunk.get("created")?.as_i64()?,
    ))
}

impl Stream for Events {
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
