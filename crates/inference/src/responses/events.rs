//! From the pieces of a streamed answer to server-sent events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::openai_responses::{
    Identity, StreamEncoder, dress_event, encode_failure, not_kept, response_in_event, sequence_number,
};
use tollgate_pipeline::{DeliveredStream, Piece, Pipeline};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Error, Format};
use tollgate_upstream::Payload;

use super::kept::Keeper;
use super::service::Told;

/// What the events begin with that end an answer.
const ENDS: [&[u8]; 2] = [b"event: response.completed\n", b"event: response.incomplete\n"];

/// The events of one answer.
pub(super) struct Events {
    pieces: DeliveredStream,
    pipeline: Arc<Pipeline>,
    identity: Identity,
    encoder: StreamEncoder,
    relayed: Option<Relayed>,
    /// Events that were made together with the last one: each is sent in a chunk of its own.
    waiting: Bytes,
    keeper: Option<Keeper>,
    /// The event that ends the answer, while the answer is being kept.
    keeping: Option<(BoxFuture<'static, bool>, Bytes)>,
}

/// What is known of a stream of the upstream's own events.
struct Relayed {
    /// The response as it was when it began.
    begun: Option<Bytes>,
    last: Bytes,
}

impl Events {
    pub(super) fn new(
        pieces: DeliveredStream,
        pipeline: Arc<Pipeline>,
        told: Told,
        keeper: Option<Keeper>,
    ) -> Self {
        let Told {
            identity,
            echo,
            show_reasoning,
        } = told;
        Self {
            keeper,
            keeping: None,
            pieces,
            pipeline,
            encoder: StreamEncoder::new(identity.clone(), echo, show_reasoning),
            identity,
            relayed: None,
            waiting: Bytes::new(),
        }
    }

    /// The events of the next piece, as they were made together, for who keeps the response and numbers its events; why the answer broke
    /// off in place of the events that tell of it. None behind the end.
    pub(super) async fn next_made(&mut self) -> Option<Result<Bytes, Error>> {
        match self.pieces.recv().await? {
            Piece::Failed(error) => Some(Err(*error)),
            piece => Some(Ok(self.encode(piece))),
        }
    }

    /// The bytes of a piece; nothing for one that the caller does not see.
    fn encode(&mut self, piece: Piece) -> Bytes {
        match piece {
            Piece::Event(payload) | Piece::Usage(payload, _) => self.event(payload),
            // With its usage, and what was counted in place of one that is missing.
            Piece::End(Some(Payload::Raw(_, bytes)), charge) => {
                dress_event(&bytes, &self.identity, Some((&charge.usage, charge.amount)))
            }
            Piece::End(_, charge) => {
                let now = self.pipeline.clock.now().as_micros().div_euclid(1_000_000);
                self.encoder.end(Some(&charge.usage), Some(charge.amount), now)
            }
            Piece::Ping => sse::PING,
            Piece::Failed(error) => self.failure(&error),
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>) -> Bytes {
        match payload {
            Payload::Raw(Format::Responses, bytes) => {
                let bytes = dress_event(&bytes, &self.identity, None);
                let begun = match self.relayed.take() {
                    Some(relayed) => relayed.begun,
                    None => response_in_event(&bytes),
                };
                self.relayed = Some(Relayed {
                    begun,
                    last: bytes.clone(),
                });
                bytes
            }
            // Adapters answer in the caller's format or in the common form.
            Payload::Raw(..) => Bytes::new(),
            Payload::Common(event) => self.encoder.encode(&event),
        }
    }

    /// Keeps the response when this event is its end.
    fn keep(&mut self, event: &Bytes) -> Option<BoxFuture<'static, bool>> {
        let is_end = ENDS.iter().any(|end| event.starts_with(end));
        let response = is_end.then(|| response_in_event(event)).flatten()?;
        let keeper = self.keeper.take()?;
        Some(Box::pin(async move { keeper.finish(&response).await }))
    }

    /// Without `response.completed`: clients would take it for the end of a whole answer.
    fn failure(&mut self, error: &Error) -> Bytes {
        let kind = error_type(error.code);
        match &self.relayed {
            None => self.encoder.fail(error, kind),
            Some(relayed) => {
                let next = sequence_number(&relayed.last).map_or(0, |number| number.saturating_add(1));
                encode_failure(relayed.begun.as_ref(), next, error, kind)
            }
        }
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some((keeping, end)) = &mut self.keeping {
                let is_kept = ready!(keeping.as_mut().poll(cx));
                let end = std::mem::take(end);
                self.keeping = None;
                return Poll::Ready(Some(if is_kept { end } else { not_kept(&end) }));
            }
            if let Some(bytes) = sse::split_first(&mut self.waiting) {
                match self.keep(&bytes) {
                    Some(keeping) => self.keeping = Some((keeping, bytes)),
                    None => return Poll::Ready(Some(bytes)),
                }
                continue;
            }
            match self.pieces.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(piece)) => self.waiting = self.encode(piece),
            }
        }
    }
}
