//! OpenAI's responses, `POST /v1/responses`, with the fields that Open Responses requires.
//!
//! Two ways lead through this format, as through [chat completions](crate::openai_chat). When the upstream speaks it
//! too: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and [`splice_response`] the answer,
//! or let a [`Relay`] pass each event of it and [`dress_event`] say whose it is. Otherwise over the common form: decode,
//! encode. What a response says is made of three things: an [`Identity`], the [`Echo`] of its request, and the answer.

mod answer;
mod carry;
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
pub use carry::carry;
pub use decode::decode_request;
pub use echo::Echo;
pub use encode::encode_request;
pub use error_body::encode_failure;
pub use head::ResponsesHead;
pub use identity::Identity;
pub use items::{developer_message, input_items, listed_item, with_items};
pub use lossless::{
    EventKind, Relay, Relayed, RequestEdits, ResponseHead, dress_event, encode_event_of, has_foreign_seal,
    inspect_response, not_kept, response_in_event, sequence_number, splice_request, splice_response,
    with_sequence_number,
};
pub use stream::{StreamDecoder, StreamEncoder};
pub use usage::{encode_usage, read_usage};
pub use validate::validate;

#[cfg(test)]
mod tests;
