//! Request and response schemas for the OpenAPI document. `tollgate_formats::openai_responses`
//! validates, splices, relays or rewrites the bytes and defines the rules.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// Request body of `POST /v1/responses`.
#[derive(Serialize, ToSchema)]
pub struct CreateResponse {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Input: a string from the user, or an array of items, oldest first. Item types: `message`,
    /// `function_call`, `function_call_output`, `custom_tool_call`, `custom_tool_call_output`,
    /// `reasoning`, `compaction`, and `item_reference` to an item of a stored response. At least
    /// one item is required without `previous_response_id`.
    input: Value,
    /// Id of a stored response, or of the latest response of the session. Its conversation precedes
    /// the input. Its instructions are not inherited.
    previous_response_id: Option<String>,
    /// System instructions, placed before the input.
    instructions: Option<String>,
    /// If true, the response is a stream of server-sent events.
    stream: Option<bool>,
    /// Options of the stream: `include_obfuscation`. Allowed only with `stream: true`.
    #[schema(value_type = Option<Object>)]
    stream_options: Option<Value>,
    /// Maximum number of output tokens, including reasoning tokens. Values above the output limit
    /// of the model fail with status 422.
    #[schema(minimum = 16)]
    max_output_tokens: Option<u64>,
    /// Sampling temperature. Higher values make the output more random.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// Nucleus sampling: only tokens within this cumulative probability are sampled.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Penalizes tokens that have appeared at least once so far.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Penalizes tokens in proportion to their frequency so far.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Number of most likely alternatives to return for each token, with log probabilities.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// Tools that the model may call: `function` (`name`, `parameters`, `description`, `strict`) or
    /// `custom`. Other client-side tools of this format are forwarded to models that support them.
    tools: Option<Vec<Value>>,
    /// Tool selection: `none`, `auto`, `required`, or an object that names a tool or the allowed
    /// tools.
    tool_choice: Option<Value>,
    /// Whether the model may call several tools in one turn. Default: true.
    parallel_tool_calls: Option<bool>,
    /// Maximum number of calls of tools that run at the provider.
    #[schema(minimum = 1)]
    max_tool_calls: Option<u64>,
    /// Text output: `format` is `text`, `json_object` or `json_schema` (with `name`, `schema`,
    /// `strict`, `description`); `verbosity` is `low`, `medium` or `high`.
    #[schema(value_type = Option<Object>)]
    text: Option<Value>,
    /// Reasoning: `effort` is `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`;
    /// `summary` is `auto`, `concise` or `detailed`. Without `summary` the response contains no
    /// reasoning text.
    #[schema(value_type = Option<Object>)]
    reasoning: Option<Value>,
    /// Additional output, such as `reasoning.encrypted_content` or `message.output_text.logprobs`.
    include: Option<Vec<String>>,
    /// At most 16 key-value pairs of strings, which the response repeats. Keys have at most 64
    /// characters, values at most 512.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Whether the response is stored for 30 days. Default: true.
    store: Option<bool>,
    /// If true, the response is generated in the background. Fetch it by its id, or follow it with
    /// `stream`. An interrupted stream continues with
    /// `GET /v1/responses/{id}?stream=true&starting_after=N`. Requires `store`.
    background: Option<bool>,
    /// Truncation of input that exceeds the context window: `auto` or `disabled` (default).
    truncation: Option<String>,
    /// Service tier: `auto` or `default`. Other tiers are not supported.
    service_tier: Option<String>,
    /// Identifier of the end user, for the provider's abuse monitoring.
    #[schema(max_length = 64)]
    safety_identifier: Option<String>,
    /// Deprecated name of `safety_identifier`.
    user: Option<String>,
    /// Cache key: the provider routes requests with the same key and prefix to the same cache.
    prompt_cache_key: Option<String>,
}

/// Request body of `POST /v1/responses/input_tokens`.
#[derive(Serialize, ToSchema)]
pub struct CountResponseInputTokens {
    /// Model id or alias. `GET /v1/models` lists the available models.
    model: String,
    /// Input: a string from the user, or an array of items, oldest first.
    input: Value,
    /// System instructions, placed before the input.
    instructions: Option<String>,
    /// Tools that the model may call. Their definitions count as input.
    tools: Option<Vec<Value>>,
}

/// Request body of `POST /v1/responses/compact`.
#[derive(Serialize, ToSchema)]
pub struct CompactResponse {
    /// Id or alias of the model that writes the summary.
    model: String,
    /// Input: a string from the user, or an array of items, oldest first.
    input: Option<Value>,
    /// Id of a stored response. Its conversation precedes the input.
    previous_response_id: Option<String>,
}

/// A compacted conversation.
#[derive(Serialize, ToSchema)]
pub struct CompactedResponse {
    /// Id of the response that contains the summary.
    id: String,
    /// Always `response.compaction`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created_at: i64,
    /// Input for the next request: the user's messages and one item of type `compaction`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    /// Token usage and cost of the request.
    usage: ResponseUsage,
}

