//! Draws random comments and user-visible texts for a language review.

use serde_json::Value;

use crate::tidy::rust::{Part, parts};
use crate::tidy::tree::{File, Tree};

/// Minimum number of words of a string literal that counts as a text for readers.
const MIN_WORDS: usize = 4;
/// The OpenAPI documents, whose descriptions users read.
const DOCUMENTS: &[&str] = &["docs/openapi.json", "docs/openapi-admin.json"];
/// The definitions of the command line, whose comments are its help.
const COMMAND_LINE: &[&str] = &["crates/tollgate/src/cli", "crates/tollgate/src/commands/"];

/// A text with its place, such as `crates/edge/src/auth.rs:12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub place: String,
    pub text: String,
}

/// Collects the comments of the product's code: blocks of adjacent comment lines, without those of
/// the command line.
pub fn comments(tree: &Tree) -> Vec<Sample> {
    product(tree)
        .filter(|file| !is_help(file))
        .flat_map(comment_blocks)
        .collect()
}

/// Collects the texts that users read: help of the command line, descriptions of both OpenAPI
/// documents, and string literals that are sentences.
pub fn user_texts(tree: &Tree) -> Vec<Sample> {
    let help = product(tree).filter(|file| is_help(file));
    let mut found: Vec<Sample> = help.flat_map(comment_blocks).collect();
    for file in DOCUMENTS.iter().filter_map(|path| tree.file(path)) {
        let document: Value = serde_json::from_str(&file.text).unwrap_or_default();
        descriptions(&document, &file.path, &mut found);
    }
    found.extend(product(tree).flat_map(sentences));
    found.sort_by(|a, b| (&a.text, &a.place).cmp(&(&b.text, &b.place)));
    found.dedup_by(|a, b| a.text == b.text);
    found
}

/// Draws `count` different samples. The same seed selects the same samples of a list.
pub fn draw(mut from: Vec<Sample>, count: usize, seed: u64) -> Vec<Sample> {
    let mut state = seed;
    let mut drawn = Vec::new();
    while drawn.len() < count && !from.is_empty() {
        let index = usize::try_from(next(&mut state) % from.len() as u64).unwrap_or_default();
        drawn.push(from.swap_remove(index));
    }
    drawn
}

/// Returns the next random number (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn is_help(file: &File) -> bool {
    COMMAND_LINE.iter().any(|start| file.path.starts_with(start))
}

fn product(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| file.is_product())
}

fn comment_blocks(file: &File) -> Vec<Sample> {
    let mut blocks: Vec<(usize, usize, String)> = Vec::new();
    for (part, line, text) in parts(&file.text) {
        if part != Part::Comment {
            continue;
        }
        let words = text.trim_start_matches(['/', '!']).trim();
        match blocks.last_mut() {
            Some((_, last, block)) if *last + 1 == line => {
                block.push(' ');
                block.push_str(words);
                *last = line;
            }
            _ => blocks.push((line, line, words.to_owned())),
        }
    }
    let sample = |(line, _, text)| Sample {
        place: format!("{}:{line}", file.path),
        text,
    };
    blocks.into_iter().map(sample).collect()
}

fn sentences(file: &File) -> Vec<Sample> {
    let literals = parts(&file.text)
        .into_iter()
        .filter(|(part, ..)| *part == Part::Literal);
    let texts = literals.map(|(_, line, text)| (line, unquoted(text)));
    texts
        .filter(|(_, text)| text.split_whitespace().count() >= MIN_WORDS && !is_code(text))
        .map(|(line, text)| Sample {
            place: format!("{}:{line}", file.path),
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        })
        .collect()
}

/// Returns the text of a literal without its prefix, quotes and hashes.
fn unquoted(literal: &str) -> &str {
    let (_, text) = literal.split_once('"').unwrap_or_default();
    text.trim_end_matches(['"', '#'])
}

/// Whether a literal is SQL or JSON.
fn is_code(text: &str) -> bool {
    let start = text.trim_start();
    let is_sql = start
        .split_whitespace()
        .next()
        .is_some_and(|word| word.len() > 1 && word.chars().all(|letter| letter.is_ascii_uppercase()));
    is_sql || start.starts_with(['{', '[', '<', '\\']) || text.contains(" = ?") || text.contains("$1")
}

fn descriptions(value: &Value, path: &str, found: &mut Vec<Sample>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::String(text) if name == "description" || name == "summary" => {
                        found.push(Sample {
                            place: path.to_owned(),
                            text: text.clone(),
                        });
                    }
                    _ => descriptions(field, path, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, path, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(samples: &[Sample]) -> Vec<&str> {
        samples.iter().map(|sample| sample.text.as_str()).collect()
    }

    #[test]
    fn comments_are_blocks_of_adjacent_lines() {
        let code = "/// Returns the price,\n/// in nano-credits.\nfn a() {}\n// Rounded up.\nfn b() {}\n";
        let tree = Tree::of(&[
            ("crates/edge/src/a.rs", code),
            ("crates/edge/src/a/tests.rs", "// No product.\n"),
            ("crates/tollgate/src/commands/keys.rs", "/// List keys\n"),
        ]);
        let found = comments(&tree);
        assert_eq!(
            texts(&found),
            ["Returns the price, in nano-credits.", "Rounded up."]
        );
        assert_eq!(found[1].place, "crates/edge/src/a.rs:4");
    }

    #[test]
    fn user_texts_are_help_descriptions_and_sentences() {
        let code = "fn a() { (\"The key is not valid.\", \"a b\", \"SELECT a FROM b WHERE c\") }";
        let document = r#"{"info": {"description": "The API."}, "list": [{"summary": "List keys"}]}"#;
        let tree = Tree::of(&[
            ("crates/edge/src/a.rs", code),
            ("crates/tollgate/src/commands/keys.rs", "/// Revoke a key\n"),
            ("docs/openapi.json", document),
        ]);
        assert_eq!(
            texts(&user_texts(&tree)),
            ["List keys", "Revoke a key", "The API.", "The key is not valid."]
        );
    }

    #[test]
    fn a_seed_draws_the_same_samples_once() {
        let from: Vec<Sample> = (0..50)
            .map(|number| Sample {
                place: String::new(),
                text: number.to_string(),
            })
            .collect();
        let drawn = draw(from.clone(), 20, 7);
        assert_eq!(drawn, draw(from.clone(), 20, 7));
        assert_ne!(drawn, draw(from.clone(), 20, 8));
        let mut all = draw(from, 60, 7);
        all.sort_by_key(|sample| sample.text.parse::<u32>().unwrap_or_default());
        all.dedup();
        assert_eq!(all.len(), 50);
    }
}
