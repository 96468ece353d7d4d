//! Converts a response stream to server-sent events or to the elements of one JSON array.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_edge::{RequestContext, sse};
use tollgate_formats::gemini::{self, StreamEncoder};
use tollgate_formats::sse::write_event;
use tollgate_pipeline::{AnswerChunk, DeliveredStream};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format};
use tollgate_upstream::Payload;

/// Keep-alive bytes: an empty line, which event streams and JSON ignore. The official Python client
/// would parse a comment as a chunk of the response.
const PING: Bytes = Bytes::from_static(b"\n");

/// Framing of the chunks of a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events (`alt=sse`).
    Events,
    /// Elements of one JSON array.
    Array,
}

/// Events of one streamed response.
pub(super) struct Events {
    chunks: DeliveredStream,
    encoder: StreamEncoder,
    ctx: Arc<RequestContext>,
    framing: Framing,
    /// Whether the upstream's events have been relayed unchanged.
    is_relayed: bool,
    /// Whether the array has an element, so that the next one needs a comma.
    has_element: bool,
    /// Whether no event follows those in `waiting`.
    is_over: bool,
    /// Encoded events that are not sent yet. Each one is sent as a separate HTTP chunk.
    waiting: Bytes,
}

impl Events {
    pub(super) fn new(
        chunks: DeliveredStream,
        public_model: &str,
        show_reasoning: bool,
        framing: Framing,
        ctx: Arc<RequestContext>,
    ) -> Self {
        Self {
            chunks,
            encoder: StreamEncoder::new(public_model, show_reasoning),
            ctx,
            framing,
            is_relayed: false,
            has_element: false,
            is_over: false,
            waiting: Bytes::new(),
        }
    }

    pub(super) fn framing(&self) -> Framing {
        self.framing
    }

    /// Encodes a chunk of the response as events; empty if the caller does not receive it yet.
    fn encode(&mut self, chunk: AnswerChunk) -> Bytes {
        match chunk {
            AnswerChunk::Event(payload) => self.event(payload, None),
            AnswerChunk::Usage(payload, cost) => self.event(payload, Some(cost)),
            AnswerChunk::Ping => PING,
            AnswerChunk::End(_, charge) => {
                self.is_over = true;
                match self.is_relayed {
                    true => Bytes::new(),
                    false => self.encoder.end(Some(&charge.usage), Some(charge.amount)),
                }
            }
            // The error has no `finishReason`, because clients interpret it as the end of a
            // complete response.
            AnswerChunk::Failed(error) => {
                self.is_over = true;
                let body = self.ctx.dialect.error_body(&error, &self.ctx.id.to_string());
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
            // Adapters return the caller's format or the common form, so this arm is not reached.
            (Payload::Raw(..), _) => Bytes::new(),
            (Payload::Common(event), _) => self.encoder.encode(&event),
        }
    }

    /// Converts an event to an element of the array.
    fn element(&mut self, event: Bytes) -> Bytes {
        let data = event
            .strip_prefix(b"data: ")
            .and_then(|rest| rest.strip_suffix(b"\n\n"));
        let Some(data) = data else { return event };
        let before: &[u8] = match std::mem::replace(&mut self.has_element, true) {
            true => b",\r\n",
            false => b"[",
        };
        Bytes::from([before, data].concat())
    }

    /// Returns the end of the array, once, after the last event.
    fn close(&mut self) -> Option<Bytes> {
        if self.framing == Framing::Events || !std::mem::take(&mut self.is_over) {
            return None;
        }
        let end: &'static [u8] = if self.has_element { b"]\n" } else { b"[]\n" };
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
            match self.chunks.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(chunk)) => self.waiting = self.encode(chunk),
            }
        }
    }
}
