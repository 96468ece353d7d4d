//! The incremental reader.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::Event;
use super::block;

/// The most bytes that one event may have, unless the reader is told otherwise.
pub const DEFAULT_MAX_EVENT: usize = 4 << 20;

/// An event that is larger than the reader's bound. The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    /// The bound in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

/// Reads events from the pieces of a stream, however they are cut. Feed it with [`push`](Self::push), then take
/// events with [`next_event`](Self::next_event) until there is none. An event that lies within one piece is not
/// copied. What is left at the end of the stream without its blank line is no event.
#[derive(Debug)]
pub struct EventReader {
    limit: usize,
    /// Pieces of an event whose end has not come, already scanned.
    partial: BytesMut,
    /// What is yet to be scanned.
    rest: Bytes,
    scan: Scan,
    at_start: bool,
}

impl Default for EventReader {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_EVENT)
    }
}

impl EventReader {
    /// A reader that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            partial: BytesMut::new(),
            rest: Bytes::new(),
            scan: Scan::default(),
            at_start: true,
        }
    }

    /// Takes the next piece of the stream.
    pub fn push(&mut self, piece: Bytes) {
        if self.rest.is_empty() {
            self.rest = piece;
        } else {
            self.rest = [&self.rest[..], &piece[..]].concat().into();
        }
    }

    /// The next whole event, or `None` when more of the stream is needed.
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

    /// Whether a part of an event was read whose end has not come. At the end of the stream: it was cut.
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

/// Where the search for a blank line stands.
#[derive(Debug)]
struct Scan {
    line_is_empty: bool,
    /// The last byte was a carriage return: a line feed right after it belongs to it.
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
    /// Place just after the next blank line. All of `bytes` is scanned when there is none, none of it after the place.
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

    /// Drops the line feed of a CRLF that was cut in two.
    fn drop_line_feed(&mut self, bytes: &mut Bytes) {
        if self.after_cr && bytes.starts_with(b"\n") {
            bytes.advance(1);
            self.after_cr = false;
        }
    }

    /// The line feed of a CRLF goes with its carriage return, if it is there already.
    fn with_line_feed(&mut self, bytes: &[u8], at: usize) -> usize {
        if self.after_cr && bytes.get(at) == Some(&b'\n') {
            self.after_cr = false;
            return at + 1;
        }
        at
    }
}