/// Confirmation that a response was deleted.
#[derive(Serialize, ToSchema)]
pub struct DeletedResponse {
    /// Id of the deleted response.
    id: String,
    /// Always `response`.
    object: &'static str,
    /// Always true after a successful deletion.
    deleted: bool,
}

impl DeletedResponse {
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            object: "response",
            deleted: true,
        }
    }
}

/// Response body of `POST /v1/responses/input_tokens`.
#[derive(Serialize, ToSchema)]
pub struct ResponseInputTokens {
    /// Always `response.input_tokens`.
    object: &'static str,
    /// Number of input tokens of the request, with instructions and tools.
    input_tokens: u64,
    /// Precision of the count, also in the header `x-tollgate-counting`: `exact` if the provider
    /// counted the tokens or its counting rules are known, otherwise `upper_bound`.
    pub(super) counting: &'static str,
}

impl ResponseInputTokens {
    pub(super) fn new(counted: Counted) -> Self {
        Self {
            object: "response.input_tokens",
            input_tokens: counted.tokens,
            counting: counted.how,
        }
    }
}

/// A response in OpenAI's Responses format.
#[derive(Serialize, ToSchema)]
pub struct ResponseObject {
    /// Unique id of the response.
    id: String,
    /// Always `response`.
    object: String,
    /// Creation time, in seconds since the Unix epoch.
    created_at: i64,
    /// Completion time, in seconds since the Unix epoch; null unless the response is `completed`.
    completed_at: Option<i64>,
    /// Status: `queued`, `in_progress`, `completed`, `incomplete`, `failed` or `cancelled`.
    status: String,
    /// Details of an `incomplete` response: `reason` is `max_output_tokens` or `content_filter`.
    #[schema(value_type = Option<Object>)]
    incomplete_details: Option<Value>,
    /// Error of a `failed` response: `code` and `message`.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    /// Model name as sent in the request.
    model: String,
    /// Output items: `message`, `reasoning`, `function_call`, `custom_tool_call`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    /// Token usage and cost; null unless the response is `completed` or `incomplete`.
    usage: Option<ResponseUsage>,
    /// Instructions of the request; null if it had none.
    instructions: Option<String>,
    /// Id of the earlier response that this response continues; null if there is none.
    previous_response_id: Option<String>,
    /// Tools that the model could call.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// Tool selection of the request.
    tool_choice: Value,
    /// Whether the model could call several tools in one turn.
    parallel_tool_calls: bool,
    /// Maximum number of calls of tools that run at the provider.
    max_tool_calls: Option<u64>,
    /// Text output settings of the request.
    #[schema(value_type = Object)]
    text: Value,
    /// Reasoning settings of the request.
    #[schema(value_type = Option<Object>)]
    reasoning: Option<Value>,
    /// Sampling temperature of the request.
    temperature: f64,
    /// Nucleus sampling probability of the request.
    top_p: f64,
    /// Presence penalty of the request.
    presence_penalty: f64,
    /// Frequency penalty of the request.
    frequency_penalty: f64,
    /// Number of most likely alternatives returned for each token.
    top_logprobs: u32,
    /// Maximum number of output tokens; null if none was set.
    max_output_tokens: Option<u64>,
    /// Truncation setting: `auto` or `disabled`.
    truncation: String,
    /// Whether the response is stored.
    store: bool,
    /// Whether the response is generated in the background.
    background: bool,
    /// Service tier that served the request.
    service_tier: String,
    /// Key-value pairs of the request.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Identifier of the end user.
    safety_identifier: Option<String>,
    /// Cache key of the request.
    prompt_cache_key: Option<String>,
}

/// Token usage and cost of a response.
#[derive(Serialize, ToSchema)]
pub struct ResponseUsage {
    /// Number of input tokens, including cached ones.
    input_tokens: u64,
    /// Breakdown of the input tokens: `cached_tokens` were read from the provider's cache,
    /// `cache_write_tokens` were written to it.
    #[schema(value_type = Object)]
    input_tokens_details: Value,
    /// Number of output tokens, including reasoning tokens.
    output_tokens: u64,
    /// Breakdown of the output tokens: `reasoning_tokens`.
    #[schema(value_type = Object)]
    output_tokens_details: Value,
    /// Sum of input and output tokens.
    total_tokens: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// An event of a streamed response. The order is `response.created` and `response.in_progress`;
/// then for each item `response.output_item.added`, its parts and deltas, and
/// `response.output_item.done`. The stream ends with `response.completed`, `response.incomplete`
/// or, after `error`, `response.failed`.
#[derive(Serialize, ToSchema)]
pub struct ResponseStreamEvent {
    /// Event type, such as `response.output_text.delta`.
    r#type: String,
    /// Sequence number of the event, starting at 0.
    sequence_number: u64,
    /// The response object, in events that start or end the response.
    response: Option<ResponseObject>,
    /// The output item, in events that start or end an item.
    #[schema(value_type = Option<Object>)]
    item: Option<Value>,
    /// Index of the output item.
    output_index: Option<u32>,
    /// New text, in delta events.
    delta: Option<String>,
}
