//! Counts the tokens of a text with the published tokenizers. The framing of messages is not
//! included.
//!
//! The tables are part of the binary, compressed. A table is unpacked at its first use (about a
//! tenth of a second, up to 20 MB) and stays in memory.

use std::sync::LazyLock;

use bpe_openai::Tokenizer as Table;
use flate2::read::GzDecoder;
use tollgate_types::Tokenizer;

/// Returns the number of tokens of a text. Special tokens of templates count as plain text. Takes
/// linear time for any text.
pub fn count(tokenizer: Tokenizer, text: &str) -> u64 {
    table(tokenizer).count(text) as u64
}

fn table(tokenizer: Tokenizer) -> &'static Table {
    static O200K_BASE: LazyLock<Table> = LazyLock::new(|| {
        unpack(
            include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base.gz")),
            O200K_WORDS,
        )
    });
    static CL100K_BASE: LazyLock<Table> = LazyLock::new(|| {
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

/// Words of `o200k_base` (tiktoken's published pattern), without its last two alternatives.
const O200K_WORDS: &[&str] = &[
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"\s*[\r\n]+",
];

/// Words of `cl100k_base`, likewise.
const CL100K_WORDS: &[&str] = &[
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
    r"[^\r\n\p{L}\p{N}]?\p{L}+",
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
];

/// Both patterns end with `\s+(?!\S)|\s+`. The first of these is `\s+$` or `\s+\s` less its last
/// character, since the library has no negative look-ahead.
fn unpack(compressed: &[u8], words: &[&str]) -> Table {
    let bpe = rmp_serde::from_read(GzDecoder::new(compressed)).ok();
    let first = format!(r"{}|\s+$", words.join("|"));
    let patterns = [(&*first, false), (r"\s+\s", true), (r"\s+", false)];
    match bpe.and_then(|bpe| Table::new_lookahead(bpe, &patterns, false).ok()) {
        Some(table) => table,
        None => unreachable!("the build script wrote the table, and the patterns are constant"),
    }
}

#[cfg(test)]
mod tests;
