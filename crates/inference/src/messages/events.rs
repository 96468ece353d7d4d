//! Converts a response stream to the server-sent events of the Messages API.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_edge::{ClientDialect, sse};
use tollgate_formats::anthropic_messages::{self, PING, STOP_EVENT, StreamEncoder};
use tollgate_formats::sse::write_event;
use tollgate_pipeline::{AnswerChunk, DeliveredStream};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format};
use tollgate_upstream::Payload;

/// Server-sent events of one streamed response.
pub(super) struct Events {
    chunks: DeliveredStream,
    encoder: StreamEncoder,
    request_id: String,
    /// Whether the upstream's events have been relayed unchanged.
    is_relayed: bool,
    /// Encoded events that are not sent yet. Each one is sent as a separate HTTP chunk.
    waiting: Bytes,
}

impl Events {
    pub(super) fn new(
        chunks: DeliveredStream,
        public_model: &str,
        show_reasoning: bool,
        request_id: String,
    ) -> Self {
        Self {
            chunks,
            encoder: StreamEncoder::new(public_model, show_reasoning),
            request_id,
            is_relayed: false,
            waiting: Bytes::new(),
        }
    }

    /// Encodes a chunk of the response; empty if the caller does not receive it yet.
    fn encode(&mut self, chunk: AnswerChunk) -> Bytes {
        match chunk {
            AnswerChunk::Event(payload) => self.event(payload, None),
            AnswerChunk::Usage(payload, cost) => self.event(payload, Some(cost)),
            AnswerChunk::End(Some(Payload::Raw(_, bytes)), _) => bytes,
            AnswerChunk::End(..) if self.is_relayed => STOP_EVENT,
            AnswerChunk::End(_, charge) => self.encoder.end(Some(&charge.usage), Some(charge.amount)),
            AnswerChunk::Ping => PING,
            // No `message_stop` follows, because clients interpret it as the end of a complete
            // response.
            AnswerChunk::Failed(error) => {
                let body = ClientDialect::Messages.error_body(&error, &self.request_id);
                write_event(Some(b"error"), &body)
            }
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>, cost: Option<Credits>) -> Bytes {
        match (payload, cost) {
            (Payload::Raw(Format::Messages, bytes), cost) => {
                self.is_relayed = true;
                match cost {
                    Some(cost) => anthropic_messages::event_with_cost(&bytes, cost),
                    None => bytes,
                }
            }
            // Adapters return the caller's format or the common form, so this arm is not reached.
            (Payload::Raw(..), _) => Bytes::new(),
            (Payload::Common(event), _) => self.encoder.encode(&event),
        }
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = sse::split_first(&mut self.waiting) {
                return Poll::Ready(Some(bytes));
            }
            match self.chunks.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(chunk)) => self.waiting = self.encode(chunk),
            }
        }
    }
}
