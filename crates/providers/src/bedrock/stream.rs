//! Streamed responses: converts frames to events of the common form.

use std::collections::VecDeque;

use futures_util::stream::unfold;
use serde_json::Value;
use tollgate_formats::bedrock_converse::{EventKind, StreamDecoder, inspect_event};
use tollgate_types::stream::StreamEvent;
use tollgate_upstream::{
    ChunkKind, Payload, TextChunk, TextStream, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::frames::{Frame, FrameReader};
use crate::conversion::Sealing;
use crate::http::{BodyChunks, Response};

/// Opens the event stream of a response.
pub(super) fn open(
    response: Response,
    decoder: StreamDecoder,
    origin: &str,
) -> Result<TextStream, UpstreamError> {
    let events = Events {
        chunks: response.chunks()?,
        reader: FrameReader::default(),
        decoder,
        sealing: Sealing::new(origin),
        waiting: VecDeque::new(),
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
    reader: FrameReader,
    decoder: StreamDecoder,
    sealing: Sealing,
    waiting: VecDeque<TextChunk>,
    /// Whether the stop reason was received.
    is_finished: bool,
    is_over: bool,
}

impl Events {
    async fn next(&mut self) -> Option<Result<TextChunk, UpstreamError>> {
        if let Some(chunk) = self.waiting.pop_front() {
            return Some(Ok(chunk));
        }
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
            let frame = self.reader.next_frame();
            match frame.map_err(|error| UpstreamError::protocol(error.as_str()))? {
                Some(frame) => {
                    self.take(&frame)?;
                    if let Some(chunk) = self.waiting.pop_front() {
                        return Ok(chunk);
                    }
                }
                None => match std::future::poll_fn(|cx| self.chunks.poll_next(cx)).await {
                    Some(chunk) => self.reader.push(&chunk?),
                    // Usage follows the stop reason; without it, the response is still complete.
                    None if self.is_finished && !self.reader.is_mid_frame() => return Ok(end()),
                    None => return Err(UpstreamError::protocol("the stream ended early")),
                },
            }
        }
    }

    /// Converts a frame to waiting chunks. Returns an error for an exception.
    fn take(&mut self, frame: &Frame) -> Result<(), UpstreamError> {
        if frame.kind != "event" {
            return Err(failure(&frame.name));
        }
        let event: Value = serde_json::from_slice(&frame.payload)
            .map_err(|_| UpstreamError::protocol("a stream event is not JSON"))?;
        let (kind, usage, mut output_bytes) = inspect_event(&frame.name, &event);
        self.is_finished |= kind == EventKind::Finish;
        let kind = match kind {
            EventKind::Preamble => ChunkKind::Preamble,
            EventKind::Content => ChunkKind::Content,
            EventKind::Finish => ChunkKind::Finish,
            EventKind::Usage => ChunkKind::Usage,
        };
        for event in self.sealing.seal(self.decoder.decode(&frame.name, &event)) {
            let is_report = matches!(event, StreamEvent::Usage(_));
            self.waiting.push_back(TextChunk {
                kind,
                payload: Some(Payload::Common(Box::new(event))),
                usage: usage.filter(|_| is_report),
                output_bytes: std::mem::take(&mut output_bytes),
            });
        }
        Ok(())
    }
}

/// Returns the error of an exception in the middle of a stream, when the upstream has already done
/// a part of the work.
pub(super) fn failure(name: &str) -> UpstreamError {
    let kind = match name {
        "throttlingException" => UpstreamErrorKind::RateLimited,
        "validationException" => UpstreamErrorKind::Rejected,
        _ => UpstreamErrorKind::Unavailable,
    };
    let shown: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(64)
        .collect();
    UpstreamError::new(
        kind,
        UpstreamCause::Protocol,
        format!("the stream sent an exception: {shown}"),
    )
}

fn end() -> TextChunk {
    TextChunk {
        kind: ChunkKind::End,
        payload: None,
        usage: None,
        output_bytes: 0,
    }
}
