//! Server-sent events (WHATWG HTML, section 9.2): one event is one frame and so one write.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http_body::Frame;

/// A sign of life that clients skip.
pub const PING: Bytes = Bytes::from_static(b": ping\n\n");

/// Takes the first of several events that were made together; some clients lose what follows it in the same chunk.
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

/// The data of an event on one line, as all are that are written here; nothing for a sign of life.
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

/// A streamed answer; each item is one whole event with its blank line.
pub fn response(events: impl Stream<Item = Bytes> + Send + Unpin + 'static) -> Response {
    response_of(
        HeaderValue::from_static("text/event-stream; charset=utf-8"),
        events,
    )
}

/// A streamed answer of another type; each item is written at once.
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
