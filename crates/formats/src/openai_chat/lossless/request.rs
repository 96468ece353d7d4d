//! Requests: the caller's bytes for an upstream that speaks the same format.

use bytes::Bytes;

use super::super::head::{ChatHead, Field, FieldName, FieldPlace};
use crate::error::Flaw;
use crate::json::{Reader, write_string};
use crate::lossless::{Edit, Span, pieces, splice};

/// Under which name the upstream knows the cap on output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CapName {
    /// Under both: the caller's choice stays, and a clamp is `max_completion_tokens`.
    #[default]
    AsSent,
    /// Only as `max_tokens`.
    MaxTokens,
    /// Only as `max_completion_tokens`.
    MaxCompletionTokens,
}

/// What the gateway changes about a request. Everything else is forwarded byte for byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestEdits<'e> {
    /// The model's name at the upstream.
    pub model: &'e str,
    /// A cap on output tokens, sent when the caller set none or a larger one.
    pub clamp_output: Option<u64>,
    /// Under which name the upstream knows that cap.
    pub cap_name: CapName,
    /// Top-level fields that the upstream does not take. With `stream_options` among them, usage is not asked for.
    pub remove: &'e [&'e str],
    /// Top-level fields to add, each with its value as JSON text, unless the caller sent the field and it was not
    /// removed.
    pub add: &'e [(&'e str, &'e str)],
    /// Fields outside the format that the upstream takes. All others outside the format are dropped.
    pub vendor_fields: &'e [&'e str],
    /// Whether the upstream knows `system` but not `developer`.
    pub developer_as_system: bool,
}

/// The request as the upstream gets it: the model renamed, usage asked for when it is streamed, and what
/// [`RequestEdits`] says. `head` is what [`validate`](super::super::validate()) made of this body.
///
/// The pieces are to be sent one after another. What stays of a long body is shared with it and not copied.
pub fn splice_request(body: &Bytes, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Vec<Bytes> {
    let new = NewBytes::of(head, edits);
    let changes = changes(body, head, edits, &new);
    if changes.is_empty() || body.len() >= WORTH_PIECES {
        return pieces(body, &changes);
    }
    vec![splice(b"", body, &changes, b"")]
}

/// From this size on, copying a body costs more than sending it in pieces.
pub(super) const WORTH_PIECES: usize = 16 << 10;

/// What is to be changed, in the order of the body; nothing when the upstream gets the caller's own bytes.
fn changes<'e>(
    body: &[u8],
    head: &ChatHead<'_>,
    edits: &RequestEdits<'_>,
    new: &'e NewBytes,
) -> Vec<Edit<'e>> {
    let mut out = Vec::with_capacity(8);
    out.push(Edit::insert(head.layout.open, &new.inserted));
    let mut gap_start = head.layout.open;
    let mut kept_any = false;
    for field in &head.layout.fields {
        match fate(field, head, edits) {
            Fate::Drop => out.push(Edit::delete(Span::new(gap_start, field.value.end))),
            fate => {
                if !kept_any && gap_start != head.layout.open {
                    // Everything before it is gone, and so is the reason for its comma.
                    out.push(Edit::delete(Span::new(gap_start, field.key)));
                }
                kept_any = true;
                if let Fate::Rename(key) = fate {
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

/// Bytes that the edits bring in.
struct NewBytes {
    model: Vec<u8>,
    /// In place of a larger cap.
    cap: Option<Vec<u8>>,
    inserted: Vec<u8>,
}

impl NewBytes {
    fn of(head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Self {
        let mut model = Vec::with_capacity(edits.model.len() + 2);
        write_string(&mut model, edits.model);
        let asked = head.max_tokens.map(|cap| cap.value);
        let smaller = edits
            .clamp_output
            .filter(|clamp| asked.is_some_and(|asked| *clamp < asked));
        let cap = smaller.map(|clamp| clamp.to_string().into_bytes());
        let mut inserted = Vec::new();
        if let (None, Some(clamp)) = (head.max_tokens, edits.clamp_output) {
            let name = match edits.cap_name {
                CapName::MaxTokens => Field::MaxTokens,
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
            push_field(&mut inserted, options, ASK_USAGE);
        }
        for (name, value) in edits.add {
            let stays = head
                .layout
                .fields
                .iter()
                .any(|place| name_of(place, head) == *name && fate(place, head, edits) != Fate::Drop);
            if !stays {
                push_field(&mut inserted, name, value);
            }
        }
        let nothing_follows = head
            .layout
            .fields
            .iter()
            .all(|place| fate(place, head, edits) == Fate::Drop);
        if nothing_follows {
            inserted.pop();
        }
        Self { model, cap, inserted }
    }
}

const ASK_USAGE: &str = r#"{"include_usage":true}"#;

fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    write_string(out, name);
    out.push(b':');
    out.extend_from_slice(value.as_bytes());
    out.push(b',');
}

/// What happens to a top-level field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Drop,
    /// Kept under this key, which is written with its quotes and colon.
    Rename(&'static [u8]),
}

fn name_of<'h>(field: &FieldPlace, head: &'h ChatHead<'_>) -> &'h str {
    match field.name {
        FieldName::Known(known) => known.as_str(),
        FieldName::Unknown(index) => head.layout.unknown.get(index as usize).map_or("", |name| name),
    }
}

fn fate(field: &FieldPlace, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Fate {
    let name = name_of(field, head);
    if edits.remove.contains(&name) {
        return Fate::Drop;
    }
    match field.name {
        FieldName::Known(known @ (Field::MaxTokens | Field::MaxCompletionTokens)) => {
            fate_of_cap(known, head, edits)
        }
        FieldName::Known(_) => Fate::Keep,
        FieldName::Unknown(_) if edits.vendor_fields.contains(&name) => Fate::Keep,
        FieldName::Unknown(_) => Fate::Drop,
    }
}

fn fate_of_cap(field: Field, head: &ChatHead<'_>, edits: &RequestEdits<'_>) -> Fate {
    let (wanted, key): (_, &[u8]) = match edits.cap_name {
        CapName::AsSent => {
            // A null beside a clamp would be the same key twice.
            let gives_way = head.max_tokens.is_none() && edits.clamp_output.is_some();
            return if gives_way { Fate::Drop } else { Fate::Keep };
        }
        CapName::MaxTokens => (Field::MaxTokens, b"\"max_tokens\":"),
        CapName::MaxCompletionTokens => (Field::MaxCompletionTokens, b"\"max_completion_tokens\":"),
    };
    match (head.has(field), field == wanted) {
        (true, true) => Fate::Keep,
        (true, false) if head.has(wanted) => Fate::Drop,
        (true, false) => Fate::Rename(key),
        (false, _) => Fate::Drop,
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
                None => Edit::replace(field.value, ASK_USAGE.as_bytes()),
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

/// Places of the roles that are `developer`. The messages were validated, so a failure to read them finds none.
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

fn find_developer_roles(reader: &mut Reader<'_>, roles: &mut Vec<Span>) -> Result<(), Flaw> {
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
