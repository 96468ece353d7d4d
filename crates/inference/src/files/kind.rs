//! Detects the media type, the digest and the number of lines of a file while it is streamed.

use sha2::{Digest, Sha256};

/// Signatures (offset and bytes) of media types that requests may use, and of types that users
/// upload by mistake.
const SIGNATURES: [(&str, usize, &[u8]); 19] = [
    ("image/png", 0, b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", 0, b"\xff\xd8\xff"),
    ("image/gif", 0, b"GIF87a"),
    ("image/gif", 0, b"GIF89a"),
    ("image/webp", 8, b"WEBP"),
    ("application/pdf", 0, b"%PDF-"),
    ("audio/wav", 8, b"WAVE"),
    ("audio/mpeg", 0, b"ID3"),
    ("audio/mpeg", 0, b"\xff\xfb"),
    ("audio/mpeg", 0, b"\xff\xf3"),
    ("audio/mpeg", 0, b"\xff\xf2"),
    ("audio/aac", 0, b"\xff\xf1"),
    ("audio/aac", 0, b"\xff\xf9"),
    ("audio/flac", 0, b"fLaC"),
    ("audio/ogg", 0, b"OggS"),
    ("video/mp4", 4, b"ftyp"),
    ("video/webm", 0, b"\x1a\x45\xdf\xa3"),
    ("application/zip", 0, b"PK\x03\x04"),
    ("application/gzip", 0, b"\x1f\x8b"),
];
/// Number of leading bytes that cover every signature.
const SIGNATURE_BYTES: usize = 16;

/// Incremental inspection of a file.
pub(super) struct FileInspector {
    digest: Sha256,
    bytes: u64,
    head: Vec<u8>,
    /// Whether all bytes so far are UTF-8 text without NUL.
    is_text: bool,
    /// First bytes of a character that the chunk boundary has split.
    partial_char: Vec<u8>,
    lines: u64,
    /// Whether the unfinished last line has characters other than blanks.
    has_more: bool,
}

/// Properties of a file that are derived from its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    pub(super) sha256: [u8; 32],
    pub(super) media_type: String,
    /// Number of lines that are not blank; meaningful only for text.
    pub(super) lines: u64,
}

impl FileInspector {
    /// Creates an inspector that has processed no bytes.
    pub(super) fn new() -> Self {
        Self {
            digest: Sha256::new(),
            bytes: 0,
            head: Vec::with_capacity(SIGNATURE_BYTES),
            is_text: true,
            partial_char: Vec::new(),
            lines: 0,
            has_more: false,
        }
    }

    /// Returns the number of bytes processed so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Processes the next chunk.
    pub(super) fn at(&mut self, chunk: &[u8]) {
        self.digest.update(chunk);
        self.bytes += chunk.len() as u64;
        let missing = SIGNATURE_BYTES.saturating_sub(self.head.len()).min(chunk.len());
        self.head
            .extend_from_slice(chunk.get(..missing).unwrap_or_default());
        if self.is_text {
            self.is_text = memchr::memchr(0, chunk).is_none() && self.is_utf8_so_far(chunk);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', chunk) {
            self.lines += u64::from(self.has_more || !is_blank(chunk, start, end));
            (start, self.has_more) = (end + 1, false);
        }
        self.has_more |= !is_blank(chunk, start, chunk.len());
    }

    /// Whether the text is still UTF-8 with this chunk. A chunk boundary may split a character.
    fn is_utf8_so_far(&mut self, mut chunk: &[u8]) -> bool {
        while !self.partial_char.is_empty() {
            let Some((first, rest)) = chunk.split_first() else {
                return true;
            };
            self.partial_char.push(*first);
            chunk = rest;
            match std::str::from_utf8(&self.partial_char) {
                Ok(_) => self.partial_char.clear(),
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(chunk) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let partial_char = chunk.get(error.valid_up_to()..).unwrap_or_default();
                self.partial_char.extend_from_slice(partial_char);
                true
            }
        }
    }

    /// Returns the properties of the file after its last chunk. `declared` is the sender's media
    /// type, used only to select the type of a text file.
    pub(super) fn end(self, declared: Option<&str>) -> FileFacts {
        let is_text = self.is_text && self.partial_char.is_empty();
        let found = SIGNATURES.iter().find(|(_, place, magic)| {
            let rest = self.head.get(*place..);
            rest.is_some_and(|rest| rest.starts_with(magic))
        });
        let media_type = match found {
            Some((media_type, ..)) => (*media_type).to_owned(),
            None if is_text => text_type(declared),
            None => "application/octet-stream".to_owned(),
        };
        FileFacts {
            sha256: self.digest.finalize().into(),
            media_type,
            lines: self.lines + u64::from(self.has_more),
        }
    }
}

fn is_blank(chunk: &[u8], start: usize, end: usize) -> bool {
    let line = chunk.get(start..end).unwrap_or_default();
    line.iter().all(u8::is_ascii_whitespace)
}

fn text_type(declared: Option<&str>) -> String {
    let essence = declared.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-+.".contains(c);
    let is_text = |kind: &str| !kind.is_empty() && kind.len() < 60 && kind.chars().all(is_plain);
    match essence.strip_prefix("text/") {
        Some(kind) if is_text(kind) => essence,
        _ => "text/plain".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(content: &[u8], size: usize, declared: Option<&str>) -> FileFacts {
        let mut inspector = FileInspector::new();
        content.chunks(size).for_each(|chunk| inspector.at(chunk));
        assert_eq!(inspector.bytes(), content.len() as u64);
        inspector.end(declared)
    }

    /// The result does not depend on the size of the chunks.
    #[test]
    fn media_types_follow_from_the_bytes() {
        let octets = Some("application/octet-stream");
        for (content, declared, media_type, lines) in [
            (
                &b"\x89PNG\r\n\x1a\nabc"[..],
                Some("text/plain"),
                "image/png",
                None,
            ),
            (b"RIFF\0\0\0\0WEBPVP8 ", octets, "image/webp", None),
            (b"RIFF\0\0\0\0WAVEfmt ", octets, "audio/wav", None),
            (b"\xff\xf3\x84\xc4\0", octets, "audio/mpeg", None),
            (b"%PDF-1.7", octets, "application/pdf", None),
            (b"\0\0\0\x20ftypisom", octets, "video/mp4", None),
            (b"{}\n{}", octets, "text/plain", Some(2)),
            (b"{}\r\n\r\n  \n{}\n", None, "text/plain", Some(2)),
            (b"a,b\n", Some("Text/CSV; charset=utf-8"), "text/csv", Some(1)),
            (b"a", Some("text/a b"), "text/plain", Some(1)),
            ("für\nµ€𝄞".as_bytes(), None, "text/plain", Some(2)),
            (b"f\xfcr", Some("text/plain"), "application/octet-stream", None),
            (b"a\0b", Some("text/plain"), "application/octet-stream", None),
            (b"cut \xe2\x82", None, "application/octet-stream", None),
        ] {
            for size in [1, 2, 3, 100] {
                let facts = facts(content, size, declared);
                assert_eq!(facts.media_type, media_type, "{content:?} by {size}");
                assert_eq!(facts.sha256, <[u8; 32]>::from(Sha256::digest(content)));
                if let Some(lines) = lines {
                    assert_eq!(facts.lines, lines, "{content:?} by {size}");
                }
            }
        }
    }
}
