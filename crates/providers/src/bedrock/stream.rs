//! Streamed answers: frames in, the common form out.

use std::collections::VecDeque;

use futures_util::stream::unfold;
use serde_json::Value;
use tollgate_formats::bedrock_converse::{EventKind, StreamDecoder, inspect_event};
use tollgate_types::stream::StreamEvent;
use tollgate_upstream::{
    ChunkKind, Payload, TextChunk, TextStream, UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use super::frames::{Frame, FrameReader};
use crate::crossing::Sealing;
use crate::http::{Pieces, Response};

/// The stream of a response.
pub(super) fn open(
    response: Response,
    decoder: StreamDecoder,
    origin: &str,
) -> Result<TextStream, UpstreamError> {
    let events = Events {
        pieces: response.pieces()?,
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
    pieces: Pieces,
    reader: FrameReader,
    decoder: StreamDecoder,
    sealing: Sealing,
    waiting: VecDeque<TextChunk>,
    /// Whether the reason why the answer ended was told.
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
            match frame.map_err(|garbled| UpstreamError::protocol(garbled.as_str()))? {
                Some(frame) => {
                    self.take(&frame)?;
                    if let Some(chunk) = self.waiting.pop_front() {
                        return Ok(chunk);
                    }
                }
                None => match std::future::poll_fn(|cx| self.pieces.poll_next(cx)).await {
                    Some(piece) => self.reader.push(&piece?),
                    // The report comes after the reason; without it nothing of the answer is missing.
                    None if self.is_finished && !self.reader.is_mid_frame() => return Ok(end()),
                    None => return Err(UpstreamError::protocol("the stream was cut")),
                },
            }
        }
    }

    /// The chunks that a frame makes.
    fn take(&mut self, frame: &Frame) -> Result<(), UpstreamError> {
        if frame.kind != "event" {
            return Err(failure(&frame.name));
        }
        let event: Value = serde_json::from_slice(&frame.payload)
            .map_err(|_| UpstreamError::protocol("an event of the stream is not JSON"))?;
        let (kind, usage, mut output_bytes) = inspect_event(&frame.name, &event);
        self.is_finished |= kind == EventKind::Finish;
        let kind = match kind {
            EventKind::Preamble => ChunkKind::Preamble,
            EventKind::Content | EventKind::Finish => ChunkKind::Content,
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

/// What an exception in the middle of a stream means. The upstream has worked.
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
        format!("an exception in the stream: {shown}"),
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
