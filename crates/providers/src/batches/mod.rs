//! Shared code of providers with a batch API, whose requests and results are one line each.

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use tollgate_types::Retry;
use tollgate_upstream::{BatchResult, BatchResults, ContentStream, UpstreamError};

/// Maximum size of a result line, in bytes. Results of embedding requests can be long.
const MAX_LINE_BYTES: usize = 256 << 20;

/// Converts JSON to a single line. Valid JSON contains line breaks only between tokens, so each one
/// is replaced with a space.
pub(crate) fn to_single_line(text: &Bytes) -> Bytes {
    let breaks = |byte: &u8| matches!(byte, b'\n' | b'\r');
    if !text.iter().any(breaks) {
        return text.clone();
    }
    let joined = text.iter().map(|byte| if breaks(byte) { b' ' } else { *byte });
    joined.collect::<Vec<u8>>().into()
}

/// Marks the error as final: a failed batch request is not retried.
pub(crate) fn without_retry(error: UpstreamError) -> UpstreamError {
    UpstreamError {
        retry: Retry::Never,
        ..error
    }
}

/// Parses results with `read`, line by line, and ends after the first error. Skips empty lines and
/// lines that `read` rejects. The request of a rejected line has no result.
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
                            tracing::warn!(
                                bytes = line.len(),
                                "skipped a batch result that cannot be parsed"
                            );
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

    /// Returns the next line, without its line feed; `None` at the end.
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
            if self.searched > MAX_LINE_BYTES {
                let detail = format!("a batch result exceeds {MAX_LINE_BYTES} bytes");
                return Err(UpstreamError::protocol(detail));
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
    async fn results_are_split_into_lines() {
        for size in [1, 2, 3, 100] {
            let text: &'static [u8] = b"a\n\nbad\r\nbb\r\nccc";
            let chunks: Vec<_> = text
                .chunks(size)
                .map(|chunk| Ok(Bytes::from_static(chunk)))
                .collect();
            let names: Vec<String> = results(Box::pin(stream::iter(chunks)), read)
                .map(|result| result.unwrap().name)
                .collect()
                .await;
            assert_eq!(names, ["a", "bb", "ccc"], "by {size}");
        }
    }

    #[tokio::test]
    async fn interrupted_results_return_an_error() {
        let chunks = vec![
            Ok(Bytes::from_static(b"a\nb")),
            Err(UpstreamError::protocol("cut")),
            Ok(Bytes::from_static(b"\n")),
        ];
        let found: Vec<_> = results(Box::pin(stream::iter(chunks)), read).collect().await;
        assert_eq!(found.len(), 2);
        assert!(found[0].is_ok() && found[1].is_err());
    }

    #[test]
    fn a_request_is_one_line() {
        for (text, expected) in [("{}", "{}"), ("{\r\n\"a\":\n1}", "{  \"a\": 1}")] {
            assert_eq!(to_single_line(&Bytes::from_static(text.as_bytes())), expected);
        }
    }
}
