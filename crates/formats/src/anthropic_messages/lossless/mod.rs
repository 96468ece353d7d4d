//! From this format to an upstream that speaks it: bytes in, nearly the same bytes out. Changed are the name of the
//! model, the wrapping of sealed reasoning, and the cost that is added.

mod event;
mod request;
mod response;

pub use event::{EventKind, Relay, Relayed, event_with_cost};
pub use request::{has_foreign_seal, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response};

use super::super::json::write_string;
use tollgate_types::generate::Seal;

/// A seal as a JSON string, as a caller gets it.
fn wrapped(origin: &str, data: &str) -> Vec<u8> {
    let seal = Seal {
        origin: origin.to_owned(),
        data: data.to_owned(),
    };
    json_string(&crate::seal::wrap(&seal))
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
}

/// The text of a JSON string.
fn text_of(json: &[u8]) -> String {
    serde_json::from_slice(json).unwrap_or_default()
}
