//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::head::{EmbedHead, Field, FieldName, FieldPlace};
use crate::json::write_string;
use crate::lossless::{Edit, Span, splice};

/// Changes to a request. All other bytes of the values are forwarded unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// Name of the model at the upstream.
    pub model: &'e str,
    /// Known top-level fields that the upstream does not accept.
    pub remove: &'e [&'e str],
    /// Unknown fields that the upstream accepts. All other unknown fields are dropped.
    pub vendor_fields: &'e [&'e str],
    /// Name of `dimensions` at the upstream, if it differs.
    pub dimensions_name: Option<&'e str>,
}

/// Rewrites a request for an upstream of the same format. `head` must be the result of
/// [`validate`](super::validate()) for this body.
pub fn splice_request(body: &Bytes, head: &EmbedHead<'_>, edits: &RequestEdits<'_>) -> Bytes {
    let mut model = Vec::with_capacity(edits.model.len() + 2);
    write_string(&mut model, edits.model);
    let fields = &head.layout.fields;
    let is_unchanged =
        |field: &FieldPlace| is_forwarded(field, head, edits) && renamed_key(field, edits).is_none();
    if !fields.iter().all(is_unchanged) {
        return rewritten(body, head, edits, &model);
    }
    let place = fields
        .iter()
        .find(|field| field.name == FieldName::Known(Field::Model));
    match place {
        Some(place) if place.value.of(body) != model => {
            splice(b"", body, &[Edit::replace(place.value, &model)], b"")
        }
        _ => body.clone(),
    }
}

/// Writes the remaining fields in the order of the body. Only the model and the name of
/// `dimensions` change.
fn rewritten(body: &[u8], head: &EmbedHead<'_>, edits: &RequestEdits<'_>, model: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + model.len() + 16);
    out.push(b'{');
    for field in head
        .layout
        .fields
        .iter()
        .filter(|field| is_forwarded(field, head, edits))
    {
        match renamed_key(field, edits) {
            Some(name) => {
                write_string(&mut out, name);
                out.push(b':');
            }
            None => out.extend_from_slice(Span::new(field.key, field.value.start).of(body)),
        }
        match field.name {
            FieldName::Known(Field::Model) => out.extend_from_slice(model),
            _ => out.extend_from_slice(field.value.of(body)),
        }
        out.push(b',');
    }
    out.pop();
    out.push(b'}');
    Bytes::from(out)
}

fn is_forwarded(field: &FieldPlace, head: &EmbedHead<'_>, edits: &RequestEdits<'_>) -> bool {
    match field.name {
        FieldName::Known(known) => !edits.remove.contains(&known.as_str()),
        FieldName::Unknown(index) => {
            let name = head.layout.unknown.get(index as usize);
            name.is_some_and(|name| edits.vendor_fields.contains(&&**name))
        }
    }
}

fn renamed_key<'e>(field: &FieldPlace, edits: &RequestEdits<'e>) -> Option<&'e str> {
    match field.name {
        FieldName::Known(Field::Dimensions) => edits.dimensions_name,
        _ => None,
    }
}
