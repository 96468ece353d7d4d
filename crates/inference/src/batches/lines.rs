//! The lines of a file, one by one, however large the file is.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use tollgate_storage::Result;
use tollgate_storage::blob::BlobContent;

/// The longest line, in bytes.
pub(super) const MOST_LINE: usize = 8 << 20;
/// What some programs put before the first letter of a text.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads lines.
pub(super) struct Lines {
    content: BlobContent,
    buffer: BytesMut,
    has_ended: bool,
    place: u32,
    most: usize,
}

/// A line that is not blank.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Which line of the file it is, from 1.
    pub(super) place: u32,
    /// What it says; nothing when it is too long.
    pub(super) text: Option<Bytes>,
}

impl Lines {
    /// The lines of this content.
    pub(super) fn new(content: BlobContent) -> Self {
        Self::with_most(content, MOST_LINE)
    }

    fn with_most(content: BlobContent, most: usize) -> Self {
        Self {
            content,
            buffer: BytesMut::new(),
            has_ended: false,
            place: 0,
            most,
        }
    }

    /// The next line that is not blank.
    pub(super) async fn next(&mut self) -> Result<Option<Line>> {
        loop {
            let Some(text) = self.any().await? else {
                return Ok(None);
            };
            let place = self.place;
            let Some(text) = text else {
                return Ok(Some(Line { place, text: None }));
            };
            let text = match place {
                1 if text.starts_with(MARK) => text.slice(MARK.len()..),
                _ => text,
            };
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Line {
                    place,
                    text: Some(text),
                }));
            }
        }
    }

    /// The next line, blank or not; the inner nothing is one that is too long, which is passed over and not kept.
    async fn any(&mut self) -> Result<Option<Option<Bytes>>> {
        let (mut searched, mut is_too_long) = (0, false);
        loop {
            let rest = self.buffer.get(searched..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                let line = self.buffer.split_to(searched + end + 1).freeze();
                self.place += 1;
                let is_kept = !is_too_long && line.len() - 1 <= self.most;
                return Ok(Some(is_kept.then(|| line.slice(..line.len() - 1))));
            }
            searched = self.buffer.len();
            if self.has_ended {
                let line = self.buffer.split().freeze();
                if line.is_empty() && !is_too_long {
                    return Ok(None);
                }
                self.place += 1;
                let is_kept = !is_too_long && line.len() <= self.most;
                return Ok(Some(is_kept.then_some(line)));
            }
            if searched > self.most {
                is_too_long = true;
                self.buffer.clear();
                searched = 0;
            }
            match self.content.next().await {
                Some(piece) => self.buffer.extend_from_slice(&piece?),
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
        let pieces: Vec<_> = content
            .chunks(size)
            .map(|piece| Ok(Bytes::from_static(piece)))
            .collect();
        let mut lines = Lines::with_most(Box::pin(stream::iter(pieces)), 6);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            let text = line
                .text
                .map(|text| String::from_utf8_lossy(&text).trim().to_owned());
            found.push((line.place, text));
        }
        found
    }

    #[tokio::test]
    async fn lines_are_the_same_however_they_come() {
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
                    .map(|(place, text)| (*place, text.map(str::to_owned)))
                    .collect();
                assert_eq!(read(content, size).await, expected, "{content:?} by {size}");
            }
        }
    }
}
