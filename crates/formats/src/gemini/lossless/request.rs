//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::super::encode::{NOT_SIGNED, signs_calls};
use super::super::head::{FieldPlace, GenerateHead, NOT_FORWARDED, PartPlace, PartsPlace};
use super::super::seals;
use super::{json_string, text_of};
use crate::lossless::{Edit, Span, field_with_comma, splice};
use crate::reasoning_envelope;

/// Rewrites a request for this model of an upstream of this format. Drops fields that no upstream
/// receives, unwraps the signatures of this origin, drops thoughts whose signature has another
/// origin, removes or replaces such signatures of other parts, and sets `clamp` as the output token
/// limit if the caller set none or a higher one. Other values are forwarded byte for byte. `head`
/// must be the result of [`validate`](super::super::validate()) for this body.
pub fn splice_request(
    body: &Bytes,
    head: &GenerateHead,
    model: &str,
    origin: &str,
    clamp: Option<u64>,
) -> Bytes {
    let clamp = clamp.filter(|clamp| head.max_tokens.is_none_or(|requested_cap| *clamp < requested_cap));
    let mut out = Vec::with_capacity(body.len() + 64);
    out.push(b'{');
    for field in &head.layout.fields {
        if NOT_FORWARDED.contains(&field.name) {
            continue;
        }
        let value = match (field.name, &clamp) {
            ("contents", _) => contents(body, head, field, model, origin),
            ("generationConfig", Some(clamp)) => config(body, head, field, *clamp),
            _ => field.value.of(body).to_vec(),
        };
        push_field(&mut out, field.name, &value);
    }
    if let (Some(clamp), None) = (&clamp, head.layout.field("generationConfig")) {
        push_field(
            &mut out,
            "generationConfig",
            format!("{{\"maxOutputTokens\":{clamp}}}").as_bytes(),
        );
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Whether the request has a signature that is empty or has another origin, which
/// [`splice_request`] does not forward.
pub fn has_foreign_seal(body: &Bytes, head: &GenerateHead, origin: &str) -> bool {
    let parts = head.layout.parts.iter().flat_map(|parts| &parts.parts);
    let mut seals = parts.filter_map(|part| part.seal);
    seals.any(|place| {
        reasoning_envelope::is_foreign(seals::unwrap(&text_of(place.value.of(body))).as_ref(), origin)
    })
}

fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    if out.len() > 1 {
        out.push(b',');
    }
    out.extend_from_slice(&json_string(name));
    out.push(b':');
    out.extend_from_slice(value);
}

fn config(body: &Bytes, head: &GenerateHead, field: &FieldPlace, clamp: u64) -> Vec<u8> {
    let clamp = clamp.to_string();
    if let Some(cap) = head.layout.cap {
        let before = Span::new(field.value.start, cap.start).of(body);
        let after = Span::new(cap.end, field.value.end).of(body);
        return [before, clamp.as_bytes(), after].concat();
    }
    let Some((open, is_empty)) = head.layout.config else {
        return field.value.of(body).to_vec();
    };
    let rest = Span::new(open, field.value.end).of(body);
    let comma = if is_empty { &b""[..] } else { b"," };
    [b"{\"maxOutputTokens\":", clamp.as_bytes(), comma, rest].concat()
}

/// Returns the contents with the signatures converted for this upstream.
fn contents(body: &Bytes, head: &GenerateHead, field: &FieldPlace, model: &str, origin: &str) -> Vec<u8> {
    let replaced: Vec<(Span, Vec<u8>)> = head
        .layout
        .parts
        .iter()
        .map(|parts| (shifted(parts.span, field), parts_for(body, parts, model, origin)))
        .collect();
    let edits: Vec<Edit<'_>> = replaced
        .iter()
        .map(|(span, with)| Edit::replace(*span, with))
        .collect();
    splice(b"", field.value.of(body), &edits, b"").to_vec()
}

/// Returns the same span, relative to the start of the field's value.
fn shifted(span: Span, field: &FieldPlace) -> Span {
    let start = field.value.start;
    Span::new(span.start - start, span.end - start)
}

fn parts_for(body: &Bytes, parts: &PartsPlace, model: &str, origin: &str) -> Vec<u8> {
    let mut out = vec![b'['];
    let forwarded = parts
        .parts
        .iter()
        .filter_map(|part| part_for(body, part, model, origin));
    for part in forwarded {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&part);
    }
    if out.len() == 1 {
        // A turn must have at least one part.
        out.extend_from_slice(br#"{"text":""}"#);
    }
    out.push(b']');
    out
}

/// Rewrites a part for this upstream; `None` for a thought whose signature has another origin.
fn part_for(body: &Bytes, part: &PartPlace, model: &str, origin: &str) -> Option<Vec<u8>> {
    let bytes = part.span.of(body);
    let Some(place) = part.seal else {
        return Some(bytes.to_vec());
    };
    let with = |value: &str| {
        let before = Span::new(part.span.start, place.value.start).of(body);
        let after = Span::new(place.value.end, part.span.end).of(body);
        [before, &*json_string(value), after].concat()
    };
    match seals::unwrap(&text_of(place.value.of(body))) {
        Some(seal) if seal.origin == origin && !seal.data.is_empty() => Some(with(&seal.data)),
        // The signature never passed through the gateway. The upstream checks whether it is valid.
        Some(seal) if seal.origin.is_empty() => Some(bytes.to_vec()),
        Some(seal) if part.is_thought && seal.origin != origin => None,
        _ if part.is_call && signs_calls(model) => Some(with(NOT_SIGNED)),
        _ => {
            let field = field_with_comma(body, place.field);
            let before = Span::new(part.span.start, field.start).of(body);
            let after = Span::new(field.end, part.span.end).of(body);
            Some([before, after].concat())
        }
    }
}
