//! Splits texts into passages.

use std::ops::Range;

/// A passage ends at the end of a paragraph after this number of words.
const GOOD_WORDS: usize = 180;
/// A passage ends at the end of a sentence after this number of words.
const FULL_WORDS: usize = 250;
/// Maximum number of words of a passage.
const MAX_WORDS: usize = 320;
/// Maximum length of a passage in bytes, for texts without spaces.
const MAX_BYTES: usize = 4_096;

/// Returns the byte ranges of the passages. They are consecutive and cover the whole text, so that
/// the text can be restored from them. Reads the text once.
pub(crate) fn passages(text: &str) -> Vec<Range<usize>> {
    let mut passages = Vec::new();
    let mut start = 0;
    let mut words = 0;
    let mut in_word = false;
    let mut previous = ' ';
    for (at, character) in text.char_indices() {
        let is_space = character.is_whitespace();
        // Passages begin with a word or at the byte limit, so spaces belong to the passage before.
        let is_word_start = !is_space && !in_word;
        if at - start + character.len_utf8() > MAX_BYTES
            || (is_word_start && is_end(words, boundary(&text[start..at], previous)))
        {
            passages.push(start..at);
            start = at;
            words = 0;
        }
        if is_word_start {
            words += 1;
        }
        if !is_space {
            previous = character;
        }
        in_word = !is_space;
    }
    if start < text.len() {
        passages.push(start..text.len());
    }
    passages
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Boundary {
    Paragraph,
    Sentence,
    Word,
}

/// Returns the kind of boundary at the end of the text. `last` is its last character that is not a
/// space. Reads no more than the spaces at the end.
fn boundary(before: &str, last: char) -> Boundary {
    let spaces = &before[before.trim_end().len()..];
    match () {
        () if spaces.matches('\n').count() >= 2 => Boundary::Paragraph,
        () if matches!(last, '.' | '!' | '?' | '。' | '！' | '？' | '"' | '”' | ')')
            || spaces.contains('\n') =>
        {
            Boundary::Sentence
        }
        () => Boundary::Word,
    }
}

fn is_end(words: usize, boundary: Boundary) -> bool {
    match boundary {
        Boundary::Paragraph => words >= GOOD_WORDS,
        Boundary::Sentence => words >= FULL_WORDS,
        Boundary::Word => words >= MAX_WORDS,
    }
}

#[cfg(test)]
mod tests;
