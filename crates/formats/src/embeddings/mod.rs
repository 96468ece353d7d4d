//! OpenAI embeddings, `POST /v1/embeddings`.
//!
//! Two ways lead through this format. The hot one, when the upstream speaks it too: [`validate()`] the bytes,
//! [`splice_request`] them for the upstream, then [`inspect_response`] and [`splice_response`] the answer. The other
//! one goes over the common form: decode, encode. It is also how vectors change their encoding.

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
