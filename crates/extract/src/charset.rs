//! Decodes bytes to text: by a byte order mark, the declared charset, or a guess. Declarations are
//! often wrong, so they apply only where the bytes do not contradict them.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes at the start of an HTML page in which a `meta` element may declare the charset.
const META_BYTES: usize = 1_024;
/// Number of bytes from which a charset is guessed.
const GUESSED_BYTES: usize = 256 << 10;

/// Decodes bytes. `declared` is the charset of the response; a page of HTML may declare it itself.
pub(crate) fn decode(bytes: &[u8], declared: Option<&str>, is_html: bool) -> String {
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        let rest = bytes.get(length..).unwrap_or_default();
        return encoding.decode_without_bom_handling(rest).0.into_owned();
    }
    let declared = declared
        .and_then(|label| Encoding::for_label(label.as_bytes()))
        .or_else(|| is_html.then(|| in_meta(bytes)).flatten());
    let encoding = match (declared, std::str::from_utf8(bytes)) {
        // Bytes of other encodings are hardly ever valid UTF-8 by chance.
        (None, Ok(text)) if !has_nuls(bytes) => return text.to_owned(),
        (Some(encoding), Ok(text)) if encoding.is_ascii_compatible() => return text.to_owned(),
        (Some(encoding), Err(_)) if encoding == UTF_8 => guess(bytes),
        (Some(encoding), _) => encoding,
        (None, _) => guess(bytes),
    };
    encoding.decode_without_bom_handling(bytes).0.into_owned()
}

fn has_nuls(bytes: &[u8]) -> bool {
    bytes.iter().take(META_BYTES).any(|byte| *byte == 0)
}

/// Guesses the encoding of bytes that are not valid UTF-8.
fn guess(bytes: &[u8]) -> &'static Encoding {
    if let Some(encoding) = utf_16(bytes) {
        return encoding;
    }
    if is_mostly_utf_8(bytes) {
        return UTF_8;
    }
    let start = bytes.get(..GUESSED_BYTES).unwrap_or(bytes);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(start, start.len() == bytes.len());
    detector.guess(None, Utf8Detection::Deny)
}

/// Whether most characters beyond ASCII are valid UTF-8: a text with few damaged places.
fn is_mostly_utf_8(bytes: &[u8]) -> bool {
    let (mut valid, mut damaged) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    valid > damaged * 4
}

/// Recognises UTF-16 without a byte order mark by the NUL bytes of its Latin letters.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.get(..META_BYTES).unwrap_or(bytes);
    let pairs = start.chunks_exact(2);
    let (all, mut high, mut low) = (pairs.len(), 0, 0);
    for pair in pairs {
        match pair {
            [0, 0] => return None,
            [0, _] => high += 1,
            [_, 0] => low += 1,
            _ => {}
        }
    }
    match all {
        0 => None,
        _ if high * 2 > all => Some(UTF_16BE),
        _ if low * 2 > all => Some(UTF_16LE),
        _ => None,
    }
}

/// Returns the charset that a `meta` element declares.
fn in_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let start = bytes.get(..META_BYTES).unwrap_or(bytes).to_ascii_lowercase();
    let mut rest = start.as_slice();
    while let Some(at) = rest.windows(5).position(|window| window == b"<meta") {
        rest = rest.get(at + 5..)?;
        let end = rest.iter().position(|byte| *byte == b'>').unwrap_or(rest.len());
        let tag = rest.get(..end)?;
        let Some(at) = tag.windows(7).position(|window| window == b"charset") else {
            continue;
        };
        let value = tag.get(at + 7..)?.trim_ascii_start();
        let Some(value) = value.strip_prefix(b"=") else {
            continue;
        };
        let value = value.trim_ascii_start();
        let value = value
            .strip_prefix(b"\"")
            .or(value.strip_prefix(b"'"))
            .unwrap_or(value);
        let is_end = |byte: &u8| matches!(byte, b'"' | b'\'' | b';' | b' ' | b'/');
        let length = value.iter().position(is_end).unwrap_or(value.len());
        let encoding = Encoding::for_label(value.get(..length)?)?;
        // A page whose tags can be read as ASCII is not UTF-16.
        return Some(if encoding.is_ascii_compatible() {
            encoding
        } else {
            UTF_8
        });
    }
    None
}

#[cfg(test)]
mod tests;
