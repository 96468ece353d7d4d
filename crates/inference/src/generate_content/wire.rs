//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced, relayed or
//! rewritten by `tollgate_formats::gemini`, which is where the rules are.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::counting::Counted;

/// A request for content.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerateContent {
    /// The conversation, oldest first. At least one turn.
    #[schema(min_items = 1)]
    contents: Vec<ContentTurn>,
    /// Instructions: `parts` of text.
    #[schema(value_type = Option<Object>)]
    system_instruction: Option<Value>,
    /// How the answer is made.
    generation_config: Option<GenerationConfig>,
    /// Functions that the model may call: `functionDeclarations` with `name`, `description` and
    /// `parametersJsonSchema`, or `parameters` in the subset of OpenAPI.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// `functionCallingConfig` with `mode`: `AUTO`, `ANY`, `NONE` or `VALIDATED`, and `allowedFunctionNames`.
    #[schema(value_type = Option<Object>)]
    tool_config: Option<Value>,
    /// What the model's filters let pass, for models that have some.
    #[schema(value_type = Option<Vec<Object>>)]
    safety_settings: Option<Vec<Value>>,
}

/// A turn of the conversation.
#[derive(Serialize, ToSchema)]
pub struct ContentTurn {
    /// `user` or `model`. Without it, it is the user's.
    role: Option<String>,
    /// What is said: each part has one of `text`, `inlineData`, `fileData`, `functionCall` and `functionResponse`, and
    /// beside it `thought` and `thoughtSignature`, which go back as they came.
    #[schema(value_type = Vec<Object>, min_items = 1)]
    parts: Vec<Value>,
}

/// How an answer is made.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationConfig {
    /// Most tokens of the answer, reasoning included. 422 when the model produces fewer.
    #[schema(minimum = 1)]
    max_output_tokens: Option<u64>,
    /// How varied the answer is.
    #[schema(minimum = 0, maximum = 2)]
    temperature: Option<f64>,
    /// The share of likely tokens that is sampled from.
    #[schema(minimum = 0, maximum = 1)]
    top_p: Option<f64>,
    /// So many of the likeliest tokens are sampled from.
    #[schema(minimum = 1)]
    top_k: Option<u64>,
    /// How many answers.
    #[schema(minimum = 1, maximum = 8)]
    candidate_count: Option<u32>,
    /// Texts that end the answer.
    #[schema(max_items = 5)]
    stop_sequences: Option<Vec<String>>,
    /// Lowers what was said before.
    #[schema(minimum = -2, maximum = 2)]
    presence_penalty: Option<f64>,
    /// Lowers what was said often.
    #[schema(minimum = -2, maximum = 2)]
    frequency_penalty: Option<f64>,
    /// Makes answers alike, as far as the model can.
    seed: Option<i32>,
    /// `text/plain`, `application/json` or `text/x.enum`.
    response_mime_type: Option<String>,
    /// The shape of the answer in the subset of OpenAPI.
    #[schema(value_type = Option<Object>)]
    response_schema: Option<Value>,
    /// The shape of the answer as JSON Schema.
    #[schema(value_type = Option<Object>)]
    response_json_schema: Option<Value>,
    /// Whether the probabilities of tokens are reported.
    response_logprobs: Option<bool>,
    /// Likely alternatives to report for each token.
    #[schema(minimum = 0, maximum = 20)]
    logprobs: Option<u32>,
    /// `includeThoughts`, and one of `thinkingBudget` and `thinkingLevel`.
    #[schema(value_type = Option<Object>)]
    thinking_config: Option<Value>,
}

/// An answer, or a piece of a streamed one.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedContent {
    /// The answers.
    candidates: Vec<Candidate>,
    /// What the call consumed and cost; in a stream in its last piece.
    usage_metadata: Option<ContentUsage>,
    /// The model as the request named it.
    model_version: String,
    /// Id of the answer.
    response_id: String,
}

/// One of the answers.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// What the model says.
    content: ContentTurn,
    /// `STOP`, also for calls of functions, `MAX_TOKENS`, `SAFETY` or another reason of the model's own. In a stream in
    /// the last piece.
    finish_reason: Option<String>,
    /// Which answer, from 0.
    index: u32,
}

/// What a call consumed and cost.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentUsage {
    /// Tokens that went in.
    prompt_token_count: u64,
    /// Those of them that were read from the provider's cache.
    cached_content_token_count: Option<u64>,
    /// Tokens of the answers, without those of reasoning.
    candidates_token_count: u64,
    /// Tokens of reasoning.
    thoughts_token_count: Option<u64>,
    /// All tokens.
    total_token_count: u64,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}

/// A request whose tokens are counted: as for content, or with that in `generateContentRequest`.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CountContentTokens {
    /// The conversation, oldest first.
    contents: Option<Vec<ContentTurn>>,
    /// A whole request for content.
    generate_content_request: Option<GenerateContent>,
}

/// The tokens of a request.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentTokens {
    /// How many.
    total_tokens: u64,
    /// `exact` where the model's provider has counted or it is known how it counts, else `upper_bound`: there are never more.
    /// The header `x-tollgate-counting` says the same.
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

/// A request for a vector.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbedContent {
    /// The text, in one part.
    content: ContentTurn,
    /// What the vector is for, such as `RETRIEVAL_QUERY`, for models that make different ones.
    task_type: Option<String>,
    /// The title of a document, for models that look at it.
    title: Option<String>,
    /// Length of the vector, for models that can shorten theirs. 422 when the model's are shorter.
    #[schema(minimum = 1)]
    output_dimensionality: Option<u32>,
}

/// A request for several vectors.
#[derive(Serialize, ToSchema)]
pub struct BatchEmbedContents {
    /// One for each text, up to 100, all asking for the same kind of vector.
    #[schema(min_items = 1, max_items = 100)]
    requests: Vec<EmbedContent>,
}

/// A vector.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentEmbedding {
    /// The vector.
    embedding: EmbeddingValues,
    /// What it consumed and cost.
    usage_metadata: EmbedUsage,
}

/// Vectors.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentEmbeddings {
    /// One for each text, in their order.
    embeddings: Vec<EmbeddingValues>,
    /// What they consumed and cost.
    usage_metadata: EmbedUsage,
}

/// The numbers of a vector.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingValues {
    /// The numbers.
    values: Vec<f32>,
}

/// What vectors consumed and cost.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EmbedUsage {
    /// Tokens of all texts.
    prompt_token_count: u64,
    /// The same: there is no output to count.
    total_token_count: u64,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}
