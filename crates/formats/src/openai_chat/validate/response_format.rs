//! Validation of `response_format`.

use super::super::head::ResponseFormatKind;
use super::options::{once, open_object};
use crate::error::BoxedError;
use crate::json::{Path, Reader};

/// Reads `response_format` and returns its kind.
pub(crate) fn read(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<ResponseFormatKind, BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut has_schema, mut seen) = (None, false, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "type" => {
                once(&mut seen, 0, path, "type")?;
                kind = Some(reader.word_at(&["text", "json_object", "json_schema"], &here)?);
            }
            "json_schema" => {
                once(&mut seen, 1, path, "json_schema")?;
                if !reader.take_null()? {
                    json_schema(reader, &here)?;
                    has_schema = true;
                }
            }
            _ => reader.skip()?,
        }
    }
    match kind {
        None => Err(path.missing("type")),
        Some("text") => Ok(ResponseFormatKind::Text),
        Some("json_object") => Ok(ResponseFormatKind::JsonObject),
        Some(_) if has_schema => Ok(ResponseFormatKind::JsonSchema),
        Some(_) => Err(path.missing("json_schema")),
    }
}

fn json_schema(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut has_name, mut seen) = (false, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "name" => {
                once(&mut seen, 0, path, "name")?;
                has_name = true;
                schema_name(reader, &here)?;
            }
            "schema" => {
                once(&mut seen, 1, path, "schema")?;
                if !reader.take_null()? {
                    open_object(reader, &here)?;
                }
            }
            "description" => {
                once(&mut seen, 2, path, "description")?;
                if !reader.take_null()? {
                    reader.string_at(&here)?;
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
    if has_name {
        Ok(())
    } else {
        Err(path.missing("name"))
    }
}

fn schema_name(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let name = reader.string_at(path)?.decoded();
    let fits = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if fits {
        return Ok(());
    }
    Err(path.invalid("must have 1 to 64 letters, digits, underscores or dashes"))
}
