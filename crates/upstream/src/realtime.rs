//! Conversations with a realtime model over one connection.
//!
//! The gateway detects turns itself, so the upstream receives a turn only when its response is
//! paid: everything but [`RealtimeLink::respond`] changes the conversation without a response.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_types::Usage;

use crate::context::CallContext;
use crate::error::UpstreamError;

/// Samples per second of all audio of a link. Samples have 16 bits, little-endian, one channel.
pub const REALTIME_RATE: u32 = 24_000;

/// Parameters of a new connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
}

/// Settings of the following responses.
#[derive(Clone, Debug, PartialEq)]
pub struct RealtimeSettings {
    /// Instructions of the session; may be empty.
    pub instructions: Arc<str>,
    /// Whether responses are spoken; otherwise they are written.
    pub is_spoken: bool,
    /// The model's name of the voice. `None` selects the model's default.
    pub voice: Option<Arc<str>>,
    /// Speed of speech, from 0.25 to 1.5, where 1 is normal.
    pub speed: f64,
    /// Functions that the model can call.
    pub tools: Vec<RealtimeTool>,
    /// Use of the functions.
    pub tool_choice: RealtimeToolChoice,
    /// Whether the model may call several functions in one response. `None` selects the model's
    /// default.
    pub parallel_tool_calls: Option<bool>,
    /// Sampling temperature, for models that support it.
    pub temperature: Option<f64>,
}

/// A function that the model can call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RealtimeTool {
    /// Name of the function.
    pub name: Arc<str>,
    /// Purpose of the function, for the model.
    pub description: Option<Arc<str>>,
    /// JSON schema of the arguments, as JSON text.
    pub parameters: Option<Arc<str>>,
}

/// Use of the functions in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RealtimeToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model calls no function.
    None,
    /// The model must call a function.
    Required,
    /// The model must call this function.
    Function(Arc<str>),
}

/// Identifies an item of the upstream's conversation within one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey(pub u64);

/// Author of a written message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealtimeRole {
    /// The person who talks with the model.
    User,
    /// The model, in earlier responses.
    Assistant,
    /// Instructions in the course of the conversation.
    System,
}

/// Item to add to the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealtimeItem {
    /// A written message.
    Message {
        /// Author of the message.
        role: RealtimeRole,
        /// Text of the message.
        text: Arc<str>,
    },
    /// A recording of the user, at [`REALTIME_RATE`].
    Recording(Bytes),
    /// A function call of the model.
    FunctionCall {
        /// Id of the call, which its output repeats.
        call_id: Arc<str>,
        /// Name of the function.
        name: Arc<str>,
        /// Arguments, as JSON text.
        arguments: Arc<str>,
    },
    /// Result of a function that the model has called.
    FunctionOutput {
        /// Id that the call has.
        call_id: Arc<str>,
        /// Output as text.
        output: Arc<str>,
    },
}

/// Place of a new item in the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealtimePlace {
    /// Before all items.
    First,
    /// Directly after this item.
    After(ItemKey),
    /// After all items.
    Last,
}

/// Element of the input of a response outside the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RealtimeInput {
    /// An item of the conversation.
    Reference(ItemKey),
    /// An item that only this response reads.
    Item(RealtimeItem),
}

/// Request for a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealtimeRequest {
    /// Maximum number of output tokens, of text and audio together.
    pub max_output_tokens: u64,
    /// Input of a response outside the conversation; `None` for a response in the conversation,
    /// which reads all its items.
    pub outside: Option<Vec<RealtimeInput>>,
}

/// Reason why a response ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealtimeFinish {
    /// The model has finished.
    Completed,
    /// The response was cancelled by [`RealtimeLink::cancel`].
    Cancelled,
    /// The response reached its maximum number of output tokens.
    MaxTokens,
    /// The upstream's content filter ended the response.
    ContentFilter,
}

/// Progress of the running response.
#[derive(Clone, Debug)]
pub enum RealtimeEvent {
    /// The response has started.
    Started,
    /// A new item of the output: the following text, audio or function call belongs to it.
    Item(ItemKey),
    /// Text of a written answer.
    Text(String),
    /// Words of a spoken answer. They may precede their audio.
    Transcript(String),
    /// Audio of a spoken answer, at [`REALTIME_RATE`].
    Audio(Bytes),
    /// The model starts to call a function. `index` identifies the call within the response.
    CallStarted {
        /// Number of the call.
        index: u32,
        /// Id of the call, which its output repeats.
        call_id: String,
        /// Name of the function.
        name: String,
    },
    /// Part of the arguments of a function call, as JSON text.
    CallArguments {
        /// Number of the call.
        index: u32,
        /// Next part of the arguments.
        delta: String,
    },
    /// The response has ended. It is the last event of the response.
    Ended {
        /// Reason of the end.
        finish: RealtimeFinish,
        /// Usage that the upstream reported, in disjoint units; `None` if it reported none.
        usage: Option<Usage>,
    },
    /// The upstream refused or failed the response. The connection can still be used. It is the
    /// last event of the response.
    Failed(UpstreamError),
}

/// An open connection to a realtime model. Dropping it closes the connection.
#[async_trait]
pub trait RealtimeLink: Send {
    /// Changes the settings of the following responses. Unchanged settings send nothing.
    async fn configure(&mut self, settings: &RealtimeSettings) -> Result<(), UpstreamError>;

    /// Adds an item to the conversation.
    async fn create(&mut self, place: RealtimePlace, item: &RealtimeItem) -> Result<ItemKey, UpstreamError>;

    /// Removes an item from the conversation.
    async fn delete(&mut self, item: ItemKey) -> Result<(), UpstreamError>;

    /// Cuts a spoken answer after this duration, because the listener has not heard the rest.
    async fn truncate(&mut self, item: ItemKey, heard_ms: u64) -> Result<(), UpstreamError>;

    /// Requests a response. `ctx` must permit it with a hold. No other response may be running.
    async fn respond(&mut self, ctx: &CallContext, request: &RealtimeRequest) -> Result<(), UpstreamError>;

    /// Cancels the running response, which then ends with [`RealtimeFinish::Cancelled`], or with
    /// another reason if it has just ended.
    async fn cancel(&mut self) -> Result<(), UpstreamError>;

    /// Returns the next event of the running response. Without one, waits until the connection
    /// ends. An error means that the connection has ended. Cancel-safe.
    async fn next(&mut self) -> Result<RealtimeEvent, UpstreamError>;
}

/// Port for realtime conversations.
#[async_trait]
pub trait RealtimeProvider: Send + Sync {
    /// Whether responses outside the conversation are possible.
    fn has_outside_responses(&self) -> bool {
        true
    }

    /// Whether items can be inserted before others, and removed.
    fn has_editable_items(&self) -> bool {
        true
    }

    /// Opens a connection. Opening is free, and no response starts before
    /// [`RealtimeLink::respond`]. Errors state whether any byte was sent.
    async fn open(
        &self,
        ctx: &CallContext,
        call: &RealtimeCall,
    ) -> Result<Box<dyn RealtimeLink>, UpstreamError>;
}
