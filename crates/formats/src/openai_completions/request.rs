//! The request as an upstream with the same endpoint gets it.

use bytes::Bytes;

use super::DEFAULT_MAX_TOKENS;
use super::head::{CompletionHead, Field, FieldName, FieldPlace};
use crate::json::write_string;
use crate::lossless::Span;

/// What is changed about a request. The values of all other fields are forwarded byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// The model's name at the upstream.
    pub model: &'e str,
    /// A cap on output tokens, sent in place of a larger one.
    pub clamp_output: Option<u64>,
    /// Top-level fields of the format that the upstream does not take. With `stream_options` among them, usage is not
    /// asked for. The prompt always stays.
    pub remove: &'e [&'e str],
    /// Fields outside the format that the upstream takes. All others outside the format are dropped.
    pub vendor_fields: &'e [&'e str],
}

/// The request as the upstream gets it: the model renamed, the cap written out, usage asked for when it is streamed.
/// `head` is what [`validate`](super::validate()) made of this body.
pub fn splice_request(body: &[u8], head: &CompletionHead<'_>, edits: &RequestEdits<'_>) -> Bytes {
    let mut out = Vec::with_capacity(body.len() + edits.model.len() + 64);
    out.extend_from_slice(b"{\"model\":");
    write_string(&mut out, edits.model);
    let kept = head
        .layout
        .fields
        .iter()
        .filter(|field| stays(field, head, edits));
    for field in kept {
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

fn stays(field: &FieldPlace, head: &CompletionHead<'_>, edits: &RequestEdits<'_>) -> bool {
    match field.name {
        FieldName::Known(Field::Prompt) => true,
        // These are written anew.
        FieldName::Known(Field::Model | Field::StreamOptions) => false,
        // A structured answer is asked of chat alone; here it can only say that there is none.
        FieldName::Known(Field::ResponseFormat) => false,
        FieldName::Known(Field::MaxTokens) if smaller_cap(head, edits).is_some() => false,
        FieldName::Known(known) => head.has(known) && !edits.remove.contains(&known.as_str()),
        FieldName::Unknown(index) => {
            let name = head.layout.unknown.get(index as usize);
            name.is_some_and(|name| edits.vendor_fields.contains(&&**name))
        }
    }
}
