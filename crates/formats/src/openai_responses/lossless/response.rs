//! Rewriting of complete responses for the caller.

use bytes::Bytes;
use memchr::memmem;
use tollgate_types::{Credits, Usage};

use super::super::identity::Identity;
use super::event::response_in_event;
use super::places::ObjectPlaces;
use super::{changed, seal_edits};
use crate::error::DecodeError;
use crate::json::Reader;

/// Metadata of a complete response, without its content.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Whether the status is `failed` or `cancelled`, or the response has an error.
    pub is_error: bool,
    /// Whether the response has an `output` array.
    pub has_output: bool,
    /// The reported usage; `None` if it is missing or implausible.
    pub usage: Option<Usage>,
    /// Number of bytes of text, refusals, reasoning and tool arguments, with escapes resolved.
    pub output_bytes: u64,
    /// Origin of the encrypted reasoning.
    origin: String,
    places: ObjectPlaces,
}

/// Inspects a complete response of an upstream whose encrypted reasoning has this origin. Fails if
/// the body is not a JSON object or is an empty object.
pub fn inspect_response(body: &[u8], origin: &str) -> Result<ResponseHead, DecodeError> {
    let mut reader = Reader::new(body, u32::MAX)?;
    reader.kind()?;
    let places = ObjectPlaces::read(&mut reader)?;
    reader.finish()?;
    Ok(ResponseHead {
        is_error: places.has_failed,
        has_output: places.has_output,
        usage: places.usage(body),
        output_bytes: places.output_bytes,
        origin: origin.to_owned(),
        places,
    })
}

/// Rewrites a response for the caller. Sets the gateway's own members, wraps the encrypted content
/// of reasoning with its origin, and adds the cost. `head` must be the result of
/// [`inspect_response`] for this body; `counted` is the usage for a response without a usage
/// object.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    identity: &Identity,
    counted: &Usage,
    cost: Credits,
) -> Bytes {
    let mut changes = head.places.edits(identity);
    changes.extend(seal_edits(body, &head.places.seals, &head.origin));
    changes.push(head.places.usage_edit(body, counted, cost));
    changed(body, changes)
}

/// Sets `store` to false in a response object or in the event that ends the stream, for a response
/// that could not be stored.
pub fn with_store_false(bytes: &Bytes) -> Bytes {
    let response = response_in_event(bytes).unwrap_or_else(|| bytes.clone());
    let places = Reader::new(&response, u32::MAX).and_then(|mut reader| ObjectPlaces::read(&mut reader));
    let (Ok(places), Some(start)) = (places, memmem::find(bytes, &response)) else {
        return bytes.clone();
    };
    let Some(place) = places.store() else {
        return bytes.clone();
    };
    let (start, end) = (start + place.start as usize, start + place.end as usize);
    [&bytes[..start], b"false", &bytes[end..]].concat().into()
}
