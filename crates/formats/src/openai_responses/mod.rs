//! OpenAI's Responses API, `POST /v1/responses`, with the fields that Open Responses requires.
//!
//! There are two paths, as in [chat completions](crate::openai_chat). If the upstream uses the same
//! format: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and
//! [`splice_response`] the response, or pass each event through a [`Relay`] and [`apply_identity`].
//! Otherwise decode to the common form and encode from it. A response is built from an
//! [`Identity`], the [`Echo`] of its request, and the generated output.

mod answer;
mod compatibility;
mod decode;
mod echo;
mod encode;
mod error_body;
mod head;
mod identity;
mod items;
mod lossless;
mod object;
mod stream;
mod usage;
mod validate;
mod wire;

pub use answer::{decode_response, encode_response, encode_unfinished};
pub use compatibility::{MIN_OUTPUT_TOKENS, check_compatible};
pub use decode::decode_request;
pub use echo::Echo;
pub use encode::encode_request;
pub use error_body::encode_failure;
pub use head::ResponsesHead;
pub use identity::Identity;
pub use items::{developer_message, input_items, listed_item, with_items};
pub use lossless::{
    EventKind, Relay, Relayed, RequestEdits, ResponseHead, apply_identity, encode_response_event,
    has_foreign_seal, inspect_response, response_in_event, sequence_number, splice_request, splice_response,
    with_sequence_number, with_store_false,
};
pub use stream::{StreamDecoder, StreamEncoder};
pub use usage::{encode_usage, read_usage};
pub use validate::validate;

#[cfg(test)]
mod tests;
