//! JSON strings that are not yet converted, escapes included.

use std::borrow::Cow;

use wide::u8x16;

/// String of the JSON grammar, checked but still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text<'a> {
    /// The text between the quotes, escapes included.
    pub(crate) raw: &'a str,
    /// Length in bytes after resolving escapes.
    pub(crate) len: usize,
}

impl<'a> Text<'a> {
    /// Returns the decoded string; borrowed unless it has escapes.
    #[inline]
    pub(crate) fn decoded(self) -> Cow<'a, str> {
        if self.len == self.raw.len() {
            Cow::Borrowed(self.raw)
        } else {
            Cow::Owned(self.unescaped())
        }
    }

    #[cold]
    fn unescaped(self) -> String {
        let mut decoded = String::with_capacity(self.len);
        let mut rest = self.raw;
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
            let (plain, escaped) = rest.split_at(at);
            decoded.push_str(plain);
            let Ok(escape) = scan_escape(escaped.as_bytes()) else {
                break;
            };
            decoded.push(escape.character);
            rest = escaped.get(escape.length..).unwrap_or_default();
        }
        decoded.push_str(rest);
        decoded
    }
}

/// One escape sequence.
pub(super) struct Escape {
    /// Length of the sequence in bytes, backslash included.
    pub(super) length: usize,
    /// The decoded character.
    pub(super) character: char,
}

/// Reads the escape at the start of `bytes`. The error is the description of the problem for the
/// message.
pub(super) fn scan_escape(bytes: &[u8]) -> Result<Escape, &'static str> {
    let simple = |character| Ok(Escape { length: 2, character });
    match bytes.get(1) {
        Some(b'"') => simple('"'),
        Some(b'\\') => simple('\\'),
        Some(b'/') => simple('/'),
        Some(b'n') => simple('\n'),
        Some(b't') => simple('\t'),
        Some(b'r') => simple('\r'),
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'u') => scan_unicode(bytes),
        Some(_) => Err("invalid escape sequence"),
        None => Err("unterminated string"),
    }
}

fn scan_unicode(bytes: &[u8]) -> Result<Escape, &'static str> {
    const LONE_SURROGATE: &str = "unpaired surrogate in a \\u escape";
    let first = hex4(bytes, 2).ok_or("expected four hexadecimal digits after \\u")?;
    if let Some(character) = char::from_u32(first) {
        return Ok(Escape { length: 6, character });
    }
    let is_leading = (0xD800..0xDC00).contains(&first);
    if !is_leading || bytes.get(6..8) != Some(b"\\u") {
        return Err(LONE_SURROGATE);
    }
    let second = hex4(bytes, 8)
        .filter(|second| (0xDC00..0xE000).contains(second))
        .ok_or(LONE_SURROGATE)?;
    let code_point = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    let character = char::from_u32(code_point).ok_or(LONE_SURROGATE)?;
    Ok(Escape {
        length: 12,
        character,
    })
}

fn hex4(bytes: &[u8], from: usize) -> Option<u32> {
    let digits = bytes.get(from..from + 4)?;
    digits.iter().try_fold(0, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | digit)
    })
}

/// Returns the length of a string without escapes that ends within its first four 8-byte words, as
/// nearly all keys and most values do; otherwise `None`.
#[inline]
pub(super) fn short_plain_string(bytes: &[u8]) -> Option<usize> {
    let (words, _) = bytes.as_chunks();
    for (index, word) in words.iter().take(4).enumerate() {
        if let Some(place) = special_in_word(*word) {
            return (word[place] == b'"').then_some(8 * index + place);
        }
    }
    None
}

/// Number of bytes that are scanned together.
pub(super) const BLOCK: usize = 16;

/// Returns a bit mask of the special bytes in the next block, the first byte lowest. Special bytes
/// are quotes, backslashes, and control characters, which must be escaped in a string.
#[inline]
pub(super) fn specials(bytes: &[u8]) -> u32 {
    let block = bytes.first_chunk().copied().unwrap_or_else(|| padded(bytes));
    let block = u8x16::new(block);
    let quotes = block.simd_eq(u8x16::splat(b'"'));
    let backslashes = block.simd_eq(u8x16::splat(b'\\'));
    let controls = block.simd_le(u8x16::splat(0x1F));
    (quotes | backslashes | controls).to_bitmask()
}

#[cold]
fn padded(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    for (place, byte) in block.iter_mut().zip(bytes) {
        *place = *byte;
    }
    block
}

/// Returns the index of the first special byte of a word; `None` if the word has none. In the mask
/// `hits`, the bits above the lowest set bit may be wrong.
#[inline]
fn special_in_word(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(word);
    // In the subtraction, a byte borrows from the next byte only if it is itself a hit; bytes above
    // 0x7F are never hits.
    let quotes = (word ^ (ONES * b'"' as u64)).wrapping_sub(ONES);
    let backslashes = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    let controls = word.wrapping_sub(ONES * 0x20);
    let hits = (quotes | backslashes | controls) & !word & HIGH;
    (hits != 0).then(|| hits.trailing_zeros() as usize / 8)
}
