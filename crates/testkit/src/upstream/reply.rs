//! One scripted reply: its content, and all faults of its delivery.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::answer::Answer;
use super::delivery::{At, Delivery, Dress, Framing, How, LineEnd, Writes};
use super::gate::Gate;

/// A reply to one request. Call a constructor, then add the differences.
///
/// Events are counted from 0 in the order in which they are written. An answer that is not streamed
/// is one event.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) content: Content,
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delivery: Delivery,
    pub(super) dress: Dress,
    pub(super) unread: bool,
}

/// The content of a reply.
#[derive(Debug, Clone)]
pub(super) enum Content {
    /// A chat completion in the format of the request.
    Answer(Answer),
    /// These `data:` payloads as an event stream, even if the request does not stream.
    Events(Vec<String>),
    /// These bytes as the body.
    Body(Bytes),
    /// These bytes instead of an HTTP response.
    Raw(Bytes),
}

impl Reply {
    /// Creates a reply with this answer.
    pub fn answer(answer: Answer) -> Self {
        Self::with(Content::Answer(answer), 200)
    }

    /// Creates a reply with an answer of this text.
    pub fn text(text: &str) -> Self {
        Self::answer(Answer::text(text))
    }

    /// Creates a reply with an answer of `count` words, one token each.
    pub fn words(count: usize) -> Self {
        Self::answer(Answer::words(count))
    }

    /// Creates an event stream of exactly these `data:` payloads. No event is added, not even
    /// `[DONE]`.
    pub fn events<T: Into<String>>(payloads: impl IntoIterator<Item = T>) -> Self {
        Self::with(
            Content::Events(payloads.into_iter().map(Into::into).collect()),
            200,
        )
        .content_type("text/event-stream; charset=utf-8")
    }

    /// Creates a reply with this status and body.
    pub fn body(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::with(Content::Body(body.into()), status).content_type(content_type)
    }

    /// Creates a reply with an error status and OpenAI's error body.
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let kind = match status {
            429 => "requests",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let body = json!({"error": {"message": message, "type": kind, "param": null, "code": code}});
        Self::body(status, "application/json", body.to_string())
    }

    /// Creates a reply with an HTML error page instead of JSON, as sent by proxies in front of
    /// providers.
    pub fn html(status: u16) -> Self {
        let page = format!(
            "<!DOCTYPE html>\n<html><head><title>{status}</title></head>\n<body><center><h1>{status}</h1></center>\
             <hr><center>proxy</center></body></html>\n"
        );
        Self::body(status, "text/html; charset=UTF-8", page)
    }

    /// Creates a reply that sends these bytes instead of an HTTP response, then closes the
    /// connection.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::with(Content::Raw(bytes.into()), 200).close()
    }

    /// Creates a reply that sends no bytes until the client disconnects.
    pub fn hang() -> Self {
        Self::words(3).cut(At::Start, How::Hang)
    }

    /// Creates a reply that resets the connection instead of sending a response.
    pub fn reset() -> Self {
        Self::words(3).cut(At::Start, How::Reset)
    }

    fn with(content: Content, status: u16) -> Self {
        let delivery = Delivery {
            delay: Duration::ZERO,
            pace: Duration::ZERO,
            gates: Vec::new(),
            writes: Writes::PerEvent,
            framing: None,
            cut: None,
            done: true,
            error_after: None,
            endless: false,
            gzip: false,
            close: false,
        };
        Self {
            content,
            status,
            content_type: None,
            headers: Vec::new(),
            delivery,
            dress: Dress::default(),
            unread: false,
        }
    }

    /// Sends this status instead, with the same body.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds a response header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends this `content-type` instead of the correct one.
    pub fn content_type(mut self, content_type: &str) -> Self {
        self.content_type = Some(content_type.to_owned());
        self
    }

    /// Waits before the first byte.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delivery.delay = delay;
        self
    }

    /// Waits between two events.
    pub fn pace(mut self, pace: Duration) -> Self {
        self.delivery.pace = pace;
        self
    }

    /// Waits for the gate before the first byte.
    pub fn hold_head(mut self, gate: &Gate) -> Self {
        self.delivery.gates.push((None, gate.clone()));
        self
    }

    /// Waits for the gate before the event with this number.
    pub fn hold_event(mut self, event: usize, gate: &Gate) -> Self {
        self.delivery.gates.push((Some(event), gate.clone()));
        self
    }

    /// Sets how the bytes are split into writes.
    pub fn writes(mut self, writes: Writes) -> Self {
        self.delivery.writes = writes;
        self
    }

    /// Sets how the end of the body is marked.
    pub fn framing(mut self, framing: Framing) -> Self {
        self.delivery.framing = Some(framing);
        self
    }

    /// Breaks the reply off at this place, in this way.
    pub fn cut(mut self, at: At, how: How) -> Self {
        self.delivery.cut = Some((at, how));
        self
    }

    /// Ends a stream without `[DONE]`.
    pub fn without_done(mut self) -> Self {
        self.delivery.done = false;
        self
    }

    /// Sends `data: {"error": …}` after this number of events, and ends the stream without
    /// `[DONE]`. If the answer is not streamed, the 200 has the error body.
    pub fn error_after(mut self, events: usize, code: &str, message: &str) -> Self {
        let error = json!({"message": message, "type": "server_error", "param": null, "code": code});
        self.delivery.error_after = Some((events, json!({ "error": error })));
        self
    }

    /// Makes the answer endless: content deltas (white space if not streamed) until the client
    /// disconnects.
    pub fn endless(mut self) -> Self {
        self.delivery.endless = true;
        self.delivery.framing = Some(Framing::Chunked);
        self
    }

    /// Compresses the body, even if the client does not accept gzip.
    pub fn gzip(mut self) -> Self {
        self.delivery.gzip = true;
        self
    }

    /// Closes the connection after the reply, and announces this in a header.
    pub fn close(mut self) -> Self {
        self.delivery.close = true;
        self
    }

    /// Sets the line end of the event stream.
    pub fn line_end(mut self, line_end: LineEnd) -> Self {
        self.dress.line_end = line_end;
        self
    }

    /// Puts a comment block before every event.
    pub fn comments(mut self) -> Self {
        self.dress.comments = true;
        self
    }

    /// Puts `event:`, `id:` and `retry:` lines into every event.
    pub fn event_lines(mut self) -> Self {
        self.dress.event_lines = true;
        self
    }

    /// Writes `data:{…}` without the space.
    pub fn no_space(mut self) -> Self {
        self.dress.no_space = true;
        self
    }

    /// Spreads every payload over several `data:` lines.
    pub fn several_lines(mut self) -> Self {
        self.dress.pretty = true;
        self
    }

    /// Begins the stream with a byte order mark.
    pub fn byte_order_mark(mut self) -> Self {
        self.dress.byte_order_mark = true;
        self
    }

    /// Replies after the request head, without reading the body. The model is then unknown, so only
    /// the common queue and the default can have such a reply.
    pub fn before_body(mut self) -> Self {
        self.unread = true;
        self.close()
    }
}
