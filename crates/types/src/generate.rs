//! The common request and answer of text generation. Every text format decodes into it and encodes from it;
//! what a format has beyond it travels in `extra`.

use serde_json::{Map, Value};

use crate::usage::Usage;

/// A request to generate text.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateRequest {
    /// The model as the caller named it.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Most tokens to produce, reasoning included.
    pub max_tokens: Option<u64>,
    /// How many answers.
    pub n: u32,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// Whether the stream reports usage at its end.
    pub include_usage: bool,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Sampling.
    pub sampling: Sampling,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Which tool the model must or may call.
    pub tool_choice: ToolChoice,
    /// Whether several tools may be called at once; `None` when the caller did not say.
    pub parallel_tool_calls: Option<bool>,
    /// The shape that the answer must have.
    pub response_format: ResponseFormat,
    /// How much to reason: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    pub reasoning_effort: Option<String>,
    /// When to reason, where the caller says so apart from the effort.
    pub thinking: Option<Thinking>,
    /// Whether the answer leaves out what was reasoned.
    pub hide_reasoning: bool,
    /// Names the end user, for the provider's abuse checks.
    pub user: Option<String>,
    /// Alternatives to report for each token, `Some(0)` for the chosen token only.
    pub top_logprobs: Option<u32>,
    /// Fields of the caller's format that have no common meaning.
    pub extra: Map<String, Value>,
}

/// Sampling parameters; `None` leaves the choice to the model.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sampling {
    /// 0 to 2.
    pub temperature: Option<f64>,
    /// 0 to 1.
    pub top_p: Option<f64>,
    /// So many of the likeliest tokens are sampled from.
    pub top_k: Option<u64>,
    /// −2 to 2.
    pub frequency_penalty: Option<f64>,
    /// −2 to 2.
    pub presence_penalty: Option<f64>,
    /// Best-effort determinism.
    pub seed: Option<i64>,
}

/// When the model reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Not at all.
    Off,
    /// For at most so many tokens.
    Budget(u64),
    /// As it sees fit.
    Adaptive,
    /// As it sees fit, also between two tool calls.
    BetweenTools,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Instructions; `developer` and `system` are the same.
    System,
    /// The person or program that asks.
    #[default]
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Calls that the model made in this turn.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this turn answers (`Role::Tool` only).
    pub tool_call_id: Option<String>,
    /// Whether the tool failed (`Role::Tool` only).
    pub is_error: bool,
    /// Where it stood in the caller's body.
    pub place: Place,
    /// Name of the speaker.
    pub name: Option<String>,
    /// Fields of the caller's format that have no common meaning.
    pub extra: Map<String, Value>,
}

/// Where a turn stood in the caller's body, so that an error can name what is at fault. It says nothing about what was
/// said: all places are equal.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Path of the turn: `messages[2]`.
    pub path: String,
    /// Path of its content: `messages[2].content`.
    pub content: String,
    /// Index of its first part there; `None` when the content is one text.
    pub first: Option<usize>,
    /// Path of the first part, when it stands apart from the others.
    pub apart: Option<String>,
}

impl Place {
    /// Path of the part with this index.
    pub fn part(&self, index: usize) -> String {
        let index = match (&self.apart, index.checked_sub(1)) {
            (None, _) => index,
            (Some(apart), None) => return apart.clone(),
            (Some(_), Some(after)) => after,
        };
        match self.first {
            Some(first) => format!("{}[{}]", self.content, first + index),
            None => self.content.clone(),
        }
    }
}

impl PartialEq for Place {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A piece of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A refusal by the model.
    Refusal(String),
    /// What the model reasoned.
    Reasoning(Reasoning),
    /// A picture: an http(s) or data URL, and how closely to look.
    Image {
        /// Where the bytes are.
        url: String,
        /// `auto`, `low`, `high` or `original`.
        detail: Option<String>,
    },
    /// Sound: base64 data and its format (`wav`, `mp3`).
    Audio {
        /// Base64.
        data: String,
        /// `wav` or `mp3`.
        format: String,
    },
    /// A document, as a data URL, at an address or as its text.
    File(File),
    /// What the caller has uploaded and names by its id. Its bytes are put in its place before a call reaches a
    /// provider, which never sees the id.
    Stored(Stored),
    /// What stands before it in this turn may be kept in the provider's cache, for so long.
    CacheBreakpoint(CacheLife),
    /// Something that only the caller's own format has.
    Foreign {
        /// Its type there.
        kind: String,
        /// The whole of it.
        value: Value,
    },
}

