//! Terms for ranking.

mod stop_words;
#[cfg(test)]
mod tests;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

pub(crate) use stop_words::is_stop_word;

use crate::script::{is_invisible, is_unspaced};

/// Returns the terms of a text in reading order: words in lower case without stop words, reduced to
/// a common form of English plurals, -ing and -ed. Scripts without spaces become pairs of
/// characters.
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    each_term(text, |term| terms.push(term.to_owned()));
    terms
}

/// Calls `emit` for each term of a text, in reading order.
pub(crate) fn each_term(text: &str, mut emit: impl FnMut(&str)) {
    each_word(text, |word, is_pair| {
        if is_pair {
            emit(word);
        } else if !is_stop_word(word) {
            emit(&stem(word));
        }
    });
}

/// Calls `emit` for each word in lower case. The second argument is whether the word is a pair of
/// characters of an unspaced script, or a single one between other characters.
fn each_word(text: &str, mut emit: impl FnMut(&str, bool)) {
    let mut word = String::new();
    let mut pair = String::new();
    let mut before: Option<char> = None;
    let mut is_single = false;
    let folded = text
        .chars()
        .filter(|&c| !is_invisible(c))
        .nfkc()
        .flat_map(char::to_lowercase);
    for c in folded.chain(std::iter::once(' ')) {
        if is_unspaced(c) && is_combining_mark(c) && !c.is_alphanumeric() {
            // Tone marks make no difference.
            continue;
        }
        if is_unspaced(c) && c.is_alphanumeric() {
            flush(&mut word, &mut emit);
            if let Some(before) = before {
                pair.clear();
                pair.extend([before, c]);
                emit(&pair, true);
            }
            is_single = before.is_none();
            before = Some(c);
            continue;
        }
        if let Some(alone) = before.take().filter(|_| is_single) {
            emit(alone.encode_utf8(&mut [0; 4]), true);
        }
        if c.is_alphanumeric() || (is_combining_mark(c) && !word.is_empty()) {
            word.push(c);
        } else {
            flush(&mut word, &mut emit);
        }
    }
}

fn flush(word: &mut String, emit: &mut impl FnMut(&str, bool)) {
    if !word.is_empty() {
        emit(word, false);
        word.clear();
    }
}

/// Returns the common form of a word. Only English endings of words in ASCII letters change.
fn stem(word: &str) -> String {
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let singular = singular(word);
    let base = strip_inflection(&singular).unwrap_or(singular);
    match base.strip_suffix('e') {
        Some(short) if short.len() >= 3 => short.to_owned(),
        _ => base,
    }
}

fn singular(word: &str) -> String {
    if let Some(base) = word.strip_suffix("ies").filter(|base| base.len() >= 2) {
        return format!("{base}y");
    }
    if word.ends_with("sses") || word.ends_with("ches") || word.ends_with("shes") || word.ends_with("xes") {
        return word[..word.len() - 2].to_owned();
    }
    let is_plural = word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    word[..word.len() - usize::from(is_plural)].to_owned()
}

/// Removes -ing, -ed or -ied; `None` if the word has none of them.
fn strip_inflection(word: &str) -> Option<String> {
    if let Some(base) = word.strip_suffix("ied").filter(|base| base.len() >= 2) {
        return Some(format!("{base}y"));
    }
    let base = word
        .strip_suffix("ing")
        .or_else(|| word.strip_suffix("ed").filter(|base| !base.ends_with('e')))?;
    let has_vowel = base.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    if base.len() < 3 || !has_vowel {
        return None;
    }
    let mut last = base.chars().rev();
    let is_double = last.next().zip(last.next()).is_some_and(|(one, two)| {
        one == two && !matches!(one, 'l' | 's' | 'z') && !matches!(one, 'a' | 'e' | 'i' | 'o' | 'u')
    });
    Some(base[..base.len() - usize::from(is_double)].to_owned())
}
