//! Request and response schemas for the OpenAPI document. `tollgate_formats::gemini` validates,
//! splices, relays or rewrites the bytes and defines the rules.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// Request body of `generateContent` and `streamGenerateContent`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerateContent {
    /// Turns of the conversation, oldest first.
    #[schema(min_items = 1)]
    contents: Vec<ContentTurn>,
    /// System instructions, as `parts` of text.
    #[schema(value_type = Option<Object>)]
    system_instruction: Option<Value>,
    /// Output limits, sampling, output format and reasoning.
    generation_config: Option<GenerationConfig>,
    /// Functions that the model may call: `functionDeclarations` with `name`, `description`, and
    /// either `parametersJsonSchema` or `parameters`, a schema in Gemini's subset of OpenAPI 3.0.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Function calling: `functionCallingConfig` with `mode` (`AUTO`, `ANY`, `NONE` or `VALIDATED`)
    /// and `allowedFunctionNames`.
    #[schema(value_type = Option<Object>)]
    tool_config: Option<Value>,
    /// Thresholds of the provider's safety filters, for models that have them.
    #[schema(value_type = Option<Vec<Object>>)]
    safety_settings: Option<Vec<Value>>,
}

/// One turn of the conversation.
#[derive(Serialize, ToSchema)]
pub struct ContentTurn {
    /// Author of the turn: `user` (default) or `model`.
    role: Option<String>,
    /// Content parts. Each part has one of `text`, `inlineData`, `fileData`, `functionCall` and
    /// `functionResponse`. It may also have `thought` and `thoughtSignature`, which the caller
    /// returns unchanged.
    #[schema(value_type = Vec<Object>, min_items = 1)]
    parts: Vec<Value>,
}

/// Output limits, sampling, output format and reasoning.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationConfig {
    /// Maximum number of tokens per candidate, including reasoning tokens. Values above the output
    /// limit of the model fail with status 422.
    #[schema(minimum = 1)]
    max_output_tokens: Option<u64>,
    /// Sampling temperature. Higher values make the output more random.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// Nucleus sampling: only tokens within this cumulative probability are sampled.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// Top-k sampling: only this number of most likely tokens is considered.
    #[schema(minimum = 1)]
    top_k: Option<u64>,
    /// Number of candidates to generate. All are charged. Default: 1.
    #[schema(minimum = 1, maximum = 8)]
    candidate_count: Option<u32>,
    /// Sequences at which generation stops.
    #[schema(max_items = 5)]
    stop_sequences: Option<Vec<String>>,
    /// Penalizes tokens that have appeared at least once so far.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Penalizes tokens in proportion to their frequency so far.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Seed for best-effort deterministic sampling.
    seed: Option<i32>,
    /// Output format: `text/plain` (default), `application/json` or `text/x.enum`.
    response_mime_type: Option<String>,
    /// Schema of the output in Gemini's subset of OpenAPI 3.0, for `application/json` or
    /// `text/x.enum`. Cannot be combined with `responseJsonSchema`.
    #[schema(value_type = Option<Object>)]
    response_schema: Option<Value>,
    /// Schema of the output as JSON Schema, for `application/json` or `text/x.enum`.
    #[schema(value_type = Option<Object>)]
    response_json_schema: Option<Value>,
    /// If true, returns the log probabilities of the output tokens.
    response_logprobs: Option<bool>,
    /// Number of most likely alternatives to return for each token. Requires
    /// `responseLogprobs: true`.
    #[schema(minimum = 0, maximum = 20)]
    logprobs: Option<u32>,
    /// Reasoning: `includeThoughts`, and either `thinkingBudget` or `thinkingLevel`.
    #[schema(value_type = Option<Object>)]
    thinking_config: Option<Value>,
}

/// Response body of `generateContent`, or a chunk of a streamed response.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedContent {
    /// Candidates that the model generated.
    candidates: Vec<Candidate>,
    /// Token usage and cost. In a stream, only the last chunk has the final usage and the cost.
    usage_metadata: Option<ContentUsage>,
    /// Model name as sent in the request.
    model_version: String,
    /// Unique id of the response.
    response_id: String,
}

/// One generated candidate.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Content that the model generated.
    content: ContentTurn,
    /// Reason why generation ended: `STOP` (also for function calls), `MAX_TOKENS`, `SAFETY` or
    /// another reason of the model. In a stream, only the last chunk of the candidate has it.
    finish_reason: Option<String>,
    /// Index of the candidate, starting at 0.
    index: u32,
}

/// Token usage and cost of a request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentUsage {
    /// Number of input tokens, including cached ones.
    prompt_token_count: u64,
    /// Number of input tokens that were read from the provider's cache.
    cached_content_token_count: Option<u64>,
    /// Number of output tokens, excluding reasoning tokens.
    candidates_token_count: u64,
    /// Number of reasoning tokens.
    thoughts_token_count: Option<u64>,
    /// Sum of input, output and reasoning tokens.
    total_token_count: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}

/// Request body of `countTokens`: the fields of `generateContent`, either at the top level or in
/// `generateContentRequest`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountContentTokens {
    /// Turns of the conversation, oldest first.
    contents: Option<Vec<ContentTurn>>,
    /// A complete `generateContent` request body.
    generate_content_request: Option<GenerateContent>,
}

/// Response body of `countTokens`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentTokens {
    /// Number of input tokens of the request, with instructions and tools.
    total_tokens: u64,
    /// Precision of the count, also in the header `x-tollgate-counting`: `exact` if the provider
    /// counted the tokens or its counting rules are known, otherwise `upper_bound`.
    #[schema(value_type = String)]
    pub(super) counting: &'static str,
}

impl ContentTokens {
    pub(super) fn new(counted: Counted) -> Self {
        Self {
            total_tokens: counted.tokens,
            counting: counted.how,
        }
    }
}

/// Request body of `embedContent`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbedContent {
    /// Text to embed, in one part.
    content: ContentTurn,
    /// Intended use of the vector, such as `RETRIEVAL_QUERY`, for models that distinguish uses.
    task_type: Option<String>,
    /// Title of the document, for models that use it.
    title: Option<String>,
    /// Number of dimensions, for models that can shorten their vectors. Values above the number of
    /// dimensions of the model fail with status 422.
    #[schema(minimum = 1)]
    output_dimensionality: Option<u32>,
}

/// Request body of `batchEmbedContents`.
#[derive(Serialize, ToSchema)]
pub struct BatchEmbedContents {
    /// One request for each text, up to 100. All must have the same options.
    #[schema(min_items = 1, max_items = 100)]
    requests: Vec<EmbedContent>,
}

/// Response body of `embedContent`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentEmbedding {
    /// Embedding of the text.
    embedding: EmbeddingValues,
    /// Token usage and cost of the request.
    usage_metadata: EmbedUsage,
}

/// Response body of `batchEmbedContents`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentEmbeddings {
    /// Embeddings in the order of the texts.
    embeddings: Vec<EmbeddingValues>,
    /// Token usage and cost of the request.
    usage_metadata: EmbedUsage,
}

/// An embedding vector.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingValues {
    /// Components of the vector.
    values: Vec<f32>,
}

/// Token usage and cost of an embedding request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbedUsage {
    /// Number of tokens of all texts.
    prompt_token_count: u64,
    /// Equal to `promptTokenCount`, because there are no output tokens.
    total_token_count: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}
