//! Validation of the top-level fields other than messages and tools.

use super::super::head::MessagesHead;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Path, Reader};
pub(super) use crate::json::{once, open_object, small_object};
use crate::lossless::Span;
use crate::request::ResponseFormatKind;

const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
/// Minimum valid reasoning budget, in tokens.
const MIN_BUDGET_TOKENS: i64 = 1_024;

/// Validates fields whose values the head does not store.
pub(super) fn plain(reader: &mut Reader<'_>, name: &str, path: &Path<'_>) -> Result<(), BoxedError> {
    match name {
        "stop_sequences" => each_string(reader, path),
        "metadata" => metadata(reader, path),
        "speed" => match reader.word_at(&["standard", "fast"], path)? {
            "standard" => Ok(()),
            _ => unsupported(path, "is 'fast', which is not supported"),
        },
        "inference_geo" => match &*reader.string_at(path)?.decoded() {
            "global" => Ok(()),
            _ => unsupported(path, "has an unsupported value; use 'global'"),
        },
        "mcp_servers" => {
            reader.array_at(path)?;
            match reader.item()? {
                false => Ok(()),
                true => unsupported(path, "adds tools that the provider runs, which is not supported"),
            }
        }
        "container" => unsupported(
            path,
            "requires code execution at the provider, which is not supported",
        ),
        "thread" => unsupported(
            path,
            "keeps the conversation at the provider, which is not supported",
        ),
        _ => reader.skip(),
    }
}

pub(super) fn unsupported<T>(path: &Path<'_>, why: impl std::fmt::Display) -> Result<T, BoxedError> {
    Err(Box::new(DecodeError::unsupported(path.to_string(), why)))
}

fn each_string(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        reader.non_empty_string_at(&path.index(index))?;
        index += 1;
    }
    Ok(())
}

fn metadata(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    small_object(reader, &["user_id"], path, |reader, _, path| {
        reader.string_at(path).map(|_| ())
    })
}

/// Reads `thinking` and returns its budget in tokens; zero without a budget.
pub(super) fn thinking(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    let (mut kind, mut budget) = (None, None);
    small_object(
        reader,
        &["type", "budget_tokens", "display"],
        path,
        |reader, key, path| {
            match key {
                "type" => {
                    kind = Some(reader.word_at(&["enabled", "disabled", "adaptive", "between_tools"], path)?);
                }
                "budget_tokens" => {
                    budget = Some(
                        reader
                            .integer_at(MIN_BUDGET_TOKENS..=i64::MAX, path)?
                            .cast_unsigned(),
                    );
                }
                _ => {
                    reader.word_at(&["summarized", "omitted"], path)?;
                }
            }
            Ok(())
        },
    )?;
    match (kind, budget) {
        (None, _) => Err(path.missing("type")),
        (Some("enabled"), None) => Err(path.missing("budget_tokens")),
        (Some("enabled"), Some(budget)) => Ok(budget),
        (Some(_), Some(_)) => Err(path
            .key("budget_tokens")
            .invalid("is only allowed for the type 'enabled'")),
        (Some(_), None) => Ok(0),
    }
}

/// The parsed `output_config`.
pub(super) struct OutputConfig {
    pub(super) has_effort: bool,
    pub(super) has_format: bool,
    /// Position just after the opening brace, and whether the object is empty.
    pub(super) place: (u32, bool),
}

pub(super) fn output_config(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<OutputConfig, BoxedError> {
    let mut config = OutputConfig {
        has_effort: false,
        has_format: false,
        place: (reader.place() + 1, true),
    };
    let start = reader.place();
    small_object(reader, &["effort", "format"], path, |reader, key, path| {
        if key == "effort" {
            reader.word_at(EFFORTS, path)?;
            config.has_effort = true;
        } else {
            config.has_format = true;
            output_format(reader, path)?;
        }
        Ok(())
    })?;
    // `{}` with only white space inside: an inserted field needs no comma.
    config.place.1 = reader
        .slice(Span::new(start + 1, reader.end().saturating_sub(1)))
        .trim()
        .is_empty();
    Ok(config)
}

/// Reads the format of `output_config`, or `output_format`, its name in the preview. Returns the
/// position of the schema.
pub(super) fn output_format(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Span, BoxedError> {
    let (mut kind, mut schema) = (None, None);
    small_object(reader, &["type", "schema"], path, |reader, key, path| {
        if key == "type" {
            kind = Some(reader.word_at(&["json_schema"], path)?);
        } else {
            let start = reader.place();
            open_object(reader, path)?;
            schema = Some(Span::new(start, reader.end()));
        }
        Ok(())
    })?;
    match (kind, schema) {
        (None, _) => Err(path.missing("type")),
        (_, None) => Err(path.missing("schema")),
        (_, Some(schema)) => Ok(schema),
    }
}

/// Reads `response_format`, with the syntax of chat completions. Returns its kind and the position
/// of its schema.
pub(super) fn response_format(
    reader: &mut Reader<'_>,
    path: &Path<'_>,
) -> Result<(ResponseFormatKind, Option<Span>), BoxedError> {
    let (mut kind, mut schema, mut seen) = (None, None, false);
    small_object(reader, &["type", "json_schema"], path, |reader, key, path| {
        if key == "type" {
            kind = Some(reader.word_at(&["text", "json_object", "json_schema"], path)?);
            return Ok(());
        }
        seen = true;
        let keys = ["name", "description", "schema", "strict"];
        small_object(reader, &keys, path, |reader, key, path| {
            match key {
                "schema" => {
                    let start = reader.place();
                    open_object(reader, path)?;
                    schema = Some(Span::new(start, reader.end()));
                }
                "strict" => {
                    reader.boolean_at(path)?;
                }
                _ => {
                    reader.string_at(path)?;
                }
            }
            Ok(())
        })
    })?;
    match kind {
        None => Err(path.missing("type")),
        Some("text") => Ok((ResponseFormatKind::Text, None)),
        Some("json_object") => Ok((ResponseFormatKind::JsonObject, None)),
        Some(_) if !seen => Err(path.missing("json_schema")),
        Some(_) if schema.is_none() => Err(path.key("json_schema").missing("schema")),
        Some(_) => Ok((ResponseFormatKind::JsonSchema, schema)),
    }
}

/// Validates a cache breakpoint. Records in `head` whether the lifetime is one hour.
pub(super) fn cache_control(
    reader: &mut Reader<'_>,
    head: &mut MessagesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let mut has_type = false;
    small_object(reader, &["type", "ttl"], path, |reader, key, path| {
        if key == "type" {
            reader.word_at(&["ephemeral"], path)?;
            has_type = true;
            return Ok(());
        }
        head.caches_for_an_hour |= reader.word_at(&["5m", "1h"], path)? == "1h";
        Ok(())
    })?;
    if !has_type {
        return Err(path.missing("type"));
    }
    Ok(())
}
