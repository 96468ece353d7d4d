//! The reply to one JSON-RPC request: a JSON body, or an event of a stream.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use serde_json::Value;
use tollgate_formats::sse::EventReader;
use tollgate_upstream::{UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::egress::Receive;
use crate::refusal;

/// Maximum size of a reply, in bytes.
pub(super) const MAX_BYTES: u64 = 16 << 20;
/// Maximum size of an event, in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// Maximum wait that a server may request.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Header with the id of a session.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// Receives the reply to the request with this id.
pub(super) struct Reply {
    id: u64,
    status: u16,
    /// Id of the session, from the headers.
    session: Option<String>,
    retry_after: Option<Duration>,
    body: Body,
    message: Option<Value>,
}

enum Body {
    Json(BytesMut),
    Events(EventReader),
}

/// A reply of the server to a request.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) session: Option<String>,
    /// The result, or the code of the error.
    pub(super) outcome: Result<Value, i64>,
}

impl Reply {
    pub(super) fn to(id: u64) -> Self {
        Self {
            id,
            status: 0,
            session: None,
            retry_after: None,
            body: Body::Json(BytesMut::new()),
            message: None,
        }
    }

    /// Returns the HTTP status.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the reply after the end of the response. Statuses of errors are errors, unless their
    /// body is a JSON-RPC error.
    pub(super) fn finish(mut self) -> Result<Replied, UpstreamError> {
        if let Body::Json(bytes) = &self.body {
            let message = serde_json::from_slice(bytes).unwrap_or_default();
            self.message = Some(message).filter(|message| is_reply(message, self.id));
        }
        let outcome = self.message.take().and_then(|message| outcome(&message));
        match (self.status, outcome) {
            (200..=299, Some(outcome)) | (400 | 404 | 405, Some(outcome @ Err(_))) => Ok(Replied {
                session: self.session,
                outcome,
            }),
            (200..=299, None) => Err(UpstreamError::protocol(
                "the MCP server sent no JSON-RPC response: check the URL of the server",
            )),
            (status, _) => Err(refused(status, self.retry_after)),
        }
    }
}

/// Returns the error of an HTTP status.
pub(super) fn refused(status: u16, retry_after: Option<Duration>) -> UpstreamError {
    let kind = match status {
        401..=403 => UpstreamErrorKind::Credentials,
        429 => UpstreamErrorKind::RateLimited,
        _ => UpstreamErrorKind::Unavailable,
    };
    let detail = match status {
        300..=399 => "the URL of the MCP server redirects: use the final URL",
        _ => "the MCP server refused the request",
    };
    UpstreamError {
        status: Some(status),
        retry_after,
        ..UpstreamError::new(kind, UpstreamCause::Status, detail)
    }
}

/// Whether a message is the response to the request with this id.
fn is_reply(message: &Value, id: u64) -> bool {
    let has_outcome = message.get("result").is_some() || message.get("error").is_some();
    // The id of a request that could not be parsed is null.
    has_outcome
        && message
            .get("id")
            .is_none_or(|stated| stated.is_null() || stated.as_u64() == Some(id))
}

fn outcome(message: &Value) -> Option<Result<Value, i64>> {
    match (message.get("result"), message.get("error")) {
        (Some(result), _) => Some(Ok(result.clone())),
        (None, Some(error)) => Some(Err(error.get("code").and_then(Value::as_i64).unwrap_or_default())),
        (None, None) => None,
    }
}

impl Receive for Reply {
    fn head(&mut self, status: u16, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        self.status = status;
        self.session = text(SESSION_HEADER).and_then(refusal::word);
        self.retry_after = text(RETRY_AFTER.as_str())
            .and_then(|seconds| seconds.trim().parse().ok())
            .map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        let is_stream = text(CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with("text/event-stream"));
        if is_stream {
            self.body = Body::Events(EventReader::new(MAX_EVENT_BYTES));
        }
    }

    fn chunk(&mut self, chunk: Bytes) -> ControlFlow<()> {
        let events = match &mut self.body {
            Body::Json(bytes) => {
                bytes.extend_from_slice(&chunk);
                return ControlFlow::Continue(());
            }
            Body::Events(events) => events,
        };
        events.push(chunk);
        loop {
            match events.next_event() {
                Ok(None) => return ControlFlow::Continue(()),
                // The server's own requests and notifications are not answered.
                Ok(Some(event)) => {
                    let message = serde_json::from_slice(&event.data).unwrap_or_default();
                    if is_reply(&message, self.id) {
                        self.message = Some(message);
                        return ControlFlow::Break(());
                    }
                }
                Err(_) => return ControlFlow::Break(()),
            }
        }
    }
}
