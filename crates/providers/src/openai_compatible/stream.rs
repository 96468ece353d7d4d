//! Streamed answers: one chunk for each event, the upstream's own bytes where nothing has to be changed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Sleep, sleep};
use tollgate_formats::openai_chat::{EventEdits, EventHead, EventKind, inspect_event, splice_event};
use tollgate_formats::sse::{DONE_EVENT, Event, EventReader};
use tollgate_types::{Format, Usage};
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamError};

use crate::http::{Pieces, Response};
use crate::refusal;

/// How long the end of the body is waited for after `[DONE]`: a connection whose body was read to its end can be used
/// again, and most upstreams send the last chunk in a write of its own.
const END_OF_BODY: Duration = Duration::from_millis(20);

/// The stream of a response in this format. `choices` is how many answers were asked for.
pub(super) fn open(
    response: Response,
    call: &TextCall,
    format: Format,
    choices: u32,
) -> Result<TextStream, UpstreamError> {
    Ok(Box::pin(ChatStream {
        format,
        pieces: response.pieces()?,
        reader: EventReader::default(),
        edits: EventEdits::new(&call.public_model, call.include_usage),
        unfinished: choices.max(1),
        state: State::Open,
    }))
}

struct ChatStream {
    /// Chat completions, or completions: their streams differ only in where a choice has its text.
    format: Format,
    pieces: Pieces,
    reader: EventReader,
    edits: EventEdits,
    /// Choices that have given no reason for their end yet.
    unfinished: u32,
    state: State,
}

enum State {
    Open,
    /// The end was told; the body's is waited for.
    Done(Pin<Box<Sleep>>),
    Over,
}

impl Stream for ChatStream {
    type Item = Result<TextChunk, UpstreamError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            match &mut this.state {
                State::Over => return Poll::Ready(None),
                State::Done(patience) => {
                    let rest = this.pieces.poll_next(cx);
                    if matches!(rest, Poll::Ready(Some(Ok(_)))) {
                        continue;
                    }
                    if rest.is_pending() && patience.as_mut().poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    this.state = State::Over;
                    return Poll::Ready(Some(Ok(end(this.format))));
                }
                State::Open => {}
            }
            match this.reader.next_event() {
                Ok(Some(event)) => {
                    if let Some(item) = this.take(&event) {
                        return Poll::Ready(Some(item));
                    }
                }
                Ok(None) => match this.pieces.poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(piece))) => this.reader.push(piece),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(this.fail(error))),
                    Poll::Ready(None) => return Poll::Ready(Some(this.end_of_body())),
                },
                Err(error) => {
                    let error = UpstreamError::protocol(error.to_string());
                    return Poll::Ready(Some(this.fail(error)));
                }
            }
        }
    }
}

impl ChatStream {
    /// The chunk that an event makes, if it makes one at once.
    fn take(&mut self, event: &Event) -> Option<Result<TextChunk, UpstreamError>> {
        if event.data.is_empty() {
            return None;
        }
        let Ok(head) = inspect_event(&event.data) else {
            let error = UpstreamError::protocol("an event of the stream is not JSON");
            return Some(self.fail(error));
        };
        let kind = match head.kind {
            EventKind::Done => {
                self.state = State::Done(Box::pin(sleep(END_OF_BODY)));
                return None;
            }
            EventKind::Error => {
                let error = refusal::from_object(&event.data);
                return Some(self.fail(error));
            }
            EventKind::Finish => {
                self.unfinished = self.unfinished.saturating_sub(1);
                ChunkKind::Content
            }
            EventKind::Content => ChunkKind::Content,
            EventKind::Preamble => ChunkKind::Preamble,
            EventKind::Usage => ChunkKind::Usage,
        };
        Some(Ok(self.chunk(kind, event, &head)))
    }

    fn chunk(&self, kind: ChunkKind, event: &Event, head: &EventHead) -> TextChunk {
        let bytes = splice_event(event, head, &self.edits, None);
        TextChunk {
            kind,
            payload: bytes.map(|bytes| Payload::Raw(self.format, bytes)),
            usage: head.report.usage,
            output_bytes: head.output_bytes,
        }
    }

    /// Some upstreams leave `[DONE]` out: when every choice has said why it ended, nothing is missing.
    fn end_of_body(&mut self) -> Result<TextChunk, UpstreamError> {
        if self.unfinished > 0 {
            return self.fail(UpstreamError::protocol("the stream was cut"));
        }
        self.state = State::Over;
        Ok(end(self.format))
    }

    fn fail(&mut self, error: UpstreamError) -> Result<TextChunk, UpstreamError> {
        self.state = State::Over;
        Err(error)
    }
}

fn end(format: Format) -> TextChunk {
    TextChunk {
        kind: ChunkKind::End,
        payload: Some(Payload::Raw(format, Bytes::from_static(DONE_EVENT))),
        usage: None::<Usage>,
        output_bytes: 0,
    }
}
