//! Reads the lines of a file one by one, in bounded memory.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tollgate_storage::Result;
use tollgate_storage::blob::BlobContent;

/// Maximum length of a line, in bytes.
pub(super) const MAX_LINE_BYTES: usize = 8 << 20;
/// UTF-8 byte order mark, which some programs write at the start of a file.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Iterator over the lines of a file that are not blank.
pub(super) struct Lines {
    content: BlobContent,
    buffer: BytesMut,
    has_ended: bool,
    line_number: u32,
    max_bytes: usize,
}

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Line number in the file, starting at 1.
    pub(super) line_number: u32,
    /// Content of the line; `None` if it is too long.
    pub(super) text: Option<Bytes>,
}

impl Lines {
    /// Creates a reader with the limit `MAX_LINE_BYTES`.
    pub(super) fn new(content: BlobContent) -> Self {
        Self::with_max_bytes(content, MAX_LINE_BYTES)
    }

    fn with_max_bytes(content: BlobContent, max_bytes: usize) -> Self {
        Self {
            content,
            buffer: BytesMut::new(),
            has_ended: false,
            line_number: 0,
            max_bytes,
        }
    }

    /// Returns the next line that is not blank; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            let Some(text) = self.any().await? else {
                return Ok(None);
            };
            let line_number = self.line_number;
            let Some(text) = text else {
                return Ok(Some(Line {
                    line_number,
                    text: None,
                }));
            };
            let text = match line_number {
                1 if text.starts_with(BYTE_ORDER_MARK) => text.slice(BYTE_ORDER_MARK.len()..),
                _ => text,
            };
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Line {
                    line_number,
                    text: Some(text),
                }));
            }
        }
    }

    /// Returns the next line, even if it is blank. The inner `None` is a line that is too long; it
    /// is skipped and not buffered.
    async fn any(&mut self) -> Result<Option<Option<Bytes>>> {
        let (mut searched, mut is_too_long) = (0, false);
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(searched + end + 1).freeze();
                self.line_number += 1;
                let fits = !is_too_long && line.len() - 1 <= self.max_bytes;
                return Ok(Some(fits.then(|| line.slice(..line.len() - 1))));
            }
            searched = self.buffer.len();
            if self.has_ended {
                let line = self.buffer.split().freeze();
                if line.is_empty() && !is_too_long {
                    return Ok(None);
                }
                self.line_number += 1;
                let fits = !is_too_long && line.len() <= self.max_bytes;
                return Ok(Some(fits.then_some(line)));
            }
            if searched > self.max_bytes {
                is_too_long = true;
                self.buffer.clear();
                searched = 0;
            }
            match self.content.next().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk?),
                None => self.has_ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn read(content: &'static [u8], size: usize) -> Vec<(u32, Option<String>)> {
        let chunks: Vec<_> = content
            .chunks(size)
            .map(|chunk| Ok(Bytes::from_static(chunk)))
            .collect();
        let mut lines = Lines::with_max_bytes(Box::pin(stream::iter(chunks)), 6);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            let text = line
                .text
                .map(|text| String::from_utf8_lossy(&text).trim().to_owned());
            found.push((line.line_number, text));
        }
        found
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_chunk_boundaries() {
        for (content, expected) in [
            (&b""[..], &[][..]),
            (b"\n \r\n", &[]),
            (b"\xef\xbb\xbf", &[]),
            (b"{}", &[(1, Some("{}"))]),
            (b"\xef\xbb\xbf{1}\n", &[(1, Some("{1}"))]),
            (b"{1}\r\n\r\n{2}", &[(1, Some("{1}")), (3, Some("{2}"))]),
            (
                b"123456\n1234567\n8",
                &[(1, Some("123456")), (2, None), (3, Some("8"))],
            ),
            (b"1234567890123456789", &[(1, None)]),
        ] {
            for size in [1, 2, 3, 100] {
                let expected: Vec<_> = expected
                    .iter()
                    .map(|(line_number, text)| (*line_number, text.map(str::to_owned)))
                    .collect();
                assert_eq!(read(content, size).await, expected, "{content:?} by {size}");
            }
        }
    }
}
