//! Converse, the format of Amazon Bedrock's models, for upstreams only: requests are encoded, and
//! responses and events are decoded.
//!
//! The source is the API reference of the Bedrock runtime (Converse, ConverseStream, TokenUsage,
//! OutputConfig).

mod answer;
mod blocks;
mod compatibility;
mod encode;
mod stream;
mod usage;

pub use answer::decode_response;
pub use compatibility::check_compatible;
pub use encode::{Family, encode_request, is_about_reasoning};
pub use stream::{EventKind, StreamDecoder, inspect_event};
pub use usage::read_usage;

#[cfg(test)]
mod tests;
