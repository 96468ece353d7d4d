//! Validation of requests. Reads the bytes once and stores only a [`GenerateHead`].
//! `decode_request` performs the same validation.
//!
//! Unknown fields of the request, of its configurations and of tools are refused: an unknown tool
//! may run at the provider. Unknown fields of turns, parts and function declarations are accepted.
//! An optional field that is null is treated as omitted. Errors contain the name of a sent field in
//! the caller's spelling.

mod config;
mod contents;
mod parts;
mod tools;

use super::head::{FieldPlace, GenerateHead, Purpose};
use super::name::canonical;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, Kind, MAX_NODES, Path, Reader};
use crate::lossless::Span;

/// All top-level fields.
const FIELDS: &[&str] = &[
    "contents",
    "systemInstruction",
    "generationConfig",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
    "store",
    "model",
];

/// Checks a complete request against the documentation of `generateContent`: required fields,
/// types, bounds, and the rules between fields.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8], purpose: Purpose) -> Result<GenerateHead, DecodeError> {
    read_body(body, purpose).map_err(|error| match well_formed(body) {
        Ok(()) => *error,
        Err(syntax) => *syntax,
    })
}

#[cold]
fn well_formed(body: &[u8]) -> Result<(), BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.skip()?;
    reader.finish()
}

fn read_body(body: &[u8], purpose: Purpose) -> Result<GenerateHead, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    let head = match purpose {
        Purpose::Count if is_wrapped(&mut reader.ahead())? => wrapped(&mut reader)?,
        _ => read_request(&mut reader, &Path::TOP)?,
    };
    reader.finish()?;
    Ok(head)
}

fn is_wrapped(reader: &mut Reader<'_>) -> Result<bool, BoxedError> {
    reader.object_at(&Path::TOP)?;
    while let Some(key) = reader.key()? {
        if canonical(&key.name) == "generateContentRequest" {
            return Ok(!reader.take_null()?);
        }
        reader.skip()?;
    }
    Ok(false)
}

/// Reads a count request that contains a generate request.
fn wrapped(reader: &mut Reader<'_>) -> Result<GenerateHead, BoxedError> {
    let mut head = None;
    fields(
        reader,
        &["generateContentRequest", "model"],
        &Path::TOP,
        |reader, name, path| {
            match name {
                "model" => drop(reader.string_at(path)?),
                _ => head = Some(read_request(reader, path)?),
            }
            Ok(())
        },
    )?;
    head.ok_or_else(|| Path::TOP.missing("generateContentRequest"))
}

fn read_request(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<GenerateHead, BoxedError> {
    reader.object_at(path)?;
    let mut request = Request::default();
    request.head.candidates = 1;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let name = known(&key, FIELDS, &mut seen, &here)?;
        if name != "contents" && reader.take_null()? {
            continue;
        }
        let start = reader.place();
        request.value(reader, name, &here)?;
        let value = Span::new(start, reader.end());
        request.head.layout.fields.push(FieldPlace { name, value });
    }
    request.finish(path)
}

/// State of a request during validation.
#[derive(Default)]
struct Request {
    head: GenerateHead,
    choice: Option<tools::Choice>,
}

impl Request {
    fn value(
        &mut self,
        reader: &mut Reader<'_>,
        name: &'static str,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        let head = &mut self.head;
        match name {
            "contents" => contents::read(reader, head, path),
            "systemInstruction" => contents::system(reader, path),
            "generationConfig" => config::read(reader, head, path),
            "tools" => tools::read(reader, head, path),
            "toolConfig" => {
                self.choice = tools::config(reader, path)?;
                Ok(())
            }
            "safetySettings" => {
                head.own_hint("safetySettings");
                safety(reader, path)
            }
            "cachedContent" => unsupported(path, "refers to a cached object, which is not supported"),
            "labels" => labels(reader, path),
            "serviceTier" => {
                head.own_hint("serviceTier");
                match config::word(reader, &["UNSPECIFIED", "STANDARD", "FLEX", "PRIORITY"], path)? {
                    "UNSPECIFIED" | "STANDARD" => Ok(()),
                    _ => unsupported(path, "must be 'standard'; other service tiers are not supported"),
                }
            }
            "store" => match reader.boolean_at(path)? {
                false => Ok(()),
                true => unsupported(path, "is true, but storing responses is not supported"),
            },
            _ => reader.string_at(path).map(drop),
        }
    }

    /// Checks the rules between fields.
    fn finish(self, path: &Path<'_>) -> Result<GenerateHead, BoxedError> {
        if self.head.layout.field("contents").is_none() {
            return Err(path.missing("contents"));
        }
        if let Some(choice) = self.choice
            && choice.needs_tools
            && self.head.tools == 0
        {
            return Err(path
                .key("toolConfig")
                .key("functionCallingConfig")
                .invalid("requires a function call, but 'tools' is empty"));
        }
        Ok(self.head)
    }
}

fn safety(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        fields(
            reader,
            &["category", "threshold", "method"],
            &path.index(index),
            |reader, _, path| reader.non_empty_string_at(path).map(drop),
        )?;
        index += 1;
    }
    Ok(())
}

fn labels(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    while let Some(key) = reader.key()? {
        reader.string_at(&path.key(&key.name))?;
    }
    Ok(())
}

/// Returns the documented name of a field. Fails if the name is not in `names`, or if the field
/// occurs more than once, in any spelling.
pub(in super::super) fn known(
    key: &Key<'_>,
    names: &[&'static str],
    seen: &mut u32,
    path: &Path<'_>,
) -> Result<&'static str, BoxedError> {
    let name = canonical(&key.name);
    let Some(bit) = names.iter().position(|known| **known == *name) else {
        return Err(Box::new(DecodeError::unknown(path.to_string())));
    };
    if *seen & (1 << bit) != 0 {
        return Err(path.duplicate_here());
    }
    *seen |= 1 << bit;
    Ok(names[bit])
}

/// Enters an object and calls `read` for each field, with its documented name. Refuses fields
/// outside `names`. A field that is null is treated as omitted.
pub(in super::super) fn fields<'a>(
    reader: &mut Reader<'a>,
    names: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let name = known(&key, names, &mut seen, &here)?;
        if !reader.take_null()? {
            read(reader, name, &here)?;
        }
    }
    Ok(())
}

/// Like [`fields`], but accepts fields outside `names`.
pub(in super::super) fn open_fields<'a>(
    reader: &mut Reader<'a>,
    names: &[&'static str],
    path: &Path<'_>,
    mut read: impl FnMut(&mut Reader<'a>, &'static str, &Path<'_>) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        if !names.contains(&&*canonical(&key.name)) {
            reader.skip()?;
            continue;
        }
        let here = path.key(&key.name);
        let name = known(&key, names, &mut seen, &here)?;
        if !reader.take_null()? {
            read(reader, name, &here)?;
        }
    }
    Ok(())
}

/// Reads an object with any content.
fn any_object(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    if reader.kind()? != Kind::Object {
        return reader.object_at(path);
    }
    reader.skip()
}

pub(in super::super) fn unsupported<T>(
    path: &Path<'_>,
    why: impl std::fmt::Display,
) -> Result<T, BoxedError> {
    Err(Box::new(DecodeError::unsupported(path.to_string(), why)))
}
