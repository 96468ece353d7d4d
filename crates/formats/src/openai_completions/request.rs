//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::DEFAULT_MAX_TOKENS;
use super::head::{CompletionHead, Field, FieldName, FieldPlace};
use crate::json::write_string;
use crate::lossless::Span;

/// Changes to a request. The values of all other fields are forwarded byte for byte, except that
/// fields with the value null and `response_format` are dropped.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// Name of the model at the upstream.
    pub model: &'e str,
    /// Maximum number of output tokens, which replaces a higher limit of the caller.
    pub clamp_output: Option<u64>,
    /// Known top-level fields that the upstream does not accept. If `stream_options` is listed,
    /// usage is not requested. The prompt is never removed.
    pub remove: &'e [&'e str],
    /// Unknown fields that the upstream accepts. All other unknown fields are dropped.
    pub vendor_fields: &'e [&'e str],
}

/// Rewrites a request for the upstream: renames the model, sends the output token limit even if the
/// caller set none, and requests the usage of a stream. `head` must be the result of
/// [`validate`](super::validate()) for this body.
pub fn splice_request(body: &[u8], head: &CompletionHead<'_>, edits: &RequestEdits<'_>) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + edits.model.len() + 64);
    out.extend_from_slice(b"{\"model\":");
    write_string(&mut out, edits.model);
    let forwarded = head
        .layout
        .fields
        .iter()
        .filter(|field| is_forwarded(field, head, edits));
    for field in forwarded {
        out.push(b',');
        out.extend_from_slice(Span::new(field.key, field.value.end).of(body));
    }
    let clamp = smaller_cap(head, edits);
    if clamp.is_some() || !head.has(Field::MaxTokens) {
        let cap = clamp.unwrap_or(DEFAULT_MAX_TOKENS);
        out.extend_from_slice(format!(",\"max_tokens\":{cap}").as_bytes());
    }
    if head.stream && !edits.remove.contains(&Field::StreamOptions.as_str()) {
        out.extend_from_slice(b",\"stream_options\":{\"include_usage\":true}");
    }
    out.push(b'}');
    Bytes::from(out)
}

fn smaller_cap(head: &CompletionHead<'_>, edits: &RequestEdits<'_>) -> Option<u64> {
    edits.clamp_output.filter(|clamp| *clamp < head.max_tokens)
}

fn is_forwarded(field: &FieldPlace, head: &CompletionHead<'_>, edits: &RequestEdits<'_>) -> bool {
    match field.name {
        FieldName::Known(Field::Prompt) => true,
        // These fields are rewritten.
        FieldName::Known(Field::Model | Field::StreamOptions) => false,
        // Requests with a structured response are converted to chat completions, so this field can
        // only have its default value here.
        FieldName::Known(Field::ResponseFormat) => false,
        FieldName::Known(Field::MaxTokens) if smaller_cap(head, edits).is_some() => false,
        FieldName::Known(known) => head.has(known) && !edits.remove.contains(&known.as_str()),
        FieldName::Unknown(index) => {
            let name = head.layout.unknown.get(index as usize);
            name.is_some_and(|name| edits.vendor_fields.contains(&&**name))
        }
    }
}
