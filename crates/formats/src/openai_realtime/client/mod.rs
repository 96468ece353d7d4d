//! Events of the client.

mod append;
mod event;
mod response;

use std::sync::Arc;

use bytes::Bytes;

pub use event::parse;
pub use response::{Conversation, InputItem, ResponseParams};

use super::{Item, SessionUpdate};
use crate::error::DecodeError;

/// Event of a client, checked except for what depends on the state of the session.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// `session.update`, or `transcription_session.update` of the beta dialect.
    UpdateSession(Box<SessionUpdate>),
    /// `input_audio_buffer.append`. The session checks the audio with
    /// [`AudioFormat::check_samples`](super::AudioFormat::check_samples).
    AppendAudio { audio: Bytes },
    /// `input_audio_buffer.commit`.
    CommitAudio,
    /// `input_audio_buffer.clear`.
    ClearAudio,
    /// `conversation.item.create`.
    CreateItem {
        item: Box<Item>,
        /// Place of the item; `None` is the end of the conversation.
        previous: Option<Previous>,
    },
    /// `conversation.item.retrieve`.
    RetrieveItem { item_id: Arc<str> },
    /// `conversation.item.delete`.
    DeleteItem { item_id: Arc<str> },
    /// `conversation.item.truncate`.
    TruncateItem {
        item_id: Arc<str>,
        content_index: u32,
        /// Audio that the user heard. Can exceed the length of the audio.
        audio_end_ms: u64,
    },
    /// `response.create`, with defaults if it has no `response`.
    CreateResponse(Box<ResponseParams>),
    /// `response.cancel`: ends a response early.
    CancelResponse {
        /// Response to cancel; `None` is the running one.
        response_id: Option<Arc<str>>,
    },
}

/// Place of a new item in the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The beginning of the conversation (`"root"`).
    Root,
    /// The place after the item with this id.
    After(Arc<str>),
}

/// Event of a client with its id.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedEvent {
    /// Id that the client gave to the event, for errors about it.
    pub event_id: Option<String>,
    pub event: ClientEvent,
}

/// Error about an event of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedEvent {
    /// Id that the client gave to the event; `None` also if it cannot be read.
    pub event_id: Option<String>,
    /// `invalid_json`, one of the codes about parameters, or `request_too_large`.
    pub error: DecodeError,
}
