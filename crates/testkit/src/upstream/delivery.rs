//! How a reply goes out: framing, the cut of its writes, the spelling of its events, and where it breaks off.

use std::time::Duration;

use serde_json::Value;

use super::gate::Gate;

/// How the bytes go out.
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

/// How events are spelled in a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dress {
    pub line_end: LineEnd,
    pub comments: bool,
    pub event_lines: bool,
    pub no_space: bool,
    pub pretty: bool,
    pub byte_order_mark: bool,
}

/// The line end of an event stream; all three are allowed (WHATWG HTML, section 9.2.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`, what providers send.
    #[default]
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`
    Cr,
}

/// How the bytes of a reply are cut into writes to the socket.
///
/// A reader may still see two writes as one; `pause` gives it the time to see them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// One write for the head and one for each event.
    PerEvent,
    /// Head and all events in one write, without pacing.
    Whole,
    /// Never more than `bytes` at once.
    Pieces {
        /// The most bytes in one write, at least 1.
        bytes: usize,
        /// The time between two of them.
        pause: Duration,
    },
    /// Everything after the head in two writes, parted before the byte `offset` (chunk sizes included).
    SplitAt {
        /// The length of the first write.
        offset: usize,
        /// The time between the two.
        pause: Duration,
    },
}

/// How the end of the body is told (RFC 9112, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// `transfer-encoding: chunked`, one chunk for each event. The default of streams.
    Chunked,
    /// `content-length`. The default of everything else.
    ContentLength,
    /// Neither: the body ends with the connection.
    UntilClose,
}

/// The place where a reply is broken off. An event beyond the last one means the middle of the last one, so that the
/// same script breaks off answers that are not streamed.
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
    /// After the whole body, without the last chunk, or with fewer bytes than `content-length` says.
    End,
}

/// What happens at that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// The connection is closed in order (FIN).
    Close,
    /// The connection is reset (RST).
    Reset,
    /// Nothing comes any more, until the client leaves.
    Hang,
}
