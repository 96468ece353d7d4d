//! Streamed answers: chunks of `chat.completion.chunk`, each one event without a name, ended by `[DONE]`.

mod decoder;
mod encoder;

pub use decoder::StreamDecoder;
pub use encoder::{StreamEncoder, encode_usage_event};
