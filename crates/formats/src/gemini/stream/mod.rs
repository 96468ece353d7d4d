//! Streamed answers: events without names, each of which is an answer with what is new. Nothing says that one was the
//! last: it is the one that says why every candidate ended.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::StreamDecoder;
pub use encoder::StreamEncoder;

/// The event with this data, on one line, which is all that some of the official clients read. Line feeds are white space
/// in JSON.
pub(super) fn event_of(data: &[u8]) -> Bytes {
    let line: Vec<u8> = data
        .iter()
        .map(|byte| if *byte == b'\n' { b' ' } else { *byte })
        .collect();
    crate::sse::write_event(None, &line)
}
