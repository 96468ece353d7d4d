//! The common request and answer of embeddings.

use serde_json::{Map, Value};

use crate::usage::Usage;

/// A request to turn texts into vectors.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedRequest {
    /// The model as the caller named it.
    pub model: String,
    /// What is embedded; never empty. Each gets a vector.
    pub inputs: Vec<EmbedInput>,
    /// Length of each vector; `None` leaves it to the model.
    pub dimensions: Option<u32>,
    /// A name of the end user.
    pub user: Option<String>,
    /// Fields of the caller's format that have no common meaning.
    pub extra: Map<String, Value>,
}

/// One thing to embed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedInput {
    /// Text.
    Text(String),
    /// Ids of the model's own tokens.
    Tokens(Vec<u32>),
}

/// The vectors of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedResponse {
    /// One for each input, in their order.
    pub vectors: Vec<Vec<f32>>,
    /// What it consumed, when the provider said so.
    pub usage: Option<Usage>,
}
