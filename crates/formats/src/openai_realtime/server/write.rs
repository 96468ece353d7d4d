//! Names and members of the server's events.

use super::super::item::write_item;
use super::super::writer::Object;
use super::super::{Dialect, SessionKind};
use super::{Part, ServerEvent, SpokenPlace, WrittenItem};

/// Capacity of a buffer for an event without audio and without a session.
const EVENT_BYTES: usize = 512;

impl ServerEvent<'_> {
    /// Returns the event as JSON text; `None` if the dialect does not have it.
    pub fn write(&self, dialect: Dialect, event_id: &str) -> Option<String> {
        let name = self.name(dialect)?;
        Some(Object::to_text(self.size_hint(), |event| {
            event.text("type", name);
            event.text("event_id", event_id);
            self.write_members(dialect, event);
        }))
    }

    /// Returns the `type` of the event; `None` if the dialect does not have it.
    pub fn name(&self, dialect: Dialect) -> Option<&'static str> {
        let is_beta = dialect == Dialect::Beta;
        let by_dialect = |ga, beta| Some(if is_beta { beta } else { ga });
        match self {
            ServerEvent::SessionCreated(session) if is_beta && session.kind == SessionKind::Transcription => {
                Some("transcription_session.created")
            }
            ServerEvent::SessionUpdated(session) if is_beta && session.kind == SessionKind::Transcription => {
                Some("transcription_session.updated")
            }
            ServerEvent::ConversationCreated { .. } => is_beta.then_some("conversation.created"),
            ServerEvent::TimeoutTriggered { .. } => {
                (!is_beta).then_some("input_audio_buffer.timeout_triggered")
            }
            ServerEvent::ItemDone { .. } => (!is_beta).then_some("conversation.item.done"),
            ServerEvent::ItemAdded { .. } => {
                by_dialect("conversation.item.added", "conversation.item.created")
            }
            ServerEvent::TextDelta { .. } => by_dialect("response.output_text.delta", "response.text.delta"),
            ServerEvent::TextDone { .. } => by_dialect("response.output_text.done", "response.text.done"),
            ServerEvent::AudioDelta { .. } => {
                by_dialect("response.output_audio.delta", "response.audio.delta")
            }
            ServerEvent::AudioDone { .. } => by_dialect("response.output_audio.done", "response.audio.done"),
            ServerEvent::TranscriptDelta { .. } => by_dialect(
                "response.output_audio_transcript.delta",
                "response.audio_transcript.delta",
            ),
            ServerEvent::TranscriptDone { .. } => by_dialect(
                "response.output_audio_transcript.done",
                "response.audio_transcript.done",
            ),
            _ => Some(self.shared_name()),
        }
    }

    /// Returns the `type` of an event that both dialects call the same.
    const fn shared_name(&self) -> &'static str {
        match self {
            ServerEvent::Error(_) => "error",
            ServerEvent::SessionCreated(_) => "session.created",
            ServerEvent::SessionUpdated(_) => "session.updated",
            ServerEvent::AudioCommitted { .. } => "input_audio_buffer.committed",
            ServerEvent::AudioCleared => "input_audio_buffer.cleared",
            ServerEvent::SpeechStarted { .. } => "input_audio_buffer.speech_started",
            ServerEvent::SpeechStopped { .. } => "input_audio_buffer.speech_stopped",
            ServerEvent::ItemRetrieved { .. } => "conversation.item.retrieved",
            ServerEvent::ItemDeleted { .. } => "conversation.item.deleted",
            ServerEvent::ItemTruncated { .. } => "conversation.item.truncated",
            ServerEvent::TranscriptionDelta { .. } => "conversation.item.input_audio_transcription.delta",
            ServerEvent::TranscriptionCompleted { .. } => {
                "conversation.item.input_audio_transcription.completed"
            }
            ServerEvent::TranscriptionFailed { .. } => "conversation.item.input_audio_transcription.failed",
            ServerEvent::ResponseCreated(_) => "response.created",
            ServerEvent::ResponseDone(_) => "response.done",
            ServerEvent::OutputItemAdded { .. } => "response.output_item.added",
            ServerEvent::OutputItemDone { .. } => "response.output_item.done",
            ServerEvent::ContentPartAdded { .. } => "response.content_part.added",
            ServerEvent::ContentPartDone { .. } => "response.content_part.done",
            ServerEvent::ArgumentsDelta { .. } => "response.function_call_arguments.delta",
            ServerEvent::ArgumentsDone { .. } => "response.function_call_arguments.done",
            ServerEvent::RateLimitsUpdated(_) => "rate_limits.updated",
            // The other events differ between the dialects.
            _ => "",
        }
    }

    /// Estimates the size of the JSON text in bytes, so that the buffer of audio grows only once.
    fn size_hint(&self) -> usize {
        match self {
            ServerEvent::SessionCreated(session) | ServerEvent::SessionUpdated(session) => {
                EVENT_BYTES + session.size_hint()
            }
            ServerEvent::AudioDelta { audio, .. } => EVENT_BYTES + audio.len().div_ceil(3) * 4,
            _ => EVENT_BYTES,
        }
    }

    fn write_members(&self, dialect: Dialect, event: &mut Object<'_>) {
        match *self {
            ServerEvent::Error(error) => event.object("error", |value| error.write(value)),
            ServerEvent::SessionCreated(session) | ServerEvent::SessionUpdated(session) => {
                event.object("session", |value| session.write(dialect, value));
            }
            ServerEvent::ResponseCreated(response) | ServerEvent::ResponseDone(response) => {
                event.object("response", |value| response.write(dialect, value));
            }
            ServerEvent::RateLimitsUpdated(limits) => {
                event.objects("rate_limits", limits, |value, limit| limit.write(value));
            }
            _ => {
                self.write_input_members(event);
                self.write_item_members(dialect, event);
                self.write_output_members(event);
            }
        }
    }

    /// Writes the members of events about input audio.
    fn write_input_members(&self, event: &mut Object<'_>) {
        match *self {
            ServerEvent::AudioCommitted {
                item_id,
                previous_item_id,
            } => {
                event.nullable("previous_item_id", previous_item_id);
                event.text("item_id", item_id);
            }
            ServerEvent::SpeechStarted {
                audio_start_ms,
                item_id,
            } => {
                event.number("audio_start_ms", audio_start_ms);
                event.text("item_id", item_id);
            }
            ServerEvent::SpeechStopped {
                audio_end_ms,
                item_id,
            } => {
                event.number("audio_end_ms", audio_end_ms);
                event.text("item_id", item_id);
            }
            ServerEvent::TimeoutTriggered {
                audio_start_ms,
                audio_end_ms,
                item_id,
            } => {
                event.number("audio_start_ms", audio_start_ms);
                event.number("audio_end_ms", audio_end_ms);
                event.text("item_id", item_id);
            }
            ServerEvent::TranscriptionDelta {
                item_id,
                content_index,
                delta,
                logprobs,
            } => {
                write_part_of_item(item_id, content_index, event);
                event.text("delta", delta);
                write_logprobs(logprobs, event);
            }
            ServerEvent::TranscriptionCompleted {
                item_id,
                content_index,
                transcript,
                usage,
                logprobs,
            } => {
                write_part_of_item(item_id, content_index, event);
                event.text("transcript", transcript);
                write_logprobs(logprobs, event);
                event.object("usage", |value| usage.write(value));
            }
            ServerEvent::TranscriptionFailed {
                item_id,
                content_index,
                error,
            } => {
                write_part_of_item(item_id, content_index, event);
                event.object("error", |value| error.write_failure(value));
            }
            _ => {}
        }
    }

    /// Writes the members of events about items.
    fn write_item_members(&self, dialect: Dialect, event: &mut Object<'_>) {
        match *self {
            ServerEvent::ConversationCreated { conversation_id } => event.object("conversation", |value| {
                value.text("id", conversation_id);
                value.text("object", "realtime.conversation");
            }),
            ServerEvent::ItemAdded {
                previous_item_id,
                item,
            }
            | ServerEvent::ItemDone {
                previous_item_id,
                item,
            } => {
                event.nullable("previous_item_id", previous_item_id);
                item.write(false, dialect, event);
            }
            ServerEvent::ItemRetrieved { item } => item.write(true, dialect, event),
            ServerEvent::ItemDeleted { item_id } => event.text("item_id", item_id),
            ServerEvent::ItemTruncated {
                item_id,
                content_index,
                audio_end_ms,
            } => {
                write_part_of_item(item_id, content_index, event);
                event.number("audio_end_ms", audio_end_ms);
            }
            ServerEvent::OutputItemAdded {
                response_id,
                output_index,
                item,
            }
            | ServerEvent::OutputItemDone {
                response_id,
                output_index,
                item,
            } => {
                event.text("response_id", response_id);
                event.number("output_index", output_index);
                item.write(false, dialect, event);
            }
            _ => {}
        }
    }

    /// Writes the members of events about the content of a response.
    fn write_output_members(&self, event: &mut Object<'_>) {
        match *self {
            ServerEvent::ContentPartAdded { place, part } | ServerEvent::ContentPartDone { place, part } => {
                place.write(event);
                event.object("part", |value| part.write(value));
            }
            ServerEvent::TextDelta { place, delta } | ServerEvent::TranscriptDelta { place, delta } => {
                place.write(event);
                event.text("delta", delta);
            }
            ServerEvent::TextDone { place, text } => {
                place.write(event);
                event.text("text", text);
            }
            ServerEvent::AudioDelta { place, audio } => {
                place.write(event);
                event.base64("delta", audio);
            }
            ServerEvent::AudioDone { place } => place.write(event),
            ServerEvent::TranscriptDone { place, transcript } => {
                place.write(event);
                event.text("transcript", transcript);
            }
            ServerEvent::ArgumentsDelta {
                place,
                call_id,
                delta,
            } => {
                place.write_item(event);
                event.text("call_id", call_id);
                event.text("delta", delta);
            }
            ServerEvent::ArgumentsDone {
                place,
                call_id,
                name,
                arguments,
            } => {
                place.write_item(event);
                event.text("call_id", call_id);
                event.text("name", name);
                event.text("arguments", arguments);
            }
            _ => {}
        }
    }
}

