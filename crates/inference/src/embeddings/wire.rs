//! Request and response schemas for the OpenAPI document. `tollgate_formats::embeddings` validates,
//! splices and relays the bytes and defines the rules.

use serde::Serialize;
use utoipa::ToSchema;

/// Request body of `POST /v1/embeddings`.
#[derive(Serialize, ToSchema)]
pub struct CreateEmbeddings {
    /// Id or alias of an embedding model. `GET /v1/models` lists the available models.
    model: String,
    /// Texts or token ids to embed. No input may be empty.
    input: EmbeddingInput,
    /// Encoding of the vectors: `float` (default), or `base64` of 32-bit little-endian floats.
    encoding_format: Option<String>,
    /// Number of dimensions, for models that can shorten their vectors. Values above the number of
    /// dimensions of the model fail with status 422.
    #[schema(minimum = 1)]
    dimensions: Option<u32>,
    /// Identifier of the end user, for the provider's abuse monitoring.
    user: Option<String>,
}

/// One input or up to 2,048 inputs, as text or as token ids of the model. No input may be empty.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum EmbeddingInput {
    /// One input as text.
    Text(String),
    /// Several inputs as text.
    Texts(Vec<String>),
    /// One input as token ids.
    Tokens(Vec<u32>),
    /// Several inputs as token ids.
    TokenLists(Vec<Vec<u32>>),
}

/// Response body of `POST /v1/embeddings`.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingList {
    /// Always `list`.
    object: String,
    /// Embeddings in the order of the inputs.
    data: Vec<Embedding>,
    /// Model name as sent in the request.
    model: String,
    /// Token usage and cost of the request.
    usage: EmbeddingUsage,
}

/// Embedding of one input.
#[derive(Serialize, ToSchema)]
pub struct Embedding {
    /// Always `embedding`.
    object: String,
    /// Index of the input, starting at 0.
    index: u32,
    /// The vector in the requested encoding.
    embedding: EmbeddingVector,
}

/// A vector in the requested encoding.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only describes the schema")]
pub enum EmbeddingVector {
    /// Array of numbers, for `float`.
    Float(Vec<f32>),
    /// Base64 string, for `base64`.
    Base64(String),
}

/// Token usage and cost of an embeddings request.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingUsage {
    /// Number of tokens of all inputs.
    prompt_tokens: u64,
    /// Equal to `prompt_tokens`, because there are no output tokens.
    total_tokens: u64,
    /// Cost of the request in credits, as a decimal string.
    cost: String,
}
