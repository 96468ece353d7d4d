//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced and relayed by
//! `tollgate_formats::openai_completions`, which is where the rules are.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::chat_completions::wire::{ChatUsage, ResponseFormat, StreamOptions};

/// A completions request.
#[derive(Serialize, ToSchema)]
pub struct CreateCompletion {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// The text to continue, or a list of such texts, a list of tokens, or a list of lists of tokens. Every model takes
    /// one text; what else a model takes depends on its provider.
    prompt: Value,
    /// Most tokens of each answer; 16 when it is not said. 422 when the model produces fewer.
    #[schema(minimum = 0)]
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
    /// How many answers to each prompt.
    #[schema(minimum = 1, maximum = 128)]
    n: Option<u32>,
    /// How many answers are made for each prompt, of which the best `n` are given: at least `n`. All are charged. Not
    /// with `stream: true`.
    #[schema(minimum = 0, maximum = 20)]
    best_of: Option<u32>,
    /// Up to four texts that end the answer.
    stop: Option<Value>,
    /// What follows the answer.
    suffix: Option<String>,
    /// Whether answers begin with their prompt.
    echo: Option<bool>,
    /// Token probabilities, with so many alternatives.
    #[schema(minimum = 0, maximum = 5)]
    logprobs: Option<u32>,
    /// Best-effort determinism.
    seed: Option<i64>,
    /// Lowers the chance of what was said often.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Lowers the chance of what was said at all.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Token id → bias of −100 to 100.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// The shape of the answer: `text`, `json_object` or `json_schema`. Not with more than one prompt, `suffix`,
    /// `best_of`, `echo` or `logprobs`.
    response_format: Option<ResponseFormat>,
    /// A name of the end user, for the provider's abuse checks.
    user: Option<String>,
}

/// A whole answer.
#[derive(Serialize, ToSchema)]
pub struct Completion {
    /// Id of the answer.
    id: String,
    /// Always `text_completion`.
    object: String,
    /// Seconds since the epoch.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// `n` for each prompt.
    choices: Vec<CompletionChoice>,
    /// What it consumed and cost.
    usage: Option<ChatUsage>,
}

/// One of the answers.
#[derive(Serialize, ToSchema)]
pub struct CompletionChoice {
    /// The text.
    text: String,
    /// Position, from 0.
    index: u32,
    /// Token probabilities, when they were asked for.
    #[schema(value_type = Option<Object>)]
    logprobs: Option<Value>,
    /// `stop`, `length` or `content_filter`; in a stream, in the last piece of an answer.
    finish_reason: Option<String>,
}

/// A piece of a streamed answer; the stream ends with `data: [DONE]`.
#[derive(Serialize, ToSchema)]
pub struct CompletionChunk {
    /// The same in all pieces.
    id: String,
    /// Always `text_completion`.
    object: String,
    /// Seconds since the epoch.
    created: i64,
    /// The model as the request named it.
    model: String,
    /// What is new; empty in the piece that reports usage.
    choices: Vec<CompletionChoice>,
    /// In the last piece, when `stream_options.include_usage` is set.
    usage: Option<ChatUsage>,
}
