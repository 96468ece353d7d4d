//! Converse, the format of Amazon Bedrock's models, as an upstream speaks it: requests are written in it, answers and
//! events are read. No caller speaks it.
//!
//! Facts are from the API reference of the Bedrock runtime (Converse, ConverseStream, TokenUsage, OutputConfig).

mod answer;
mod blocks;
mod carry;
mod encode;
mod stream;
mod usage;

pub use answer::decode_response;
pub use carry::carry;
pub use encode::{Family, encode_request, is_about_reasoning};
pub use stream::{EventKind, StreamDecoder, inspect_event};
pub use usage::read_usage;

#[cfg(test)]
mod tests;
