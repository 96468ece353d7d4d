//! Skeleton form of texts: letters without accents, case and lookalikes.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::script::{is_invisible, is_unspaced};

/// Minimum number of single letters in a row that are joined to a word.
const MIN_SPACED_LETTERS: usize = 6;

/// The forms of a passage that patterns search.
pub(super) struct Skeleton {
    /// Words in reading order, with digits that stand for letters replaced.
    pub(super) words: Vec<String>,
    /// Words that were written with a space or mark after each letter.
    pub(super) joined: Vec<String>,
    /// Lower case with all marks and white space, without invisible characters.
    pub(super) raw: String,
    /// Words of unspaced scripts and in ASCII, without white space and marks; empty without an
    /// unspaced script.
    pub(super) compact: String,
}

/// Returns the skeletons of a passage.
pub(super) fn of(passage: &str) -> Skeleton {
    let raw: String = letters(passage).collect();
    let mut words = Vec::new();
    let mut joined = Vec::new();
    let mut letters_in_row = String::new();
    let mut compact = String::new();
    for word in raw.split(|c: char| !c.is_alphanumeric()).chain(["", "end"]) {
        let mut chars = word.chars();
        let is_letter = chars.next().is_some() && chars.next().is_none();
        if is_letter {
            letters_in_row.push_str(word);
        } else if !word.is_empty() {
            if letters_in_row.chars().count() >= MIN_SPACED_LETTERS {
                joined.push(std::mem::take(&mut letters_in_row));
            }
            letters_in_row.clear();
            words.push(similar(word));
        }
        if is_letter {
            words.push(word.to_owned());
        }
        if word.contains(is_unspaced) || word.is_ascii() {
            compact.push_str(word);
        }
    }
    words.pop();
    if !raw.contains(is_unspaced) {
        compact.clear();
    }
    Skeleton {
        words,
        joined,
        raw,
        compact,
    }
}

/// Returns the skeleton of a word of a pattern.
pub(super) fn skeleton(word: &str) -> String {
    let letters: String = letters(word).collect();
    similar(&letters)
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    let decomposed = text.chars().filter(|&c| !is_invisible(c)).nfkd();
    decomposed
        .filter(|&c| !is_combining_mark(c))
        .flat_map(char::to_lowercase)
        .map(lookalike)
}

/// Replaces digits and signs that stand for letters, in words with letters.
fn similar(word: &str) -> String {
    if !word.contains(|c: char| c.is_ascii_digit()) || !word.contains(char::is_alphabetic) {
        return word.to_owned();
    }
    let letter = |c| match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' => 'a',
        '5' => 's',
        '7' => 't',
        c => c,
    };
    word.chars().map(letter).collect()
}

/// Returns the Latin letter that looks like a Cyrillic or Greek one.
const fn lookalike(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'в' => 'b',
        'с' => 'c',
        'е' | 'ε' => 'e',
        'һ' | 'н' => 'h',
        'і' | 'ı' | 'ι' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'о' | 'ο' | 'ø' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'у' | 'υ' => 'y',
        'х' | 'χ' => 'x',
        'ν' => 'v',
        _ => c,
    }
}
