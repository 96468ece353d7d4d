//! OpenAI completions, `POST /v1/completions`: text continuation, the predecessor of chat
//! completions.
//!
//! There are two paths. If the upstream has the same endpoint: [`validate()`] the bytes,
//! [`splice_request`] them, and process responses and events with the functions of
//! [`openai_chat`](crate::openai_chat), which read the text of a choice in both formats. Otherwise
//! decode the request to the common form as one user turn.

mod decode;
mod encode;
mod head;
mod request;
mod stream;
mod validate;

pub use decode::{decode_request, prompts};
pub use encode::encode_response;
pub use head::{COMPLETIONS_ONLY, CompletionHead, Field, check_unknown, check_unsupported};
pub use request::{RequestEdits, splice_request};
pub use stream::{StreamEncoder, encode_usage_event};
pub use validate::validate;

/// Default maximum number of output tokens of the format. The gateway sends this limit to upstreams
/// if the caller sets none.
pub const DEFAULT_MAX_TOKENS: u64 = 16;

#[cfg(test)]
mod tests;
