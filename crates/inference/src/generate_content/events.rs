//! From the pieces of a streamed answer to server-sent events, or to the elements of one JSON array.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_edge::{RequestContext, sse};
use tollgate_formats::gemini::{self, StreamEncoder};
use tollgate_formats::sse::write_event;
use tollgate_pipeline::{DeliveredStream, Piece};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format};
use tollgate_upstream::Payload;

/// A sign of life. The official client for Python takes a comment for a piece of an answer; it skips empty lines, which
/// mean nothing in an event stream and nothing in JSON.
const PING: Bytes = Bytes::from_static(b"\n");

/// How the pieces of an answer stand one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events (`alt=sse`).
    Events,
    /// A JSON array.
    Array,
}

/// The events of one answer.
pub(super) struct Events {
    pieces: DeliveredStream,
    encoder: StreamEncoder,
    ctx: Arc<RequestContext>,
    framing: Framing,
    /// Whether the upstream's own events are relayed.
    is_relayed: bool,
    /// Whether the array has an element.
    is_begun: bool,
    /// Whether nothing follows what waits.
    is_over: bool,
    /// Events that were made together with the last one: each is sent in a chunk of its own.
    waiting: Bytes,
}

impl Events {
    pub(super) fn new(
        pieces: DeliveredStream,
        public_model: &str,
        show_reasoning: bool,
        framing: Framing,
        ctx: Arc<RequestContext>,
    ) -> Self {
        Self {
            pieces,
            encoder: StreamEncoder::new(public_model, show_reasoning),
            ctx,
            framing,
            is_relayed: false,
            is_begun: false,
            is_over: false,
            waiting: Bytes::new(),
        }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// The bytes of a piece, as events; nothing for one that the caller does not see yet.
    fn encode(&mut self, piece: Piece) -> Bytes {
        match piece {
            Piece::Event(payload) => self.event(payload, None),
            Piece::Usage(payload, cost) => self.event(payload, Some(cost)),
            Piece::Ping => PING,
            Piece::End(_, charge) => {
                self.is_over = true;
                match self.is_relayed {
                    true => Bytes::new(),
                    false => self.encoder.end(Some(&charge.usage), Some(charge.amount)),
                }
            }
            // Without a reason why the answer ended: clients would take it for a whole one.
            Piece::Failed(error) => {
                self.is_over = true;
                let body = self.ctx.family.error_body(&error, &self.ctx.id.to_string());
                write_event(None, &body)
            }
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>, cost: Option<Credits>) -> Bytes {
        match (payload, cost) {
            (Payload::Raw(Format::GenerateContent, bytes), cost) => {
                self.is_relayed = true;
                match cost {
                    Some(cost) => gemini::event_with_cost(&bytes, cost),
                    None => bytes,
                }
            }
            // Adapters answer in the caller's format or in the common form.
            (Payload::Raw(..), _) => Bytes::new(),
            (Payload::Common(event), _) => self.encoder.encode(&event),
        }
    }

    /// An event as an element of the array.
    fn element(&mut self, event: Bytes) -> Bytes {
        let data = event
            .strip_prefix(b"data: ")
            .and_then(|rest| rest.strip_suffix(b"\n\n"));
        let Some(data) = data else { return event };
        let before: &[u8] = match std::mem::replace(&mut self.is_begun, true) {
            true => b",\r\n",
            false => b"[",
        };
        Bytes::from([before, data].concat())
    }

    /// What closes the array, once.
    fn close(&mut self) -> Option<Bytes> {
        if self.framing == Framing::Events || !std::mem::take(&mut self.is_over) {
            return None;
        }
        let end: &'static [u8] = if self.is_begun { b"]\n" } else { b"[]\n" };
        Some(Bytes::from_static(end))
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = sse::split_first(&mut self.waiting) {
                return Poll::Ready(Some(match self.framing {
                    Framing::Events => event,
                    Framing::Array => self.element(event),
                }));
            }
            if let Some(end) = self.close() {
                return Poll::Ready(Some(end));
            }
            match self.pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(piece)) => self.waiting = self.encode(piece),
            }
        }
    }
}
