//! Compares counts with published counts, and measures inputs that slow down other tokenizers.

use super::*;

/// A text and its number of tokens in `o200k_base` and `cl100k_base`. The first three texts are
/// those that "How to count tokens with tiktoken" in https://github.com/openai/openai-cookbook
/// compares. The other counts are those of tiktoken 0.14.0, with tables of the digests that
/// tiktoken expects.
const COUNTED: &[(&str, u64, u64)] = &[
    ("", 0, 0),
    ("antidisestablishmentarianism", 6, 6),
    ("2 + 2 = 4", 7, 7),
    ("お誕生日おめでとう", 8, 9),
    ("hello world", 2, 2),
    ("The quick brown fox jumps over the lazy dog.", 10, 10),
    ("I'm sure they've said we'll don't. THEY'RE NOT", 11, 14),
    ("Привет, как дела?", 6, 8),
    ("안녕하세요 세계", 3, 9),
    ("مرحبا بالعالم", 4, 10),
    ("नमस्ते दुनिया", 5, 13),
    ("你好，世界！今天天气很好。", 9, 16),
    ("👍", 1, 3),
    ("👨\u{200d}👩\u{200d}👧\u{200d}👦 family 🇩🇪", 16, 25),
    ("e\u{301} vs é", 4, 4),
    ("fn main() {\n    println!(\"{}\", 1_000);\n}\n", 13, 13),
    ("1234567890", 4, 4),
    ("   leading and   inner   spaces  ", 8, 8),
    ("\r\n\r\n\t\ttabs\r\n", 5, 5),
    ("<|endoftext|><|im_start|>user", 13, 13),
    (
        "{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"string\"}}}",
        14,
        14,
    ),
    ("\u{0}\u{200b}\u{feff}", 3, 3),
];

#[test]
fn counts_match_published_examples() {
    for (text, o200k, cl100k) in COUNTED {
        assert_eq!(count(Tokenizer::O200kBase, text), *o200k, "o200k_base: {text:?}");
        assert_eq!(
            count(Tokenizer::Cl100kBase, text),
            *cl100k,
            "cl100k_base: {text:?}"
        );
    }
}

/// The framing of messages assumes that a role is one token.
#[test]
fn a_role_is_one_token() {
    for tokenizer in Tokenizer::ALL {
        for role in ["system", "developer", "user", "assistant"] {
            assert_eq!(count(tokenizer, role), 1, "{role}");
        }
    }
}

#[test]
fn no_token_exceeds_max_token_bytes() {
    for tokenizer in Tokenizer::ALL {
        let bpe = &table(tokenizer).bpe;
        let tokens = 0..u32::try_from(bpe.num_tokens()).unwrap();
        let max_bytes = tokens.map(|token| bpe.token_bytes(token).len() as u64).max();
        assert_eq!(max_bytes, Some(Tokenizer::MAX_TOKEN_BYTES), "{tokenizer:?}");
    }
}

/// Counts texts of one megabyte: one with a single token candidate, and one with as many candidates
/// as possible. With an algorithm that is quadratic in a candidate's length, the test would take
/// hours.
#[test]
fn a_megabyte_of_any_text_is_counted() {
    const BYTES: usize = 1 << 20;
    for sample in [
        "a", " ", "\n", "!", "0", "é", "漢", "\u{301}", "😀", " a", "ab", " \n", "aA", "\t ", "'s",
    ] {
        let text = sample.repeat(BYTES / sample.len());
        let bytes = text.len() as u64;
        for tokenizer in Tokenizer::ALL {
            let tokens = count(tokenizer, &text);
            let bounds = bytes / Tokenizer::MAX_TOKEN_BYTES..=bytes;
            assert!(bounds.contains(&tokens), "{sample:?}: {tokens}");
        }
    }
}
