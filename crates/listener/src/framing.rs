//! Check of the request framing on a connection, on the raw bytes. The HTTP library accepts some
//! requests that RFC 9112 calls ambiguous, and hides part of the ambiguity. A proxy in front of the
//! gateway may see different requests in the same bytes.
//!
//! The checker parses heads and bodies to find the next head. The library also refuses everything
//! that the checker cannot parse.

use std::mem;

use http::StatusCode;

/// Maximum length of a line or a chunk head, in bytes. The library refuses longer ones.
const MAX_LINE: usize = 64 * 1024;
/// Registered transfer codings.
const CODINGS: [&str; 7] = [
    "gzip",
    "x-gzip",
    "deflate",
    "compress",
    "x-compress",
    "identity",
    "chunked",
];

/// An ambiguous request head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambiguous {
    /// Index of the request on its connection, from 0.
    pub(crate) request: u64,
    /// Status of the refusal: 400, or 501 for an unknown transfer coding.
    pub(crate) status: StatusCode,
}

/// Parser for the sequence of requests on a connection.
#[derive(Default)]
pub(crate) struct Framing {
    state: State,
    line: Vec<u8>,
    /// Number of complete heads so far.
    heads: u64,
}

enum State {
    Head(Head),
    /// Inside a body with a known length; the remaining bytes.
    Length(u64),
    /// In the line before a chunk.
    ChunkSize,
    /// Inside a chunk; the remaining bytes, including the line end after it.
    Chunk(u64),
    /// In the lines after the last chunk.
    Trailers,
    /// Parsing has stopped.
    Untracked,
}

impl Default for State {
    fn default() -> Self {
        State::Head(Head::default())
    }
}

/// The parsed part of a request head.
#[derive(Default)]
struct Head {
    /// Whether the request line is complete.
    has_started: bool,
    is_http_1_0: bool,
    hosts: u32,
    lengths: u32,
    length: Option<u64>,
    /// Values of `transfer-encoding` in lower case, joined by commas.
    codings: Option<String>,
}

impl Framing {
    /// Parses the next bytes and returns the first ambiguous head. Parsing stops there, because the
    /// connection ends with that request.
    pub(crate) fn follow(&mut self, mut bytes: &[u8]) -> Option<Ambiguous> {
        while !bytes.is_empty() {
            match &mut self.state {
                State::Untracked => return None,
                State::Length(left) | State::Chunk(left) => {
                    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= now as u64;
                    bytes = &bytes[now..];
                    if *left == 0 {
                        self.state = match self.state {
                            State::Chunk(_) => State::ChunkSize,
                            _ => State::default(),
                        };
                    }
                }
                State::Head(_) | State::ChunkSize | State::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let (now, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                    bytes = rest;
                    self.line.extend_from_slice(now);
                    if self.line.len() > MAX_LINE {
                        self.stop_following();
                    } else if end.is_some()
                        && let Some(status) = self.end_line()
                    {
                        self.stop_following();
                        let request = self.heads - 1;
                        return Some(Ambiguous { request, status });
                    }
                }
            }
        }
        None
    }

    fn stop_following(&mut self) {
        self.state = State::Untracked;
        self.line = Vec::new();
    }

    /// Handles a complete line. Returns the status of the refusal if the line ends an ambiguous
    /// head.
    fn end_line(&mut self) -> Option<StatusCode> {
        let line = mem::take(&mut self.line);
        let text = line.trim_ascii_end();
        let mut refused = None;
        self.state = match mem::replace(&mut self.state, State::Untracked) {
            State::Head(mut head) if !text.is_empty() => {
                head.add(text);
                State::Head(head)
            }
            // Empty lines before a request are ignored.
            State::Head(head) if !head.has_started => State::Head(head),
            State::Head(head) => {
                self.heads += 1;
                refused = head.verdict();
                head.body()
            }
            State::ChunkSize => match chunk_size(text) {
                Some(0) => State::Trailers,
                // The skipped bytes include the line end after the chunk.
                Some(size) => State::Chunk(size.saturating_add(2)),
                None => State::Untracked,
            },
            State::Trailers if text.is_empty() => State::default(),
            other => other,
        };
        // Reuse the buffer.
        self.line = line;
        self.line.clear();
        refused
    }
}

