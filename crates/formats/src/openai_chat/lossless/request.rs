//! Rewriting of requests for an upstream of the same format.

use bytes::Bytes;

use super::super::head::{ChatHead, Field, FieldName, FieldPlace};
use crate::error::BoxedError;
use crate::json::{Reader, write_string};
use crate::lossless::{Edit, Span, splice, splice_chunks};

/// Upstream's name of the limit on output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CapName {
    /// The name that the caller used. If the caller set no limit, the gateway sends its own limit
    /// as `max_tokens`.
    #[default]
    AsSent,
    /// The name `max_tokens` in every request.
    MaxTokens,
    /// The name `max_completion_tokens` in every request.
    MaxCompletionTokens,
}

/// Changes to a request. All other bytes are forwarded unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// Name of the model at the upstream.
    pub model: &'e str,
    /// Maximum number of output tokens, sent if the caller set no limit or a higher one.
    pub clamp_output: Option<u64>,
    /// Upstream's name of the limit on output tokens.
    pub cap_name: CapName,
    /// Top-level fields that the upstream does not accept. If `stream_options` is listed, usage is
    /// not requested.
    pub remove: &'e [&'e str],
    /// Top-level fields to add, each with its value as JSON text. A field that the caller sent is
    /// not replaced unless it is dropped, for example because `remove` lists it.
    pub add: &'e [(&'e str, &'e str)],
    /// Unknown fields that the upstream accepts. All other unknown fields are dropped.
    pub vendor_fields: &'e [&'e str],
    /// Whether the upstream supports `system` but not `developer`.
    pub developer_as_system: bool,
}

/// Rewrites a request for the upstream: renames the model, requests the usage of a stream, and
/// applies [`RequestEdits`]. `head` must be the result of [`validate`](super::super::validate())
/// for this body.
///
/// The chunks must be sent in order. The unchanged chunks of a long body share its memory.
pub fn splice_request(body: &Bytes, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Vec<Bytes> {
    let new = NewBytes::of(head, edits);
    let changes = changes(body, head, edits, &new);
    if changes.is_empty() || body.len() >= MIN_CHUNKED_BYTES {
        return splice_chunks(body, &changes);
    }
    vec![splice(b"", body, &changes, b"")]
}

/// Minimum size of a body that is sent in chunks: copying a longer body costs more than several
/// writes.
pub(super) const MIN_CHUNKED_BYTES: usize = 16 << 10;

/// Returns the edits in the order of the body; empty if the body is forwarded unchanged.
fn changes<'e>(
    body: &[u8],
    head: &ChatHead<'_>,
    edits: &RequestEdits<'_>,
    new: &'e NewBytes,
) -> Vec<Edit<'e>> {
    let mut out = Vec::with_capacity(8);
    out.push(Edit::insert(head.layout.open, &new.inserted));
    let mut gap_start = head.layout.open;
    let mut has_fields = false;
    for field in &head.layout.fields {
        match field_action(field, head, edits) {
            FieldAction::Drop => out.push(Edit::delete(Span::new(gap_start, field.value.end))),
            field_action => {
                if !has_fields && gap_start != head.layout.open {
                    // All preceding fields were deleted, so the comma before this field is deleted,
                    // too.
                    out.push(Edit::delete(Span::new(gap_start, field.key)));
                }
                has_fields = true;
                if let FieldAction::Rename(key) = field_action {
                    out.push(Edit::replace(Span::new(field.key, field.value.start), key));
                }
                edit_value(field, head, edits, new, body, &mut out);
            }
        }
        gap_start = field.value.end;
    }
    if out.iter().all(|edit| edit.span.of(body) == edit.with) {
        out.clear();
    }
    out
}

/// Buffers for inserted bytes.
struct NewBytes {
    model: Vec<u8>,
    /// Replacement for a higher limit on output tokens.
    cap: Option<Vec<u8>>,
    inserted: Vec<u8>,
}

impl NewBytes {
    fn of(head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Self {
        let mut model = Vec::with_capacity(edits.model.len() + 2);
        write_string(&mut model, edits.model);
        let requested_cap = head.max_tokens.map(|cap| cap.value);
        let smaller = edits
            .clamp_output
            .filter(|clamp| requested_cap.is_some_and(|requested_cap| *clamp < requested_cap));
        let cap = smaller.map(|clamp| clamp.to_string().into_bytes());
        let mut inserted = Vec::new();
        if let (None, Some(clamp)) = (head.max_tokens, edits.clamp_output) {
            let name = match edits.cap_name {
                CapName::MaxTokens | CapName::AsSent => Field::MaxTokens,
                _ => Field::MaxCompletionTokens,
            };
            push_field(&mut inserted, name.as_str(), &clamp.to_string());
        }
        let sent = |field| {
            head.layout
                .fields
                .iter()
                .any(|place| place.name == FieldName::Known(field))
        };
        let removed = |name: &str| edits.remove.contains(&name);
        let options = Field::StreamOptions.as_str();
        if head.stream && !sent(Field::StreamOptions) && !removed(options) {
            push_field(&mut inserted, options, INCLUDE_USAGE);
        }
        for (name, value) in edits.add {
            let is_forwarded = head.layout.fields.iter().any(|place| {
                name_of(place, head) == *name && field_action(place, head, edits) != FieldAction::Drop
            });
            if !is_forwarded {
                push_field(&mut inserted, name, value);
            }
        }
        let is_last = head
            .layout
            .fields
            .iter()
            .all(|place| field_action(place, head, edits) == FieldAction::Drop);
        if is_last {
            inserted.pop();
        }
        Self { model, cap, inserted }
    }
}

const INCLUDE_USAGE: &str = r#"{"include_usage":true}"#;

fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
    out.push(b',');
}

