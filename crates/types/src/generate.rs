//! Common request and response of text generation. The formats crate decodes every text format into
//! these types and encodes it from them; `extra` contains the fields that they do not represent.

use serde_json::{Map, Value};

use crate::usage::Usage;

/// A request to generate text.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateRequest {
    /// Model id as written by the caller.
    pub model: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Maximum number of output tokens, including reasoning.
    pub max_tokens: Option<u64>,
    /// Number of choices to generate.
    pub n: u32,
    /// Whether the response is streamed.
    pub stream: bool,
    /// Whether the stream reports usage at its end.
    pub include_usage: bool,
    /// Stop sequences: generation ends before any of these texts.
    pub stop: Vec<String>,
    /// Sampling parameters of the request.
    pub sampling: Sampling,
    /// Tools that the model may call.
    pub tools: Vec<Tool>,
    /// Constraint on the tools that the model may or must call.
    pub tool_choice: ToolChoice,
    /// Whether the model may call several tools in one turn. `None` if the caller did not set it.
    pub parallel_tool_calls: Option<bool>,
    /// Required format of the response.
    pub response_format: ResponseFormat,
    /// Reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    pub reasoning_effort: Option<String>,
    /// Reasoning mode, if the caller sets it separately from the effort.
    pub thinking: Option<Thinking>,
    /// Whether the response omits the reasoning text.
    pub hide_reasoning: bool,
    /// Id of the end user, for the provider's abuse checks.
    pub user: Option<String>,
    /// Number of alternatives to report per token; `Some(0)` reports the chosen token only.
    pub top_logprobs: Option<u32>,
    /// Fields of the request that this struct does not represent.
    pub extra: Map<String, Value>,
}

/// Sampling parameters; `None` means the model's default.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sampling {
    /// Sampling temperature, from 0 to 2.
    pub temperature: Option<f64>,
    /// Cumulative probability of the tokens to sample from (nucleus sampling), from 0 to 1.
    pub top_p: Option<f64>,
    /// Number of most probable tokens to sample from.
    pub top_k: Option<u64>,
    /// Penalty of tokens by their frequency so far, from −2 to 2.
    pub frequency_penalty: Option<f64>,
    /// Penalty of tokens that already occurred, from −2 to 2.
    pub presence_penalty: Option<f64>,
    /// Seed for best-effort determinism.
    pub seed: Option<i64>,
}

/// Reasoning mode of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Reasoning is disabled.
    Off,
    /// Reasoning with a maximum number of tokens.
    Budget(u64),
    /// The model decides when to reason.
    Adaptive,
    /// The model decides when to reason, including between tool calls.
    BetweenTools,
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Instructions. The callers' roles `developer` and `system` both map to this role.
    System,
    /// The end user or the calling program.
    #[default]
    User,
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Content of the message, in order.
    pub parts: Vec<Part>,
    /// Tool calls that the model made in this message.
    pub tool_calls: Vec<ToolCall>,
    /// Id of the tool call that this message answers (`Role::Tool` only).
    pub tool_call_id: Option<String>,
    /// Whether the tool failed (`Role::Tool` only).
    pub is_error: bool,
    /// Position of the message in the caller's body.
    pub place: Place,
    /// Name of the author.
    pub name: Option<String>,
    /// Fields of the message that this struct does not represent.
    pub extra: Map<String, Value>,
}

/// Position of a message in the caller's body, for the `param` of errors. All positions compare as
/// equal, so that the equality of messages ignores them.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Path of the message: `messages[2]`.
    pub path: String,
    /// Path of its content: `messages[2].content`.
    pub content: String,
    /// Index of its first part; `None` if the content is a single string.
    pub first: Option<usize>,
    /// Path of the first part, if the caller's body contains that part outside the list of the
    /// other parts.
    pub apart: Option<String>,
}

impl Place {
    /// Returns the path of the part with this index.
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

/// Part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    /// A refusal by the model.
    Refusal(String),
    /// Reasoning of the model.
    Reasoning(Reasoning),
    /// Image with its detail level.
    Image {
        /// http(s) or data URL.
        url: String,
        /// `auto`, `low`, `high` or `original`.
        detail: Option<String>,
    },
    /// Audio as base64 data, with its format.
    Audio {
        /// Base64-encoded audio.
        data: String,
        /// `wav` or `mp3`.
        format: String,
    },
    /// Document, as a data URL, a URL or text.
    File(File),
    /// Reference to a file that the caller uploaded. The gateway replaces the reference with the
    /// file's bytes, so that providers never receive the id.
    Stored(Stored),
    /// Cache breakpoint: the provider may cache the prompt up to this point, for this duration.
    CacheBreakpoint(CacheLife),
    /// Part that exists only in the caller's format.
    Foreign {
        /// Value of its `type` field.
        kind: String,
        /// The complete JSON value.
        value: Value,
    },
}

/// Reasoning of the model in one message.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Reasoning {
    /// Reasoning text; `None` if the provider hid it.
    pub text: Option<String>,
    /// Opaque data that the provider expects back in later requests.
    pub seal: Option<Seal>,
}

