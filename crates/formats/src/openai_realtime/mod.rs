//! OpenAI's Realtime protocol over WebSocket, as the server sees it: [`parse`] reads the events of
//! a client, a [`Session`] holds the configuration, and [`ServerEvent`] writes the events of the
//! server. As a client of an upstream, the gateway writes an [`UpstreamCommand`] and reads an
//! [`UpstreamEvent`].
//!
//! The protocol has two dialects. Events of clients are accepted in both, independent of the
//! connection; a [`Dialect`] selects the names of the server's events. The caller creates all ids.

mod audio;
mod client;
mod code;
mod duplicates;
mod fields;
mod item;
mod server;
mod session;
mod upstream;
mod writer;

pub use audio::{AudioFormat, MAX_AUDIO_BYTES};
pub use client::{
    ClientEvent, Conversation, InputItem, ParsedEvent, Previous, RefusedEvent, ResponseParams, parse,
};
pub use code::RealtimeCode;
pub use item::{ContentPart, Item, ItemKind, ItemStatus, Role};
pub use server::{
    CancelReason, EventError, IncompleteReason, Part, RateLimit, Response, ResponseStatus, ResponseUsage,
    ServerEvent, SpokenPlace, TokenCounts, TranscriptionUsage, WrittenItem,
};
pub use session::{
    DEFAULT_SERVER_VAD, Eagerness, MAX_INSTRUCTIONS_BYTES, MAX_OUTPUT_TOKENS, MAX_TOOLS, OutputModality,
    Placed, ReasoningEffort, Session, SessionLimits, SessionUpdate, Tool, ToolChoice, Transcription,
    TranscriptionDelay, Truncation, TurnDetection,
};
pub use upstream::{
    AddedKind, EndedResponse, EndedStatus, OutputCall, OutputPlace, ResponseInput, SessionSettings,
    SessionShape, UpstreamCommand, UpstreamEvent,
};

#[cfg(test)]
mod tests;

/// Names of events and fields that the server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// The generally available protocol: nested `audio`, `response.output_audio.delta`.
    #[default]
    Ga,
    /// The protocol of `OpenAI-Beta: realtime=v1`: a flat session, `response.audio.delta`.
    Beta,
}

/// Use of a session, determined by the kind of its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// A conversation whose responses are spoken or written.
    Voice,
    /// Text of the audio, while the speaker talks. There are no responses.
    Transcription,
}

impl SessionKind {
    /// Returns the value of `session.type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            SessionKind::Voice => "realtime",
            SessionKind::Transcription => "transcription",
        }
    }
}
