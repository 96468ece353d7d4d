//! Streamed responses: one chunk for each event, with the upstream's bytes where no change is
//! needed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Sleep, sleep};
use tollgate_formats::openai_chat::{EventEdits, EventHead, EventKind, inspect_event, splice_event};
use tollgate_formats::sse::{DONE_EVENT, Event, EventReader};
use tollgate_types::{Format, Usage};
use tollgate_upstream::{ChunkKind, Payload, TextCall, TextChunk, TextStream, UpstreamError};

use crate::http::{BodyChunks, ErrorTexts, Response};
use crate::refusal;

/// Maximum time to wait for the end of the body after `[DONE]`. The gateway can reuse a connection
/// only if the body was read completely, and most upstreams send the last chunk in a separate
/// write.
const END_OF_BODY: Duration = Duration::from_millis(20);

/// Opens the event stream of a response in this format. `choices` is the number of requested
/// choices.
pub(super) fn open(
    response: Response,
    call: &TextCall,
    format: Format,
    choices: u32,
) -> Result<TextStream, UpstreamError> {
    Ok(Box::pin(ChatStream {
        format,
        error_texts: response.error_texts(),
        chunks: response.chunks()?,
        reader: EventReader::default(),
        edits: EventEdits::new(&call.public_model, call.include_usage),
        unfinished: choices.max(1),
        has_ended: false,
        has_report: false,
        state: State::Open,
    }))
}

struct ChatStream {
    /// Format of the stream: chat completions or completions. They differ only in the position of a
    /// choice's text.
    format: Format,
    error_texts: Arc<ErrorTexts>,
    chunks: BodyChunks,
    reader: EventReader,
    edits: EventEdits,
    /// Number of choices without a finish reason.
    unfinished: u32,
    /// Whether any choice has a finish reason.
    has_ended: bool,
    /// Whether the usage report has arrived, as an event without choices.
    has_report: bool,
    state: State,
}

enum State {
    Open,
    /// `[DONE]` was received; the stream waits for the end of the body.
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
                State::Done(timer) => {
                    let rest = this.chunks.poll_next(cx);
                    if matches!(rest, Poll::Ready(Some(Ok(_)))) {
                        continue;
                    }
                    if rest.is_pending() && timer.as_mut().poll(cx).is_pending() {
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
                Ok(None) => match this.chunks.poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Some(Ok(chunk))) => this.reader.push(chunk),
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
    /// Converts an event to a chunk; `None` for an event without data and for `[DONE]`.
    fn take(&mut self, event: &Event) -> Option<Result<TextChunk, UpstreamError>> {
        if event.data.is_empty() {
            return None;
        }
        let Ok(head) = inspect_event(&event.data) else {
            let error = UpstreamError::protocol("a stream event is not JSON");
            return Some(self.fail(error));
        };
        let kind = match head.kind {
            EventKind::Done => {
                self.state = State::Done(Box::pin(sleep(END_OF_BODY)));
                return None;
            }
            EventKind::Error => {
                let error = refusal::from_object_of(&self.error_texts, &event.data);
                return Some(self.fail(error));
            }
            EventKind::Finish => {
                self.unfinished = self.unfinished.saturating_sub(1);
                self.has_ended = true;
                match self.unfinished {
                    0 => ChunkKind::Finish,
                    _ => ChunkKind::Content,
                }
            }
            EventKind::Content => ChunkKind::Content,
            EventKind::Preamble => ChunkKind::Preamble,
            EventKind::Usage => {
                self.has_report = true;
                ChunkKind::Usage
            }
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

    /// Handles the end of the body without `[DONE]`, which some upstreams omit. The response is
    /// complete if every choice has a finish reason. Some upstreams return fewer choices than
    /// requested: the response is also complete if any choice has a finish reason and the usage
    /// report has arrived.
    fn end_of_body(&mut self) -> Result<TextChunk, UpstreamError> {
        if self.unfinished > 0 && !(self.has_ended && self.has_report) {
            return self.fail(UpstreamError::protocol("the stream ended early"));
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
