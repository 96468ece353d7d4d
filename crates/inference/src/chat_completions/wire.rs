//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced and relayed by
//! `tollgate_formats::openai_chat`, which is where the rules are.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// A chat completion request.
#[derive(Serialize, ToSchema)]
pub struct CreateChatCompletion {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// The conversation, oldest first. At least one message.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// Most tokens of each answer, reasoning included. 422 when the model produces fewer.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u64>,
    /// The older name of `max_completion_tokens`.
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// Whether the answer comes piece by piece, as server-sent events.
    stream: Option<bool>,
    /// Only with `stream: true`.
    stream_options: Option<StreamOptions>,
    /// How varied the answer is.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// The share of likely tokens that is sampled from.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// How many answers.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u32>,
    /// Up to four texts that end the answer.
    stop: Option<Value>,
    /// Lowers the chance of what was said often.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Lowers the chance of what was said at all.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Token id → bias of −100 to 100.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Whether token probabilities are reported.
    logprobs: Option<bool>,
    /// Alternatives for each token; needs `logprobs: true`.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// Best-effort determinism.
    seed: Option<i64>,
    /// The shape of the answer: `text`, `json_object` or `json_schema`.
    response_format: Option<ResponseFormat>,
    /// Tools that the model may call.
    #[schema(max_items = 128)]
    tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or an object that names tools.
    tool_choice: Option<Value>,
    /// Whether several tools may be called at once.
    parallel_tool_calls: Option<bool>,
    /// How much to reason: `none`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    reasoning_effort: Option<String>,
    /// How long the answer is: `low`, `medium`, `high`.
    verbosity: Option<String>,
    /// A name of the end user, for the provider's abuse checks.
    user: Option<String>,
    /// At most 16 pairs of texts.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// What a stream tells.
#[derive(Serialize, ToSchema)]
pub struct StreamOptions {
    /// Whether the stream reports usage, and its cost, at its end.
    include_usage: Option<bool>,
    /// Accepted and ignored.
    include_obfuscation: Option<bool>,
}

/// A message of the conversation.
#[derive(Serialize, ToSchema)]
pub struct ChatMessage {
    /// `developer`, `system`, `user`, `assistant` or `tool`.
    role: String,
    /// A text, or a list of parts: `text`, `image_url`, `input_audio`, `file`, `refusal`.
    content: Option<Value>,
    /// Name of the speaker.
    name: Option<String>,
    /// The calls that an assistant made.
    tool_calls: Option<Vec<ToolCall>>,
    /// The call that a tool's message answers.
    tool_call_id: Option<String>,
}

/// The shape of the answer.
#[derive(Serialize, ToSchema)]
pub struct ResponseFormat {
    /// `text`, `json_object` or `json_schema`.
    r#type: String,
    /// With `json_schema`: `name` (at most 64 characters), `schema`, `strict`, `description`.
    #[schema(value_type = Option<Object>)]
    json_schema: Option<Value>,
}

/// A call of a tool.
#[derive(Serialize, ToSchema)]
pub struct ToolCall {
    /// Matches the result to the call.
    id: String,
    /// `function` or `custom`.
    r#type: String,
    /// Name and arguments (JSON in a text).
    function: Option<ToolFunction>,
}

/// What is called.
#[derive(Serialize, ToSchema)]
pub struct ToolFunction {
    /// Name.
    name: String,
    /// JSON in a text.
    arguments: String,
}

/// A whole answer.
#[derive(Serialize, ToSchema)]
pub struct ChatCompletion {
    /// Id of the answer.
    id: String,
    /// Always `chat.completion`.
    object: String,
    /// Seconds since the epoch.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// One for each of `n`.
    choices: Vec<ChatChoice>,
    /// What it consumed and cost.
    usage: Option<ChatUsage>,
}

/// One of the answers.
#[derive(Serialize, ToSchema)]
pub struct ChatChoice {
    /// Position, from 0.
    index: u32,
    /// What the model says.
    message: ChatAnswer,
    /// `stop`, `length`, `tool_calls` or `content_filter`.
    finish_reason: String,
    /// Token probabilities, when they were asked for.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
}

/// What the model says.
#[derive(Serialize, ToSchema)]
pub struct ChatAnswer {
    /// Always `assistant`.
    role: String,
    /// The text.
    content: Option<String>,
    /// Why the model refuses, when it does.
    refusal: Option<String>,
    /// What the model thought, where it shows it.
    reasoning_content: Option<String>,
    /// Tools that it wants called.
    tool_calls: Option<Vec<ToolCall>>,
}

/// What an answer consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct ChatUsage {
    /// Tokens that went in, cached ones included.
    prompt_tokens: u64,
    /// Tokens that came out, reasoning included.
    completion_tokens: u64,
    /// Both.
    total_tokens: u64,
    /// What the call cost, in credits as a decimal string.
    cost: String,
    /// `cached_tokens`, `cache_write_tokens`, `audio_tokens`.
    #[schema(value_type = Option<Object>)]
    prompt_tokens_details: Option<Value>,
    /// `reasoning_tokens`, `audio_tokens`.
    #[schema(value_type = Option<Object>)]
    completion_tokens_details: Option<Value>,
}

/// A piece of a streamed answer; the stream ends with `data: [DONE]`.
#[derive(Serialize, ToSchema)]
pub struct ChatCompletionChunk {
    /// The same in all pieces.
    id: String,
    /// Always `chat.completion.chunk`.
    object: String,
    /// Seconds since the epoch.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// What is new; empty in the piece that reports usage.
    choices: Vec<ChatChunkChoice>,
    /// In the last piece, when `stream_options.include_usage` is set.
    usage: Option<ChatUsage>,
}

/// What is new in one of the answers.
#[derive(Serialize, ToSchema)]
pub struct ChatChunkChoice {
    /// Which of the answers.
    index: u32,
    /// More of `role`, `content`, `refusal`, `reasoning_content`, `tool_calls`.
    #[schema(value_type = Object)]
    delta: Value,
    /// In the last piece of an answer.
    finish_reason: Option<String>,
}
