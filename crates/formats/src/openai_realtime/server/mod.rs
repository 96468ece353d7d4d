//! Events of the server.

mod error;
mod response;
mod usage;
mod write;

pub use error::EventError;
pub use response::{CancelReason, IncompleteReason, Response, ResponseStatus};
pub use usage::{RateLimit, ResponseUsage, TokenCounts, TranscriptionUsage};

use super::{Item, ItemStatus, Session};

/// Event of the server. [`write`](Self::write) adds the id and selects the names of the dialect.
#[derive(Clone, Copy, Debug)]
pub enum ServerEvent<'a> {
    /// `error`: the session continues.
    Error(&'a EventError<'a>),
    /// `session.created`; in the beta dialect of a transcription session,
    /// `transcription_session.created`.
    SessionCreated(&'a Session),
    /// `session.updated`; in the beta dialect of a transcription session,
    /// `transcription_session.updated`.
    SessionUpdated(&'a Session),
    /// `conversation.created`, in the beta dialect alone.
    ConversationCreated { conversation_id: &'a str },
    /// `input_audio_buffer.committed`.
    AudioCommitted {
        item_id: &'a str,
        previous_item_id: Option<&'a str>,
    },
    /// `input_audio_buffer.cleared`.
    AudioCleared,
    /// `input_audio_buffer.speech_started`. Times are positions in the audio of the session.
    SpeechStarted { audio_start_ms: u64, item_id: &'a str },
    /// `input_audio_buffer.speech_stopped`.
    SpeechStopped { audio_end_ms: u64, item_id: &'a str },
    /// `input_audio_buffer.timeout_triggered`, in the GA dialect alone.
    TimeoutTriggered {
        audio_start_ms: u64,
        audio_end_ms: u64,
        item_id: &'a str,
    },
    /// `conversation.item.added`; `conversation.item.created` in the beta dialect.
    ItemAdded {
        previous_item_id: Option<&'a str>,
        item: WrittenItem<'a>,
    },
    /// `conversation.item.done`, in the GA dialect alone.
    ItemDone {
        previous_item_id: Option<&'a str>,
        item: WrittenItem<'a>,
    },
    /// `conversation.item.retrieved`, with the audio that the item has.
    ItemRetrieved { item: WrittenItem<'a> },
    /// `conversation.item.deleted`.
    ItemDeleted { item_id: &'a str },
    /// `conversation.item.truncated`.
    ItemTruncated {
        item_id: &'a str,
        content_index: u32,
        audio_end_ms: u64,
    },
    /// `conversation.item.input_audio_transcription.delta`.
    TranscriptionDelta {
        item_id: &'a str,
        content_index: u32,
        delta: &'a str,
        /// JSON array of log probabilities; absent in the event if `None`.
        logprobs: Option<&'a str>,
    },
    /// `conversation.item.input_audio_transcription.completed`.
    TranscriptionCompleted {
        item_id: &'a str,
        content_index: u32,
        transcript: &'a str,
        usage: TranscriptionUsage<'a>,
        /// JSON array of log probabilities; absent in the event if `None`.
        logprobs: Option<&'a str>,
    },
    /// `conversation.item.input_audio_transcription.failed`.
    TranscriptionFailed {
        item_id: &'a str,
        content_index: u32,
        error: &'a EventError<'a>,
    },
    /// `response.created`: the response starts, without output.
    ResponseCreated(&'a Response<'a>),
    /// `response.done`: the last event of a response, with its usage.
    ResponseDone(&'a Response<'a>),
    /// `response.output_item.added`.
    OutputItemAdded {
        response_id: &'a str,
        output_index: u32,
        item: WrittenItem<'a>,
    },
    /// `response.output_item.done`.
    OutputItemDone {
        response_id: &'a str,
        output_index: u32,
        item: WrittenItem<'a>,
    },
    /// `response.content_part.added`.
    ContentPartAdded { place: SpokenPlace<'a>, part: Part<'a> },
    /// `response.content_part.done`.
    ContentPartDone { place: SpokenPlace<'a>, part: Part<'a> },
    /// `response.output_text.delta`; `response.text.delta` in the beta dialect.
    TextDelta { place: SpokenPlace<'a>, delta: &'a str },
    /// `response.output_text.done`; `response.text.done` in the beta dialect.
    TextDone { place: SpokenPlace<'a>, text: &'a str },
    /// `response.output_audio.delta`; `response.audio.delta` in the beta dialect.
    AudioDelta { place: SpokenPlace<'a>, audio: &'a [u8] },
    /// `response.output_audio.done`; `response.audio.done` in the beta dialect.
    AudioDone { place: SpokenPlace<'a> },
    /// `response.output_audio_transcript.delta`; `response.audio_transcript.delta` in the beta
    /// dialect.
    TranscriptDelta { place: SpokenPlace<'a>, delta: &'a str },
    /// `response.output_audio_transcript.done`; `response.audio_transcript.done` in the beta
    /// dialect.
    TranscriptDone {
        place: SpokenPlace<'a>,
        transcript: &'a str,
    },
    /// `response.function_call_arguments.delta`. The place has no content index.
    ArgumentsDelta {
        place: SpokenPlace<'a>,
        call_id: &'a str,
        delta: &'a str,
    },
    /// `response.function_call_arguments.done`. The place has no content index.
    ArgumentsDone {
        place: SpokenPlace<'a>,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    /// `rate_limits.updated`: the windows of requests and tokens per minute.
    RateLimitsUpdated(&'a [RateLimit]),
}

/// Item with its state.
#[derive(Clone, Copy, Debug)]
pub struct WrittenItem<'a> {
    /// Item with an id. Its audio is written by [`ServerEvent::ItemRetrieved`] alone.
    pub item: &'a Item,
    pub status: ItemStatus,
}

/// Place of a content part in the output of a response.
#[derive(Clone, Copy, Debug)]
pub struct SpokenPlace<'a> {
    pub response_id: &'a str,
    pub item_id: &'a str,
    /// Index of the item in the response.
    pub output_index: u32,
    /// Index of the part in the item.
    pub content_index: u32,
}

/// Content part of a running response.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    Text {
        text: &'a str,
    },
    /// Speech, without its bytes.
    Audio {
        transcript: &'a str,
    },
}
