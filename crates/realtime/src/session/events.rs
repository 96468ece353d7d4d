//! Events for the client, written in the dialect of the session.

use std::sync::Arc;

use tollgate_edge::error::status_and_type;
use tollgate_edge::websocket::{Closing, Outbox, Turns};
use tollgate_formats::openai_realtime::{Dialect, EventError, RealtimeCode, ServerEvent};
use tollgate_types::{Error, RequestId, Retry};

/// Sender of events.
pub(crate) struct Events {
    pub(crate) outbox: Outbox,
    pub(crate) turns: Arc<Turns>,
    pub(crate) dialect: Dialect,
}

/// Error of a client's event.
pub(crate) enum Refusal {
    /// An error that HTTP requests can have, too.
    Common(Error),
    /// An error that only sessions have, with its message and the path of the parameter.
    Realtime(RealtimeCode, String, Option<&'static str>),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::Common(error)
    }
}

impl Events {
    /// Sends an event. Events that the client's dialect lacks are dropped.
    pub(crate) fn send(&self, event: &ServerEvent<'_>) {
        if let Some(text) = event.write(self.dialect, &self.new_id("event_")) {
            self.outbox.send(text);
        }
    }

    /// Sends an `error` event. `event_id` is the id that the client gave to its event, `request`
    /// the request that failed.
    pub(crate) fn error(&self, refusal: &Refusal, event_id: Option<&str>, request: Option<RequestId>) {
        let request = request.map(|request| request.to_string());
        let error = match refusal {
            Refusal::Common(error) => EventError {
                event_id,
                request_id: request.as_deref(),
                ..event_error(error)
            },
            Refusal::Realtime(code, message, param) => EventError {
                kind: RealtimeCode::TYPE,
                code: code.as_str(),
                message,
                param: *param,
                event_id,
                request_id: request.as_deref(),
                retry_after_ms: None,
            },
        };
        self.send(&ServerEvent::Error(&error));
    }

    /// Returns a new id with a prefix.
    pub(crate) fn new_id(&self, prefix: &str) -> String {
        new_id(&self.turns, prefix)
    }

    /// Closes the session.
    pub(crate) fn close(&self, closing: Closing) {
        self.outbox.close(closing);
    }
}

/// Returns a new id with a prefix.
pub(crate) fn new_id(turns: &Turns, prefix: &str) -> String {
    format!("{prefix}{:032x}", turns.new_id())
}

/// Returns the content of an `error` event.
pub(crate) fn event_error(error: &Error) -> EventError<'_> {
    EventError {
        kind: status_and_type(error.code).1,
        code: error.code.as_str(),
        message: &error.message,
        param: error.param.as_deref(),
        event_id: None,
        request_id: None,
        retry_after_ms: match error.retry {
            Retry::After(wait) => u64::try_from(wait.as_millis()).ok(),
            _ => None,
        },
    }
}
