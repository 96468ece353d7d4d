//! Validation of the input: a text, or typed items.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::head::{ItemPlace, ResponsesHead};
use super::content::{self, Place};
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader, once};
use crate::lossless::Span;

/// Ids of the calls so far.
type Calls<'a> = HashSet<Cow<'a, str>>;

/// Item types that work with every model.
const TYPES: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "custom_tool_call_output",
];

/// Types of items that are calls to tools that the caller runs, or results of such calls. These
/// items are forwarded unchanged to an upstream of this format.
const CLIENT_TOOL_ITEMS: &[&str] = &[
    "local_shell_call",
    "local_shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "computer_call",
    "computer_call_output",
];

/// Required fields by item type.
const REQUIRED: &[(&str, &[&str])] = &[
    ("message", &["role", "content"]),
    ("function_call", &["call_id", "name", "arguments"]),
    ("function_call_output", &["call_id", "output"]),
    ("reasoning", &["summary"]),
    ("custom_tool_call", &["call_id", "name", "input"]),
    ("custom_tool_call_output", &["call_id", "output"]),
];

/// Validated keys of an item of any type.
const KEYS: [&str; 13] = [
    "type",
    "role",
    "content",
    "call_id",
    "name",
    "arguments",
    "input",
    "output",
    "summary",
    "encrypted_content",
    "id",
    "status",
    "phase",
];

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => {
            reader.string()?;
            head.items = 1;
            return Ok(());
        }
        Kind::Array => reader.begin_array()?,
        other => {
            return Err(path.invalid(format_args!(
                "must be a string or an array of items, not {}",
                other.name()
            )));
        }
    }
    let (mut calls, mut has_reasoning) = (Calls::new(), false);
    while reader.item()? {
        let place = item(reader, head, &mut calls, &path.index(head.items))?;
        has_reasoning |= place.is_reasoning;
        head.layout.items.push(place);
        head.items += 1;
    }
    if !has_reasoning {
        // Without reasoning, the input is forwarded unchanged, so the positions are not needed.
        head.layout.items = Vec::new();
    }
    Ok(())
}

/// A parsed item of a type that works with every model.
struct Item<'a> {
    kind: &'static str,
    /// Location of the content, which determines the valid part types.
    place: Place,
    seen: u32,
    call_id: Option<Cow<'a, str>>,
    seal: Option<Span>,
}

fn item<'a>(
    reader: &mut Reader<'a>,
    head: &mut ResponsesHead<'_>,
    calls: &mut Calls<'a>,
    path: &Path<'_>,
) -> Result<ItemPlace, BoxedError> {
    let start = reader.place();
    let (kind, place) = kind_and_role(&mut reader.ahead(), path)?;
    if CLIENT_TOOL_ITEMS.contains(&&*kind) {
        reader.skip()?;
        return Ok(ItemPlace {
            span: Span::new(start, reader.end()),
            is_reasoning: false,
            seal: None,
        });
    }
    let Some(kind) = TYPES.iter().copied().find(|known| **known == *kind) else {
        return Err(refused(&kind, &path.key("type")));
    };
    let item = Item::read(reader, head, kind, place, path)?;
    item.check_required(path)?;
    let (is_reasoning, seal) = (kind == "reasoning", item.seal);
    item.match_call(calls, path)?;
    Ok(ItemPlace {
        span: Span::new(start, reader.end()),
        is_reasoning,
        seal,
    })
}

impl<'a> Item<'a> {
    fn read(
        reader: &mut Reader<'a>,
        head: &mut ResponsesHead<'_>,
        kind: &'static str,
        place: Place,
        path: &Path<'_>,
    ) -> Result<Self, BoxedError> {
        reader.object_at(path)?;
        let mut item = Item {
            kind,
            place,
            seen: 0,
            call_id: None,
            seal: None,
        };
        while let Some(key) = reader.key()? {
            let Some(bit) = KEYS.iter().position(|name| **name == *key.name) else {
                reader.skip()?;
                continue;
            };
            once(&mut item.seen, bit as u32, path, KEYS[bit])?;
            item.value(reader, head, KEYS[bit], &path.key(KEYS[bit]))?;
        }
        Ok(item)
    }

