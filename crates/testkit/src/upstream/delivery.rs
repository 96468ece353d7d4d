//! Delivery of a reply: its framing, its division into writes, the spelling of its events, and the
//! place where it breaks off.

use std::time::Duration;

use serde_json::Value;

use super::gate::Gate;

/// Options of the delivery of a reply.
#[derive(Debug, Clone)]
pub(super) struct Delivery {
    pub delay: Duration,
    pub pace: Duration,
    pub gates: Vec<(Option<usize>, Gate)>,
    pub writes: Writes,
    pub framing: Option<Framing>,
    pub cut: Option<(At, How)>,
    pub done: bool,
    pub error_after: Option<(usize, Value)>,
    pub endless: bool,
    pub gzip: bool,
    pub close: bool,
}

/// The spelling of the events of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dress {
    pub line_end: LineEnd,
    pub comments: bool,
    pub event_lines: bool,
    pub no_space: bool,
    pub pretty: bool,
    pub byte_order_mark: bool,
}

/// The line end of an event stream. All three are allowed (WHATWG HTML, section 9.2.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`, as providers send it.
    #[default]
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`
    Cr,
}

/// Division of a reply into writes to the socket.
///
/// A reader may still receive two writes as one; `pause` gives it time to receive them separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// One write for the head and one for each event.
    PerEvent,
    /// Head and all events in one write, without pacing.
    Whole,
    /// No write has more than `bytes` bytes.
    Chunks {
        /// Maximum number of bytes of one write, at least 1.
        bytes: usize,
        /// The time between two writes.
        pause: Duration,
    },
    /// The bytes after the head are sent in two writes, split before the byte `offset` (chunk sizes
    /// included).
    SplitAt {
        /// The length of the first write.
        offset: usize,
        /// The time between the two writes.
        pause: Duration,
    },
}

/// Framing of a body: the way in which its end is marked (RFC 9112, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `transfer-encoding: chunked`, one chunk for each event. The default of streams.
    Chunked,
    /// `content-length`. The default of all other bodies.
    ContentLength,
    /// Neither of them: the body ends with the connection.
    UntilClose,
}

/// The place where a reply breaks off. If the number of an event exceeds the last one, the reply
/// breaks off in the middle of the last event, so that one script fits streams and other answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Before the first byte.
    Start,
    /// In the middle of the response head.
    InsideHead,
    /// After the response head.
    Head,
    /// After this many events.
    Events(usize),
    /// In the middle of the event with this number.
    InsideEvent(usize),
    /// After this many bytes of the body.
    Bytes(usize),
    /// After the whole body, without the last chunk, or with fewer bytes than `content-length`
    /// announces.
    End,
}

/// The way in which a reply breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The connection is closed in order (FIN).
    Close,
    /// The connection is reset (RST).
    Reset,
    /// No more bytes are sent, until the client disconnects.
    Hang,
}
