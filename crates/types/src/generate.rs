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
    /// −2 to 2.
    pub frequency_penalty: Option<f64>,
    /// −2 to 2.
    pub presence_penalty: Option<f64>,
    /// Best-effort determinism.
    pub seed: Option<i64>,
}

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions; `developer` and `system` are the same.
    System,
    /// The person or program that asks.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub parts: Vec<Part>,
    /// Calls that the model made in this turn.
    pub tool_calls: Vec<ToolCall>,
    /// The call that this turn answers (`Role::Tool` only).
    pub tool_call_id: Option<String>,
    /// Name of the speaker.
    pub name: Option<String>,
    /// Fields of the caller's format that have no common meaning.
    pub extra: Map<String, Value>,
}

/// A piece of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A refusal by the model.
    Refusal(String),
    /// Reasoning that the model showed.
    Reasoning(String),
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
    /// A document, by id or as a data URL.
    File {
        /// Id of an uploaded file.
        file_id: Option<String>,
        /// Data URL.
        data: Option<String>,
        /// Name shown to the model.
        filename: Option<String>,
    },
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
    /// Token probabilities in the OpenAI shape, when they were asked for.
    pub logprobs: Option<Value>,
    /// Fields of the message (such as `audio` or `annotations`) that have no common meaning.
    pub extra: Map<String, Value>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// By itself, or at a stop text.
    Stop,
    /// At the cap on tokens, or the context is full.
    Length,
    /// To have tools called.
    ToolCalls,
    /// Cut by a content filter.
    ContentFilter,
}
