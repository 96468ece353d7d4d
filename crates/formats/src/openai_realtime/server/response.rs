//! The response object of `response.created` and `response.done`.

use super::super::item::write_item;
use super::super::session::write_max_output_tokens;
use super::super::writer::Object;
use super::super::{AudioFormat, Dialect, OutputModality};
use super::{EventError, ResponseUsage, WrittenItem};

/// Response of a voice session.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    pub id: &'a str,
    pub status: ResponseStatus<'a>,
    pub output: &'a [WrittenItem<'a>],
    /// `None` until the response has ended.
    pub usage: Option<&'a ResponseUsage<'a>>,
    /// `None` for a response outside the conversation.
    pub conversation_id: Option<&'a str>,
    pub modality: OutputModality,
    pub output_format: AudioFormat,
    pub voice: Option<&'a str>,
    /// Maximum tokens of the response; `None` is `"inf"`.
    pub max_output_tokens: Option<u32>,
    /// Metadata of the client; null if empty.
    pub metadata: &'a [(String, String)],
    /// Id of the billed request.
    pub request_id: Option<&'a str>,
}

/// State of a response, with its reason.
#[derive(Clone, Copy, Debug)]
pub enum ResponseStatus<'a> {
    InProgress,
    Completed,
    Cancelled(CancelReason),
    Incomplete(IncompleteReason),
    /// Failed. The response has the type, the code and the message of the error.
    Failed(&'a EventError<'a>),
}

/// Reason of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The user spoke.
    TurnDetected,
    /// The client sent `response.cancel`.
    ClientCancelled,
}

/// Reason why a response ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncompleteReason {
    MaxOutputTokens,
    ContentFilter,
}

impl Response<'_> {
    /// Writes the members of the response object.
    pub(super) fn write(&self, dialect: Dialect, object: &mut Object<'_>) {
        object.text("id", self.id);
        object.text("object", "realtime.response");
        self.status.write(object);
        object.objects("output", self.output, |value, item| {
            write_item(item.item, item.status, false, dialect, value);
        });
        object.nullable("conversation_id", self.conversation_id);
        self.modality.write(dialect, object);
        self.write_audio(dialect, object);
        write_max_output_tokens(object, "max_output_tokens", self.max_output_tokens);
        match self.usage {
            Some(usage) => object.object("usage", |value| usage.write(dialect, value)),
            None => object.raw("usage", "null"),
        }
        if self.metadata.is_empty() {
            object.raw("metadata", "null");
        } else {
            object.object("metadata", |value| {
                for (name, text) in self.metadata {
                    value.text(name, text);
                }
            });
        }
        object.optional("request_id", self.request_id);
    }

    fn write_audio(&self, dialect: Dialect, object: &mut Object<'_>) {
        if dialect == Dialect::Beta {
            object.nullable("voice", self.voice);
            object.text("output_audio_format", self.output_format.beta_name());
            return;
        }
        object.object("audio", |audio| {
            audio.object("output", |output| {
                output.object("format", |format| self.output_format.write(format));
                output.nullable("voice", self.voice);
            });
        });
    }
}

impl ResponseStatus<'_> {
    /// Returns the value of `status`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            ResponseStatus::InProgress => "in_progress",
            ResponseStatus::Completed => "completed",
            ResponseStatus::Cancelled(_) => "cancelled",
            ResponseStatus::Incomplete(_) => "incomplete",
            ResponseStatus::Failed(_) => "failed",
        }
    }

    /// Writes `status` and `status_details`.
    fn write(&self, object: &mut Object<'_>) {
        object.text("status", self.as_str());
        let reason = match self {
            ResponseStatus::InProgress | ResponseStatus::Completed => {
                return object.raw("status_details", "null");
            }
            ResponseStatus::Failed(error) => {
                return object.object("status_details", |details| {
                    details.text("type", self.as_str());
                    details.object("error", |value| error.write_status(value));
                });
            }
            ResponseStatus::Cancelled(reason) => reason.as_str(),
            ResponseStatus::Incomplete(reason) => reason.as_str(),
        };
        object.object("status_details", |details| {
            details.text("type", self.as_str());
            details.text("reason", reason);
        });
    }
}

impl CancelReason {
    /// Returns the value of `status_details.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            CancelReason::TurnDetected => "turn_detected",
            CancelReason::ClientCancelled => "client_cancelled",
        }
    }
}

impl IncompleteReason {
    /// Returns the value of `status_details.reason`.
    pub const fn as_str(self) -> &'static str {
        match self {
            IncompleteReason::MaxOutputTokens => "max_output_tokens",
            IncompleteReason::ContentFilter => "content_filter",
        }
    }
}