fn write_part_of_item(item_id: &str, content_index: u32, event: &mut Object<'_>) {
    event.text("item_id", item_id);
    event.number("content_index", content_index);
}

fn write_logprobs(logprobs: Option<&str>, event: &mut Object<'_>) {
    if let Some(json) = logprobs {
        event.raw("logprobs", json);
    }
}

impl WrittenItem<'_> {
    fn write(&self, has_audio: bool, dialect: Dialect, event: &mut Object<'_>) {
        event.object("item", |value| {
            write_item(self.item, self.status, has_audio, dialect, value);
        });
    }
}

impl SpokenPlace<'_> {
    fn write(&self, event: &mut Object<'_>) {
        self.write_item(event);
        event.number("content_index", self.content_index);
    }

    fn write_item(&self, event: &mut Object<'_>) {
        event.text("response_id", self.response_id);
        event.text("item_id", self.item_id);
        event.number("output_index", self.output_index);
    }
}

impl Part<'_> {
    /// Writes the members of the part. Both dialects call the types of parts `text` and `audio`.
    fn write(&self, object: &mut Object<'_>) {
        match self {
            Part::Text { text } => {
                object.text("type", "text");
                object.text("text", text);
            }
            Part::Audio { transcript } => {
                object.text("type", "audio");
                object.text("transcript", transcript);
            }
        }
    }
}
