//! Live transcription over one connection: the text of a turn arrives while its audio is sent.
//!
//! The gateway detects turns itself. A link numbers its turns from 0: each ends with a
//! [`LiveTranscriptionLink::commit`].

use std::sync::Arc;

use async_trait::async_trait;

use crate::context::CallContext;
use crate::error::UpstreamError;

/// Parameters of a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveTranscriptionCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// Settings of the following turns.
    pub settings: TranscriptionSettings,
}

/// Settings of transcription, which the model may ignore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TranscriptionSettings {
    /// Language of the speech (ISO 639-1).
    pub language: Option<Arc<str>>,
    /// Text that guides the spelling.
    pub prompt: Option<Arc<str>>,
    /// Several possible languages of the speech (ISO 639-1).
    pub languages: Vec<Arc<str>>,
    /// Words that the speech may contain.
    pub keywords: Vec<Arc<str>>,
    /// Delay of the text, which makes it more accurate: `minimal`, `low`, `medium`, `high` or
    /// `xhigh`.
    pub delay: Option<&'static str>,
}

/// Progress of the transcription of a turn.
#[derive(Clone, Debug)]
pub enum TranscriptEvent {
    /// Next text of a turn, with its separating space.
    Delta {
        /// Number of the turn.
        turn: u64,
        /// Text that follows the previous deltas.
        text: String,
    },
    /// The transcript of a turn that was committed.
    Completed {
        /// Number of the turn.
        turn: u64,
        /// Text of the whole turn.
        text: String,
    },
    /// The transcription of a turn has failed. The connection can still be used.
    Failed {
        /// Number of the turn.
        turn: u64,
        /// Error of the upstream.
        error: UpstreamError,
    },
}

/// An open connection to a transcription model. Dropping it closes the connection.
#[async_trait]
pub trait LiveTranscriptionLink: Send {
    /// Returns the samples per second of the audio. Samples have 16 bits, little-endian, one
    /// channel.
    fn rate(&self) -> u32;

    /// Changes the settings of the turns that begin from now on.
    async fn configure(&mut self, settings: &TranscriptionSettings) -> Result<(), UpstreamError>;

    /// Adds audio to the running turn. `ctx` must permit it with a hold.
    async fn append(&mut self, ctx: &CallContext, audio: &[u8]) -> Result<(), UpstreamError>;

    /// Ends the running turn, whose transcript follows.
    async fn commit(&mut self) -> Result<(), UpstreamError>;

    /// Drops the audio of the running turn.
    async fn clear(&mut self) -> Result<(), UpstreamError>;

    /// Returns the next event. An error means that the connection has ended; turns without a
    /// transcript get none. Cancel-safe.
    async fn next(&mut self) -> Result<TranscriptEvent, UpstreamError>;
}

/// Port for live transcription.
#[async_trait]
pub trait LiveTranscriptionProvider: Send + Sync {
    /// Opens a connection. Opening is free. Errors state whether any byte was sent.
    async fn open(
        &self,
        ctx: &CallContext,
        call: &LiveTranscriptionCall,
    ) -> Result<Box<dyn LiveTranscriptionLink>, UpstreamError>;
}
