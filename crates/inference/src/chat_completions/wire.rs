//! Request and response schemas for the OpenAPI document. `tollgate_formats::openai_chat`
//! validates, splices and relays the bytes and defines the rules.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

/// Request body of `POST /v1/chat/completions`.
#[derive(Serialize, ToSchema)]
pub struct CreateChatCompletion {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Messages of the conversation, oldest first.
    #[schema(min_items = 1)]
    messages: Vec<ChatMessage>,
    /// Maximum number of tokens per choice, including reasoning tokens. Values above the output
    /// limit of the model fail with status 422.
    #[schema(minimum = 1)]
    max_completion_tokens: Option<u64>,
    /// Deprecated name of `max_completion_tokens`.
    #[schema(minimum = 1)]
    max_tokens: Option<u64>,
    /// If true, the response is a stream of server-sent events.
    stream: Option<bool>,
    /// Options of the stream. Allowed only with `stream: true`.
    stream_options: Option<StreamOptions>,
    /// Sampling temperature. Higher values make the output more random.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// Nucleus sampling: only tokens within this cumulative probability are sampled.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Number of choices to generate; all are billed. Default: 1.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u32>,
    /// Sequences at which generation stops: a string, or an array of up to four strings.
    stop: Option<Value>,
    /// Penalizes tokens in proportion to their frequency so far.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Penalizes tokens that have appeared at least once so far.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Map of token id to a bias from −100 to 100.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// If true, returns the log probabilities of the output tokens.
    logprobs: Option<bool>,
    /// Number of most likely alternatives to return for each token. Requires `logprobs: true`.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// Seed for best-effort deterministic sampling.
    seed: Option<i64>,
    /// Output format: `text`, `json_object` or `json_schema`.
    response_format: Option<ResponseFormat>,
    /// Tools that the model may call, of type `function` or `custom`.
    #[schema(max_items = 128)]
    tools: Option<Vec<Value>>,
    /// Tool selection: `none`, `auto`, `required`, or an object that names a tool or the allowed
    /// tools.
    tool_choice: Option<Value>,
    /// Whether the model may call several tools in one turn. Default: true.
    parallel_tool_calls: Option<bool>,
    /// Reasoning effort: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
    reasoning_effort: Option<String>,
    /// Length of the response: `low`, `medium` or `high`.
    verbosity: Option<String>,
    /// Identifier of the end user, for the provider's abuse monitoring.
    user: Option<String>,
    /// At most 16 key-value pairs of strings, sent to the provider if it accepts them. Keys have at
    /// most 64 characters, values at most 512.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// Options of a streamed response.
#[derive(Serialize, ToSchema)]
pub struct StreamOptions {
    /// If true, the last chunk reports the token usage and the cost of the request.
    include_usage: Option<bool>,
    /// If true, the provider adds random characters to each chunk, in the field `obfuscation`, to
    /// make the chunks similar in size. Ignored by providers that do not support it.
    include_obfuscation: Option<bool>,
}

/// A message of the conversation.
#[derive(Serialize, ToSchema)]
pub struct ChatMessage {
    /// Author of the message: `developer`, `system`, `user`, `assistant` or `tool`.
    role: String,
    /// A string, or an array of content parts: `text`, `image_url`, `input_audio`, `file`,
    /// `refusal`.
    content: Option<Value>,
    /// Name that distinguishes participants with the same role.
    name: Option<String>,
    /// Tool calls of an `assistant` message.
    tool_calls: Option<Vec<ToolCall>>,
    /// Id of the tool call that a `tool` message answers.
    tool_call_id: Option<String>,
}

/// Output format of the response.
#[derive(Serialize, ToSchema)]
pub struct ResponseFormat {
    /// Type of the format: `text`, `json_object` or `json_schema`.
    r#type: String,
    /// Only with type `json_schema`: `name` (at most 64 characters), `schema`, `strict` and
    /// `description`.
    #[schema(value_type = Option<Object>)]
    json_schema: Option<Value>,
}

/// A tool call of the model.
#[derive(Serialize, ToSchema)]
pub struct ToolCall {
    /// Id of the call. The `tool` message with the result repeats it in `tool_call_id`.
    id: String,
    /// Type of the tool: `function` or `custom`.
    r#type: String,
    /// Function to call, if the type is `function`.
    function: Option<ToolFunction>,
}

/// Name and arguments of a function call.
#[derive(Serialize, ToSchema)]
pub struct ToolFunction {
    /// Name of the function to call.
    name: String,
    /// Arguments as a JSON string. The model may produce invalid JSON.
    arguments: String,
}

/// Response body of `POST /v1/chat/completions`.
#[derive(Serialize, ToSchema)]
pub struct ChatCompletion {
    /// Unique id of the chat completion.
    id: String,
    /// Always `chat.completion`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// Generated choices, as many as `n`.
    choices: Vec<ChatChoice>,
    /// Token usage and cost of the request.
    usage: Option<ChatUsage>,
    /// URLs of the citations of a report: `[1]` refers to the first one. Only of research models.
    citations: Option<Vec<String>>,
    /// Sources of a report: `title`, `url`, `date`, `snippet` and `source`. Only of research
    /// models.
    #[schema(value_type = Option<Vec<Object>>)]
    search_results: Option<Vec<Value>>,
}

/// One generated choice.
#[derive(Serialize, ToSchema)]
pub struct ChatChoice {
    /// Index in `choices`, starting at 0.
    index: u32,
    /// Message that the model generated.
    message: ChatAnswer,
    /// Reason why generation ended: `stop`, `length`, `tool_calls` or `content_filter`.
    finish_reason: String,
    /// Log probabilities of the tokens, if `logprobs` was true.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
}

/// Message of a choice.
#[derive(Serialize, ToSchema)]
pub struct ChatAnswer {
    /// Always `assistant`.
    role: String,
    /// Text of the message; null if the message has no text, such as one with only tool calls.
    content: Option<String>,
    /// Refusal message, if the model refuses.
    refusal: Option<String>,
    /// Reasoning text, if the model exposes it.
    reasoning_content: Option<String>,
    /// Tool calls that the model requests.
    tool_calls: Option<Vec<ToolCall>>,
    /// Places of the citation marks of a report, in characters: type `url_citation`, with
    /// `start_index`, `end_index`, `url` and `title`.
    #[schema(value_type = Option<Vec<Object>>)]
    annotations: Option<Vec<Value>>,
}

/// Token usage and cost of a request.
#[derive(Serialize, ToSchema)]
pub struct ChatUsage {
    /// Number of input tokens, including cached ones.
    prompt_tokens: u64,
    /// Number of output tokens, including reasoning tokens.
    completion_tokens: u64,
    /// Sum of input and output tokens.
    total_tokens: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
    /// Breakdown of the input tokens: `cached_tokens`, `cache_write_tokens`, `audio_tokens`.
    #[schema(value_type = Option<Object>)]
    prompt_tokens_details: Option<Value>,
    /// Breakdown of the output tokens: `reasoning_tokens`, `audio_tokens`.
    #[schema(value_type = Option<Object>)]
    completion_tokens_details: Option<Value>,
    /// Number of charged search queries. Only of research models.
    num_search_queries: Option<u64>,
}

/// A chunk of a streamed chat completion. The stream ends with `data: [DONE]`.
#[derive(Serialize, ToSchema)]
pub struct ChatCompletionChunk {
    /// Id of the chat completion, the same in all chunks.
    id: String,
    /// Always `chat.completion.chunk`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// New content of each choice. Empty in the chunk that reports usage.
    choices: Vec<ChatChunkChoice>,
    /// Usage and cost, only in the last chunk and if `stream_options.include_usage` is true.
    usage: Option<ChatUsage>,
    /// `info` for the progress of a report, `message` for its text, and `end_of_stream` for the
    /// last chunk. Only of research models.
    r#type: Option<String>,
    /// `PENDING`, or `COMPLETED` in the last chunk. Only of research models.
    status: Option<String>,
    /// URLs of the citations of a report, in the last chunk.
    citations: Option<Vec<String>>,
    /// Sources of a report: new ones in chunks of type `info`, all in the last chunk.
    #[schema(value_type = Option<Vec<Object>>)]
    search_results: Option<Vec<Value>>,
}

/// New content of one choice.
#[derive(Serialize, ToSchema)]
pub struct ChatChunkChoice {
    /// Index of the choice, starting at 0.
    index: u32,
    /// Additions to `role`, `content`, `refusal`, `reasoning_content` or `tool_calls`.
    #[schema(value_type = Object)]
    delta: Value,
    /// Reason why generation ended, only in the last chunk of each choice.
    finish_reason: Option<String>,
}