    /// Reads the value of a key. A key that the item's type does not use is skipped.
    fn value(
        &mut self,
        reader: &mut Reader<'a>,
        head: &mut ResponsesHead<'_>,
        key: &str,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        match (key, self.kind) {
            ("type" | "role", _) => reader.skip()?,
            ("content", "message") => content::read(reader, head, self.place, path)?,
            ("content", "reasoning") => {
                if !reader.take_null()? {
                    content::texts(reader, "reasoning_text", path)?;
                }
            }
            ("summary", "reasoning") => content::texts(reader, "summary_text", path)?,
            ("output", "function_call_output" | "custom_tool_call_output") => {
                content::read(reader, head, Place::Output, path)?;
            }
            ("call_id", _) => self.call_id = Some(reader.non_empty_string_at(path)?.decoded()),
            ("name", "function_call" | "custom_tool_call") => {
                reader.non_empty_string_at(path)?;
            }
            ("arguments", "function_call") | ("input", "custom_tool_call") => {
                reader.string_at(path)?;
            }
            ("encrypted_content" | "id" | "status" | "phase", _) if reader.take_null()? => {}
            ("encrypted_content", "reasoning") => {
                let start = reader.place();
                reader.string_at(path)?;
                self.seal = Some(Span::new(start, reader.end()));
            }
            ("id", _) | ("phase", "message") => {
                reader.string_at(path)?;
            }
            ("status", _) => {
                reader.word_at(&["in_progress", "completed", "incomplete"], path)?;
            }
            _ => reader.skip()?,
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        let bit = KEYS.iter().position(|key| *key == name);
        bit.is_some_and(|bit| self.seen & (1 << bit) != 0)
    }

    fn check_required(&self, path: &Path<'_>) -> Result<(), BoxedError> {
        let required = REQUIRED.iter().find(|(name, _)| *name == self.kind);
        let missing = required.and_then(|(_, keys)| keys.iter().find(|key| !self.has(key)));
        missing.map_or(Ok(()), |key| Err(path.missing(key)))
    }

    /// Records the id of a call, or checks that a result belongs to a recorded call.
    fn match_call(self, calls: &mut Calls<'a>, path: &Path<'_>) -> Result<(), BoxedError> {
        let Some(id) = self.call_id else { return Ok(()) };
        match self.kind {
            "function_call" | "custom_tool_call" => {
                calls.insert(id);
                Ok(())
            }
            _ if calls.contains(&id) => Ok(()),
            _ => Err(path
                .key("call_id")
                .invalid("matches no tool call: no earlier item calls a tool with this id")),
        }
    }
}

/// Reads type and role before the other fields, because they determine the valid content. An item
/// with a role and without a type is a message.
fn kind_and_role<'a>(reader: &mut Reader<'a>, path: &Path<'_>) -> Result<(Cow<'a, str>, Place), BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut role) = (None, None);
    while let Some(key) = reader.key()? {
        match &*key.name {
            "type" if kind.is_none() && !reader.take_null()? => {
                kind = Some(reader.string_at(&path.key("type"))?.decoded());
            }
            "role" if role.is_none() => {
                let roles = ["user", "assistant", "system", "developer"];
                role = Some(reader.word_at(&roles, &path.key("role"))?);
            }
            "type" if kind.is_none() => {}
            _ => reader.skip()?,
        }
    }
    let place = match role {
        Some("assistant") => Place::Assistant,
        Some("user") => Place::User,
        _ => Place::System,
    };
    match (kind, role) {
        (Some(kind), None) if kind == "message" => Err(path.missing("role")),
        (Some(kind), _) => Ok((kind, place)),
        (None, Some(_)) => Ok((Cow::Borrowed("message"), place)),
        (None, None) => Err(path.missing("type")),
    }
}

fn refused(kind: &str, path: &Path<'_>) -> BoxedError {
    match kind {
        "item_reference" => path
            .unsupported("is 'item_reference', which this endpoint does not support; send the item itself"),
        "compaction" | "compaction_summary" | "compaction_trigger" => path.unsupported(
            "belongs to a compacted conversation that the gateway cannot expand; send the original items",
        ),
        _ if [
            "_call",
            "_output",
            "_request",
            "_response",
            "_list_tools",
            "_search_call",
        ]
        .iter()
        .any(|end| kind.ends_with(end)) =>
        {
            path.unsupported("belongs to a tool that the provider runs, which is not supported")
        }
        _ => path.invalid("is not a valid item type"),
    }
}
