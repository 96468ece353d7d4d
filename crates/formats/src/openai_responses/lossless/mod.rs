//! Relays Responses requests and responses between a caller and an upstream of the same format.
//! Changes only the members that the gateway sets or drops, the envelope of encrypted reasoning,
//! the numbers and indices of events, and the usage object; all other values are forwarded byte for
//! byte.

mod event;
mod numbering;
mod places;
mod request;
mod response;

pub use event::{
    EventKind, Relay, Relayed, apply_identity, encode_response_event, response_in_event, sequence_number,
    with_sequence_number,
};
pub use request::{RequestEdits, has_foreign_seal, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response, with_store_false};

use super::super::json::write_string;
use crate::lossless::{Edit, Span, splice};
use bytes::Bytes;
use tollgate_types::generate::Seal;

/// Returns the edits that wrap the encrypted content at these positions for a caller, in the order
/// of `seals`.
fn seal_edits(body: &[u8], seals: &[Span], origin: &str) -> Vec<(Span, Vec<u8>)> {
    let wrapped = |place: &Span| {
        let seal = Seal {
            origin: origin.to_owned(),
            data: serde_json::from_slice(place.of(body)).unwrap_or_default(),
        };
        (*place, json_string(&crate::reasoning_envelope::wrap(&seal)))
    };
    seals.iter().map(wrapped).collect()
}

/// Applies these replacements to the body.
fn changed(body: &[u8], mut changes: Vec<(Span, Vec<u8>)>) -> Bytes {
    changes.sort_by_key(|(place, _)| place.start);
    let edits: Vec<Edit<'_>> = changes
        .iter()
        .map(|(place, with)| Edit::replace(*place, with))
        .collect();
    splice(b"", body, &edits, b"")
}

fn json_string(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    out
}
