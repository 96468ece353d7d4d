//! Gemini's format, `POST /v1/models/{model}:generateContent`.
//!
//! Two ways lead through this format, as through [chat completions](crate::openai_chat). When the upstream speaks it
//! too: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and [`splice_response`] the answer,
//! or let a [`Relay`] pass each event of it. Otherwise over the common form: decode, encode. The model and the kind of
//! call are no part of a body: they stand in the path.
//!
//! Names may be written as `maxOutputTokens` or as `max_output_tokens`, also by turns, as the JSON form of protocol
//! buffers allows.

mod answer;
mod carry;
mod decode;
mod embed;
mod encode;
mod error_body;
mod head;
mod ids;
mod logprobs;
mod lossless;
mod name;
mod predict;
mod schema;
mod seals;
mod stream;
mod usage;
mod validate;
mod vertex;
mod wire;

pub use answer::{decode_response, encode_response};
pub use carry::carry;
pub(crate) use decode::stored_id;
pub use decode::{decode_count, decode_request};
pub use embed::{
    EMBED_FIELDS, decode_embeddings, embed_param, embed_request, embed_requests, encode_embed_request,
    encode_embedding, encode_embeddings,
};
pub use encode::encode_request;
pub use error_body::{encode_error, encode_error_event, error_status};
pub use head::{GenerateHead, Purpose};
pub use lossless::{
    Relay, Relayed, ResponseHead, event_with_cost, has_foreign_seal, inspect_response, splice_request,
    splice_response,
};
pub use predict::{
    decode_embed_content, decode_predictions, encode_embed_content_request, encode_predict_request,
};
pub use stream::{StreamDecoder, StreamEncoder};
pub use usage::{encode_usage, read_usage};
pub use validate::validate;
pub use vertex::for_vertex;
