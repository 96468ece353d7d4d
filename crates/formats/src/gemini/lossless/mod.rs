//! From this format to an upstream that speaks it: bytes in, nearly the same bytes out. Changed are the name of the
//! model, the wrapping of sealed reasoning, and the cost that is added.

mod event;
mod request;
mod response;

pub use event::{Relay, Relayed, event_with_cost};
pub use request::{has_foreign_seal, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response};

use super::super::json::write_string;

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
}

/// The text of a JSON string.
fn text_of(json: &[u8]) -> String {
    serde_json::from_slice(json).unwrap_or_default()
}
