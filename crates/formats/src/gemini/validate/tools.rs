//! Validation of tools and the tool choice.

use super::super::head::GenerateHead;
use super::super::name::canonical;
use super::config::word;
use super::{any_object, fields, known, open_fields, unsupported};
use crate::error::BoxedError;
use crate::json::{Path, Reader};

/// Tools that run at the provider and cost extra.
const HOSTED_TOOLS: &[&str] = &[
    "googleSearch",
    "googleSearchRetrieval",
    "codeExecution",
    "urlContext",
    "googleMaps",
    "enterpriseWebSearch",
    "retrieval",
    "fileSearch",
    "computerUse",
    "mcpServers",
];

const MODES: &[&str] = &["MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED"];

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        tool(reader, head, &path.index(index))?;
        index += 1;
    }
    Ok(())
}

fn tool(reader: &mut Reader<'_>, head: &mut GenerateHead, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        if HOSTED_TOOLS.contains(&&*canonical(&key.name)) {
            if reader.take_null()? {
                continue;
            }
            return unsupported(&here, "is a tool that the provider runs, which is not supported");
        }
        known(&key, &["functionDeclarations"], &mut seen, &here)?;
        if reader.take_null()? {
            continue;
        }
        reader.array_at(&here)?;
        let mut index = 0;
        while reader.item()? {
            declaration(reader, &here.index(index))?;
            head.tools += 1;
            index += 1;
        }
    }
    Ok(())
}

fn declaration(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let names = ["name", "description", "parameters", "parametersJsonSchema"];
    let (mut has_name, mut schemas) = (false, 0);
    open_fields(reader, &names, path, |reader, name, path| {
        match name {
            "name" => {
                function_name(reader, path)?;
                has_name = true;
            }
            "description" => drop(reader.string_at(path)?),
            _ => {
                any_object(reader, path)?;
                schemas += 1;
            }
        }
        Ok(())
    })?;
    match (has_name, schemas) {
        (false, _) => Err(path.missing("name")),
        (_, 2) => Err(path
            .key("parameters")
            .invalid("cannot be combined with 'parametersJsonSchema'; send only one of them")),
        _ => Ok(()),
    }
}

fn function_name(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let name = reader.non_empty_string_at(path)?.decoded();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if name.len() <= 128 && name.bytes().all(fits) && name.bytes().next().is_some_and(begins) {
        return Ok(());
    }
    Err(path.invalid(
        "must begin with a letter or an underscore and have at most 128 letters, digits, underscores, dots, colons or \
         dashes",
    ))
}

/// The parsed `toolConfig`.
pub(super) struct Choice {
    pub(super) needs_tools: bool,
}

pub(super) fn config(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Option<Choice>, BoxedError> {
    let mut choice = None;
    fields(reader, &["functionCallingConfig"], path, |reader, _, path| {
        choice = Some(calling(reader, path)?);
        Ok(())
    })?;
    Ok(choice)
}

fn calling(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Choice, BoxedError> {
    let names = ["mode", "allowedFunctionNames", "streamFunctionCallArguments"];
    let (mut mode, mut allowed) = ("AUTO", 0);
    fields(reader, &names, path, |reader, name, path| {
        match name {
            "mode" => mode = word(reader, MODES, path)?,
            "allowedFunctionNames" => {
                reader.array_at(path)?;
                while reader.item()? {
                    reader.non_empty_string_at(&path.index(allowed))?;
                    allowed += 1;
                }
            }
            _ if reader.boolean_at(path)? => {
                return unsupported(path, "is true, but streaming call arguments is not supported");
            }
            _ => {}
        }
        Ok(())
    })?;
    if allowed > 0 && !matches!(mode, "ANY" | "VALIDATED") {
        return Err(path
            .key("allowedFunctionNames")
            .invalid("requires the mode 'ANY' or 'VALIDATED'"));
    }
    Ok(Choice {
        needs_tools: mode == "ANY" || allowed > 0,
    })
}