/// Treatment of a top-level field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldAction {
    Keep,
    Drop,
    /// Forward under this key, which includes quotes and colon.
    Rename(&'static [u8]),
}

fn name_of<'h>(field: &FieldPlace, head: &'h ChatHead<'_>) -> &'h str {
    match field.name {
        FieldName::Known(known) => known.as_str(),
        FieldName::Unknown(index) => head.layout.unknown.get(index as usize).map_or("", |name| name),
    }
}

fn field_action(field: &FieldPlace, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> FieldAction {
    let name = name_of(field, head);
    if edits.remove.contains(&name) {
        return FieldAction::Drop;
    }
    match field.name {
        FieldName::Known(known @ (Field::MaxTokens | Field::MaxCompletionTokens)) => {
            cap_action(known, head, edits)
        }
        FieldName::Known(_) => FieldAction::Keep,
        FieldName::Unknown(_) if edits.vendor_fields.contains(&name) => FieldAction::Keep,
        FieldName::Unknown(_) => FieldAction::Drop,
    }
}

fn cap_action(field: Field, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> FieldAction {
    let (upstream_field, key): (_, &[u8]) = match edits.cap_name {
        CapName::AsSent => {
            // A limit of null is dropped, because the gateway adds its own limit, which would be a
            // duplicate under the same key.
            let is_superseded = head.max_tokens.is_none() && edits.clamp_output.is_some();
            return if is_superseded {
                FieldAction::Drop
            } else {
                FieldAction::Keep
            };
        }
        CapName::MaxTokens => (Field::MaxTokens, b"\"max_tokens\":"),
        CapName::MaxCompletionTokens => (Field::MaxCompletionTokens, b"\"max_completion_tokens\":"),
    };
    match (head.has(field), field == upstream_field) {
        (true, true) => FieldAction::Keep,
        (true, false) if head.has(upstream_field) => FieldAction::Drop,
        (true, false) => FieldAction::Rename(key),
        (false, _) => FieldAction::Drop,
    }
}

fn edit_value<'e>(
    field: &FieldPlace,
    head: &ChatHead<'_>,
    edits: &RequestEdits<'_>,
    new: &'e NewBytes,
    body: &[u8],
    out: &mut Vec<Edit<'e>>,
) {
    match field.name {
        FieldName::Known(Field::Model) => out.push(Edit::replace(field.value, &new.model)),
        FieldName::Known(known @ (Field::MaxTokens | Field::MaxCompletionTokens)) if head.has(known) => {
            out.extend(new.cap.as_ref().map(|cap| Edit::replace(field.value, cap)));
        }
        FieldName::Known(Field::StreamOptions) if head.stream && !head.include_usage => {
            out.push(match head.layout.stream_options {
                None => Edit::replace(field.value, INCLUDE_USAGE.as_bytes()),
                Some(place) => match (place.include_usage, place.empty) {
                    (Some(value), _) => Edit::replace(value, b"true"),
                    (None, true) => Edit::insert(place.open, b"\"include_usage\":true"),
                    (None, false) => Edit::insert(place.open, b"\"include_usage\":true,"),
                },
            });
        }
        FieldName::Known(Field::Messages) if edits.developer_as_system => {
            for role in developer_roles(field.value, body) {
                out.push(Edit::replace(role, b"\"system\""));
            }
        }
        _ => {}
    }
}

/// Returns the positions of the roles that are `developer`. The messages were validated, so a read
/// error cannot occur; it would end the search.
fn developer_roles(messages: Span, body: &[u8]) -> Vec<Span> {
    let mut roles = Vec::new();
    if let Ok(mut reader) = Reader::new(messages.of(body), u32::MAX) {
        let _ = find_developer_roles(&mut reader, &mut roles);
    }
    for role in &mut roles {
        *role = Span::new(role.start + messages.start, role.end + messages.start);
    }
    roles
}

fn find_developer_roles(reader: &mut Reader<'_>, roles: &mut Vec<Span>) -> Result<(), BoxedError> {
    reader.begin_array()?;
    while reader.item()? {
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            if key.name != "role" {
                reader.skip()?;
                continue;
            }
            let start = reader.place();
            if reader.string()?.decoded() == "developer" {
                roles.push(Span::new(start, reader.end()));
            }
        }
    }
    Ok(())
}
