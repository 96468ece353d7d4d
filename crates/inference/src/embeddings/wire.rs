//! The shapes of request and answer, for the API document. The bytes themselves are validated, spliced and relayed by
//! `tollgate_formats::embeddings`, which is where the rules are.

use serde::Serialize;
use utoipa::ToSchema;

/// An embeddings request.
#[derive(Serialize, ToSchema)]
pub struct CreateEmbeddings {
    /// Id or alias of an embedding model; GET /v1/models lists them.
    model: String,
    /// What is embedded.
    input: EmbeddingInput,
    /// How the vectors are written: `float` (the default), or `base64` of 32-bit floats, the lowest byte first.
    encoding_format: Option<String>,
    /// Length of the vectors, for models that can shorten theirs. 422 when the model's are shorter.
    #[schema(minimum = 1)]
    dimensions: Option<u32>,
    /// A name of the end user, for the provider's abuse checks.
    user: Option<String>,
}

/// One input, or up to 2,048, as text or as the model's own tokens. None of them is empty.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum EmbeddingInput {
    /// A text.
    Text(String),
    /// Several texts.
    Texts(Vec<String>),
    /// One input as tokens.
    Tokens(Vec<u32>),
    /// Several inputs as tokens.
    TokenLists(Vec<Vec<u32>>),
}

/// The vectors.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingList {
    /// Always `list`.
    object: String,
    /// One for each input, in their order.
    data: Vec<Embedding>,
    /// The model as the request named it.
    model: String,
    /// What it consumed and cost.
    usage: EmbeddingUsage,
}

/// The vector of one input.
#[derive(Serialize, ToSchema)]
pub struct Embedding {
    /// Always `embedding`.
    object: String,
    /// Place of the input, from 0.
    index: u32,
    /// The vector.
    embedding: EmbeddingVector,
}

/// A vector, written as the request asks.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its description is used")]
pub enum EmbeddingVector {
    /// With `float`.
    Float(Vec<f32>),
    /// With `base64`.
    Base64(String),
}

/// What the vectors consumed and cost.
#[derive(Serialize, ToSchema)]
pub struct EmbeddingUsage {
    /// Tokens of all inputs.
    prompt_tokens: u64,
    /// The same: there is no output to count.
    total_tokens: u64,
    /// What the call cost, in credits as a decimal string.
    cost: String,
}
