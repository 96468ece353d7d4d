//! The input: a text, or items by type.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::head::{ItemPlace, ResponsesHead};
use super::content::{self, Place};
use crate::error::Flaw;
use crate::json::{Kind, Path, Reader, once};
use crate::lossless::Span;

/// Ids of the calls so far.
type Calls<'a> = HashSet<Cow<'a, str>>;

/// Items that every model can be told.
const TYPES: &[&str] = &[
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
    "custom_tool_call",
    "custom_tool_call_output",
];

/// Calls of tools that the caller runs, and their results. An upstream of this format takes them as they are.
const RUN_BY_THE_CALLER: &[&str] = &[
    "local_shell_call",
    "local_shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "computer_call",
    "computer_call_output",
];

/// What must be there.
const REQUIRED: &[(&str, &[&str])] = &[
    ("message", &["role", "content"]),
    ("function_call", &["call_id", "name", "arguments"]),
    ("function_call_output", &["call_id", "output"]),
    ("reasoning", &["summary"]),
    ("custom_tool_call", &["call_id", "name", "input"]),
    ("custom_tool_call_output", &["call_id", "output"]),
];

/// Keys that are checked, whatever the type of the item.
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

/// Reads the input.
pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    path: &Path<'_>,
) -> Result<(), Flaw> {
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
        // Nothing of the input is changed.
        head.layout.items = Vec::new();
    }
    Ok(())
}

fn item<'a>(
    reader: &mut Reader<'a>,
    head: &mut ResponsesHead<'_>,
    calls: &mut Calls<'a>,
    path: &Path<'_>,
) -> Result<ItemPlace, Flaw> {
    let start = reader.place();
    let (kind, role) = kind_and_role(&mut reader.ahead(), path)?;
    if RUN_BY_THE_CALLER.contains(&&*kind) {
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
    reader.object_at(path)?;
    let (mut seen, mut call_id, mut seal) = (0, None, None);
    while let Some(key) = reader.key()? {
        let Some(bit) = KEYS.iter().position(|name| **name == *key.name) else {
            reader.skip()?;
            continue;
        };
        once(&mut seen, bit as u32, path, KEYS[bit])?;
        let here = path.key(KEYS[bit]);
        let value = reader.place();
        match (KEYS[bit], kind) {
            ("type" | "role", _) => reader.skip()?,
            ("content", "message") => content::read(reader, head, role, &here)?,
            ("content", "reasoning") => {
                if !reader.take_null()? {
                    content::texts(reader, "reasoning_text", &here)?;
                }
            }
            ("summary", "reasoning") => content::texts(reader, "summary_text", &here)?,
            ("output", "function_call_output" | "custom_tool_call_output") => {
                content::read(reader, head, Place::Output, &here)?;
            }
            ("call_id", _) => call_id = Some(reader.filled_string_at(&here)?.decoded()),
            ("name", "function_call" | "custom_tool_call") => {
                reader.filled_string_at(&here)?;
            }
            ("arguments", "function_call") | ("input", "custom_tool_call") => {
                reader.string_at(&here)?;
            }
            ("encrypted_content" | "id" | "status" | "phase", _) if reader.take_null()? => {}
            ("encrypted_content", "reasoning") => {
                reader.string_at(&here)?;
                seal = Some(Span::new(value, reader.end()));
            }
            ("id", _) => {
                reader.string_at(&here)?;
            }
            ("status", _) => {
                reader.word_at(&["in_progress", "completed", "incomplete"], &here)?;
            }
            ("phase", "message") => {
                reader.string_at(&here)?;
            }
            _ => reader.skip()?,
        }
    }
    let has = |name: &&&str| {
        KEYS.iter()
            .position(|key| *key == **name)
            .is_some_and(|bit| seen & (1 << bit) != 0)
    };
    let required = REQUIRED.iter().find(|(name, _)| *name == kind);
    if let Some(key) = required.and_then(|(_, keys)| keys.iter().find(|key| !has(key))) {
        return Err(path.missing(key));
    }
    if let Some(id) = call_id {
        match kind {
            "function_call" | "custom_tool_call" => {
                calls.insert(id);
            }
            _ if !calls.contains(&id) => {
                return Err(path
                    .key("call_id")
                    .invalid("answers no call: no item before it calls a tool with this id"));
            }
            _ => {}
        }
    }
    Ok(ItemPlace {
        span: Span::new(start, reader.end()),
        is_reasoning: kind == "reasoning",
        seal,
    })
}

/// Type and role, wherever they stand: they decide about the content. An item without a type that has a role is a
/// message.
fn kind_and_role<'a>(reader: &mut Reader<'a>, path: &Path<'_>) -> Result<(Cow<'a, str>, Place), Flaw> {
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

fn refused(kind: &str, path: &Path<'_>) -> Flaw {
    match kind {
        "item_reference" => path.unsupported("refers to an item that is not kept here; send the item"),
        "compaction" | "compaction_summary" | "compaction_trigger" => {
            path.unsupported("is not served here; send the items themselves")
        }
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
            path.unsupported("is of a tool that runs at the provider, which is not served here")
        }
        _ => path.invalid("is no type of item"),
    }
}
