//! Streamed answers: events without names, each an answer with the new parts only. There is no end
//! marker: the stream ends with the event that has the finish reasons of all candidates.

mod decoder;
mod encoder;

use bytes::Bytes;

pub use decoder::StreamDecoder;
pub use encoder::StreamEncoder;

/// Writes the event on one line, since some official clients read only one. Line feeds are white
/// space in JSON.
pub(super) fn event_of(data: &[u8]) -> Bytes {
    let line: Vec<u8> = data
        .iter()
        .map(|byte| if *byte == b'\n' { b' ' } else { *byte })
        .collect();
    crate::sse::write_event(None, &line)
}
