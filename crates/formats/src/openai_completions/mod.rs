//! OpenAI completions, `POST /v1/completions`: a text is continued. The format before chat completions.
//!
//! Two ways lead through it. When the upstream has the same endpoint: [`validate()`] the bytes, [`splice_request`] them,
//! and treat answers and events as those of [`openai_chat`](crate::openai_chat), which differ only in where a choice has
//! its text. Otherwise over the common form, as one turn of the user.

mod decode;
mod encode;
mod head;
mod request;
mod stream;
mod validate;

pub use decode::{decode_request, prompts};
pub use encode::encode_response;
pub use head::{BEYOND_CHAT, CompletionHead, Field, check_lacking, check_unknown};
pub use request::{RequestEdits, splice_request};
pub use stream::{StreamEncoder, encode_usage_event};
pub use validate::validate;

/// The cap on output tokens of a request that names none. It is the format's own, so it is sent to upstreams, too.
pub const DEFAULT_MAX_TOKENS: u64 = 16;

#[cfg(test)]
mod tests;
