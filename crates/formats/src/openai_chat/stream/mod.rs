//! Streamed responses: events without names that contain `chat.completion.chunk` objects. The event
//! `[DONE]` ends the stream.

mod decoder;
mod encoder;

pub use decoder::StreamDecoder;
pub use encoder::{StreamEncoder, encode_usage_event};
