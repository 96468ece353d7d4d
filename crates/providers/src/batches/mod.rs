//! What providers with batches of their own have in common: one line for each request, and what came of them line by line.

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use tollgate_types::Retry;
use tollgate_upstream::{BatchResult, BatchResults, ContentStream, UpstreamError};

/// The longest line that is read: what came of a request of vectors can be long.
const MOST_LINE: usize = 256 << 20;

/// A text on one line: what breaks a line of JSON stands between its values.
pub(crate) fn on_one_line(text: &Bytes) -> Bytes {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !text.iter().any(breaks) {
        return text.clone();
    }
    let joined = text.iter().map(|byte| if breaks(byte) { b' ' } else { *byte });
    joined.collect::<Vec<u8>>().into()
}

/// What came of a batch is what came of it.
pub(crate) fn not_again(error: UpstreamError) -> UpstreamError {
    UpstreamError {
        retry: Retry::Never,
        ..error
    }
}

/// What came of requests, from lines that are read so. A line that says nothing is passed over: its request is without an answer.
pub(crate) fn results(content: ContentStream, read: fn(&[u8]) -> Option<BatchResult>) -> BatchResults {
    Box::pin(stream::unfold(
        Some(Lines::new(content)),
        move |lines| async move {
            let mut lines = lines?;
            loop {
                return match lines.next().await {
                    Ok(None) => None,
                    Err(error) => Some((Err(error), None)),
                    Ok(Some(line)) if line.trim_ascii().is_empty() => continue,
                    Ok(Some(line)) => match read(&line) {
                        Some(result) => Some((Ok(result), Some(lines))),
                        None => {
                            tracing::warn!(bytes = line.len(), "a result of a batch cannot be read");
                            continue;
                        }
                    },
                };
            }
        },
    ))
}

struct Lines {
    content: ContentStream,
    buffer: BytesMut,
    searched: usize,
    has_ended: bool,
}

impl Lines {
    fn new(content: ContentStream) -> Self {
        Self {
            content,
            buffer: BytesMut::new(),
            searched: 0,
            has_ended: false,
        }
    }

    /// The next line, without its end.
    async fn next(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line.slice(..line.len() - 1)));
            }
            self.searched = self.buffer.len();
            if self.has_ended {
                self.searched = 0;
                let line = self.buffer.split().freeze();
                return Ok(Some(line).filter(|line| !line.is_empty()));
            }
            if self.searched > MOST_LINE {
                return Err(UpstreamError::protocol("a result of a batch is too long"));
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
    use tollgate_upstream::BatchAnswer;

    use super::*;

    fn read(line: &[u8]) -> Option<BatchResult> {
        let name = std::str::from_utf8(line).ok()?.trim().to_owned();
        (name != "bad").then_some(BatchResult {
            name,
            answer: BatchAnswer::Expired,
        })
    }

    #[tokio::test]
    async fn results_are_lines_however_they_come() {
        for size in [1, 2, 3, 100] {
            let text: &'static [u8] = b"a\n\nbad\r\nbb\r\nccc";
            let pieces: Vec<_> = text
                .chunks(size)
                .map(|piece| Ok(Bytes::from_static(piece)))
                .collect();
            let names: Vec<String> = results(Box::pin(stream::iter(pieces)), read)
                .map(|result| result.unwrap().name)
                .collect()
                .await;
            assert_eq!(names, ["a", "bb", "ccc"], "by {size}");
        }
    }

    #[tokio::test]
    async fn what_breaks_off_is_told() {
        let pieces = vec![
            Ok(Bytes::from_static(b"a\nb")),
            Err(UpstreamError::protocol("cut")),
            Ok(Bytes::from_static(b"\n")),
        ];
        let found: Vec<_> = results(Box::pin(stream::iter(pieces)), read).collect().await;
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok() && found[1].is_err());
    }

    #[test]
    fn a_request_is_one_line() {
        for (text, expected) in [("{}", "{}"), ("{\r\n\"a\":\n1}", "{  \"a\": 1}")] {
            assert_eq!(on_one_line(&Bytes::from_static(text.as_bytes())), expected);
        }
    }
}
