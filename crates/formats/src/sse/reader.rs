//! Incremental reader of event streams.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::Event;
use super::block;

/// Default maximum size of one event, in bytes.
pub const DEFAULT_MAX_EVENT_BYTES: usize = 4 << 20;

/// Error for an event above the reader's limit. The rest of the stream cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    /// Maximum size of an event, in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a stream event is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

/// Reads events from the chunks of a stream. Add chunks with [`push`](Self::push), then call
/// [`next_event`](Self::next_event) until it returns `None`. The data of an event within one chunk
/// is not copied, unless the event has several `data` lines. An unfinished event at the end of the
/// stream is dropped.
#[derive(Debug)]
pub struct EventReader {
    limit: usize,
    /// Scanned chunks of an unfinished event.
    partial: BytesMut,
    /// Bytes not yet scanned.
    rest: Bytes,
    scan: Scan,
    at_start: bool,
}

impl Default for EventReader {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_EVENT_BYTES)
    }
}

impl EventReader {
    /// Creates a reader that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            partial: BytesMut::new(),
            rest: Bytes::new(),
            scan: Scan::default(),
            at_start: true,
        }
    }

    /// Adds the next chunk of the stream.
    pub fn push(&mut self, chunk: Bytes) {
        if self.rest.is_empty() {
            self.rest = chunk;
        } else {
            self.rest = [&self.rest[..], &chunk[..]].concat().into();
        }
    }

    /// Returns the next complete event; `None` if the chunks so far do not contain one. Blocks
    /// without data, such as comments, are skipped.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLarge> {
        loop {
            self.scan.drop_line_feed(&mut self.rest);
            if self.rest.is_empty() {
                return Ok(None);
            }
            let Some(end) = self.scan.find_end(&self.rest) else {
                self.check_size(self.rest.len())?;
                self.partial.extend_from_slice(&self.rest);
                self.rest = Bytes::new();
                return Ok(None);
            };
            self.check_size(end)?;
            let mut block = self.rest.split_to(end);
            if !self.partial.is_empty() {
                self.partial.extend_from_slice(&block);
                block = self.partial.split().freeze();
            }
            if std::mem::replace(&mut self.at_start, false) && block.starts_with(b"\xEF\xBB\xBF") {
                block.advance(3);
            }
            if let Some(event) = block::parse(block) {
                return Ok(Some(event));
            }
        }
    }

    /// Whether bytes remain after the last complete event, once [`next_event`](Self::next_event)
    /// has returned `None`. At the end of the stream, this means that the stream was truncated.
    pub fn is_mid_event(&self) -> bool {
        !self.partial.is_empty() || !self.rest.is_empty()
    }

    fn check_size(&mut self, more: usize) -> Result<(), EventTooLarge> {
        if self.partial.len() + more <= self.limit {
            return Ok(());
        }
        Err(EventTooLarge { limit: self.limit })
    }
}

/// State of the search for a blank line.
#[derive(Debug)]
struct Scan {
    line_is_empty: bool,
    /// Whether the last byte was a carriage return: a line feed directly after it belongs to the
    /// same line end.
    after_cr: bool,
}

impl Default for Scan {
    fn default() -> Self {
        Self {
            line_is_empty: true,
            after_cr: false,
        }
    }
}

impl Scan {
    /// Returns the position just after the next blank line. Scans up to that position, or all of
    /// `bytes` if there is none.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if std::mem::replace(&mut self.after_cr, false) && *byte == b'\n' {
                at += 1;
                continue;
            }
            match byte {
                b'\n' | b'\r' => {
                    at += 1;
                    let blank = std::mem::replace(&mut self.line_is_empty, true);
                    self.after_cr = *byte == b'\r';
                    if blank {
                        return Some(self.with_line_feed(bytes, at));
                    }
                }
                _ => {
                    self.line_is_empty = false;
                    let line = bytes.get(at..).unwrap_or_default();
                    at += memchr::memchr2(b'\n', b'\r', line).unwrap_or(line.len());
                }
            }
        }
        None
    }

    /// Removes the line feed of a CRLF that was split between chunks.
    fn drop_line_feed(&mut self, bytes: &mut Bytes) {
        if self.after_cr && bytes.starts_with(b"\n") {
            bytes.advance(1);
            self.after_cr = false;
        }
    }

    /// Returns the position after the line feed of a CRLF, if `bytes` contains it; otherwise `at`.
    fn with_line_feed(&mut self, bytes: &[u8], at: usize) -> usize {
        if self.after_cr && bytes.get(at) == Some(&b'\n') {
            self.after_cr = false;
            return at + 1;
        }
        at
    }
}
