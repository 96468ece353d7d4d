//! Gemini's Live API, `BidiGenerateContent` over WebSocket, as its client: a [`LiveCommand`] writes
//! a message of the gateway, and [`parse_live`] reads a message of the server.
//!
//! The client marks the user's activity itself, because the gateway detects turns. Names and
//! meanings of the fields follow the types of Google's client library (google-genai 3.4).

mod read;
mod usage;
mod write;

use bytes::Bytes;
use tollgate_types::Usage;

pub use read::parse_live;
pub use usage::read_live_usage;

/// Message of the client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LiveCommand<'a> {
    /// The settings of the connection. It is the first message.
    Setup(&'a LiveSetup<'a>),
    /// Adds turns to the conversation.
    Content {
        /// The turns, oldest first.
        turns: &'a [LiveTurn<'a>],
        /// Whether the model answers now. After [`LiveSetup::has_history`], the first complete
        /// content is history, which the model does not answer.
        is_complete: bool,
    },
    /// The user starts to speak. It interrupts the model.
    ActivityStart,
    /// Speech of the user, at 24 kHz. The server resamples audio of any rate.
    Audio(&'a [u8]),
    /// Text of the user within an activity.
    Text(&'a str),
    /// The user has finished, and the model answers.
    ActivityEnd,
    /// Outputs of all functions that the model has called. The model answers.
    Outputs(&'a [LiveOutput<'a>]),
}

/// Settings of a connection. Only a new connection can have others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveSetup<'a> {
    /// Path of the model, such as `models/gemini-3.8-live`.
    pub model: &'a str,
    /// Instructions; may be empty.
    pub instructions: &'a str,
    /// Whether answers are spoken; otherwise they are written.
    pub is_spoken: bool,
    /// Name of the voice.
    pub voice: Option<&'a str>,
    /// Sampling temperature, from 0 to 2.
    pub temperature: Option<f64>,
    /// Maximum number of output tokens of an answer.
    pub max_output_tokens: u64,
    /// Functions that the model can call.
    pub tools: &'a [LiveTool<'a>],
    /// Handle of an earlier connection whose conversation is continued.
    pub handle: Option<&'a str>,
    /// Whether the next message contains the history of the conversation.
    pub has_history: bool,
}

/// A function that the model can call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveTool<'a> {
    /// Name of the function.
    pub name: &'a str,
    /// Purpose of the function.
    pub description: Option<&'a str>,
    /// JSON schema of the arguments, as JSON text.
    pub parameters: Option<&'a str>,
}

/// A turn of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveTurn<'a> {
    /// Words of the user.
    User(&'a str),
    /// Words of the model.
    Model(&'a str),
    /// A function call of the model.
    Call {
        /// Id of the call.
        id: &'a str,
        /// Name of the function.
        name: &'a str,
        /// Arguments, as JSON text.
        arguments: &'a str,
    },
    /// Output of a function.
    Output(LiveOutput<'a>),
}

/// Output of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveOutput<'a> {
    /// Id of the call.
    pub id: &'a str,
    /// Name of the function.
    pub name: &'a str,
    /// Output as text. A JSON object is sent as such.
    pub output: &'a str,
}

/// Part of a message of the server.
#[derive(Clone, Debug, PartialEq)]
pub enum LiveEvent {
    /// The settings are applied.
    SetupComplete,
    /// New handle of the conversation; `None` while it cannot be continued.
    Resumption(Option<String>),
    /// The server will end the connection soon.
    GoAway,
    /// Words of the user's speech.
    Heard(String),
    /// Text of a written answer.
    Text(String),
    /// Audio of a spoken answer: 16 bits, little-endian, mono, 24 kHz.
    Audio(Bytes),
    /// Words of a spoken answer. They have no order relative to the audio.
    Transcript(String),
    /// A function call, which the client must answer.
    Call(LiveCall),
    /// Ids of calls that need no answer any more.
    CallsCancelled(Vec<String>),
    /// Usage of the answer, in disjoint units.
    Usage(Usage),
    /// The answer is complete, but the model may wait until it was played.
    GenerationComplete,
    /// The client has interrupted the answer.
    Interrupted,
    /// The model's turn has ended.
    TurnComplete(LiveEnd),
}

/// A function call of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveCall {
    /// Id of the call; empty if the model gave none.
    pub id: String,
    /// Name of the function.
    pub name: String,
    /// Arguments, as JSON text.
    pub arguments: String,
}

/// Reason why a turn of the model has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveEnd {
    /// The model has finished.
    Completed,
    /// A safety check has blocked the input or the output.
    Blocked,
    /// The model has failed to write a function call.
    Malformed,
}

#[cfg(test)]
mod tests;
