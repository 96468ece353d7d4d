//! Validation of tools and the tool choice.

use super::super::head::MessagesHead;
use super::options::{cache_control, once, open_object, small_object, unsupported};
use crate::error::BoxedError;
use crate::json::{Path, Reader};

/// Type prefixes of the supported tools that Anthropic defines; the caller runs them. Of the other
/// types, only `custom` is accepted.
const CLIENT_TOOLS: &[&str] = &["bash_", "text_editor_", "memory_"];

/// Fields of a tool that other formats cannot express and that do not affect the response, each
/// with the name under which it is reported as ignored.
const HINTS: &[(&str, &str)] = &[
    ("input_examples", "tools.input_examples"),
    ("eager_input_streaming", "tools.eager_input_streaming"),
];

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut MessagesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    while reader.item()? {
        tool(reader, head, &path.index(head.tools))?;
        head.tools += 1;
    }
    Ok(())
}

fn tool(reader: &mut Reader<'_>, head: &mut MessagesHead<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    const KEYS: [&str; 6] = [
        "name",
        "input_schema",
        "description",
        "strict",
        "cache_control",
        "type",
    ];
    reader.object_at(path)?;
    let (mut seen, mut is_typed) = (0, false);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let Some(bit) = KEYS.iter().position(|name| **name == *key.name) else {
            if key.name == "allowed_callers" {
                callers(reader, &here)?;
                continue;
            }
            if key.name == "defer_loading" && !reader.take_null()? {
                return unsupported(
                    &here,
                    "applies to tools that the provider runs, which is not supported",
                );
            }
            if let Some((_, hint)) = HINTS.iter().find(|(name, _)| **name == *key.name)
                && !head.own_hints.contains(hint)
            {
                head.own_hints.push(hint);
            }
            reader.skip()?;
            continue;
        };
        once(&mut seen, bit as u32, path, KEYS[bit])?;
        match KEYS[bit] {
            "name" => tool_name(reader, &here)?,
            "input_schema" => open_object(reader, &here)?,
            _ if reader.take_null()? => {}
            "description" => {
                reader.string_at(&here)?;
            }
            "strict" => {
                reader.boolean_at(&here)?;
            }
            "cache_control" => cache_control(reader, head, &here)?,
            _ => {
                let kind = reader.non_empty_string_at(&here)?.decoded();
                is_typed = kind != "custom";
                if is_typed && !CLIENT_TOOLS.iter().any(|prefix| kind.starts_with(prefix)) {
                    return unsupported(&here, "is a tool that the provider runs, which is not supported");
                }
            }
        }
    }
    match seen {
        seen if seen & 0b01 == 0 => Err(path.missing("name")),
        seen if seen & 0b10 == 0 && !is_typed => Err(path.missing("input_schema")),
        _ => Ok(()),
    }
}

/// Validates `allowed_callers`. Only `direct`, the model itself, is supported; the other callers
/// are code that runs at the provider.
fn callers(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    if reader.take_null()? {
        return Ok(());
    }
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        let here = path.index(index);
        if reader.string_at(&here)?.decoded() != "direct" {
            return unsupported(
                &here,
                "names code that the provider runs, which is not supported; use 'direct'",
            );
        }
        index += 1;
    }
    Ok(())
}

fn tool_name(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let name = reader.non_empty_string_at(path)?.decoded();
    let fits = name.len() <= 128
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits {
        return Ok(());
    }
    Err(path.invalid("must have 1 to 128 letters, digits, underscores or dashes"))
}

pub(super) fn choice(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let (mut kind, mut has_name) = (None, false);
    let keys = ["type", "name", "disable_parallel_tool_use"];
    small_object(reader, &keys, path, |reader, key, path| {
        match key {
            "type" => kind = Some(reader.word_at(&["auto", "any", "tool", "none"], path)?),
            "name" => {
                reader.non_empty_string_at(path)?;
                has_name = true;
            }
            _ => {
                reader.boolean_at(path)?;
            }
        }
        Ok(())
    })?;
    match kind {
        None => Err(path.missing("type")),
        Some("tool") if !has_name => Err(path.missing("name")),
        Some(_) => Ok(()),
    }
}
