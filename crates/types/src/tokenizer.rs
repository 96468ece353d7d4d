//! Names of the tokenizers that are published. Their tables are in the tokens crate.

use serde::{Deserialize, Serialize};

/// A published tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tokenizer {
    /// `o200k_base`, of about 200,000 tokens.
    #[serde(rename = "o200k_base")]
    O200kBase,
    /// `cl100k_base`, of about 100,000 tokens.
    #[serde(rename = "cl100k_base")]
    Cl100kBase,
}

impl Tokenizer {
    /// Every tokenizer.
    pub const ALL: [Tokenizer; 2] = [Tokenizer::O200kBase, Tokenizer::Cl100kBase];

    /// The most bytes that one token of any of them stands for: a text never has fewer tokens than its bytes divided
    /// by this.
    pub const LONGEST_TOKEN: u64 = 128;
}
