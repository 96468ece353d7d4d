//! Streamed answers: one chunk for each event, the upstream's own bytes but for what has to be changed.

use futures_util::stream::unfold;
use tollgate_formats::gemini::{Relay, Relayed};
use tollgate_formats::sse::{Event, EventReader};
use tollgate_types::Format;
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamError};

use super::adapter::blocked;
use crate::http::{Pieces, Response};
use crate::refusal;

/// The stream of a response.
pub(super) fn open(response: Response, call: &TextCall, origin: &str) -> Result<TextStream, UpstreamError> {
    let events = Events {
        pieces: response.pieces()?,
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
    pieces: Pieces,
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
                None => match std::future::poll_fn(|cx| self.pieces.poll_next(cx)).await {
                    Some(piece) => self.reader.push(piece?),
                    // Nothing marks the end but that every candidate has told why it ended.
                    None if self.relay.is_finished() => return Ok(end()),
                    None => return Err(UpstreamError::protocol("the stream was cut")),
                },
            }
        }
    }

    /// The chunk that an event makes, if it makes one.
    fn take(&mut self, event: &Event) -> Result<Option<TextChunk>, UpstreamError> {
        if event.data.is_empty() {
            return Ok(None);
        }
        let relayed = self.relay.pass(event);
        let relayed: Relayed =
            relayed.map_err(|_| UpstreamError::protocol("an event of the stream is not JSON"))?;
        if relayed.is_error {
            return Err(refusal::from_object(&event.data));
        }
        if relayed.is_blocked {
            return Err(blocked());
        }
        if relayed.is_malformed {
            return Err(UpstreamError::protocol("the model failed at its own answer"));
        }
        Ok(Some(TextChunk {
            kind: match relayed.is_content {
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
