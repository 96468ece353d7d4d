//! The content of a token table. The build script uses this file, too.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The fields of [`BytePairEncoding`](bpe_openai::byte_pair_encoding::BytePairEncoding) in the
/// order in which bpe 0.2 serialises them.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    /// All tokens, one after the other.
    pub(crate) all_tokens: Vec<u8>,
    /// The start of each token in `all_tokens`, and the end of the last one.
    pub(crate) token_starts: Vec<u32>,
    /// Empty: only encoding uses it.
    pub(crate) bytes_hash_to_token: BTreeMap<u32, u32>,
    /// The two tokens that each token joins; twice the token itself if it joins none.
    pub(crate) split_table: Vec<(u32, u32)>,
    /// The token that joins two tokens.
    pub(crate) pair_lookup: BTreeMap<(u32, u32), u32>,
    /// Automaton that finds the longest token.
    pub(crate) longest_searcher: ByteBuf,
    /// Those of the smallest table: only encoding uses them.
    pub(crate) overlapping_searcher: ByteBuf,
    pub(crate) overlapping_searcher_rev: ByteBuf,
    /// The longest token that is a proper prefix of each token.
    pub(crate) next_prefix_match: Vec<u32>,
    pub(crate) hash_factor: u64,
}

/// Bytes of one state of `longest_searcher`. Bytes at the same position of all states are stored
/// together, because they compress better.
pub(crate) const STATE_BYTES: usize = 12;

/// Returns the tokens that join two tokens, by these two.
pub(crate) fn pairs(split_table: &[(u32, u32)]) -> BTreeMap<(u32, u32), u32> {
    let numbered = (0..).zip(split_table);
    numbered
        .filter(|(token, (first, _))| first != token)
        .map(|(token, pair)| (*pair, token))
        .collect()
}
