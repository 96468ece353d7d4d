//! Converts a response stream to the server-sent events of the Responses API.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::openai_responses::{
    Identity, StreamEncoder, apply_identity, encode_failure, response_in_event, sequence_number,
    with_store_false,
};
use tollgate_pipeline::{AnswerChunk, DeliveredStream, Pipeline};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Error, Format};
use tollgate_upstream::Payload;

use super::service::ResponseMeta;
use super::store::ResponseWriter;

/// Prefixes of the events that end a successful response.
const FINAL_EVENTS: [&[u8]; 2] = [b"event: response.completed\n", b"event: response.incomplete\n"];

/// Server-sent events of one streamed response.
pub(super) struct Events {
    chunks: DeliveredStream,
    pipeline: Arc<Pipeline>,
    identity: Identity,
    encoder: StreamEncoder,
    relayed: Option<Relayed>,
    /// Encoded events that are not sent yet. Each one is sent as a separate HTTP chunk.
    waiting: Bytes,
    writer: Option<ResponseWriter>,
    /// Future that stores the response, and the final event, which is sent after that.
    saving: Option<(BoxFuture<'static, bool>, Bytes)>,
}

/// State of a stream of relayed upstream events.
struct Relayed {
    /// Response object of the first event.
    initial_response: Option<Bytes>,
    last: Bytes,
}

impl Events {
    pub(super) fn new(
        chunks: DeliveredStream,
        pipeline: Arc<Pipeline>,
        meta: ResponseMeta,
        writer: Option<ResponseWriter>,
    ) -> Self {
        let ResponseMeta {
            identity,
            echo,
            show_reasoning,
        } = meta;
        Self {
            writer,
            saving: None,
            chunks,
            pipeline,
            encoder: StreamEncoder::new(identity.clone(), echo, show_reasoning),
            identity,
            relayed: None,
            waiting: Bytes::new(),
        }
    }

    /// Returns the events of the next chunk for the event log, which numbers them. A failed stream
    /// returns the error instead of its error events. Returns `None` after the end.
    pub(super) async fn next_chunk(&mut self) -> Option<Result<Bytes, Error>> {
        match self.chunks.recv().await? {
            AnswerChunk::Failed(error) => Some(Err(*error)),
            chunk => Some(Ok(self.encode(chunk))),
        }
    }

    /// Encodes a chunk of the response; empty if the caller does not receive it.
    fn encode(&mut self, chunk: AnswerChunk) -> Bytes {
        match chunk {
            AnswerChunk::Event(payload) | AnswerChunk::Usage(payload, _) => self.event(payload),
            // Adds the usage, with counted tokens if the upstream reported none.
            AnswerChunk::End(Some(Payload::Raw(_, bytes)), charge) => {
                apply_identity(&bytes, &self.identity, Some((&charge.usage, charge.amount)))
            }
            AnswerChunk::End(_, charge) => {
                let now = self.pipeline.clock.now().as_micros().div_euclid(1_000_000);
                self.encoder.end(Some(&charge.usage), Some(charge.amount), now)
            }
            AnswerChunk::Ping => sse::PING,
            AnswerChunk::Failed(error) => self.failure(&error),
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>) -> Bytes {
        match payload {
            Payload::Raw(Format::Responses, bytes) => {
                let bytes = apply_identity(&bytes, &self.identity, None);
                let initial_response = match self.relayed.take() {
                    Some(relayed) => relayed.initial_response,
                    None => response_in_event(&bytes),
                };
                self.relayed = Some(Relayed {
                    initial_response,
                    last: bytes.clone(),
                });
                bytes
            }
            // Adapters return the caller's format or the common form, so this arm is not reached.
            Payload::Raw(..) => Bytes::new(),
            Payload::Common(event) => self.encoder.encode(&event),
        }
    }

    /// Returns a future that stores the response, if this event is the final one.
    fn save_if_final(&mut self, event: &Bytes) -> Option<BoxFuture<'static, bool>> {
        let is_end = FINAL_EVENTS.iter().any(|end| event.starts_with(end));
        let response = is_end.then(|| response_in_event(event)).flatten()?;
        let writer = self.writer.take()?;
        Some(Box::pin(async move { writer.finish(&response).await }))
    }

    /// Encodes a failure. No `response.completed` follows, because clients interpret it as the end
    /// of a complete response.
    fn failure(&mut self, error: &Error) -> Bytes {
        let kind = error_type(error.code);
        match &self.relayed {
            None => self.encoder.fail(error, kind),
            Some(relayed) => {
                let next = sequence_number(&relayed.last).map_or(0, |number| number.saturating_add(1));
                encode_failure(relayed.initial_response.as_ref(), next, error, kind)
            }
        }
    }
}

impl Stream for Events {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some((saving, end)) = &mut self.saving {
                let is_saved = ready!(saving.as_mut().poll(cx));
                let end = std::mem::take(end);
                self.saving = None;
                return Poll::Ready(Some(if is_saved { end } else { with_store_false(&end) }));
            }
            if let Some(bytes) = sse::split_first(&mut self.waiting) {
                match self.save_if_final(&bytes) {
                    Some(saving) => self.saving = Some((saving, bytes)),
                    None => return Poll::Ready(Some(bytes)),
                }
                continue;
            }
            match self.chunks.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(chunk)) => self.waiting = self.encode(chunk),
            }
        }
    }
}
