//! Streamed responses: one chunk for each event, with the upstream's bytes where no change is
//! needed.

use futures_util::stream::unfold;
use tollgate_formats::anthropic_messages::{EventKind, Relay, Relayed, STOP_EVENT};
use tollgate_formats::sse::{Event, EventReader};
use tollgate_types::Format;
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamError};

use crate::http::{BodyChunks, Response};
use crate::refusal;

/// Opens the event stream of a response.
pub(super) fn open(response: Response, call: &TextCall, origin: &str) -> Result<TextStream, UpstreamError> {
    let events = Events {
        chunks: response.chunks()?,
        reader: EventReader::default(),
        relay: Relay::new(&call.public_model, origin),
        is_finished: false,
        is_over: false,
    };
    Ok(Box::pin(unfold(events, |mut events| async move {
        let item = events.next().await?;
        Some((item, events))
    })))
}

struct Events {
    chunks: BodyChunks,
    reader: EventReader,
    relay: Relay,
    /// Whether the stop reason was received.
    is_finished: bool,
    is_over: bool,
}

impl Events {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        if self.is_over {
            return None;
        }
        let item = self.step().await;
        self.is_over = match &item {
            Ok(chunk) => chunk.kind == ChunkKind::End,
            Err(_) => true,
        };
        Some(item)
    }

    async fn step(&mut self) -> Result<TextChunk, UpstreamError> {
        loop {
            let event = self
                .reader
                .next_event()
                .map_err(|error| UpstreamError::protocol(error.to_string()))?;
            match event {
                Some(event) => {
                    if let Some(chunk) = self.take(&event)? {
                        return Ok(chunk);
                    }
                }
                None => match std::future::poll_fn(|cx| self.chunks.poll_next(cx)).await {
                    Some(chunk) => self.reader.push(chunk?),
                    // Only the final event is missing.
                    None if self.is_finished => return Ok(end()),
                    None => return Err(UpstreamError::protocol("the stream ended early")),
                },
            }
        }
    }

    /// Converts an event to a chunk; `None` if the event is empty or a keep-alive.
    fn take(&mut self, event: &Event) -> Result<Option<TextChunk>, UpstreamError> {
        if event.data.is_empty() {
            return Ok(None);
        }
        let relayed = self.relay.pass(event);
        let Relayed {
            kind,
            bytes,
            usage,
            output_bytes,
        } = relayed.map_err(|_| UpstreamError::protocol("a stream event is not JSON"))?;
        self.is_finished |= kind == EventKind::Finish;
        let kind = match kind {
            EventKind::Error => return Err(refusal::from_object(&event.data)),
            // The gateway sends its own keep-alives.
            EventKind::Ping => return Ok(None),
            EventKind::Preamble => ChunkKind::Preamble,
            EventKind::Content => ChunkKind::Content,
            EventKind::Finish => ChunkKind::Finish,
            EventKind::Stop => ChunkKind::End,
        };
        Ok(Some(TextChunk {
            kind,
            payload: bytes.map(|bytes| Payload::Raw(Format::Messages, bytes)),
            usage,
            output_bytes,
        }))
    }
}

fn end() -> TextChunk {
    TextChunk {
        kind: ChunkKind::End,
        payload: Some(Payload::Raw(Format::Messages, STOP_EVENT)),
        usage: None,
        output_bytes: 0,
    }
}
