//! Whole answers.

use bytes::Bytes;
use memchr::memmem;
use tollgate_types::{Credits, Usage};

use super::super::identity::Identity;
use super::event::response_in_event;
use super::places::ObjectPlaces;
use super::{changed, seal_edits};
use crate::error::DecodeError;
use crate::json::Reader;

/// A whole answer, without its content.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Whether it says that it failed.
    pub is_error: bool,
    /// Whether it has an output at all.
    pub has_output: bool,
    /// What it says was consumed.
    pub usage: Option<Usage>,
    /// Bytes of text, reasoning and arguments.
    pub output_bytes: u64,
    /// Whose the seals are.
    origin: String,
    places: ObjectPlaces,
}

/// Reads a whole answer of an upstream whose seals have this origin. The error is that of a text that is no JSON object.
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

/// The answer as the caller gets it: what the gateway itself says about it, reasoning sealed with its origin, and the
/// cost. `head` is what [`inspect_response`] made of this body, `counted` the report for one that has none.
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

/// An answer that was made here, or the event that ends it, as it is when it could not be kept: `store` is false.
pub fn not_kept(bytes: &Bytes) -> Bytes {
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
