//! Cursor over a JSON text.

use std::borrow::Cow;

use super::number::{self, Number};
use super::string::{BLOCK, Text, scan_escape, short_plain_string, specials};
use super::{MAX_BYTES, MAX_DEPTH};
use crate::error::{BoxedError, DecodeError};
use crate::lossless::Span;

/// Type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

impl Kind {
    /// Returns the name with its article, for messages.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Object => "an object",
            Kind::Array => "an array",
            Kind::String => "a string",
            Kind::Number => "a number",
            Kind::Bool => "a boolean",
            Kind::Null => "null",
        }
    }
}

/// Key of an object.
#[derive(Clone, Debug)]
pub(crate) struct Key<'a> {
    /// Decoded name; owned if the key has escapes.
    pub(crate) name: Cow<'a, str>,
    /// Position of the opening quote.
    pub(crate) start: u32,
}

/// A cursor over one JSON text. Syntax errors contain the line and the column, which start at 1,
/// and the byte offset.
///
/// An object is read by [`begin_object`](Self::begin_object), then for every [`key`](Self::key)
/// exactly one value; an array by [`begin_array`](Self::begin_array), then for every
/// [`item`](Self::item) exactly one value.
pub(crate) struct Reader<'a> {
    text: &'a str,
    pub(super) at: usize,
    pub(super) depth: u32,
    nodes_left: u32,
    first: bool,
}

impl<'a> Reader<'a> {
    /// Creates a cursor at the start of the body, which may have up to `max_nodes` values. Fails if
    /// the body is larger than 1 GiB or is not UTF-8.
    pub(crate) fn new(body: &'a [u8], max_nodes: u32) -> Result<Self, BoxedError> {
        if body.len() > MAX_BYTES {
            return Err(Box::new(DecodeError::invalid_json(
                "The body is larger than 1 GiB.",
            )));
        }
        let text = simdutf8::basic::from_utf8(body).map_err(|_| not_utf8(body))?;
        Ok(Self {
            text,
            at: 0,
            depth: 0,
            nodes_left: max_nodes,
            first: false,
        })
    }

    /// Skips white space and returns the position of the next character.
    pub(crate) fn place(&mut self) -> u32 {
        self.skip_space();
        self.at as u32
    }

