//! Rewriting of requests.

use bytes::Bytes;

use super::super::head::{FieldPlace, IGNORED_HINTS, ResponsesHead};
use super::json_string;
use crate::reasoning_envelope;

/// Changes to a request. Everything else is forwarded byte for byte.
#[derive(Clone, Copy, Debug)]
pub struct RequestEdits<'a> {
    /// The upstream's name for the model.
    pub model: &'a str,
    /// Origin of the seals that this upstream can read.
    pub origin: &'a str,
    /// Maximum output tokens, sent when the caller set no cap or a larger one.
    pub clamp_output: Option<u64>,
    /// Whether to stream. The field is always sent, since some servers stream by default.
    pub stream: bool,
    /// Whether the model reasons even without reasoning parameters.
    pub reasons: bool,
}

/// Fields that no upstream receives: the gateway stores responses, providers never do.
const NOT_FORWARDED: &[&str] = &["store", "previous_response_id", "background"];

/// Rewrites a request for an upstream of this format: renames the model, drops hints, disables
/// storage, unwraps the reasoning that this upstream sealed, and drops reasoning that others
/// sealed. Without a stored conversation, the upstream can only continue sealed reasoning, so seals
/// are requested. Values are forwarded byte for byte. `head` comes from
/// [`validate`](super::super::validate()) of this body.
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
            // These are rewritten.
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

/// Whether reasoning will be dropped: it has no seal, or an upstream of another origin sealed it.
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

/// Adds sealed reasoning to the front of an `include` list.
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

/// The input with the seals unwrapped for this upstream.
fn input(body: &Bytes, head: &ResponsesHead<'_>, field: &FieldPlace, origin: &str) -> Vec<u8> {
    if head.layout.items.is_empty() {
        return field.value.of(body).to_vec();
    }
    let mut out = vec![b'['];
    for item in &head.layout.items {
        let bytes = item.span.of(body);
        let forwarded = match (item.is_reasoning, item.seal) {
            (false, _) => bytes.to_vec(),
            // Upstreams do not accept the text of reasoning without a seal.
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
                    // The seal never passed through the gateway: the caller got it elsewhere, and
                    // the upstream decides whether it is valid.
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
