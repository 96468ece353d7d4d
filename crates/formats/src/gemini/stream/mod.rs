//! Streamed responses: events without names, each of them a response object with only the new
//! parts. The format has no end marker: the stream ends with the event that has the finish reasons
//! of all candidates.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::StreamDecoder;
pub use encoder::StreamEncoder;

/// Writes the event on one line, because some official clients read only one line. Replaces line
/// feeds, which are white space in JSON, with spaces.
pub(super) fn event_of(data: &[u8]) -> Bytes {
    let line: Vec<u8> = data
        .iter()
        .map(|byte| if *byte == b'\n' { b' ' } else { *byte })
        .collect();
    crate::sse::write_event(None, &line)
}
