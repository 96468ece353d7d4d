//! The request as an upstream of the same format gets it.

use bytes::Bytes;

use super::head::{EmbedHead, Field, FieldName, FieldPlace};
use crate::json::write_string;
use crate::lossless::{Edit, Span, splice};

/// What is changed about a request. Everything else is forwarded byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// The model's name at the upstream.
    pub model: &'e str,
    /// Top-level fields of the format that the upstream does not take.
    pub remove: &'e [&'e str],
    /// Fields outside the format that the upstream takes. All others outside the format are dropped.
    pub vendor_fields: &'e [&'e str],
    /// Under which name the upstream knows `dimensions`, when that is another one.
    pub dimensions_name: Option<&'e str>,
}

/// The request as the upstream gets it. `head` is what [`validate`](super::validate()) made of this body.
pub fn splice_request(body: &Bytes, head: &EmbedHead<'_>, edits: &RequestEdits<'_>) -> Bytes {
    let mut model = Vec::with_capacity(edits.model.len() + 2);
    write_string(&mut model, edits.model);
    let fields = &head.layout.fields;
    let is_as_sent = |field: &FieldPlace| stays(field, head, edits) && other_name(field, edits).is_none();
    if !fields.iter().all(is_as_sent) {
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

/// The fields that stay, one after the other; their values are the caller's bytes.
fn rewritten(body: &[u8], head: &EmbedHead<'_>, edits: &RequestEdits<'_>, model: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + model.len() + 16);
    out.push(b'{');
    for field in head
        .layout
        .fields
        .iter()
        .filter(|field| stays(field, head, edits))
    {
        match other_name(field, edits) {
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

fn stays(field: &FieldPlace, head: &EmbedHead<'_>, edits: &RequestEdits<'_>) -> bool {
    match field.name {
        FieldName::Known(known) => !edits.remove.contains(&known.as_str()),
        FieldName::Unknown(index) => {
            let name = head.layout.unknown.get(index as usize);
            name.is_some_and(|name| edits.vendor_fields.contains(&&**name))
        }
    }
}

fn other_name<'e>(field: &FieldPlace, edits: &RequestEdits<'e>) -> Option<&'e str> {
    match field.name {
        FieldName::Known(Field::Dimensions) => edits.dimensions_name,
        _ => None,
    }
}
