//! How many tokens a text is, by the tokenizers that are published. What stands around a text when a model reads it is
//! not counted here.
//!
//! The tables are part of the binary. One is unpacked when it is first asked for, which takes tens of milliseconds and
//! as many megabytes, and stays: a process that never counts never pays for it.

use bpe_openai as bpe;
use tollgate_types::Tokenizer;

/// The tokens of a text, every character of which is text: what looks like a mark of a template is none. The work is
/// linear in the text, whatever it says.
pub fn count(tokenizer: Tokenizer, text: &str) -> u64 {
    table(tokenizer).count(text) as u64
}

fn table(tokenizer: Tokenizer) -> &'static bpe::Tokenizer {
    match tokenizer {
        Tokenizer::O200kBase => bpe::o200k_base(),
        Tokenizer::Cl100kBase => bpe::cl100k_base(),
    }
}

#[cfg(test)]
mod tests;
