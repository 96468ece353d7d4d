//! What a file is, seen while it passes: its type by how it begins, its digest, its lines.

use sha2::{Digest, Sha256};

/// How files of types begin that requests may name, and those that people upload by mistake.
const BEGINNINGS: [(&str, usize, &[u8]); 19] = [
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
/// As many bytes as the longest of them reaches to.
const HEAD: usize = 16;

/// What is known of a file so far.
pub(super) struct Look {
    digest: Sha256,
    bytes: u64,
    head: Vec<u8>,
    /// Whether it may still be text.
    is_text: bool,
    /// The begun letter at its end.
    begun: Vec<u8>,
    lines: u64,
    /// Whether the line at its end has more than blanks.
    has_more: bool,
}

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) sha256: [u8; 32],
    pub(super) media_type: String,
    /// Lines that are not blank, if it is text.
    pub(super) lines: u64,
}

impl Look {
    /// At nothing yet.
    pub(super) fn new() -> Self {
        Self {
            digest: Sha256::new(),
            bytes: 0,
            head: Vec::with_capacity(HEAD),
            is_text: true,
            begun: Vec::new(),
            lines: 0,
            has_more: false,
        }
    }

    /// How many bytes there were.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Looks at the next piece.
    pub(super) fn at(&mut self, piece: &[u8]) {
        self.digest.update(piece);
        self.bytes += piece.len() as u64;
        let missing = HEAD.saturating_sub(self.head.len()).min(piece.len());
        self.head
            .extend_from_slice(piece.get(..missing).unwrap_or_default());
        if self.is_text {
            self.is_text = memchr::memchr(0, piece).is_none() && self.goes_on(piece);
        }
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', piece) {
            self.lines += u64::from(self.has_more || !is_blank(piece, start, end));
            (start, self.has_more) = (end + 1, false);
        }
        self.has_more |= !is_blank(piece, start, piece.len());
    }

    /// Whether it is still UTF-8 with this piece; a letter may be cut in two by the pieces.
    fn goes_on(&mut self, mut piece: &[u8]) -> bool {
        while !self.begun.is_empty() {
            let Some((first, rest)) = piece.split_first() else {
                return true;
            };
            self.begun.push(*first);
            piece = rest;
            match std::str::from_utf8(&self.begun) {
                Ok(_) => self.begun.clear(),
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let begun = piece.get(error.valid_up_to()..).unwrap_or_default();
                self.begun.extend_from_slice(begun);
                true
            }
        }
    }

    /// What it is, now that all of it was seen. Of texts, the sender knows the kind best.
    pub(super) fn end(self, declared: Option<&str>) -> Seen {
        let is_text = self.is_text && self.begun.is_empty();
        let found = BEGINNINGS.iter().find(|(_, place, magic)| {
            let rest = self.head.get(*place..);
            rest.is_some_and(|rest| rest.starts_with(magic))
        });
        let media_type = match found {
            Some((media_type, ..)) => (*media_type).to_owned(),
            None if is_text => text_type(declared),
            None => "application/octet-stream".to_owned(),
        };
        Seen {
            sha256: self.digest.finalize().into(),
            media_type,
            lines: self.lines + u64::from(self.has_more),
        }
    }
}

fn is_blank(piece: &[u8], start: usize, end: usize) -> bool {
    let line = piece.get(start..end).unwrap_or_default();
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

    fn seen(content: &[u8], size: usize, declared: Option<&str>) -> Seen {
        let mut look = Look::new();
        content.chunks(size).for_each(|piece| look.at(piece));
        assert_eq!(look.bytes(), content.len() as u64);
        look.end(declared)
    }

    /// However the content is cut, the same is seen.
    #[test]
    fn a_file_is_what_its_bytes_say() {
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
                let seen = seen(content, size, declared);
                assert_eq!(seen.media_type, media_type, "{content:?} by {size}");
                assert_eq!(seen.sha256, <[u8; 32]>::from(Sha256::digest(content)));
                if let Some(lines) = lines {
                    assert_eq!(seen.lines, lines, "{content:?} by {size}");
                }
            }
        }
    }
}
