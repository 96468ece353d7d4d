//! Counts the tokens of a text with the published tokenizers. The framing of messages is not
//! included.
//!
//! The tables are part of the binary, compressed. A table is unpacked at its first use (about a
//! tenth of a second, up to 20 MB) and remains in memory.

mod table;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::LazyLock;

use bpe_openai::byte_pair_encoding::BytePairEncoding;
use flate2::read::GzDecoder;
use serde_bytes::ByteBuf;
use tollgate_types::Tokenizer;

use self::table::{STATE_BYTES, Table, pairs};

/// Returns the number of tokens of a text, in time that is linear in the text's length. Special
/// tokens of templates count as plain text.
pub fn count(tokenizer: Tokenizer, text: &str) -> u64 {
    table(tokenizer).count(text) as u64
}

fn table(tokenizer: Tokenizer) -> &'static bpe_openai::Tokenizer {
    static O200K_BASE: LazyLock<bpe_openai::Tokenizer> = LazyLock::new(|| {
        unpack(
            include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base.gz")),
            O200K_WORDS,
        )
    });
    static CL100K_BASE: LazyLock<bpe_openai::Tokenizer> = LazyLock::new(|| {
        unpack(
            include_bytes!(concat!(env!("OUT_DIR"), "/cl100k_base.gz")),
            CL100K_WORDS,
        )
    });
    match tokenizer {
        Tokenizer::O200kBase => &O200K_BASE,
        Tokenizer::Cl100kBase => &CL100K_BASE,
    }
}

/// Patterns of the words of `o200k_base`: tiktoken's published pattern without its last two
/// alternatives.
const O200K_WORDS: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
];

/// Patterns of the words of `cl100k_base`: tiktoken's published pattern without its last two
/// alternatives.
const CL100K_WORDS: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
];

/// Builds a tokenizer from its compressed table. Both patterns end with `\s+(?!\S)|\s+`. The first
/// of these is `\s+$` or `\s+\s` less its last character, since the library has no negative
/// look-ahead.
fn unpack(compressed: &[u8], words: &[&str]) -> bpe_openai::Tokenizer {
    let first = format!(r"{}|\s+$", words.join("|"));
    let patterns = [(&*first, false), (r"\s+\s", true), (r"\s+", false)];
    let tokenizer =
        read(compressed).and_then(|bpe| bpe_openai::Tokenizer::new_lookahead(bpe, &patterns, false).ok());
    match tokenizer {
        Some(tokenizer) => tokenizer,
        None => unreachable!("the build script wrote the table, and the patterns are constant"),
    }
}

fn read(compressed: &[u8]) -> Option<BytePairEncoding> {
    let mut packed = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut packed).ok()?;
    rmp_serde::from_slice(&rmp_serde::to_vec(&unpacked(&packed)?).ok()?).ok()
}

/// Decodes the content that `packed` in `build.rs` writes; `None` if it is malformed.
fn unpacked(mut packed: &[u8]) -> Option<Table> {
    let mut take = |bytes: usize| -> Option<&[u8]> {
        let (part, rest) = packed.split_at_checked(bytes)?;
        packed = rest;
        Some(part)
    };
    let mut sizes = [0; 4];
    for size in &mut sizes {
        *size = usize::try_from(u32::from_le_bytes(take(4)?.try_into().ok()?)).ok()?;
    }
    let [tokens, longest, overlapping, overlapping_rev] = sizes;
    let hash_factor = u64::from_le_bytes(take(8)?.try_into().ok()?);
    let mut token_starts = vec![0];
    token_starts.extend(take(tokens)?.iter().scan(0, |end, length| {
        *end += u32::from(*length);
        Some(*end)
    }));
    let first = numbers(take(4 * tokens)?);
    let split_table: Vec<(u32, u32)> = first.into_iter().zip(numbers(take(4 * tokens)?)).collect();
    Some(Table {
        token_starts,
        bytes_hash_to_token: BTreeMap::new(),
        pair_lookup: pairs(&split_table),
        split_table,
        next_prefix_match: numbers(take(4 * tokens)?),
        longest_searcher: items(take(longest)?, STATE_BYTES).into(),
        overlapping_searcher: ByteBuf::from(take(overlapping)?),
        overlapping_searcher_rev: ByteBuf::from(take(overlapping_rev)?),
        hash_factor,
        all_tokens: packed.to_vec(),
    })
}

fn numbers(transposed: &[u8]) -> Vec<u32> {
    let bytes = items(transposed, size_of::<u32>());
    let numbers = bytes.as_chunks().0.iter();
    numbers.map(|bytes| u32::from_le_bytes(*bytes)).collect()
}

/// Reverses `transposed` in `build.rs`: returns items of `size` bytes from the first bytes of all
/// items, all second bytes, and so on. Bytes after the last complete item remain at the end.
fn items(transposed: &[u8], size: usize) -> Vec<u8> {
    let count = transposed.len() / size;
    let mut out = vec![0; transposed.len()];
    let (whole, rest) = transposed.split_at(count * size);
    for (place, bytes) in whole.chunks_exact(count.max(1)).enumerate() {
        let at = out.iter_mut().skip(place).step_by(size);
        at.zip(bytes).for_each(|(to, byte)| *to = *byte);
    }
    for (to, byte) in out.iter_mut().skip(count * size).zip(rest) {
        *to = *byte;
    }
    out
}

#[cfg(test)]
mod tests;
