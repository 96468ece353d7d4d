//! Normal form for comparing texts: NFKC, lower case, uniform quote marks, dashes and white space,
//! without invisible characters. Each character of the form refers to its place in the original.

#[cfg(test)]
mod tests;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, decompose_compatible, is_combining_mark};

use crate::script::is_invisible;
use crate::text::CharIndex;

/// A folded text with references to the original.
#[derive(Debug)]
pub(crate) struct Folded {
    /// Folded text, without white space at its ends.
    pub(crate) text: String,
    /// Characters of `text`.
    pub(crate) chars: Vec<char>,
    /// Original range of each character, in code points. Characters of one cluster share a range.
    spans: Vec<(u32, u32)>,
    index: CharIndex,
}

impl Folded {
    pub(crate) fn new(original: &str) -> Self {
        let mut chars = Vec::with_capacity(original.len());
        let mut spans = Vec::with_capacity(original.len());
        each_folded(original, |c, start, end| {
            chars.push(c);
            spans.push((start, end));
        });
        if chars.last() == Some(&' ') {
            chars.pop();
            spans.pop();
        }
        let text: String = chars.iter().collect();
        let index = CharIndex::new(&text);
        Self {
            text,
            chars,
            spans,
            index,
        }
    }

    /// Returns the character index of a byte offset of the folded text.
    pub(crate) fn char_of_byte(&self, byte: usize) -> usize {
        self.index.char_of_byte(&self.text, byte)
    }

    /// Whether a range of folded characters begins and ends between clusters of the original.
    pub(crate) fn is_aligned(&self, start: usize, end: usize) -> bool {
        let divides = self.divides_cluster(start) || self.divides_cluster(end);
        start < end && end <= self.spans.len() && !divides
    }

    /// Whether a place between two folded characters is inside a cluster of the original.
    pub(crate) fn divides_cluster(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.spans.get(before));
        before.is_some() && before == self.spans.get(at)
    }

    /// Returns the original range of folded characters; whole clusters. `None` for an empty range.
    pub(crate) fn original(&self, start: usize, end: usize) -> Option<(usize, usize)> {
        let (first, _) = self.spans.get(start)?;
        let (_, last) = self.spans.get(end.checked_sub(1)?)?;
        Some((*first as usize, *last as usize))
    }
}

/// Returns the folded form of a text.
pub(crate) fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    each_folded(text, |c, _, _| folded.push(c));
    folded.truncate(folded.trim_end_matches(' ').len());
    folded
}

/// Calls `emit` for each folded character, with its range in the original.
fn each_folded(text: &str, mut emit: impl FnMut(char, u32, u32)) {
    let mut chars = text.chars().peekable();
    let (mut start, mut end) = (0, 0);
    let mut after_space = true;
    let mut emit = |c: char, start: u32, end: u32| {
        let is_space = c.is_whitespace();
        if !(is_space && after_space) {
            emit(if is_space { ' ' } else { c }, start, end);
        }
        after_space = is_space;
    };
    let mut cluster = String::new();
    while let Some(first) = chars.next() {
        end += 1;
        cluster.clear();
        while let Some(next) = chars.next_if(|&next| joins(next)) {
            end += 1;
            if !is_invisible(next) {
                cluster.push(next);
            }
        }
        match simple(first) {
            Some(c) if cluster.is_empty() => emit(c, start, end),
            _ if is_invisible(first) && cluster.is_empty() => {}
            _ => {
                let whole = std::iter::once(first).filter(|&c| !is_invisible(c));
                for c in whole.chain(cluster.chars()).nfkc().flat_map(char::to_lowercase) {
                    emit(uniform(c), start, end);
                }
            }
        }
        start = end;
    }
}

/// Returns the folded form of a common character that NFKC leaves unchanged or replaces by one
/// character.
fn simple(c: char) -> Option<char> {
    match c {
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        ' '..='~' | '\n' | '\t' => Some(uniform(c)),
        '\u{a0}' | '\u{202f}' | '\u{2009}' => Some(' '),
        '\u{c0}'..='\u{ff}' | '\u{400}'..='\u{45f}' => c.to_lowercase().next(),
        '\u{3041}'..='\u{3096}' | '\u{30a1}'..='\u{30fa}' => Some(c),
        '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => Some(c),
        _ => Some(uniform(c)).filter(|&uniform| uniform != c),
    }
}

/// Returns the common form of quote marks, dashes and the final sigma.
const fn uniform(c: char) -> char {
    match c {
        '"' | '\'' | '`' | '´' | '‘' | '’' | '‚' | '‛' | '“' | '”' | '„' | '‟' | '«' | '»' | '‹' | '›'
        | '′' | '″' | '「' | '」' | '『' | '』' | '＂' | '＇' => '\'',
        '‐' | '‑' | '‒' | '–' | '—' | '―' | '−' | '﹘' | '﹣' | '－' => '-',
        'ς' => 'σ',
        _ => c,
    }
}

/// Whether a character belongs to the cluster of the character before it: combining marks, vowels
/// and finals of decomposed Hangul, and invisible characters.
fn joins(c: char) -> bool {
    match c {
        '\u{20}'..='\u{7e}' | '\n' | '\t' | '\u{c0}'..='\u{2ff}' | '\u{4e00}'..='\u{9fff}' => false,
        _ if is_invisible(c) => true,
        _ => {
            let mut first = None;
            decompose_compatible(c, |part| {
                first.get_or_insert(part);
            });
            first.is_some_and(|c| {
                canonical_combining_class(c) != 0
                    || is_combining_mark(c)
                    || matches!(c, '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7ff}')
            })
        }
    }
}
