//! Validation of the top-level fields other than input and tools.

use crate::error::BoxedError;
use crate::json::{Path, Reader, once, open_keys, open_object, small_object};
use crate::openai_chat::validate::options::service_tier;
use crate::request::ResponseFormatKind;

/// Minimum valid limit on output tokens.
pub(super) const MIN_OUTPUT_TOKENS: i64 = 16;

const EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const SUMMARIES: &[&str] = &["auto", "concise", "detailed"];
const CACHE_RETENTIONS: &[&str] = &["in_memory", "in-memory", "24h"];

/// Valid values in `include`.
const INCLUDABLE: &[&str] = &[
    SEALED_REASONING,
    "message.output_text.logprobs",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
];
const SEALED_REASONING: &str = "reasoning.encrypted_content";

/// Validates fields whose values the head does not store.
pub(super) fn plain(reader: &mut Reader<'_>, name: &str, path: &Path<'_>) -> Result<(), BoxedError> {
    match name {
        "instructions" | "user" | "prompt_cache_key" => {
            reader.string_at(path)?;
        }
        "safety_identifier" => {
            reader.short_string_at(64, path)?;
        }
        "temperature" => {
            reader.number_at(0.0..=2.0, path)?;
        }
        "top_p" => {
            reader.number_at(0.0..=1.0, path)?;
        }
        "presence_penalty" | "frequency_penalty" => {
            reader.number_at(-2.0..=2.0, path)?;
        }
        "top_logprobs" => {
            reader.integer_at(0..=20, path)?;
        }
        "max_tool_calls" => {
            reader.integer_at(1..=i64::MAX, path)?;
        }
        "parallel_tool_calls" => {
            reader.boolean_at(path)?;
        }
        "service_tier" => service_tier(reader, path)?,
        "prompt_cache_retention" => {
            reader.word_at(CACHE_RETENTIONS, path)?;
        }
        "prompt_cache_options" => open_object(reader, path)?,
        "metadata" => metadata(reader, path)?,
        "stream_options" => small_object(reader, &["include_obfuscation"], path, |reader, _, path| {
            reader.boolean_at(path).map(|_| ())
        })?,
        "starting_after" => return Err(path.unsupported("resumes a stream, which is not supported")),
        "conversation" => {
            return Err(
                path.unsupported("is stored by the provider, which is not supported; send the 'input'")
            );
        }
        "prompt" => {
            return Err(
                path.unsupported("is stored by the provider, which is not supported; send the 'input'")
            );
        }
        "moderation" => return Err(path.unsupported("is not supported")),
        _ => reader.skip()?,
    }
    Ok(())
}

fn metadata(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut names = Vec::new();
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        if names.len() == 16 {
            return Err(path.invalid("must have at most 16 entries"));
        }
        if key.name.chars().count() > 64 {
            return Err(path.invalid("must have keys of at most 64 characters"));
        }
        if names.contains(&key.name) {
            return Err(here.duplicate_here());
        }
        reader.short_string_at(512, &here)?;
        names.push(key.name);
    }
    Ok(())
}

/// Reads `reasoning`. Returns whether it has parameters, and whether it requests a summary.
pub(super) fn reasoning(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(bool, bool), BoxedError> {
    let (mut has_params, mut shows) = (false, false);
    let keys = ["effort", "summary", "generate_summary", "mode", "context"];
    small_object(reader, &keys, path, |reader, key, path| {
        has_params = true;
        match key {
            "effort" => {
                reader.word_at(EFFORTS, path)?;
            }
            "summary" | "generate_summary" => {
                reader.word_at(SUMMARIES, path)?;
                shows = true;
            }
            _ => {
                reader.string_at(path)?;
            }
        }
        Ok(())
    })?;
    Ok((has_params, shows))
}

/// Reads `text` and returns the kind of its format.
pub(super) fn text(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<ResponseFormatKind, BoxedError> {
    let mut kind = ResponseFormatKind::Text;
    small_object(reader, &["format", "verbosity"], path, |reader, key, path| {
        match key {
            "format" => kind = format(reader, path)?,
            _ => {
                reader.word_at(&["low", "medium", "high"], path)?;
            }
        }
        Ok(())
    })?;
    Ok(kind)
}

fn format(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<ResponseFormatKind, BoxedError> {
    let (mut kind, mut seen) = (None, 0);
    let keys = ["type", "name", "schema", "strict", "description"];
    open_keys(reader, &keys, path, |reader, key, path| {
        match key {
            "type" => kind = Some(reader.word_at(&["text", "json_object", "json_schema"], path)?),
            "name" => {
                schema_name(reader, path)?;
                seen |= 0b01;
            }
            "schema" => {
                open_object(reader, path)?;
                seen |= 0b10;
            }
            "strict" => {
                reader.boolean_at(path)?;
            }
            _ => {
                reader.string_at(path)?;
            }
        }
        Ok(())
    })?;
    match (kind, seen) {
        (None, _) => Err(path.missing("type")),
        (Some("text"), _) => Ok(ResponseFormatKind::Text),
        (Some("json_object"), _) => Ok(ResponseFormatKind::JsonObject),
        (Some(_), seen) if seen & 0b01 == 0 => Err(path.missing("name")),
        (Some(_), seen) if seen & 0b10 == 0 => Err(path.missing("schema")),
        (Some(_), _) => Ok(ResponseFormatKind::JsonSchema),
    }
}

fn schema_name(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let name = reader.non_empty_string_at(path)?.decoded();
    match is_plain_name(&name, 64) {
        true => Ok(()),
        false => Err(path.invalid("must have 1 to 64 letters, digits, underscores or dashes")),
    }
}

/// Whether a name consists of 1 to `max` ASCII letters, digits, underscores and dashes.
pub(super) fn is_plain_name(name: &str, max: usize) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=max).contains(&name.len()) && name.bytes().all(fits)
}

/// Reads `include`. Returns whether it requests the encrypted content of reasoning.
pub(super) fn include(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    reader.array_at(path)?;
    let (mut index, mut seal, mut seen) = (0, false, 0);
    while reader.item()? {
        let here = path.index(index);
        let word = reader.word_at(INCLUDABLE, &here)?;
        let bit = INCLUDABLE
            .iter()
            .position(|name| *name == word)
            .unwrap_or_default();
        once(&mut seen, bit as u32, path, word)?;
        seal |= word == SEALED_REASONING;
        index += 1;
    }
    Ok(seal)
}
