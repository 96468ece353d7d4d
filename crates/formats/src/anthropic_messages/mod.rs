//! Anthropic's messages, `POST /v1/messages`.
//!
//! Two ways lead through this format, as through [chat completions](crate::openai_chat). When the upstream speaks it
//! too: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and [`splice_response`] the answer,
//! or let a [`Relay`] pass each event of it. Otherwise over the common form: decode, encode.

mod answer;
mod betas;
pub(crate) mod carry;
mod decode;
pub(crate) mod encode;
mod error_body;
mod head;
mod lossless;
mod stream;
mod usage;
mod validate;
mod wire;

pub use answer::{decode_response, encode_response};
pub use betas::Betas;
pub use carry::carry;
pub use decode::{decode_count, decode_request};
pub use encode::{encode_request, version_for};
pub use error_body::{encode_error, encode_error_event, error_kind};
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
