//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced, relayed or
//! rewritten by `tollgate_formats::openai_responses`, which is where the rules are.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// A request for a response.
#[derive(Serialize, ToSchema)]
pub struct CreateResponse {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// A text of the user, or a list of items, oldest first: `message`, `function_call`, `function_call_output`,
    /// `custom_tool_call`, `custom_tool_call_output`, `reasoning`, `compaction`, and `item_reference` to an item of a
    /// response that is kept. At least one, unless there is a `previous_response_id`.
    input: Value,
    /// A response that is kept, or the latest one of the session: what was said up to it stands before the input.
    /// Instructions are not taken over.
    previous_response_id: Option<String>,
    /// Instructions that stand before the input.
    instructions: Option<String>,
    /// Whether the response comes piece by piece, as server-sent events.
    stream: Option<bool>,
    /// `include_obfuscation`. Only with `stream`.
    #[schema(value_type = Option<Object>)]
    stream_options: Option<Value>,
    /// Most tokens of the response, reasoning included. 422 when the model produces fewer.
    #[schema(minimum = 16)]
    max_output_tokens: Option<u64>,
    /// How varied the response is.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// The share of likely tokens that is sampled from.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Discourages what was said before.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Discourages what was said often.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// So many alternatives to each token, with their probabilities.
    #[schema(minimum = 0, maximum = 20)]
    top_logprobs: Option<u32>,
    /// Tools that the model may call: `function` (`name`, `parameters`, `description`, `strict`) or `custom`. Tools that
    /// the caller runs and only this format has are let through to models that take them.
    tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or an object that names a tool or allows some.
    tool_choice: Option<Value>,
    /// Whether several tools may be called at once. Default true.
    parallel_tool_calls: Option<bool>,
    /// Most calls of tools that run at the provider.
    #[schema(minimum = 1)]
    max_tool_calls: Option<u64>,
    /// `format`: `text`, `json_object` or `json_schema` (with `name`, `schema`, `strict`, `description`); `verbosity`:
    /// `low`, `medium` or `high`.
    #[schema(value_type = Option<Object>)]
    text: Option<Value>,
    /// `effort`: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`; `summary`: `auto`, `concise` or
    /// `detailed`, without which none of the reasoning is shown.
    #[schema(value_type = Option<Object>)]
    reasoning: Option<Value>,
    /// What to answer besides, such as `reasoning.encrypted_content` or `message.output_text.logprobs`.
    include: Option<Vec<String>>,
    /// Up to 16 pairs of the caller's own, which the response repeats.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
    /// Whether the response is kept, for 30 days. Default true.
    store: Option<bool>,
    /// Whether the response is made while nobody waits: asked for by its id, or followed with `stream`, which goes on where it was
    /// left with `GET /v1/responses/{id}?stream=true&starting_after=N`. Needs `store`.
    background: Option<bool>,
    /// `auto` or `disabled`.
    truncation: Option<String>,
    /// How the call is served, where the model's provider has tiers.
    service_tier: Option<String>,
    /// Names the end user, for the provider's abuse checks.
    #[schema(max_length = 64)]
    safety_identifier: Option<String>,
    /// The older name of `safety_identifier`.
    user: Option<String>,
    /// Brings requests with the same beginning to the same cache.
    prompt_cache_key: Option<String>,
}

/// A request whose tokens are counted.
#[derive(Serialize, ToSchema)]
pub struct CountResponseInputTokens {
    /// Id or alias of a model; GET /v1/models lists them.
    model: String,
    /// A text of the user, or a list of items, oldest first.
    input: Value,
    /// Instructions that stand before the input.
    instructions: Option<String>,
    /// Tools that the model may call.
    tools: Option<Vec<Value>>,
}

/// A conversation to be made short.
#[derive(Serialize, ToSchema)]
pub struct CompactResponse {
    /// Id or alias of the model that writes the notes.
    model: String,
    /// A text of the user, or a list of items, oldest first.
    input: Option<Value>,
    /// A response that is kept: what was said up to it stands before the input.
    previous_response_id: Option<String>,
}

/// What stands for a conversation.
#[derive(Serialize, ToSchema)]
pub struct CompactedResponse {
    /// Id of the response that wrote the notes.
    id: String,
    /// Always `response.compaction`.
    object: String,
    /// When the request came, in seconds since the epoch.
    created_at: i64,
    /// The messages of the user, and an item of type `compaction`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    /// What it consumed and cost.
    usage: ResponseUsage,
}

