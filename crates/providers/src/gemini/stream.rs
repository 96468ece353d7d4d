//! Streamed responses: one chunk for each event, with the upstream's bytes except for required
//! changes.

use futures_util::stream::unfold;
use tollgate_formats::gemini::{Relay, Relayed};
use tollgate_formats::sse::{Event, EventReader};
use tollgate_types::Format;
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamError};

use super::adapter::blocked;
use crate::http::{BodyChunks, Response};
use crate::refusal;

/// Opens the event stream of a response.
pub(super) fn open(response: Response, call: &TextCall, origin: &str) -> Result<TextStream, UpstreamError> {
    let events = Events {
        chunks: response.chunks()?,
        reader: EventReader::default(),
        relay: Relay::new(&call.public_model, origin),
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
                    // The stream has no end marker: it is complete when every candidate has a
                    // finish reason.
                    None if self.relay.is_finished() => return Ok(end()),
                    None => return Err(UpstreamError::protocol("the stream ended early")),
                },
            }
        }
    }

    /// Converts an event to a chunk; `None` if the event is empty.
    fn take(&mut self, event: &Event) -> Result<Option<TextChunk>, UpstreamError> {
        if event.data.is_empty() {
            return Ok(None);
        }
        let relayed = self.relay.pass(event);
        let relayed: Relayed = relayed.map_err(|_| UpstreamError::protocol("a stream event is not JSON"))?;
        if relayed.is_error {
            return Err(refusal::from_object(&event.data));
        }
        if relayed.is_blocked {
            return Err(blocked());
        }
        if relayed.is_malformed {
            return Err(UpstreamError::protocol("the model produced a malformed response"));
        }
        Ok(Some(TextChunk {
            kind: match relayed.is_content {
                true if self.relay.is_finished() => ChunkKind::Finish,
                true => ChunkKind::Content,
                false => ChunkKind::Preamble,
            },
            payload: relayed
                .bytes
                .map(|bytes| Payload::Raw(Format::GenerateContent, bytes)),
            usage: relayed.usage,
            output_bytes: relayed.output_bytes,
        }))
    }
}

fn end() -> TextChunk {
    TextChunk {
        kind: ChunkKind::End,
        payload: None,
        usage: None,
        output_bytes: 0,
    }
}
