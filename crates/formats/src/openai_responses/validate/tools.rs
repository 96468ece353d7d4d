//! Validation of tools and the tool choice.

use super::super::head::ResponsesHead;
use super::options::is_plain_name;
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader, open_keys, open_object};

/// Types of tools that only this format defines and that the caller runs. These tools are forwarded
/// unchanged to an upstream of this format.
const CLIENT_TOOLS: &[&str] = &[
    "local_shell",
    "apply_patch",
    "computer",
    "computer_use_preview",
    "namespace",
];

/// Type prefixes of tools that can run at the provider. The gateway refuses these tools: they can
/// cost extra or access data that is stored at the provider for other callers.
const HOSTED_TOOLS: &[&str] = &[
    "web_search",
    "file_search",
    "code_interpreter",
    "image_generation",
    "mcp",
    "shell",
    "tool_search",
];

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    while reader.item()? {
        tool(reader, &path.index(head.tools))?;
        head.tools += 1;
    }
    Ok(())
}

fn tool(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    const KEYS: [&str; 7] = [
        "type",
        "name",
        "description",
        "parameters",
        "strict",
        "format",
        "tools",
    ];
    let kind = kind_of(&mut reader.ahead(), path)?;
    let (mut has_name, mut name_fits) = (false, true);
    open_keys(reader, &KEYS, path, |reader, key, path| {
        match (key, &*kind) {
            ("type", _) => reader.skip()?,
            ("name", "function" | "custom" | "namespace") => {
                let name = reader.non_empty_string_at(path)?.decoded();
                name_fits = is_plain_name(&name, 128);
                has_name = true;
            }
            ("description", _) => {
                reader.string_at(path)?;
            }
            ("parameters", "function") => open_object(reader, path)?,
            ("strict", "function") => {
                reader.boolean_at(path)?;
            }
            ("format", "custom") => custom_format(reader, path)?,
            ("tools", "namespace") => inner_tools(reader, path)?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    let is_named = matches!(&*kind, "function" | "custom" | "namespace");
    match (is_named, has_name, name_fits) {
        (true, false, _) => Err(path.missing("name")),
        (true, _, false) => Err(path
            .key("name")
            .invalid("must have 1 to 128 letters, digits, underscores or dashes")),
        _ => Ok(()),
    }
}

/// Reads the type before the other keys, because the type determines the valid keys.
fn kind_of<'a>(reader: &mut Reader<'a>, path: &Path<'_>) -> Result<std::borrow::Cow<'a, str>, BoxedError> {
    let mut kind = None;
    open_keys(reader, &["type"], path, |reader, _, path| {
        kind = Some(reader.string_at(path)?.decoded());
        Ok(())
    })?;
    let Some(kind) = kind else {
        return Err(path.missing("type"));
    };
    let here = path.key("type");
    if matches!(&*kind, "function" | "custom") || CLIENT_TOOLS.contains(&&*kind) {
        return Ok(kind);
    }
    // Some types have a date or release stage after the name.
    if HOSTED_TOOLS.iter().any(|known| kind.starts_with(known)) {
        return Err(here.unsupported("is a tool that the provider runs, which is not supported"));
    }
    Err(here.invalid("is not a valid tool type"))
}

/// Reads the tools of a namespace, which are functions and custom tools.
fn inner_tools(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        let here = path.index(index);
        let kind = kind_of(&mut reader.ahead(), &here)?;
        if !matches!(&*kind, "function" | "custom") {
            return Err(here
                .key("type")
                .invalid("must be 'function' or 'custom' within a namespace"));
        }
        tool(reader, &here)?;
        index += 1;
    }
    Ok(())
}

fn custom_format(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let (mut kind, mut seen) = (None, 0);
    open_keys(
        reader,
        &["type", "definition", "syntax"],
        path,
        |reader, key, path| {
            match key {
                "type" => kind = Some(reader.word_at(&["text", "grammar"], path)?),
                "definition" => {
                    reader.string_at(path)?;
                    seen |= 0b01;
                }
                _ => {
                    reader.word_at(&["lark", "regex"], path)?;
                    seen |= 0b10;
                }
            }
            Ok(())
        },
    )?;
    match (kind, seen) {
        (None, _) => Err(path.missing("type")),
        (Some("text"), _) | (Some(_), 0b11) => Ok(()),
        (Some(_), 0b01) => Err(path.missing("syntax")),
        (Some(_), _) => Err(path.missing("definition")),
    }
}

/// Reads `tool_choice`. Returns whether it is `required` or an object that names tools.
pub(super) fn choice(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    match reader.kind()? {
        Kind::String => Ok(reader.word_at(&["none", "auto", "required"], path)? == "required"),
        Kind::Object => chosen(reader, path),
        _ => Err(path.invalid("must be 'none', 'auto', 'required' or an object that names a tool")),
    }
}

fn chosen(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    let (mut kind, mut seen) = (None, 0);
    open_keys(
        reader,
        &["type", "name", "mode", "tools"],
        path,
        |reader, key, path| {
            match key {
                "type" => kind = Some(reader.non_empty_string_at(path)?.decoded()),
                "name" => {
                    reader.non_empty_string_at(path)?;
                    seen |= 0b001;
                }
                "mode" => {
                    reader.word_at(&["auto", "required"], path)?;
                    seen |= 0b010;
                }
                _ => {
                    allowed(reader, path)?;
                    seen |= 0b100;
                }
            }
            Ok(())
        },
    )?;
    let here = path.key("type");
    match (kind.as_deref(), seen) {
        (None, _) => Err(path.missing("type")),
        (Some("function" | "custom"), seen) if seen & 0b001 == 0 => Err(path.missing("name")),
        (Some("allowed_tools"), seen) if seen & 0b010 == 0 => Err(path.missing("mode")),
        (Some("allowed_tools"), seen) if seen & 0b100 == 0 => Err(path.missing("tools")),
        (Some("function" | "custom" | "allowed_tools"), _) => Ok(true),
        (Some(kind), _) if CLIENT_TOOLS.contains(&kind) => Ok(true),
        (Some(kind), _) if HOSTED_TOOLS.iter().any(|known| kind.starts_with(known)) => {
            Err(here.unsupported("is a tool that the provider runs, which is not supported"))
        }
        (Some(_), _) => Err(here.invalid("is not a valid type; use 'function', 'custom' or 'allowed_tools'")),
    }
}

fn allowed(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        open_object(reader, &path.index(index))?;
        index += 1;
    }
    Ok(())
}
