//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced, relayed or
//! rewritten by `tollgate_formats::anthropic_messages`, which is where the rules are.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// A request for a message.
#[derive(Serialize, ToSchema)]
pub struct CreateMessage {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// Most tokens of the answer, reasoning included. 422 when the model produces fewer.
    #[schema(minimum = 0)]
    max_tokens: u64,
    /// The conversation, oldest first. At least one message.
    #[schema(min_items = 1)]
    messages: Vec<InputMessage>,
    /// Instructions: a text, or a list of `text` blocks.
    system: Option<Value>,
    /// Whether the answer comes piece by piece, as server-sent events.
    stream: Option<bool>,
    /// Texts that end the answer.
    stop_sequences: Option<Vec<String>>,
    /// Tools that the model may call: `name`, `input_schema`, `description`, `strict`.
    tools: Option<Vec<Value>>,
    /// `type`: `auto`, `any`, `tool` (with `name`) or `none`; `disable_parallel_tool_use`.
    #[schema(value_type = Option<Object>)]
    tool_choice: Option<Value>,
    /// `type`: `enabled` (with `budget_tokens`, at least 1,024 and less than `max_tokens`), `disabled`, `adaptive` or
    /// `between_tools`; `display`: `summarized` or `omitted`.
    #[schema(value_type = Option<Object>)]
    thinking: Option<Value>,
    /// `effort`: `low`, `medium`, `high`, `xhigh` or `max`; `format`: `{"type": "json_schema", "schema": …}`.
    #[schema(value_type = Option<Object>)]
    output_config: Option<Value>,
    /// The shape of the answer as in chat completions, instead of `output_config.format`.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
    /// `user_id` names the end user, for the provider's abuse checks.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// How varied the answer is. Not with `anthropic-version: 2026-10-21`, like the two below.
    #[schema(minimum = 0, maximum = 1)]
    temperature: Option<f64>,
    /// The share of likely tokens that is sampled from.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// So many of the likeliest tokens are sampled from.
    #[schema(minimum = 0)]
    top_k: Option<u64>,
}

/// A request whose tokens are counted: as for a message, `max_tokens` may be missing.
#[derive(Serialize, ToSchema)]
pub struct CountMessageTokens {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// The conversation, oldest first. At least one message.
    #[schema(min_items = 1)]
    messages: Vec<InputMessage>,
    /// Instructions: a text, or a list of `text` blocks.
    system: Option<Value>,
    /// Tools that the model may call.
    tools: Option<Vec<Value>>,
}

/// The tokens of a request.
#[derive(Serialize, ToSchema)]
pub struct MessageTokens {
    /// How many.
    input_tokens: u64,
    /// `exact` where the model's provider has counted or it is known how it counts, else `upper_bound`: there are never more.
    /// The header `x-tollgate-counting` says the same.
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

/// A message of the conversation.
#[derive(Serialize, ToSchema)]
pub struct InputMessage {
    /// `user`, `assistant` or `system`.
    role: String,
    /// A text, or a list of blocks: `text`, `image`, `document`, `search_result`, `tool_result` of the user; `text`,
    /// `thinking`, `redacted_thinking`, `tool_use` of the assistant; `text` of the system.
    content: Value,
}

/// A whole answer.
#[derive(Serialize, ToSchema)]
pub struct Message {
    /// Id of the answer.
    id: String,
    /// Always `message`.
    r#type: String,
    /// Always `assistant`.
    role: String,
    /// The model as the request named it.
    model: String,
    /// Blocks: `text`, `thinking`, `redacted_thinking`, `tool_use`.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
    /// `end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `refusal` or `model_context_window_exceeded`.
    stop_reason: Option<String>,
    /// The text that ended the answer, with `stop_sequence`.
    stop_sequence: Option<String>,
    /// What it consumed and cost.
    usage: MessageUsage,
}

/// What an answer consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct MessageUsage {
    /// Tokens that went in and were read afresh.
    input_tokens: u64,
    /// Tokens that went in and were written into the provider's cache.
    cache_creation_input_tokens: Option<u64>,
    /// Tokens that went in and were read from the provider's cache.
    cache_read_input_tokens: Option<u64>,
    /// Tokens that came out, reasoning included.
    output_tokens: u64,
    /// `thinking_tokens`.
    #[schema(value_type = Option<Object>)]
    output_tokens_details: Option<Value>,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}

/// A piece of a streamed answer: `message_start`, then `content_block_start`, `content_block_delta` and
/// `content_block_stop` of each block, `message_delta` with the reason, the usage and the cost, `message_stop`; `ping`
/// and `error` anywhere.
#[derive(Serialize, ToSchema)]
pub struct MessageStreamEvent {
    /// The name of the event.
    r#type: String,
    /// Which block.
    index: Option<u32>,
    /// What is new.
    #[schema(value_type = Option<Object>)]
    delta: Option<Value>,
    /// In `message_delta`.
    usage: Option<MessageUsage>,
}

/// The body of every failure on this path.
#[derive(Serialize, ToSchema)]
pub struct MessageErrorBody {
    /// Always `error`.
    r#type: String,
    /// What went wrong.
    error: MessageError,
    /// Id of the request.
    request_id: String,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
pub struct MessageError {
    /// The family of the failure, such as `invalid_request_error` or `rate_limit_error`.
    r#type: String,
    /// For people: what happened and what to do.
    message: String,
    /// The failure, such as `invalid_parameter`. docs/errors has a page for each.
    code: String,
    /// Path of the parameter at fault.
    param: Option<String>,
}
