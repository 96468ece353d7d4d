//! Requests.

use bytes::Bytes;

use super::super::head::{FieldPlace, IGNORED_HINTS, ResponsesHead};
use super::json_string;
use crate::seal;

/// What the gateway changes about a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestEdits<'a> {
    /// The model's name at the upstream.
    pub model: &'a str,
    /// Whose seals this upstream reads.
    pub origin: &'a str,
    /// A cap on output tokens, sent when the caller set none or a larger one.
    pub clamp_output: Option<u64>,
    /// Whether the model reasons although the request says nothing about it.
    pub reasons: bool,
}

/// What an upstream is not told: responses are kept by the gateway, and never by its providers.
const KEPT_HERE: &[&str] = &["store", "previous_response_id", "background"];

/// The request as an upstream of this format gets it: the model renamed, hints left out, nothing kept there, reasoning
/// that this upstream has sealed in its own wrapping again and that of others left out. Without a conversation that is
/// kept, the upstream can take reasoning up again only when it is sealed, so that is asked for. Values are forwarded byte
/// for byte. `head` is what [`validate`](super::super::validate()) made of this body.
pub fn splice_request(body: &Bytes, head: &ResponsesHead<'_>, edits: RequestEdits<'_>) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + edits.model.len() + 96);
    let asks_seal = edits.reasons || head.says_how_to_reason || head.layout.includes_seal;
    let clamp = edits
        .clamp_output
        .filter(|clamp| head.max_tokens.is_none_or(|asked| *clamp < asked));
    out.push(b'{');
    for field in &head.layout.fields {
        if IGNORED_HINTS.contains(&field.name) || KEPT_HERE.contains(&field.name) {
            continue;
        }
        match field.name {
            "model" => push_field(&mut out, "model", &json_string(edits.model)),
            // It is written anew.
            "max_output_tokens" if clamp.is_some() => {}
            "input" => push_field(&mut out, "input", &input(body, head, field, edits.origin)),
            "include" if asks_seal && !head.layout.includes_seal => {
                push_field(&mut out, "include", &with_seal(field.value.of(body)));
            }
            name => push_field(&mut out, name, field.value.of(body)),
        }
    }
    if asks_seal && head.layout.field("include").is_none() {
        push_field(&mut out, "include", &with_seal(b"[]"));
    }
    if let Some(clamp) = clamp {
        push_field(&mut out, "max_output_tokens", clamp.to_string().as_bytes());
    }
    push_field(&mut out, "store", b"false");
    out.push(b'}');
    Bytes::from(out)
}

/// Whether reasoning is left out for the upstream of this origin, because another one sealed it, or nobody.
pub fn has_foreign_seal(body: &Bytes, head: &ResponsesHead<'_>, origin: &str) -> bool {
    let mut reasoning = head.layout.items.iter().filter(|item| item.is_reasoning);
    reasoning.any(|item| {
        let text = item
            .seal
            .and_then(|place| serde_json::from_slice::<String>(place.of(body)).ok());
        seal::is_foreign(text.as_deref().and_then(seal::unwrap).as_ref(), origin)
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

/// The list of what is asked for besides, with sealed reasoning in front.
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

/// The input with its seals as this upstream knows them.
fn input(body: &Bytes, head: &ResponsesHead<'_>, field: &FieldPlace, origin: &str) -> Vec<u8> {
    if head.layout.items.is_empty() {
        return field.value.of(body).to_vec();
    }
    let mut out = vec![b'['];
    for item in &head.layout.items {
        let bytes = item.span.of(body);
        let kept = match (item.is_reasoning, item.seal) {
            (false, _) => bytes.to_vec(),
            // Its text alone is nothing that the upstream takes back.
            (true, None) => continue,
            (true, Some(place)) => {
                let text: String = serde_json::from_slice(place.of(body)).unwrap_or_default();
                match seal::unwrap(&text) {
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
                    // It never passed the gateway: the caller has it from elsewhere, and this upstream says what it
                    // thinks.
                    Some(seal) if seal.origin.is_empty() => bytes.to_vec(),
                    _ => continue,
                }
            }
        };
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(&kept);
    }
    out.push(b']');
    out
}