/// A response that was forgotten.
#[derive(Serialize, ToSchema)]
pub struct DeletedResponse {
    /// Id of the response.
    id: String,
    /// Always `response`.
    object: &'static str,
    /// Always true.
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

/// The tokens of a request.
#[derive(Serialize, ToSchema)]
pub struct ResponseInputTokens {
    /// Always `response.input_tokens`.
    object: &'static str,
    /// How many.
    input_tokens: u64,
    /// `exact` where the model's provider has counted or it is known how it counts, else `upper_bound`: there are never more.
    /// The header `x-tollgate-counting` says the same.
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

/// A response.
#[derive(Serialize, ToSchema)]
pub struct ResponseObject {
    /// Id of the response.
    id: String,
    /// Always `response`.
    object: String,
    /// When the request came, in seconds since the epoch.
    created_at: i64,
    /// When the response was complete.
    completed_at: Option<i64>,
    /// `in_progress`, `completed`, `incomplete` or `failed`.
    status: String,
    /// `reason`: `max_output_tokens` or `content_filter`.
    #[schema(value_type = Option<Object>)]
    incomplete_details: Option<Value>,
    /// Why it failed: `code`, `message`.
    #[schema(value_type = Option<Object>)]
    error: Option<Value>,
    /// The model as the request named it.
    model: String,
    /// Items: `message`, `reasoning`, `function_call`, `custom_tool_call`.
    #[schema(value_type = Vec<Object>)]
    output: Vec<Value>,
    /// What it consumed and cost; null while it is in progress.
    usage: Option<ResponseUsage>,
    /// As the request has it, like all that follows, or what is usual.
    instructions: Option<String>,
    /// The response that this one goes on from.
    previous_response_id: Option<String>,
    /// Tools that could be called.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// Which tool was to be called.
    tool_choice: Value,
    /// Whether several tools could be called at once.
    parallel_tool_calls: bool,
    /// Most calls of tools that run at the provider.
    max_tool_calls: Option<u64>,
    /// The shape of the text.
    #[schema(value_type = Object)]
    text: Value,
    /// How much was to be reasoned, and whether a summary was asked for.
    #[schema(value_type = Option<Object>)]
    reasoning: Option<Value>,
    /// How varied the response was to be.
    temperature: f64,
    /// The share of likely tokens that was sampled from.
    top_p: f64,
    /// As the request has it.
    presence_penalty: f64,
    /// As the request has it.
    frequency_penalty: f64,
    /// So many alternatives to each token.
    top_logprobs: u32,
    /// Most tokens of the response.
    max_output_tokens: Option<u64>,
    /// `auto` or `disabled`.
    truncation: String,
    /// Whether the response is kept.
    store: bool,
    /// Whether it is made while nobody waits.
    background: bool,
    /// How the call was served.
    service_tier: String,
    /// The caller's own pairs.
    #[schema(value_type = Object)]
    metadata: Value,
    /// Names the end user.
    safety_identifier: Option<String>,
    /// As the request has it.
    prompt_cache_key: Option<String>,
}

/// What a response consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct ResponseUsage {
    /// Tokens that went in.
    input_tokens: u64,
    /// `cached_tokens` were read from the provider's cache, `cache_write_tokens` written into it.
    #[schema(value_type = Object)]
    input_tokens_details: Value,
    /// Tokens that came out.
    output_tokens: u64,
    /// `reasoning_tokens`.
    #[schema(value_type = Object)]
    output_tokens_details: Value,
    /// Both.
    total_tokens: u64,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}

/// A piece of a streamed response: `response.created`, `response.in_progress`, then for each item
/// `response.output_item.added`, its parts and deltas, `response.output_item.done`, and at the end
/// `response.completed`, `response.incomplete` or, after `error`, `response.failed`.
#[derive(Serialize, ToSchema)]
pub struct ResponseStreamEvent {
    /// The name of the event.
    r#type: String,
    /// Its number, from 0.
    sequence_number: u64,
    /// The response, in the events that begin and end it.
    response: Option<ResponseObject>,
    /// The item, where one begins or ends.
    #[schema(value_type = Option<Object>)]
    item: Option<Value>,
    /// Which item.
    output_index: Option<u32>,
    /// What is new.
    delta: Option<String>,
}