impl Head {
    fn add(&mut self, line: &[u8]) {
        if !self.has_started {
            self.has_started = true;
            self.is_http_1_0 = line.ends_with(b" HTTP/1.0");
            return;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"host") {
            self.hosts += 1;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            self.lengths += 1;
            self.length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            let value = String::from_utf8_lossy(value).to_ascii_lowercase();
            self.codings = Some(match self.codings.take() {
                Some(before) => format!("{before},{value}"),
                None => value,
            });
        }
    }

    /// Applies the rules of RFC 9112, sections 3.2, 6.1 and 6.3.
    fn verdict(&self) -> Option<StatusCode> {
        if let Some(codings) = &self.codings {
            let is_known = |coding: &str| CODINGS.contains(&coding.trim());
            if !codings.split(',').all(is_known) {
                return Some(StatusCode::NOT_IMPLEMENTED);
            }
            if codings.trim() != "chunked" || self.lengths > 0 {
                return Some(StatusCode::BAD_REQUEST);
            }
        }
        let has_one_host = self.hosts == 1 || (self.hosts == 0 && self.is_http_1_0);
        (self.lengths > 1 || !has_one_host).then_some(StatusCode::BAD_REQUEST)
    }

    fn body(&self) -> State {
        match (&self.codings, self.length) {
            (Some(_), _) => State::ChunkSize,
            (None, Some(length)) if length > 0 => State::Length(length),
            (None, None) if self.lengths > 0 => State::Untracked,
            _ => State::default(),
        }
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|byte| *byte == b';').next()?.trim_ascii();
    u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: Option<u16> = Some(400);

    fn verdict(bytes: &str, step: usize) -> Option<(u64, u16)> {
        let mut framing = Framing::default();
        let mut chunks = bytes.as_bytes().chunks(step);
        let found = chunks.find_map(|chunk| framing.follow(chunk));
        found.map(|found| (found.request, found.status.as_u16()))
    }

    #[test]
    fn ambiguous_heads_are_found_however_they_arrive() {
        for (headers, expected) in [
            ("host: a\r\n", None),
            ("Host: a\r\nContent-Length: 0\r\n", None),
            ("host: a\r\ntransfer-encoding: Chunked\r\n", None),
            ("", BAD),
            ("host: a\r\nHOST: a\r\n", BAD),
            ("host: a\r\ncontent-length: 5\r\ncontent-length: 5\r\n", BAD),
            (
                "host: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n",
                BAD,
            ),
            (
                "host: a\r\ntransfer-encoding: chunked\r\ncontent-length: 5\r\n",
                BAD,
            ),
            ("host: a\r\ntransfer-encoding: gzip, chunked\r\n", BAD),
            ("host: a\r\ntransfer-encoding: chunked, chunked\r\n", BAD),
            (
                "host: a\r\ntransfer-encoding: identity\r\ntransfer-encoding: chunked\r\n",
                BAD,
            ),
            ("host: a\r\ntransfer-encoding: identity\r\n", BAD),
            ("host: a\r\ntransfer-encoding: zstd, chunked\r\n", Some(501)),
            ("host: a\r\ntransfer-encoding:\r\n", Some(501)),
        ] {
            for step in [1, 7, 1_000] {
                let found = verdict(&format!("GET / HTTP/1.1\r\n{headers}\r\n"), step);
                assert_eq!(found.map(|(_, status)| status), expected, "{headers:?}");
            }
        }
        assert_eq!(verdict("GET / HTTP/1.0\r\n\r\n", 5), None);
        assert_eq!(verdict("GET / HTTP/1.1\n\n", 5), Some((0, 400)), "bare line ends");
    }

    #[test]
    fn heads_are_found_behind_bodies() {
        let bodies = [
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 22\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\n\r\n\r\n\r\nA\r\n0123456789\r\n0\r\nt: u\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
        ];
        for step in [1, 3, 1_000] {
            for body in bodies {
                assert_eq!(verdict(body, step), None, "{body}");
            }
            let all = bodies.concat() + "GET / HTTP/1.1\r\n\r\n";
            assert_eq!(verdict(&all, step), Some((5, 400)), "in steps of {step}");
        }
    }

    #[test]
    fn invalid_http_is_not_followed() {
        let long = "x".repeat(MAX_LINE + 1) + "\n\n\n";
        for bytes in [
            long.as_str(),
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(verdict(bytes, 100), None);
        }
    }
}
