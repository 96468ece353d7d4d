//! OpenAI chat completions, `POST /v1/chat/completions`.
//!
//! There are two paths. The hot path applies when the upstream uses the same format: [`validate()`]
//! the bytes, [`splice_request`] them for the upstream, then [`inspect_response`] and
//! [`splice_response`] the response, or [`inspect_event`] and [`splice_event`] each event of a
//! stream. The other path decodes to the common form and encodes from it.

mod compatibility;
pub(crate) mod decode;
mod effort;
mod encode;
mod error_body;
mod head;
mod lossless;
mod stream;
mod usage;
pub(crate) mod validate;
pub(crate) mod wire;

pub use compatibility::check_compatible;
pub use decode::{decode_request, decode_response};
pub(crate) use effort::of as effort_of;
pub use encode::{encode_request, encode_response};
pub use error_body::{ErrorReport, MAX_ERROR_MESSAGE, encode_error, encode_error_event, read_error};
pub use head::{ChatHead, Field, IGNORED_HINTS, MaxTokens, Media, ResponseFormatKind, check_unknown};
pub use lossless::{
    CapName, EventEdits, EventHead, EventKind, RequestEdits, ResponseHead, event_with_cost, inspect_event,
    inspect_response, splice_event, splice_request, splice_response,
};
pub use stream::{StreamDecoder, StreamEncoder, encode_usage_event};
pub use usage::{UsageReport, encode_usage, read_usage};
pub use validate::validate;

#[cfg(test)]
mod tests;
