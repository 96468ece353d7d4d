//! Streamed responses: numbered events, from `response.created` to `response.completed`,
//! `response.incomplete` or `response.failed`.

mod decoder;
mod encoder;

use bytes::Bytes;
use serde_json::Value;

use super::wire::to_bytes;
use crate::sse;

pub use decoder::StreamDecoder;
pub use encoder::StreamEncoder;

/// Writes an event whose name is its `type`.
pub(super) fn encode_event(event: &Value) -> Bytes {
    let name = event["type"].as_str().unwrap_or_default();
    sse::write_event(Some(name.as_bytes()), &to_bytes(event))
}
