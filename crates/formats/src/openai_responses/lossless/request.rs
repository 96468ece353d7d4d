//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::super::head::{FieldPlace, IGNORED_HINTS, ResponsesHead};
use super::json_string;
use crate::reasoning_envelope;

/// Parameters of [`splice_request`].
#[derive(Clone, Copy, Debug)]
pub struct RequestEdits<'a> {
    /// Name of the model at the upstream.
    pub model: &'a str,
    /// Origin of the encrypted reasoning that this upstream can read.
    pub origin: &'a str,
    /// Maximum number of output tokens, sent if the caller set no limit or a higher one.
    pub clamp_output: Option<u64>,
    /// Value of `stream`. The field is always sent, because some servers stream if it is missing.
    pub stream: bool,
    /// Whether the model reasons even without reasoning parameters.
    pub reasons: bool,
}

/// Fields whose values are not forwarded, because responses are stored by the gateway and not by
/// providers.
const NOT_FORWARDED: &[&str] = &["store", "previous_response_id", "background"];

/// Rewrites a request for an upstream of this format. Renames the model, drops fields that no
/// upstream needs, and disables storage. Unwraps the encrypted content of this upstream's
/// reasoning, and drops reasoning without encrypted content or with that of another upstream. The
/// upstream stores no conversation and can continue only from encrypted reasoning, so a request
/// that may produce reasoning includes `reasoning.encrypted_content`. Other values are forwarded
/// byte for byte. `head` must be the result of [`validate`](super::super::validate()) for this
/// body.
pub fn splice_request(body: &Bytes, head: &ResponsesHead<'_>, edits: RequestEdits<'_>) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + edits.model.len() + 96);
    let include_seal = edits.reasons || head.has_reasoning_params || head.layout.includes_seal;
    let clamp = edits
        .clamp_output
        .filter(|clamp| head.max_tokens.is_none_or(|requested_cap| *clamp < requested_cap));
    out.push(b'{');
    for field in &head.layout.fields {
        if IGNORED_HINTS.contains(&field.name) || NOT_FORWARDED.contains(&field.name) {
            continue;
        }
        match field.name {
            "model" => push_field(&mut out, "model", &json_string(edits.model)),
            // These fields are written after the loop.
            "max_output_tokens" if clamp.is_some() => {}
            "stream" => {}
            "input" => push_field(&mut out, "input", &input(body, head, field, edits.origin)),
            "include" if include_seal && !head.layout.includes_seal => {
                push_field(&mut out, "include", &with_seal(field.value.of(body)));
            }
            name => push_field(&mut out, name, field.value.of(body)),
        }
    }
    if include_seal && head.layout.field("include").is_none() {
        push_field(&mut out, "include", &with_seal(b"[]"));
    }
    if let Some(clamp) = clamp {
        push_field(&mut out, "max_output_tokens", clamp.to_string().as_bytes());
    }
    push_field(&mut out, "stream", if edits.stream { b"true" } else { b"false" });
    push_field(&mut out, "store", b"false");
    out.push(b'}');
    Bytes::from(out)
}

/// Whether the request has reasoning without encrypted content, or with encrypted content of
/// another origin. [`splice_request`] drops such reasoning.
pub fn has_foreign_seal(body: &Bytes, head: &ResponsesHead<'_>, origin: &str) -> bool {
    let mut reasoning = head.layout.items.iter().filter(|item| item.is_reasoning);
    reasoning.any(|item| {
        let text = item
            .seal
            .and_then(|place| serde_json::from_slice::<String>(place.of(body)).ok());
        reasoning_envelope::is_foreign(
            text.as_deref().and_then(reasoning_envelope::unwrap).as_ref(),
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

/// Inserts `reasoning.encrypted_content` at the start of an `include` list.
fn with_seal(include: &[u8]) -> Vec<u8> {
    let inner = include
        .get(1..include.len().saturating_sub(1))
        .unwrap_or_default();
    let comma: &[u8] = if inner.iter().all(u8::is_ascii_whitespace) {
        b""
    } else {
        b","
    };
    [br#"["reasoning.encrypted_content""#, comma, inner, b"]"].concat()
}

/// Returns the input for this upstream: with encrypted content unwrapped, and without reasoning
/// that the upstream cannot read.
fn input(body: &Bytes, head: &ResponsesHead<'_>, field: &FieldPlace, origin: &str) -> Vec<u8> {
    if head.layout.items.is_empty() {
        return field.value.of(body).to_vec();
    }
    let mut out = vec![b'['];
    for item in &head.layout.items {
        let bytes = item.span.of(body);
        let forwarded = match (item.is_reasoning, item.seal) {
            (false, _) => bytes.to_vec(),
            // Upstreams do not accept the text of reasoning without encrypted content.
            (true, None) => continue,
            (true, Some(place)) => {
                let text: String = serde_json::from_slice(place.of(body)).unwrap_or_default();
                match reasoning_envelope::unwrap(&text) {
                    Some(seal) if seal.origin == origin => {
                        let start = (place.start - item.span.start) as usize;
                        let end = (place.end - item.span.start) as usize;
                        let (before, after) = (bytes.get(..start), bytes.get(end..));
                        [
                            before.unwrap_or_default(),
                            &*json_string(&seal.data),
                            after.unwrap_or_default(),
                        ]
                        .concat()
                    }
                    // The gateway did not wrap this encrypted content. The upstream checks whether
                    // it is valid.
                    Some(seal) if seal.origin.is_empty() => bytes.to_vec(),
                    _ => continue,
                }
            }
        };
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&forwarded);
    }
    out.push(b']');
    out
}
