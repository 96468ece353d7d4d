//! From the pieces of a streamed answer to server-sent events.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_edge::error::status_and_type;
use tollgate_edge::sse;
use tollgate_formats::anthropic_messages::{self, PING, StreamEncoder};
use tollgate_pipeline::{DeliveredStream, Piece};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format};
use tollgate_upstream::Payload;

/// The events of one answer.
pub(super) struct Events {
    pieces: DeliveredStream,
    encoder: StreamEncoder,
    request_id: String,
    /// Whether the upstream's own events are relayed.
    is_relayed: bool,
    /// Events that were made together with the last one: each is sent in a chunk of its own.
    waiting: Bytes,
}

impl Events {
    pub(super) fn new(
        pieces: DeliveredStream,
        public_model: &str,
        show_reasoning: bool,
        request_id: String,
    ) -> Self {
        Self {
            pieces,
            encoder: StreamEncoder::new(public_model, show_reasoning),
            request_id,
            is_relayed: false,
            waiting: Bytes::new(),
        }
    }

    /// The bytes of a piece; nothing for one that the caller does not see yet.
    fn encode(&mut self, piece: Piece) -> Bytes {
        match piece {
            Piece::Event(payload) => self.event(payload, None),
            Piece::Usage(payload, cost) => self.event(payload, Some(cost)),
            Piece::End(Some(Payload::Raw(_, bytes)), _) => bytes,
            Piece::End(..) if self.is_relayed => Bytes::new(),
            Piece::End(_, charge) => self.encoder.end(Some(&charge.usage), Some(charge.amount)),
            Piece::Ping => PING,
            // Without `message_stop`: clients would take it for the end of a whole answer.
            Piece::Failed(error) => {
                let status = status_and_type(error.code).0.as_u16();
                anthropic_messages::encode_error_event(&error, status, &self.request_id)
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
            // Adapters answer in the caller's format or in the common form.
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
            match self.pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(piece)) => self.waiting = self.encode(piece),
            }
        }
    }
}
