//! Converts a response stream to server-sent events, for the formats whose events have no names:
//! chunks, then `[DONE]`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use tollgate_billing::Charge;
use tollgate_edge::error::error_type;
use tollgate_edge::sse;
use tollgate_formats::{openai_chat, openai_completions};
use tollgate_pipeline::{AnswerChunk, DeliveredStream};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Format, Usage};
use tollgate_upstream::Payload;

/// Encodes the chunks of one response format.
pub(crate) trait ChunkEncoder {
    /// The format of the encoded chunks.
    const FORMAT: Format;

    /// Creates an encoder. `public_model` is the model name from the request. `include_usage` adds
    /// a final usage event.
    fn new(public_model: &str, include_usage: bool) -> Self;

    /// Encodes one stream event; `None` if the caller does not receive it. A usage event contains
    /// `cost`.
    fn encode(&mut self, event: &StreamEvent, cost: Option<Credits>) -> Option<Bytes>;

    /// Encodes a usage event for a stream whose chunks have this `id` and `created` time.
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

/// Server-sent events of one streamed response.
pub(crate) struct Events<E> {
    chunks: DeliveredStream,
    encoder: E,
    public_model: Arc<str>,
    /// Whether the caller has requested a usage event and not received one yet.
    is_usage_pending: bool,
    /// `id` and `created` of the chunks, recorded while a usage event may have to match them.
    identity: Option<(String, i64)>,
    /// Encoded events that are not sent yet. Each one is sent as a separate HTTP chunk.
    waiting: Bytes,
}

impl<E: ChunkEncoder> Events<E> {
    pub(crate) fn new(chunks: DeliveredStream, public_model: Arc<str>, include_usage: bool) -> Self {
        Self {
            chunks,
            encoder: E::new(&public_model, include_usage),
            public_model,
            is_usage_pending: include_usage,
            identity: None,
            waiting: Bytes::new(),
        }
    }

    /// Encodes a chunk of the response; `None` if the caller does not receive it.
    fn encode(&mut self, chunk: AnswerChunk) -> Option<Bytes> {
        match chunk {
            AnswerChunk::Event(payload) => self.event(payload, None),
            AnswerChunk::Usage(payload, cost) => {
                self.is_usage_pending = false;
                self.event(payload, Some(cost))
            }
            AnswerChunk::End(payload, charge) => {
                let end = match payload {
                    Some(Payload::Raw(_, bytes)) => bytes,
                    _ => openai_chat::StreamEncoder::done(),
                };
                self.waiting = match self.is_usage_pending {
                    true => [self.usage_report(&charge), end].concat().into(),
                    false => end,
                };
                sse::split_first(&mut self.waiting)
            }
            AnswerChunk::Ping => Some(sse::PING),
            // No `[DONE]` follows, because clients interpret it as the end of a complete response.
            AnswerChunk::Failed(error) => {
                Some(openai_chat::encode_error_event(&error, error_type(error.code)))
            }
        }
    }

    fn event(&mut self, payload: Payload<StreamEvent>, cost: Option<Credits>) -> Option<Bytes> {
        match (payload, cost) {
            (Payload::Raw(format, bytes), None) if format == E::FORMAT => {
                self.record_identity(&bytes);
                Some(bytes)
            }
            (Payload::Raw(format, bytes), Some(cost)) if format == E::FORMAT => {
                Some(openai_chat::event_with_cost(&bytes, cost).unwrap_or(bytes))
            }
            // Adapters return the caller's format or the common form, so this arm is not reached.
            (Payload::Raw(..), _) => None,
            (Payload::Common(event), cost) => {
                self.waiting = self.encoder.encode(&event, cost)?;
                let first = sse::split_first(&mut self.waiting)?;
                self.record_identity(&first);
                Some(first)
            }
        }
    }

    fn record_identity(&mut self, event: &Bytes) {
        if self.is_usage_pending && self.identity.is_none() {
            self.identity = identity(event);
        }
    }

    /// Encodes the usage event of a stream whose upstream reported no usage: tokens that the
    /// gateway counted, and their cost.
    fn usage_report(&self, charge: &Charge) -> Bytes {
        let (id, created) = self.identity.clone().unwrap_or_default();
        E::usage_event(&id, created, &self.public_model, &charge.usage, charge.amount)
    }
}

/// Parses `id` and `created` from an encoded chunk.
fn identity(event: &Bytes) -> Option<(String, i64)> {
    let chunk: serde_json::Value = serde_json::from_slice(event.strip_prefix(b"data: ")?).ok()?;
    Some((
        // The first chunk from Azure describes the prompt and has an empty id.
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
            match self.chunks.poll_recv(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(chunk)) => {
                    if let Some(bytes) = self.encode(chunk) {
                        return Poll::Ready(Some(bytes));
                    }
                }
            }
        }
    }
}
