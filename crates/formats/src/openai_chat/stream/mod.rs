//! Streamed answers: nameless events with `chat.completion.chunk` objects, ended by `[DONE]`.

mod decoder;
mod encoder;

pub use decoder::StreamDecoder;
pub use encoder::{StreamEncoder, encode_usage_event};
