//! Request and response schemas for the OpenAPI document. `tollgate_formats::anthropic_messages`
//! validates, splices, relays or rewrites the bytes and defines the rules.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// Request body of `POST /v1/messages`.
#[derive(Serialize, ToSchema)]
pub struct CreateMessage {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Maximum number of output tokens, including reasoning tokens. Values above the output limit
    /// of the model fail with status 422.
    #[schema(minimum = 0)]
    max_tokens: u64,
    /// Messages of the conversation, oldest first.
    #[schema(min_items = 1)]
    messages: Vec<InputMessage>,
    /// System instructions: a string, or an array of `text` blocks.
    system: Option<Value>,
    /// If true, the response is a stream of server-sent events.
    stream: Option<bool>,
    /// Sequences at which generation stops.
    stop_sequences: Option<Vec<String>>,
    /// Tools that the model may call, with `name`, `input_schema`, `description` and `strict`.
    tools: Option<Vec<Value>>,
    /// Tool selection: `type` is `auto`, `any`, `tool` (with `name`) or `none`;
    /// `disable_parallel_tool_use` limits the model to one call.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// Reasoning: `type` is `enabled` (with `budget_tokens`, at least 1,024 and less than
    /// `max_tokens`), `disabled`, `adaptive` or `between_tools`; `display` is `summarized` or
    /// `omitted`.
    #[schema(value_type = Option<Object>)]
    thinking: Option<Value>,
    /// Output settings: `effort` is `low`, `medium`, `high`, `xhigh` or `max`; `format` is
    /// `{"type": "json_schema", "schema": …}`.
    #[schema(value_type = Option<Object>)]
    output_config: Option<Value>,
    /// Alias of `output_config.format` from the structured-outputs beta. Only one of the two is
    /// allowed.
    #[schema(value_type = Option<Object>)]
    output_format: Option<Value>,
    /// Output format in the shape of chat completions. Cannot be combined with
    /// `output_config.format`.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// `user_id` identifies the end user, for the provider's abuse monitoring.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Sampling temperature. Higher values make the output more random. Like `top_p` and `top_k`,
    /// not allowed with `anthropic-version: 2026-10-21`.
    #[schema(minimum = 0, maximum = 1)]
    temperature: Option<f64>,
    /// Nucleus sampling: only tokens within this cumulative probability are sampled.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Top-k sampling: only this number of most likely tokens is considered.
    #[schema(minimum = 0)]
    top_k: Option<u64>,
}

/// Request body of `POST /v1/messages/count_tokens`: the fields of a message request, with
/// `max_tokens` optional.
#[derive(Serialize, ToSchema)]
pub struct CountMessageTokens {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Messages of the conversation, oldest first.
    #[schema(min_items = 1)]
    messages: Vec<InputMessage>,
    /// System instructions: a string, or an array of `text` blocks.
    system: Option<Value>,
    /// Tools that the model may call. Their definitions count as input.
    tools: Option<Vec<Value>>,
}

/// Number of input tokens of a request.
#[derive(Serialize, ToSchema)]
pub struct MessageTokens {
    /// Number of input tokens of the request, with instructions and tools.
    input_tokens: u64,
    /// Precision of the count, also in the header `x-tollgate-counting`: `exact` if the provider
    /// counted the tokens or its counting rules are known, otherwise `upper_bound`.
    pub(super) counting: &'static str,
}

impl MessageTokens {
    pub(super) fn new(counted: Counted) -> Self {
        Self {
            input_tokens: counted.tokens,
            counting: counted.how,
        }
    }
}

/// A message of the input conversation.
#[derive(Serialize, ToSchema)]
pub struct InputMessage {
    /// Author of the message: `user`, `assistant` or `system`.
    role: String,
    /// A string, or an array of content blocks. A user sends `text`, `image`, `document`,
    /// `search_result` and `tool_result`; an assistant `text`, `thinking`, `redacted_thinking` and
    /// `tool_use`; the system `text`.
    content: Value,
}

/// Response body of `POST /v1/messages`.
#[derive(Serialize, ToSchema)]
pub struct Message {
    /// Unique id of the message.
    id: String,
    /// Always `message`.
    r#type: String,
    /// Always `assistant`.
    role: String,
    /// Model name as sent in the request.
    model: String,
    /// Content blocks: `text`, `thinking`, `redacted_thinking`, `tool_use`.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    /// Reason why generation ended: `end_turn`, `max_tokens`, `stop_sequence`, `tool_use`,
    /// `refusal` or `model_context_window_exceeded`.
    stop_reason: Option<String>,
    /// Matched stop sequence, if `stop_reason` is `stop_sequence`.
    stop_sequence: Option<String>,
    /// Token usage and cost of the request.
    usage: MessageUsage,
}

/// Token usage and cost of a request.
#[derive(Serialize, ToSchema)]
pub struct MessageUsage {
    /// Number of input tokens that are neither read from nor written to the provider's cache.
    input_tokens: u64,
    /// Number of input tokens that were written to the provider's cache.
    cache_creation_input_tokens: Option<u64>,
    /// Number of input tokens that were read from the provider's cache.
    cache_read_input_tokens: Option<u64>,
    /// Number of output tokens, including reasoning tokens.
    output_tokens: u64,
    /// Breakdown of the output tokens: `thinking_tokens`.
    #[schema(value_type = Option<Object>)]
    output_tokens_details: Option<Value>,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// An event of a streamed message. The order is `message_start`; then `content_block_start`,
/// `content_block_delta` and `content_block_stop` for each block; then `message_delta` with the
/// stop reason, the usage and the cost; then `message_stop`. `ping` and `error` may occur at any
/// time.
#[derive(Serialize, ToSchema)]
pub struct MessageStreamEvent {
    /// Event type, such as `content_block_delta`.
    r#type: String,
    /// Index of the content block.
    index: Option<u32>,
    /// New content of the block, or the changed message fields in `message_delta`.
    #[schema(value_type = Option<Object>)]
    delta: Option<Value>,
    /// Token usage and cost, only in `message_delta`.
    usage: Option<MessageUsage>,
}

/// Body of every error response of the messages and message batches endpoints.
#[derive(Serialize, ToSchema)]
pub struct MessageErrorBody {
    /// Always `error`.
    r#type: String,
    /// Type, message, code and parameter of the error.
    error: MessageError,
    /// Id of the request, for support.
    request_id: String,
}

/// Type, code and message of an error.
#[derive(Serialize, ToSchema)]
pub struct MessageError {
    /// Error type, such as `invalid_request_error` or `rate_limit_error`.
    r#type: String,
    /// Human-readable message: the problem and how to solve it.
    message: String,
    /// Error code, such as `invalid_parameter`. docs/errors has a page for each code.
    code: String,
    /// Path of the invalid parameter, if there is one.
    param: Option<String>,
}
