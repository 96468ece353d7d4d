//! Server-sent events (WHATWG HTML, section 9.2). One event is one frame and therefore one write.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;

/// Keep-alive comment, which clients ignore.
pub const PING: Bytes = Bytes::from_static(b": ping\n\n");

/// Splits off the first of several events created together. Some clients lose the events that
/// follow it in the same chunk.
pub fn split_first(events: &mut Bytes) -> Option<Bytes> {
    if events.is_empty() {
        return None;
    }
    let end = events
        .windows(2)
        .position(|pair| pair == b"\n\n")
        .map_or(events.len(), |at| at + 2);
    Some(events.split_to(end))
}

/// Returns the data of a single-line event, as written by this gateway; `None` for a keep-alive
/// comment.
pub fn data(event: &[u8]) -> Option<&[u8]> {
    let lines = event.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.strip_prefix(b"data: ")).next()
}

struct SseBody<S>(S);

impl<S: Stream<Item = Bytes> + Unpin> http_body::Body for SseBody<S> {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.0)
            .poll_next(cx)
            .map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

/// Returns a streamed response. Each item is one whole event with its blank line.
pub fn response(events: impl Stream<Item = Bytes> + Send + Unpin + 'static) -> Response {
    response_of(
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
        events,
    )
}

/// Returns a streamed response with another content type. Each item is written immediately.
pub fn response_of(
    content_type: HeaderValue,
    events: impl Stream<Item = Bytes> + Send + Unpin + 'static,
) -> Response {
    let mut response = Response::new(Body::new(SseBody(events)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(
        HeaderName::from_static("x-accel-buffering"),
        HeaderValue::from_static("no"),
    );
    response
}
