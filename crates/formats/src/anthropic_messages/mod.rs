//! Anthropic's Messages API, `POST /v1/messages`.
//!
//! There are two paths, as in [chat completions](crate::openai_chat). If the upstream uses the same
//! format: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and
//! [`splice_response`] the response, or pass each event through a [`Relay`]. Otherwise decode to
//! the common form and encode from it.

mod answer;
mod betas;
pub(crate) mod compatibility;
mod decode;
pub(crate) mod encode;
mod head;
mod lossless;
pub(crate) mod reasoning;
mod stream;
mod usage;
mod validate;
mod wire;

pub use answer::{decode_response, encode_response};
pub use betas::Betas;
pub use compatibility::check_compatible;
pub use decode::{decode_count, decode_request};
pub use encode::{encode_request, version_for};
pub use head::{MessagesHead, Purpose, Version};
pub use lossless::{
    EventKind, Relay, Relayed, ResponseHead, event_with_cost, has_foreign_seal, inspect_response,
    splice_request, splice_response,
};
pub use stream::{PING, STOP_EVENT, StreamDecoder, StreamEncoder};
pub use usage::{encode_usage, read_usage};
pub use validate::validate;

#[cfg(test)]
mod tests;
