//! Content of a token table. The build script also uses this file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The fields of [`BytePairEncoding`](bpe_openai::byte_pair_encoding::BytePairEncoding) in the
/// order in which bpe 0.2 serialises them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    /// All tokens, one after the other.
    pub(crate) all_tokens: Vec<u8>,
    /// Start of each token in `all_tokens`, and the end of the last one.
    pub(crate) token_starts: Vec<u32>,
    /// Empty, because only encoding uses this field.
    pub(crate) bytes_hash_to_token: BTreeMap<u32, u32>,
    /// The two tokens whose concatenation is the token; for a token that joins no others, the token
    /// itself twice.
    pub(crate) split_table: Vec<(u32, u32)>,
    /// For each pair of tokens that can be joined, the resulting token.
    pub(crate) pair_lookup: BTreeMap<(u32, u32), u32>,
    /// Automaton that finds the longest token.
    pub(crate) longest_searcher: ByteBuf,
    /// Searcher of the smallest table, because only encoding uses this field.
    pub(crate) overlapping_searcher: ByteBuf,
    pub(crate) overlapping_searcher_rev: ByteBuf,
    /// For each token, the longest token that is its proper prefix.
    pub(crate) next_prefix_match: Vec<u32>,
    pub(crate) hash_factor: u64,
}

/// Size of one state of `longest_searcher` in bytes. Bytes at the same position of all states are
/// stored together, because they compress better.
pub(crate) const STATE_BYTES: usize = 12;

/// Returns for each pair of tokens the token that joins them.
pub(crate) fn pairs(split_table: &[(u32, u32)]) -> BTreeMap<(u32, u32), u32> {
    let numbered = (0..).zip(split_table);
    numbered
        .filter(|(token, (first, _))| first != token)
        .map(|(token, pair)| (*pair, token))
        .collect()
}
