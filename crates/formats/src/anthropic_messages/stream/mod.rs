//! Streamed responses: named events, from `message_start` to `message_stop`.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::StreamDecoder;
pub use encoder::StreamEncoder;

/// A keep-alive event that clients skip.
pub const PING: Bytes = Bytes::from_static(b"event: ping\ndata: {\"type\":\"ping\"}\n\n");

/// The event `message_stop`, which ends a stream.
pub const STOP_EVENT: Bytes =
    Bytes::from_static(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
