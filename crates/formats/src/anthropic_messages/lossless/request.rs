//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::super::head::{ContentPlace, FieldPlace, IGNORED_HINTS, MessagesHead};
use super::{json_string, text_of};
use crate::lossless::{Edit, Span, splice};
use crate::reasoning_envelope;

/// Rewrites a request for an upstream of this format. Renames the model, drops fields that no
/// upstream receives, unwraps the signatures of this origin, drops reasoning whose signature is
/// empty or has another origin, replaces an output token limit above `clamp`, and moves a schema to
/// `output_config.format`. Other values are forwarded byte for byte. `head` must be the result of
/// [`validate`](super::super::validate()) for this body.
pub fn splice_request(
    body: &Bytes,
    head: &MessagesHead<'_>,
    model: &str,
    origin: &str,
    clamp: Option<u64>,
) -> Bytes {
    let cap = clamp.filter(|clamp| {
        head.max_tokens
            .is_some_and(|requested_cap| *clamp < requested_cap)
    });
    let cap = cap.map(|cap| cap.to_string());
    let mut out = Vec::with_capacity(body.len() + model.len() + 64);
    out.push(b'{');
    for field in &head.layout.fields {
        if IGNORED_HINTS.contains(&field.name) {
            continue;
        }
        match (field.name, &cap) {
            ("max_tokens", Some(cap)) => push_field(&mut out, "max_tokens", cap.as_bytes()),
            ("model", _) => push_field(&mut out, "model", &json_string(model)),
            ("messages", _) => push_field(&mut out, "messages", &messages(body, head, field, origin)),
            ("output_config", _) => push_field(&mut out, "output_config", &output_config(body, head, field)),
            ("response_format" | "output_format", _) if head.layout.field("output_config").is_some() => {}
            ("response_format" | "output_format", _) => {
                if let Some(schema) = head.layout.schema {
                    push_field(
                        &mut out,
                        "output_config",
                        &[b"{", &*format_field(schema.of(body)), b"}"].concat(),
                    );
                }
            }
            (name, _) => push_field(&mut out, name, field.value.of(body)),
        }
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Whether the request has reasoning whose signature is empty or has another origin.
/// [`splice_request`] drops such reasoning.
pub fn has_foreign_seal(body: &Bytes, head: &MessagesHead<'_>, origin: &str) -> bool {
    let blocks = head.layout.contents.iter().flat_map(|content| &content.blocks);
    let mut seals = blocks.filter_map(|block| block.seal);
    seals.any(|place| {
        reasoning_envelope::is_foreign(
            reasoning_envelope::unwrap(&text_of(place.of(body))).as_ref(),
            origin,
        )
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

/// Returns the value of `output_config`, to which a schema from `response_format` or
/// `output_format` is added as `format`.
fn output_config(body: &Bytes, head: &MessagesHead<'_>, field: &FieldPlace) -> Vec<u8> {
    let value = field.value.of(body);
    match (head.layout.schema, head.layout.output_config) {
        (Some(schema), Some((open, is_empty))) => {
            let rest = Span::new(open, field.value.end).of(body);
            let comma = if is_empty { &b""[..] } else { b"," };
            [b"{", &*format_field(schema.of(body)), comma, rest].concat()
        }
        _ => value.to_vec(),
    }
}

fn format_field(schema: &[u8]) -> Vec<u8> {
    [br#""format":{"type":"json_schema","schema":"#, schema, b"}"].concat()
}

/// Returns the messages for this upstream: signatures of its origin are unwrapped, and reasoning
/// whose signature is empty or has another origin is dropped.
fn messages(body: &Bytes, head: &MessagesHead<'_>, field: &FieldPlace, origin: &str) -> Vec<u8> {
    let contents = &head.layout.contents;
    if contents.is_empty() {
        return field.value.of(body).to_vec();
    }
    let replaced: Vec<(Span, Vec<u8>)> = contents
        .iter()
        .map(|content| (shifted(content.span, field), content_for(body, content, origin)))
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

fn content_for(body: &Bytes, content: &ContentPlace, origin: &str) -> Vec<u8> {
    let mut out = vec![b'['];
    for block in &content.blocks {
        let bytes = block.span.of(body);
        let forwarded = match block.seal {
            None => bytes.to_vec(),
            Some(place) => match reasoning_envelope::unwrap(&text_of(place.of(body))) {
                Some(seal) if seal.origin == origin => {
                    let (before, after) = (
                        Span::new(block.span.start, place.start).of(body),
                        Span::new(place.end, block.span.end).of(body),
                    );
                    [before, &*json_string(&seal.data), after].concat()
                }
                // The signature never passed through the gateway. The upstream checks whether it is
                // valid.
                Some(seal) if seal.origin.is_empty() => bytes.to_vec(),
                _ => continue,
            },
        };
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&forwarded);
    }
    out.push(b']');
    out
}
