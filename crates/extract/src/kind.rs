//! Kinds of content, by the declared media type and the first bytes.

/// Kinds of content with text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Html,
    Markdown,
    Json,
    Pdf,
    Text,
}

/// Magic numbers of files that servers declare as text or do not declare.
const BINARY: [&[u8]; 9] = [
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"GIF8",
    b"PK\x03\x04",
    b"\x1f\x8b",
    b"RIFF",
    b"\x7fELF",
    b"\xd0\xcf\x11\xe0",
    b"BZh",
];

/// Number of bytes at the start in which the kind is sought.
const SNIFFED: usize = 1_024;

impl Kind {
    /// Returns the kind of content. `None` if the content has no readable text.
    pub fn of(media_type: &str, bytes: &[u8]) -> Option<Self> {
        let start = bytes.get(..SNIFFED).unwrap_or(bytes);
        if starts_like_pdf(start) {
            return Some(Self::Pdf);
        }
        if BINARY.iter().any(|magic| start.starts_with(magic)) {
            return None;
        }
        match media_type {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "text/markdown" | "text/x-markdown" | "application/markdown" => Some(Self::Markdown),
            // The content is no PDF document.
            "application/pdf" | "application/x-pdf" => None,
            "text/xml" => looks_like_html(start).then_some(Self::Html),
            "" | "application/octet-stream" | "binary/octet-stream" => Some(Self::Text),
            _ if media_type.starts_with("text/") => Some(Self::Text),
            _ if media_type.ends_with("json") => Some(Self::Json),
            _ => None,
        }
    }

    /// Returns the kind after a look at the decoded text: HTML whose declared type is a general
    /// one.
    pub fn refined(self, text: &str) -> Self {
        let start = text.trim_start().as_bytes();
        match self {
            Self::Text if looks_like_html(start.get(..SNIFFED).unwrap_or(start)) => Self::Html,
            _ => self,
        }
    }
}

fn starts_like_pdf(start: &[u8]) -> bool {
    // Readers accept other bytes before the header.
    start.windows(5).any(|window| window == b"%PDF-") && !looks_like_html(start)
}

fn looks_like_html(start: &[u8]) -> bool {
    let start = start.to_ascii_lowercase();
    let has = |tag: &[u8]| start.windows(tag.len()).any(|window| window == tag);
    has(b"<!doctype html") || has(b"<html") || start.trim_ascii_start().starts_with(b"<head")
}

/// Whether a decoded text is binary content: it contains NUL characters, or many characters that
/// could not be decoded.
pub(crate) fn is_binary(text: &str) -> bool {
    let mut invalid = 0_usize;
    let mut all = 0_usize;
    for character in text.chars() {
        all += 1;
        match character {
            '\0' => invalid += 20,
            '\u{fffd}' => invalid += 1,
            _ => {}
        }
    }
    invalid > 20 && invalid > all / 10
}