    /// Returns a second cursor at the same position, for lookahead. It counts its values
    /// separately.
    pub(crate) fn ahead(&self) -> Reader<'a> {
        Reader { ..*self }
    }

    /// Returns a part of the text; empty if the span is out of bounds.
    pub(crate) fn slice(&self, span: Span) -> &'a str {
        self.text
            .get(span.start as usize..span.end as usize)
            .unwrap_or_default()
    }

    /// Returns the position of the cursor. Directly after a token was read, this is the end of the
    /// token.
    pub(crate) fn end(&self) -> u32 {
        self.at as u32
    }

    /// Returns the type of the next value. Consumes only white space.
    #[inline]
    pub(crate) fn kind(&mut self) -> Result<Kind, BoxedError> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => Ok(Kind::String),
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            Some(_) => Err(self.syntax("expected a value")),
            None => Err(self.syntax("unexpected end of input, expected a value")),
        }
    }

    /// Enters the object under the cursor.
    #[inline]
    pub(crate) fn begin_object(&mut self) -> Result<(), BoxedError> {
        self.begin(b'{')
    }

    /// Enters the array under the cursor.
    #[inline]
    pub(crate) fn begin_array(&mut self) -> Result<(), BoxedError> {
        self.begin(b'[')
    }

    #[inline]
    fn begin(&mut self, open: u8) -> Result<(), BoxedError> {
        self.skip_space();
        if self.peek() != Some(open) {
            return Err(self.syntax("expected an array or an object"));
        }
        self.count_node()?;
        if self.depth == MAX_DEPTH {
            return Err(self.syntax(&format!("values are nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        self.at += 1;
        self.first = true;
        Ok(())
    }

    /// Reads the next key of the object and its colon; `None` at the end of the object.
    #[inline]
    pub(crate) fn key(&mut self) -> Result<Option<Key<'a>>, BoxedError> {
        if !self.has_next(b'}', "expected ',' or '}'")? {
            return Ok(None);
        }
        let start = self.at as u32;
        if self.peek() != Some(b'"') {
            return Err(self.syntax("expected a key in double quotes"));
        }
        let name = self.text_token()?.decoded();
        self.colon()?;
        Ok(Some(Key { name, start }))
    }

    /// Like [`key`](Self::key), but does not decode the name; false at the end of the object.
    #[inline]
    pub(super) fn skip_key(&mut self) -> Result<bool, BoxedError> {
        if !self.has_next(b'}', "expected ',' or '}'")? {
            return Ok(false);
        }
        if self.peek() != Some(b'"') {
            return Err(self.syntax("expected a key in double quotes"));
        }
        self.text_token()?;
        self.colon()?;
        Ok(true)
    }

    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), BoxedError> {
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(self.syntax("expected ':'"));
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the array has another element. Consumes the comma or the closing bracket.
    #[inline]
    pub(crate) fn item(&mut self) -> Result<bool, BoxedError> {
        self.has_next(b']', "expected ',' or ']'")
    }

    #[inline]
    fn has_next(&mut self, close: u8, expected: &str) -> Result<bool, BoxedError> {
        self.skip_space();
        let first = std::mem::replace(&mut self.first, false);
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                self.depth -= 1;
                return Ok(false);
            }
            Some(_) if first => return Ok(true),
            Some(b',') => self.at += 1,
            _ => return Err(self.syntax(expected)),
        }
        self.skip_space();
        match self.peek() {
            Some(byte) if byte == close => Err(self.syntax("trailing comma")),
            _ => Ok(true),
        }
    }

    /// Reads the string under the cursor.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Text<'a>, BoxedError> {
        self.count_node()?;
        self.text_token()
    }

    /// Reads the string or key whose opening quote is under the cursor. Consumes both quotes.
    #[inline(always)]
    pub(super) fn text_token(&mut self) -> Result<Text<'a>, BoxedError> {
        let start = self.at + 1;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        if let Some(length) = short_plain_string(rest) {
            self.at = start + length + 1;
            let raw = self.text.get(start..start + length).unwrap_or_default();
            return Ok(Text { raw, len: length });
        }
        self.long_text_token()
    }

    #[inline(never)]
    fn long_text_token(&mut self) -> Result<Text<'a>, BoxedError> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let (mut at, mut saved) = (start, 0);
        let end = 'string: loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let mut hits = specials(rest);
            // Escapes often occur together, so all escapes of one block are handled in this loop.
            let next = loop {
                if hits == 0 {
                    break at + BLOCK;
                }
                let place = at + hits.trailing_zeros() as usize;
                let tail = bytes.get(place..).unwrap_or_default();
                let length = match tail {
                    [b'"', ..] => break 'string place,
                    [b'\\', b'"' | b'\\' | b'/' | b'n' | b't' | b'r' | b'b' | b'f', ..] => {
                        saved += 1;
                        2
                    }
                    [b'\\', ..] => {
                        let escape = scan_escape(tail).map_err(|problem| self.syntax_at(place, problem))?;
                        saved += escape.length - escape.character.len_utf8();
                        escape.length
                    }
                    _ => return Err(self.syntax_at(place, CONTROL)),
                };
                let after = place + length;
                if after >= at + BLOCK {
                    break after;
                }
                hits &= u32::MAX << (after - at);
            };
            if next > bytes.len() {
                return Err(self.syntax_at(bytes.len(), "unterminated string"));
            }
            at = next;
        };
        let raw = self.text.get(start..end).unwrap_or_default();
        self.at = end + 1;
        Ok(Text {
            raw,
            len: raw.len() - saved,
        })
    }

    /// Reads the number under the cursor.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Number<'a>, BoxedError> {
        self.count_node()?;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some((length, integral)) = number::scan(rest.as_bytes()) else {
            return Err(self.syntax("invalid number"));
        };
        let token = rest.get(..length).unwrap_or_default();
        if !number::is_finite(token) {
            return Err(self.syntax("number out of range"));
        }
        self.at += length;
        Ok(Number { token, integral })
    }

    /// Reads the boolean under the cursor.
    #[inline]
    pub(crate) fn boolean(&mut self) -> Result<bool, BoxedError> {
        let value = self.peek() == Some(b't');
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads the null under the cursor.
    #[inline]
    pub(crate) fn null(&mut self) -> Result<(), BoxedError> {
        self.word("null")
    }

    #[inline]
    fn word(&mut self, word: &str) -> Result<(), BoxedError> {
        self.count_node()?;
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        if !rest.starts_with(word.as_bytes()) {
            return Err(self.syntax("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// Fails if any character other than white space follows.
    pub(crate) fn finish(mut self) -> Result<(), BoxedError> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.syntax("unexpected characters after the end of the value")),
        }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    #[inline]
    pub(super) fn count_node(&mut self) -> Result<(), BoxedError> {
        match self.nodes_left.checked_sub(1) {
            Some(left) => {
                self.nodes_left = left;
                Ok(())
            }
            None => Err(self.syntax("too many values")),
        }
    }

    /// Returns the error `invalid_json` at the position of the cursor.
    #[cold]
    pub(super) fn syntax(&self, problem: &str) -> BoxedError {
        self.syntax_at(self.at, problem)
    }

    #[cold]
    fn syntax_at(&self, at: usize, problem: &str) -> BoxedError {
        let before = self.text.as_bytes().get(..at).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        let column = before
            .iter()
            .skip(line_start)
            .filter(|byte| !matches!(byte, 0x80..0xC0))
            .count()
            + 1;
        Box::new(DecodeError::invalid_json(format!(
            "The body is not valid JSON: {problem} (line {line}, column {column}, byte {at})."
        )))
    }
}

const CONTROL: &str = "control characters in a string must be escaped";

#[cold]
fn not_utf8(body: &[u8]) -> BoxedError {
    let at = std::str::from_utf8(body).map_or_else(|error| error.valid_up_to(), str::len);
    Box::new(DecodeError::invalid_json(format!(
        "The body is not valid UTF-8 (at byte {at})."
    )))
}
