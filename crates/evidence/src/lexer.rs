//! Words, numbers and marks of a text, for the recognition of numbers and dates.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::script::{is_invisible, is_unspaced};

/// Class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Begins with a letter; may contain digits. A character of an unspaced script is a word.
    Word,
    /// ASCII digits, with single separators between digits.
    Number,
    /// One character that is neither letter, digit nor white space.
    Mark,
}

/// A word, a number or a mark, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) text: &'t str,
    /// Byte offset in the text.
    pub(crate) start: usize,
    /// Whether white space precedes the token, or it is the first.
    pub(crate) is_spaced: bool,
}

impl Token<'_> {
    /// Whether the token is this mark.
    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == Kind::Mark && self.text.starts_with(mark)
    }

    /// Returns the byte offset of the end.
    pub(crate) const fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Returns the number of digits and the value of a number without separators.
    pub(crate) fn digits(&self) -> Option<(usize, u16)> {
        let is_plain = self.kind == Kind::Number && self.text.bytes().all(|byte| byte.is_ascii_digit());
        let value = self.text.parse().ok().filter(|_| is_plain)?;
        Some((self.text.len(), value))
    }
}

/// Returns a text in NFKC without invisible characters. Spaces that cannot break a line become
/// apostrophes between digits, where they separate thousands.
pub(crate) fn prepare(text: &str) -> String {
    let mut before = ' ';
    let mut chars = text.chars().filter(|&c| !is_invisible(c)).peekable();
    let separated = std::iter::from_fn(move || {
        let c = chars.next()?;
        let is_separator = matches!(c, '\u{a0}' | '\u{202f}' | '\u{2009}') && before.is_ascii_digit();
        let joins = is_separator && chars.peek().is_some_and(char::is_ascii_digit);
        before = c;
        Some(if joins { '\'' } else { c })
    });
    separated.nfkc().collect()
}

/// Returns the tokens of a prepared text.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut is_spaced = true;
    while let Some(c) = text[at..].chars().next() {
        if c.is_whitespace() {
            at += c.len_utf8();
            is_spaced = true;
            continue;
        }
        let (kind, length) = token_at(&text[at..], c);
        let (start, end) = (at, at + length);
        tokens.push(Token {
            kind,
            text: &text[start..end],
            start,
            is_spaced,
        });
        at = end;
        is_spaced = false;
    }
    tokens
}

fn token_at(text: &str, first: char) -> (Kind, usize) {
    if first.is_ascii_digit() {
        (Kind::Number, number_length(text))
    } else if is_unspaced(first) || !first.is_alphanumeric() || is_combining_mark(first) {
        let is_word = first.is_alphanumeric() && !is_combining_mark(first);
        let kind = if is_word { Kind::Word } else { Kind::Mark };
        (kind, first.len_utf8())
    } else {
        let is_part = |c: char| (c.is_alphanumeric() && !is_unspaced(c)) || is_combining_mark(c);
        let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
        (Kind::Word, end)
    }
}

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = 0;
    loop {
        if is_digit(end) {
            end += 1;
        } else if matches!(bytes.get(end), Some(b'.' | b',' | b'\'')) && is_digit(end + 1) {
            end += 2;
        } else if text[end..].starts_with('’') && is_digit(end + '’'.len_utf8()) {
            end += '’'.len_utf8() + 1;
        } else {
            return end;
        }
    }
}
