//! Errors in events.

use super::super::writer::Object;

/// Content of an `error` event, and of a failed transcription.
#[derive(Clone, Copy, Debug, Default)]
pub struct EventError<'a> {
    /// `error.type`, such as `invalid_request_error`.
    pub kind: &'a str,
    /// Public error code, or a [`RealtimeCode`](super::super::RealtimeCode).
    pub code: &'a str,
    /// Text for the caller.
    pub message: &'a str,
    /// Path of the invalid parameter.
    pub param: Option<&'a str>,
    /// Id of the client's event that caused the error.
    pub event_id: Option<&'a str>,
    /// Request id of the failed response or of the session; absent in the event if `None`.
    pub request_id: Option<&'a str>,
    /// Wait before a retry; absent in the event if `None`.
    pub retry_after_ms: Option<u64>,
}

impl EventError<'_> {
    /// Writes the members of the error of an `error` event.
    pub(super) fn write(&self, object: &mut Object<'_>) {
        self.write_failure(object);
        object.nullable("event_id", self.event_id);
        object.optional("request_id", self.request_id);
        if let Some(wait_ms) = self.retry_after_ms {
            object.number("retry_after_ms", wait_ms);
        }
    }

    /// Writes the members of the error of a failed transcription.
    pub(super) fn write_failure(&self, object: &mut Object<'_>) {
        self.write_status(object);
        object.nullable("param", self.param);
    }

    /// Writes the members of the error of a failed response.
    pub(super) fn write_status(&self, object: &mut Object<'_>) {
        object.text("type", self.kind);
        object.text("code", self.code);
        object.text("message", self.message);
    }
}