/// What the model reasoned in a turn.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reasoning {
    /// As far as it was shown; `None` when the provider hid it.
    pub text: Option<String>,
    /// What its provider wants back with it.
    pub seal: Option<Seal>,
}

impl Reasoning {
    /// Reasoning that anybody may read and nobody has sealed.
    pub fn shown(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            seal: None,
        }
    }
}

/// What a provider adds to its reasoning so that it can take it back: opaque, and of use to that provider alone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Seal {
    /// Whose it is; empty when nobody knows.
    pub origin: String,
    /// The provider's own bytes, as text; empty when it adds none.
    pub data: String,
}

/// How long a provider keeps what it wrote into its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CacheLife {
    /// Five minutes after it was last read.
    #[default]
    FiveMinutes,
    /// An hour, at a price of its own.
    OneHour,
}

/// A document. One of the ways to get at its content is there.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct File {
    /// Data URL.
    pub data: Option<String>,
    /// Address.
    pub url: Option<String>,
    /// Plain text.
    pub text: Option<String>,
    /// Name shown to the model.
    pub filename: Option<String>,
}

/// Something that the caller has uploaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its id, as the caller wrote it.
    pub id: String,
    /// Whether it is to be a picture; otherwise it is to be a document.
    pub is_picture: bool,
    /// How closely to look at a picture.
    pub detail: Option<String>,
    /// Name shown to the model, instead of the file's own.
    pub filename: Option<String>,
    /// Where the id stands within the part: `file.file_id`.
    pub field: &'static str,
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Matches the result to the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// JSON text of a function's arguments, or the free text of a custom tool.
    pub arguments: String,
    /// Whether it is a custom tool, whose input is free text.
    pub custom: bool,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    /// A function with JSON arguments.
    Function {
        /// Name.
        name: String,
        /// What it does.
        description: Option<String>,
        /// JSON Schema of the arguments.
        parameters: Option<Value>,
        /// Whether the arguments are forced to match the schema.
        strict: Option<bool>,
        /// Whether the tools up to this one may be kept in the provider's cache, and for how long.
        cache: Option<CacheLife>,
    },
    /// A tool with free-text input, perhaps under a grammar.
    Custom {
        /// Name.
        name: String,
        /// What it does.
        description: Option<String>,
        /// The format object as the caller wrote it.
        format: Option<Value>,
    },
    /// A tool that only the caller's own format has, and that the caller runs.
    Foreign {
        /// Name.
        name: String,
        /// Its type there.
        kind: String,
        /// The whole of it.
        value: Value,
    },
}

impl Tool {
    /// Name.
    pub fn name(&self) -> &str {
        match self {
            Tool::Function { name, .. } | Tool::Custom { name, .. } | Tool::Foreign { name, .. } => name,
        }
    }
}

/// Which tool is called.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No tool.
    None,
    /// Some tool.
    Required,
    /// This tool.
    Named(String),
    /// One of these; `required` says whether one must be called.
    Allowed {
        /// Whether one must be called.
        required: bool,
        /// Names.
        names: Vec<String>,
    },
}

/// The shape of the answer.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum ResponseFormat {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// Name of the schema.
        name: String,
        /// What it is for.
        description: Option<String>,
        /// JSON Schema.
        schema: Value,
        /// Whether the model is forced.
        strict: Option<bool>,
    },
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateResponse {
    /// Id of the answer.
    pub id: String,
    /// Seconds since the epoch.
    pub created: i64,
    /// The model that answered.
    pub model: String,
    /// One for each of `n`.
    pub choices: Vec<Choice>,
    /// What it consumed, when the provider said so.
    pub usage: Option<Usage>,
    /// Fields of the provider's format that have no common meaning.
    pub extra: Map<String, Value>,
}

/// One of the answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Position, from 0.
    pub index: u32,
    /// Text, refusals and reasoning in order.
    pub parts: Vec<Part>,
    /// Calls that the model asks for.
    pub tool_calls: Vec<ToolCall>,
    /// Why the answer ended.
    pub finish: FinishReason,
    /// The text that ended it, with `FinishReason::StopSequence`.
    pub stop_sequence: Option<String>,
    /// Token probabilities in the OpenAI shape, when they were asked for.
    pub logprobs: Option<Value>,
    /// Fields of the message (such as `audio` or `annotations`) that have no common meaning.
    pub extra: Map<String, Value>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// By itself, or at a stop text that the provider does not name.
    Stop,
    /// At a stop text.
    StopSequence,
    /// At the cap on tokens.
    Length,
    /// The context is full.
    ContextFull,
    /// To have tools called.
    ToolCalls,
    /// Cut by a content filter.
    ContentFilter,
}