impl Reasoning {
    /// Creates reasoning with visible text and no opaque provider data.
    pub fn shown(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            seal: None,
        }
    }
}

/// Opaque data that a provider attaches to its reasoning and expects back in later requests. Only
/// that provider can use it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Seal {
    /// Provider that issued the data; empty if unknown.
    pub origin: String,
    /// The provider's data as text; empty if it attaches none.
    pub data: String,
}

/// Lifetime of an entry in the provider's prompt cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CacheLife {
    /// Five minutes, extended by each read.
    #[default]
    FiveMinutes,
    /// One hour, at a separate price.
    OneHour,
}

/// Document. At least one of `data`, `url` and `text` is set.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct File {
    /// Content as a data URL.
    pub data: Option<String>,
    /// http or https URL of the document.
    pub url: Option<String>,
    /// Content as plain text.
    pub text: Option<String>,
    /// File name shown to the model.
    pub filename: Option<String>,
}

/// Reference to a file that the caller uploaded.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// File id, as written by the caller.
    pub id: String,
    /// Whether the file is used as an image; otherwise it is used as a document.
    pub is_image: bool,
    /// Detail level of an image: `auto`, `low`, `high` or `original`.
    pub detail: Option<String>,
    /// File name shown to the model instead of the stored one.
    pub filename: Option<String>,
    /// Path of the id within the part: `file.file_id`.
    pub field: &'static str,
}

/// Tool call requested by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Id that links the tool's result to this call.
    pub id: String,
    /// Name of the called tool.
    pub name: String,
    /// JSON text of a function's arguments, or the text input of a custom tool.
    pub arguments: String,
    /// Whether this is a call of a custom tool, whose input is text.
    pub custom: bool,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    /// A function with JSON arguments.
    Function {
        name: String,
        /// Purpose of the function, shown to the model.
        description: Option<String>,
        /// JSON Schema of the arguments.
        parameters: Option<Value>,
        /// Whether the provider enforces the schema.
        strict: Option<bool>,
        /// Marks the end of a cacheable prefix of the tool list, with its cache lifetime.
        cache: Option<CacheLife>,
    },
    /// Tool with text input, optionally constrained by a grammar.
    Custom {
        name: String,
        /// Purpose of the tool, shown to the model.
        description: Option<String>,
        /// The `format` object, verbatim.
        format: Option<Value>,
    },
    /// Tool that exists only in the caller's format and that the caller executes.
    Foreign {
        name: String,
        /// Value of its `type` field.
        kind: String,
        /// The complete JSON value.
        value: Value,
    },
}

impl Tool {
    /// Returns the tool's name, which the model uses in calls.
    pub fn name(&self) -> &str {
        match self {
            Tool::Function { name, .. } | Tool::Custom { name, .. } | Tool::Foreign { name, .. } => name,
        }
    }
}

/// Constraint on the tools that the model may call.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum ToolChoice {
    /// The model decides whether to call a tool.
    #[default]
    Auto,
    /// The model calls no tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Named(String),
    /// The model may call only these tools.
    Allowed {
        /// Whether the model must call one of them.
        required: bool,
        /// Names of the allowed tools.
        names: Vec<String>,
    },
}

/// Required format of the response text.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum ResponseFormat {
    /// Any text, without a schema.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// Name of the schema.
        name: String,
        /// Purpose of the schema, shown to the model.
        description: Option<String>,
        /// The JSON Schema itself.
        schema: Value,
        /// Whether the provider enforces the schema.
        strict: Option<bool>,
    },
}

/// A complete (not streamed) response.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateResponse {
    /// Id of the response.
    pub id: String,
    /// Creation time in seconds since the Unix epoch.
    pub created: i64,
    /// Id of the model that responded.
    pub model: String,
    /// Generated choices; [`GenerateRequest::n`] is the requested number.
    pub choices: Vec<Choice>,
    /// Usage, if the provider reported it.
    pub usage: Option<Usage>,
    /// Fields of the response that this struct does not represent.
    pub extra: Map<String, Value>,
}

/// One generated response of several alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Index of the choice, from 0.
    pub index: u32,
    /// Text, refusals and reasoning, in order.
    pub parts: Vec<Part>,
    /// Tool calls requested by the model.
    pub tool_calls: Vec<ToolCall>,
    /// Reason why generation ended.
    pub finish: FinishReason,
    /// The stop sequence that ended generation, with `FinishReason::StopSequence`.
    pub stop_sequence: Option<String>,
    /// Token probabilities in the OpenAI format, if requested.
    pub logprobs: Option<Value>,
    /// Fields of the message that this struct does not represent, such as `audio` or `annotations`.
    pub extra: Map<String, Value>,
}

/// Reason why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its response, or reached a stop sequence that the provider does not report.
    Stop,
    /// The model generated a stop sequence, which [`Choice::stop_sequence`] contains.
    StopSequence,
    /// The limit of output tokens was reached.
    Length,
    /// The context window was filled before the end.
    ContextFull,
    /// The model requested tool calls.
    ToolCalls,
    /// A content filter ended the response.
    ContentFilter,
}
