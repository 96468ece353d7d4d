//! Gemini's format, `POST /v1/models/{model}:generateContent`.
//!
//! There are two paths, as in [chat completions](crate::openai_chat). If the upstream uses the same
//! format: [`validate()`] the bytes, [`splice_request`] them, then [`inspect_response`] and
//! [`splice_response`] the response, or pass each event through a [`Relay`]. Otherwise decode to
//! the common form and encode from it. The model and the action are in the path, not in the body.
//!
//! Names may be written as `maxOutputTokens` or as `max_output_tokens`, even mixed, as the JSON
//! form of protocol buffers allows.

mod answer;
mod compatibility;
mod decode;
mod embed;
mod encode;
mod head;
mod ids;
pub mod live;
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
pub use compatibility::check_compatible;
pub(crate) use decode::stored_id;
pub use decode::{decode_count, decode_request};
pub use embed::{
    EMBED_FIELDS, decode_embeddings, embed_param, embed_request, embed_requests, encode_embed_request,
    encode_embedding, encode_embeddings,
};
pub use encode::encode_request;
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
