//! Request and response schemas for the OpenAPI document. `tollgate_formats::openai_completions`
//! validates, splices and relays the bytes and defines the rules.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::chat_completions::wire::{ChatUsage, ResponseFormat, StreamOptions};

/// Request body of `POST /v1/completions`.
#[derive(Serialize, ToSchema)]
pub struct CreateCompletion {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Text to continue: a string, an array of strings, an array of token ids, or an array of token
    /// arrays. Every model accepts one string; support for the other forms depends on the provider.
    prompt: Value,
    /// Maximum number of tokens per completion. Default: 16. Values above the output limit of the
    /// model fail with status 422.
    #[schema(minimum = 0)]
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
    /// Number of completions to return for each prompt. Default: 1.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u32>,
    /// Number of completions to generate for each prompt; the best `n` are returned. Must be at
    /// least `n`, which is the default. All generated completions are charged. Values above 1 are
    /// not allowed with `stream: true`.
    #[schema(minimum = 0, maximum = 20)]
    best_of: Option<u32>,
    /// Sequences at which generation stops: a string, or an array of up to four strings.
    stop: Option<Value>,
    /// Text that comes after the inserted completion.
    suffix: Option<String>,
    /// If true, each completion starts with its prompt.
    echo: Option<bool>,
    /// Number of most likely alternatives to return for each token, with log probabilities.
    #[schema(minimum = 0, maximum = 5)]
    logprobs: Option<u32>,
    /// Seed for best-effort deterministic sampling.
    seed: Option<i64>,
    /// Penalizes tokens in proportion to their frequency so far.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Penalizes tokens that have appeared at least once so far.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Map of token id to a bias from −100 to 100.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Output format: `text`, `json_object` or `json_schema`. JSON cannot be combined with several
    /// prompts, `suffix`, `best_of`, `echo` or `logprobs`.
    response_format: Option<ResponseFormat>,
    /// Identifier of the end user, for the provider's abuse monitoring.
    user: Option<String>,
}

/// Response body of `POST /v1/completions`.
#[derive(Serialize, ToSchema)]
pub struct Completion {
    /// Unique id of the completion.
    id: String,
    /// Always `text_completion`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// Generated completions: `n` for each prompt.
    choices: Vec<CompletionChoice>,
    /// Token usage and cost of the request.
    usage: Option<ChatUsage>,
}

/// One generated completion.
#[derive(Serialize, ToSchema)]
pub struct CompletionChoice {
    /// Text that the model generated.
    text: String,
    /// Index in `choices`, starting at 0.
    index: u32,
    /// Log probabilities of the tokens, if `logprobs` was set.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
    /// Reason why generation ended: `stop`, `length` or `content_filter`. In a stream, only the
    /// last chunk of each choice has it.
    finish_reason: Option<String>,
}

/// A chunk of a streamed completion. The stream ends with `data: [DONE]`.
#[derive(Serialize, ToSchema)]
pub struct CompletionChunk {
    /// Id of the completion, the same in all chunks.
    id: String,
    /// Always `text_completion`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created: i64,
    /// Model name as sent in the request.
    model: String,
    /// New text of each choice. Empty in the chunk that reports usage.
    choices: Vec<CompletionChoice>,
    /// Usage and cost, only in the last chunk and if `stream_options.include_usage` is true.
    usage: Option<ChatUsage>,
}
