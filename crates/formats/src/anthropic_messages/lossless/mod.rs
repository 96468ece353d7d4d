//! Relays messages requests and responses between a caller and an upstream of the same format.
//! Values that need no change are forwarded byte for byte.

mod event;
mod request;
mod response;

pub use event::{EventKind, Relay, Relayed, event_with_cost};
pub use request::{has_foreign_seal, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response};

use super::super::json::write_string;
use tollgate_types::generate::Seal;

/// Returns a signature or redacted data, wrapped for a caller, as a JSON string.
fn wrapped(origin: &str, data: &str) -> Vec<u8> {
    let seal = Seal {
        origin: origin.to_owned(),
        data: data.to_owned(),
    };
    json_string(&crate::reasoning_envelope::wrap(&seal))
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
}

/// Decodes a JSON string; empty if it is malformed.
fn text_of(json: &[u8]) -> String {
    serde_json::from_slice(json).unwrap_or_default()
}
