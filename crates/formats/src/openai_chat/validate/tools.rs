//! Validation of tools and the tool choice.

use super::options::{named, once, open_object};
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader};

/// Maximum number of entries of each of `tools`, the deprecated `functions`, and
/// `allowed_tools.tools`.
const MAX_TOOLS: u32 = 128;

/// Reads `tools` and returns their number.
pub(super) fn tools(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u32, BoxedError> {
    each(reader, path, tool)
}

/// Reads the deprecated `functions` and returns their number.
pub(super) fn functions(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u32, BoxedError> {
    each(reader, path, function)
}

fn each(
    reader: &mut Reader<'_>,
    path: &Path<'_>,
    read: impl Fn(&mut Reader<'_>, &Path<'_>) -> Result<(), BoxedError>,
) -> Result<u32, BoxedError> {
    reader.array_at(path)?;
    let mut count = 0;
    while reader.item()? {
        if count == MAX_TOOLS {
            return Err(path.invalid(format_args!("must have at most {MAX_TOOLS} entries")));
        }
        read(reader, &path.index(count))?;
        count += 1;
    }
    Ok(count)
}

fn tool(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut seen) = (None, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "type" => {
                once(&mut seen, 0, path, "type")?;
                kind = Some(reader.word_at(&["function", "custom"], &here)?);
            }
            "function" => {
                once(&mut seen, 1, path, "function")?;
                function(reader, &here)?;
            }
            "custom" => {
                once(&mut seen, 2, path, "custom")?;
                custom(reader, &here)?;
            }
            _ => reader.skip()?,
        }
    }
    match kind {
        None => Err(path.missing("type")),
        Some("function") if seen & 0b010 == 0 => Err(path.missing("function")),
        Some("custom") if seen & 0b100 == 0 => Err(path.missing("custom")),
        Some(_) => Ok(()),
    }
}

fn function(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "name" => {
                once(&mut seen, 0, path, "name")?;
                reader.non_empty_string_at(&here)?;
            }
            "description" => {
                once(&mut seen, 1, path, "description")?;
                if !reader.take_null()? {
                    reader.string_at(&here)?;
                }
            }
            "parameters" => {
                once(&mut seen, 2, path, "parameters")?;
                if !reader.take_null()? {
                    open_object(reader, &here)?;
                }
            }
            "strict" => {
                once(&mut seen, 3, path, "strict")?;
                if !reader.take_null()? {
                    reader.boolean_at(&here)?;
                }
            }
            _ => reader.skip()?,
        }
    }
    if seen & 1 == 0 {
        Err(path.missing("name"))
    } else {
        Ok(())
    }
}

fn custom(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "name" => {
                once(&mut seen, 0, path, "name")?;
                reader.non_empty_string_at(&here)?;
            }
            "description" => {
                once(&mut seen, 1, path, "description")?;
                if !reader.take_null()? {
                    reader.string_at(&here)?;
                }
            }
            "format" => {
                once(&mut seen, 2, path, "format")?;
                if !reader.take_null()? {
                    custom_format(reader, &here)?;
                }
            }
            _ => reader.skip()?,
        }
    }
    if seen & 1 == 0 {
        Err(path.missing("name"))
    } else {
        Ok(())
    }
}

fn custom_format(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut seen) = (None, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "type" => {
                once(&mut seen, 0, path, "type")?;
                kind = Some(reader.word_at(&["text", "grammar"], &here)?);
            }
            "grammar" => {
                once(&mut seen, 1, path, "grammar")?;
                grammar(reader, &here)?;
            }
            _ => reader.skip()?,
        }
    }
    match kind {
        None => Err(path.missing("type")),
        Some("grammar") if seen & 0b10 == 0 => Err(path.missing("grammar")),
        Some(_) => Ok(()),
    }
}

fn grammar(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "definition" => {
                once(&mut seen, 0, path, "definition")?;
                reader.string_at(&here)?;
            }
            "syntax" => {
                once(&mut seen, 1, path, "syntax")?;
                reader.word_at(&["lark", "regex"], &here)?;
            }
            _ => reader.skip()?,
        }
    }
    match seen {
        0b11 => Ok(()),
        0b01 => Err(path.missing("syntax")),
        _ => Err(path.missing("definition")),
    }
}

/// Reads the tool choice: `none`, `auto`, `required`, or an object that names tools.
pub(super) fn tool_choice(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => reader.word_at(&["none", "auto", "required"], path).map(|_| ()),
        Kind::Object => tool_choice_object(reader, path),
        _ => Err(path.invalid("must be 'none', 'auto', 'required' or an object that names a tool")),
    }
}

fn tool_choice_object(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    const TYPES: &[&str] = &["function", "custom", "allowed_tools"];
    reader.begin_object()?;
    let (mut kind, mut seen) = (None, 0_u32);
    while let Some(key) = reader.key()? {
        if key.name == "type" {
            once(&mut seen, 31, path, "type")?;
            kind = Some(reader.word_at(TYPES, &path.key("type"))?);
            continue;
        }
        let Some(place) = TYPES.iter().position(|name| **name == key.name) else {
            reader.skip()?;
            continue;
        };
        once(&mut seen, place as u32, path, TYPES[place])?;
        let here = path.key(TYPES[place]);
        match TYPES[place] {
            "allowed_tools" => allowed_tools(reader, &here)?,
            _ => named(reader, "name", &here)?,
        }
    }
    let Some(kind) = kind else {
        return Err(path.missing("type"));
    };
    let place = TYPES.iter().position(|name| *name == kind).unwrap_or_default();
    if seen & (1 << place) == 0 {
        Err(path.missing(kind))
    } else {
        Ok(())
    }
}

fn allowed_tools(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "mode" => {
                once(&mut seen, 0, path, "mode")?;
                reader.word_at(&["auto", "required"], &here)?;
            }
            "tools" => {
                once(&mut seen, 1, path, "tools")?;
                each(reader, &here, open_object)?;
            }
            _ => reader.skip()?,
        }
    }
    match seen {
        0b11 => Ok(()),
        0b01 => Err(path.missing("tools")),
        _ => Err(path.missing("mode")),
    }
}

/// Reads the deprecated `function_call`: `none`, `auto`, or an object with a name.
pub(super) fn function_choice(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => reader.word_at(&["none", "auto"], path).map(|_| ()),
        _ => named(reader, "name", path),
    }
}
