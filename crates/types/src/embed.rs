//! Common request and response of embeddings.

use serde_json::{Map, Value};

use crate::usage::Usage;

/// A request to embed texts.
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedRequest {
    /// Model id as written by the caller.
    pub model: String,
    /// At least one input. The response has one vector for each.
    pub inputs: Vec<EmbedInput>,
    /// Length of each vector; `None` means the model's default.
    pub dimensions: Option<u32>,
    /// Id of the end user, for the provider's abuse checks.
    pub user: Option<String>,
    /// Fields of the request that this struct does not represent.
    pub extra: Map<String, Value>,
}

/// One input of an embeddings request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmbedInput {
    Text(String),
    /// Token ids in the model's tokenizer.
    Tokens(Vec<u32>),
}

/// A response to an [`EmbedRequest`].
#[derive(Clone, Debug, PartialEq)]
pub struct EmbedResponse {
    /// One vector per input, in input order.
    pub vectors: Vec<Vec<f32>>,
    /// Usage, if the provider reported it.
    pub usage: Option<Usage>,
}
