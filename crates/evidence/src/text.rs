//! Stored text of sources: cleaning, and access by code point.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization;

use crate::script::is_invisible;

/// Maximum length of a stored text, in code points.
pub const MAX_SOURCE_CHARS: usize = 1_000_000;

/// Code points between two entries of a [`CharIndex`].
const STRIDE: usize = 256;

/// A range of a text, in code points. `end` is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// First code point.
    pub start: usize,
    /// Code point after the last one.
    pub end: usize,
}

/// Returns the text to store for a source: in NFC, without control and invisible characters, with
/// at most one blank line in a row, and at most [`MAX_SOURCE_CHARS`] long. Every kind of line break
/// becomes `\n`; lines have no trailing white space. A second cleaning changes nothing.
pub fn clean(text: &str) -> String {
    let mut output = Output::default();
    for c in visible(text).nfc() {
        if !output.push(c) {
            break;
        }
    }
    output.text.truncate(output.text.trim_end().len());
    output.text
}

/// Returns the characters of a text with uniform line breaks and without invisible characters.
fn visible(text: &str) -> impl Iterator<Item = char> {
    let mut chars = text.chars().peekable();
    std::iter::from_fn(move || {
        loop {
            match chars.next()? {
                '\r' if chars.peek() == Some(&'\n') => {}
                '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => return Some('\n'),
                c if is_invisible(c) => {}
                c => return Some(c),
            }
        }
    })
}

/// A text that is being cleaned.
#[derive(Default)]
struct Output {
    text: String,
    chars: usize,
    /// Line breaks after the last visible character.
    line_breaks: usize,
    /// White space after the last visible character or line break.
    spaces: Vec<char>,
}

impl Output {
    /// Appends a character. Returns `false` if the text has reached its maximum length.
    fn push(&mut self, c: char) -> bool {
        if c == '\n' {
            self.line_breaks += 1;
            self.spaces.clear();
        } else if c.is_whitespace() {
            self.spaces.push(c);
        } else {
            if !self.text.is_empty() {
                let breaks = std::iter::repeat_n('\n', self.line_breaks.min(2));
                let pending = breaks.chain(self.spaces.drain(..));
                for space in pending.take(MAX_SOURCE_CHARS - self.chars) {
                    self.text.push(space);
                    self.chars += 1;
                }
            }
            self.line_breaks = 0;
            self.spaces.clear();
            if self.chars == MAX_SOURCE_CHARS {
                return false;
            }
            self.text.push(c);
            self.chars += 1;
        }
        self.chars < MAX_SOURCE_CHARS
    }
}

/// A text with an index of its code points. Lookups read at most 256 characters.
#[derive(Debug)]
pub struct CharText<'t> {
    text: &'t str,
    index: CharIndex,
}

impl<'t> CharText<'t> {
    /// Indexes a text, in time proportional to its length.
    pub fn new(text: &'t str) -> Self {
        let index = CharIndex::new(text);
        Self { text, index }
    }

    /// Returns the whole text.
    pub const fn as_str(&self) -> &'t str {
        self.text
    }

    /// Returns the length in code points.
    #[expect(clippy::len_without_is_empty, reason = "empty texts need no special case")]
    pub const fn len(&self) -> usize {
        self.index.chars
    }

    /// Returns a range of code points; `None` if it is reversed or exceeds the text.
    pub fn slice(&self, start: usize, end: usize) -> Option<&'t str> {
        let start = self.byte_of_char(start)?;
        let end = self.byte_of_char(end)?;
        self.text.get(start..end)
    }

    /// Returns the text of a span; `None` if the span is reversed or exceeds the text.
    pub fn span(&self, span: Span) -> Option<&'t str> {
        self.slice(span.start, span.end)
    }

    /// Returns the byte offset of a code point; the length of the text is a valid argument.
    pub fn byte_of_char(&self, index: usize) -> Option<usize> {
        self.index.byte_of_char(self.text, index)
    }

    /// Returns the number of code points that begin before a byte offset.
    pub fn char_of_byte(&self, byte: usize) -> usize {
        self.index.char_of_byte(self.text, byte)
    }
}

/// Byte offsets of every 256th code point of a text.
#[derive(Debug)]
pub(crate) struct CharIndex {
    starts: Vec<usize>,
    chars: usize,
}

impl CharIndex {
    pub(crate) fn new(text: &str) -> Self {
        let mut starts = Vec::with_capacity(text.len() / STRIDE + 1);
        let mut chars = 0;
        for (byte, _) in text.char_indices() {
            if chars % STRIDE == 0 {
                starts.push(byte);
            }
            chars += 1;
        }
        Self { starts, chars }
    }

    fn byte_of_char(&self, text: &str, index: usize) -> Option<usize> {
        if index == self.chars {
            return Some(text.len());
        }
        let start = *self.starts.get(index / STRIDE)?;
        let (offset, _) = text.get(start..)?.char_indices().nth(index % STRIDE)?;
        Some(start + offset)
    }

    pub(crate) fn char_of_byte(&self, text: &str, byte: usize) -> usize {
        let byte = byte.min(text.len());
        let blocks = self.starts.partition_point(|&start| start <= byte);
        let Some(block) = blocks.checked_sub(1) else {
            return 0;
        };
        let bytes = &text.as_bytes()[self.starts[block]..byte];
        let is_first = |byte: &&u8| (**byte & 0xC0) != 0x80;
        block * STRIDE + bytes.iter().filter(is_first).count()
    }
}
