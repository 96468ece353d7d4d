//! The protocol as a client of an upstream sees it: [`UpstreamCommand`] writes the events of the
//! client, and [`UpstreamEvent::parse`] reads those of the server.
//!
//! The server's events are accepted in both dialects. Their texts come from the upstream, so ids
//! have a maximum length, and unknown members and types are ignored.

mod read;
mod usage;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use tollgate_types::Usage;

use super::{ItemKind, OutputModality, Previous, Tool, ToolChoice, Transcription};

/// Form of the session object that a server accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionShape {
    /// OpenAI's: the voice and turn detection are members of `audio`.
    #[default]
    Nested,
    /// xAI's: the voice and turn detection are members of the session.
    Flat,
}

/// Settings of the following responses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SessionSettings<'a> {
    pub modality: OutputModality,
    pub instructions: &'a str,
    /// Name of the voice; `None` leaves the server's voice unchanged.
    pub voice: Option<&'a str>,
    /// Speech rate; `None` leaves the server's rate unchanged.
    pub speed: Option<f64>,
    pub tools: &'a [Tool],
    pub tool_choice: &'a ToolChoice,
    pub parallel_tool_calls: Option<bool>,
    pub temperature: Option<f64>,
}

/// Element of the input of a response outside the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseInput {
    /// An item of the conversation, by its id.
    Reference(Arc<str>),
    /// An item that only this response reads.
    Item(ItemKind),
}

/// Event of a client for an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpstreamCommand<'a> {
    /// `session.update`. Always switches turn detection and transcription off, and audio to 24 kHz
    /// PCM.
    UpdateSession {
        shape: SessionShape,
        /// `None` changes nothing else.
        settings: Option<SessionSettings<'a>>,
    },
    /// `session.update` of a transcription session. Switches turn detection off, and audio to 24
    /// kHz PCM.
    UpdateTranscription {
        model: &'a str,
        /// Settings of the transcription, whose model is ignored.
        settings: &'a Transcription,
    },
    /// `input_audio_buffer.append`.
    AppendAudio { audio: &'a [u8] },
    /// `input_audio_buffer.clear`.
    ClearAudio,
    /// `input_audio_buffer.commit`.
    CommitAudio,
    /// `conversation.item.create`.
    CreateItem {
        /// Id of the new item: at most 32 characters, because OpenAI refuses longer ones.
        item_id: &'a str,
        item: &'a ItemKind,
        /// Place of the item; `None` is the end of the conversation.
        previous: Option<&'a Previous>,
    },
    /// `conversation.item.delete`.
    DeleteItem { item_id: &'a str },
    /// `conversation.item.truncate` of the first content part.
    TruncateItem { item_id: &'a str, audio_end_ms: u64 },
    /// `response.create`: starts a response.
    CreateResponse {
        max_output_tokens: u64,
        /// Input of a response outside the conversation; `None` for one in the conversation.
        outside: Option<&'a [ResponseInput]>,
    },
    /// `response.cancel`: ends a response early.
    CancelResponse {
        /// Response to cancel; `None` is the running one.
        response_id: Option<&'a str>,
    },
}

/// Event of an upstream. Ids have at most 512 characters.
#[derive(Clone, Debug, PartialEq)]
pub enum UpstreamEvent {
    /// `session.created`, also of a transcription session, or `conversation.created`, which some
    /// servers send instead.
    Created,
    /// `session.updated`, also of a transcription session.
    Updated {
        /// Whether the server would detect turns itself.
        has_turn_detection: bool,
    },
    /// `input_audio_buffer.committed`.
    AudioCommitted { item_id: Arc<str> },
    /// `conversation.item.added`, or `conversation.item.created` of older servers.
    ItemAdded {
        item_id: Arc<str>,
        /// Kind of the item, to find the command that created it.
        kind: AddedKind,
    },
    /// `conversation.item.input_audio_transcription.delta`.
    InputTranscriptDelta { item_id: Arc<str>, delta: String },
    /// `conversation.item.input_audio_transcription.completed`.
    InputTranscriptCompleted { item_id: Arc<str>, transcript: String },
    /// `conversation.item.input_audio_transcription.failed`.
    InputTranscriptFailed {
        item_id: Arc<str>,
        /// JSON text `{"error": …}` with the error of the event.
        error: String,
    },
    /// `response.created`: the server has started a response.
    ResponseCreated { response_id: Arc<str> },
    /// `response.output_item.added`.
    OutputItemAdded {
        place: OutputPlace,
        call: Option<OutputCall>,
    },
    /// `response.output_text.delta`.
    TextDelta { place: OutputPlace, delta: String },
    /// `response.output_audio_transcript.delta`.
    TranscriptDelta { place: OutputPlace, delta: String },
    /// `response.output_audio.delta`.
    AudioDelta { place: OutputPlace, audio: Bytes },
    /// `response.function_call_arguments.delta`.
    ArgumentsDelta { place: OutputPlace, delta: String },
    /// `response.function_call_arguments.done`, or `response.output_item.done` of a call.
    CallDone {
        place: OutputPlace,
        /// The call; `None` if the event does not describe it.
        call: Option<OutputCall>,
        /// All arguments, as JSON text.
        arguments: String,
    },
    /// `response.done`, for every end of a response.
    ResponseDone(Box<EndedResponse>),
    /// `error`, usually about an event of the client.
    Error {
        /// Id of the client's event that caused the error.
        event_id: Option<String>,
        /// `error.code`, else `error.type`.
        code: Option<String>,
    },
    /// An event of the protocol that repeats others or concerns no response.
    Ignored,
    /// An event that the protocol does not have.
    Unknown,
}

/// Kind of an item that a server has added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedKind {
    User,
    Assistant,
    System,
    FunctionCall,
    FunctionOutput,
    /// The event does not describe the item.
    Unknown,
}

/// Place of an output event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputPlace {
    /// Id of the response; `None` if the server omits it.
    pub response_id: Option<Arc<str>>,
    /// Id of the item; `None` if the server omits it.
    pub item_id: Option<Arc<str>>,
    /// Number of the item within the response.
    pub output_index: u32,
}

/// Function call of an output item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputCall {
    /// Id of the call, which its output repeats.
    pub call_id: Arc<str>,
    /// Name of the function; empty if the event does not have it.
    pub name: Arc<str>,
}

/// Response of an upstream that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedResponse {
    /// Id of the response; `None` if the server omits it.
    pub response_id: Option<Arc<str>>,
    pub status: EndedStatus,
    /// Tokens in disjoint units; `None` if the report is missing or implausible.
    pub usage: Option<Usage>,
}

/// Reason why a response of an upstream has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndedStatus {
    Completed,
    Cancelled,
    MaxOutputTokens,
    ContentFilter,
    /// The response failed.
    Failed {
        /// JSON text `{"error": …}` with the error of `status_details`.
        error: String,
    },
}
