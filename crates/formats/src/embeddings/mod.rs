//! OpenAI embeddings, `POST /v1/embeddings`.
//!
//! There are two paths. The hot path applies when the upstream uses the same format: [`validate()`]
//! the bytes, [`splice_request`] them for the upstream, then [`inspect_response`] and
//! [`splice_response`] the response. The other path decodes to the common form and encodes from it;
//! it also converts the encoding of vectors.

mod decode;
mod encode;
mod head;
mod request;
mod response;
mod usage;
mod validate;
mod vector;

pub use decode::{decode_request, decode_response};
pub use encode::{encode_request, encode_response};
pub use head::{EmbedHead, Encoding, Field, IGNORED_HINTS, MAX_INPUTS, check_unknown};
pub use request::{RequestEdits, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response};
pub use usage::EmbedReport;
pub use validate::validate;

#[cfg(test)]
mod tests;
