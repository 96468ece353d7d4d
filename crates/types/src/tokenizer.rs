//! Names of published tokenizers. The tokens crate contains their tables.

use serde::{Deserialize, Serialize};

/// A published tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tokenizer {
    /// `o200k_base`, with about 200,000 tokens.
    #[serde(rename = "o200k_base")]
    O200kBase,
    /// `cl100k_base`, with about 100,000 tokens.
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
}

impl Tokenizer {
    /// All tokenizers, in definition order.
    pub const ALL: [Tokenizer; 2] = [Tokenizer::O200kBase, Tokenizer::Cl100kBase];

    /// Maximum number of bytes that one token of any tokenizer represents. A text therefore has at
    /// least as many tokens as its byte length divided by this number.
    pub const MAX_TOKEN_BYTES: u64 = 128;
}
