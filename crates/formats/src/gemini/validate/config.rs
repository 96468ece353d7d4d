//! Validation of `generationConfig`.

use super::super::head::GenerateHead;
use super::{any_object, fields, known, unsupported};
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader};
use crate::lossless::Span;
use crate::request::ResponseFormatKind;

const FIELDS: &[&str] = &[
    "temperature",
    "topP",
    "topK",
    "candidateCount",
    "maxOutputTokens",
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "presencePenalty",
    "frequencyPenalty",
    "seed",
    "responseLogprobs",
    "logprobs",
    "responseModalities",
    "thinkingConfig",
    "speechConfig",
    "imageConfig",
    "mediaResolution",
];

const MAX_CANDIDATES: i64 = 8;
const MAX_STOP_SEQUENCES: u32 = 5;
const MAX_LOGPROBS: i64 = 20;
const LEVELS: &[&str] = &[
    "MINIMAL",
    "LOW",
    "MEDIUM",
    "HIGH",
    "XHIGH",
    "THINKING_LEVEL_UNSPECIFIED",
];

/// Values that the rules between fields need.
#[derive(Default)]
struct Config {
    mime_type: Option<String>,
    schemas: u32,
    has_logprobs: bool,
    wants_logprobs: bool,
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let start = reader.place();
    let mut config = Config::default();
    let mut seen = 0;
    reader.object_at(path)?;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let name = known(&key, FIELDS, &mut seen, &here)?;
        let start = reader.place();
        if !reader.take_null()? {
            value(reader, head, &mut config, name, &here)?;
        }
        if name == "maxOutputTokens" {
            head.layout.cap = Some(Span::new(start, reader.end()));
        }
    }
    let inside = reader.slice(Span::new(start + 1, reader.end().saturating_sub(1)));
    head.layout.config = Some((start + 1, inside.trim().is_empty()));
    config.finish(head, path)
}

fn value(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    config: &mut Config,
    name: &str,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match name {
        "temperature" => reader.number_at(0.0..=2.0, path).map(drop),
        "topP" => reader.number_at(0.0..=1.0, path).map(drop),
        "topK" => top_k(reader, path),
        "presencePenalty" | "frequencyPenalty" => reader.number_at(-2.0..=2.0, path).map(drop),
        "candidateCount" => {
            let count = reader.integer_at(1..=MAX_CANDIDATES, path)?;
            head.candidates = u32::try_from(count).unwrap_or(1);
            Ok(())
        }
        "maxOutputTokens" => {
            head.max_tokens = Some(reader.integer_at(1..=i64::MAX, path)?.cast_unsigned());
            Ok(())
        }
        "seed" => reader
            .integer_at(i64::from(i32::MIN)..=i64::from(i32::MAX), path)
            .map(drop),
        "stopSequences" => stops(reader, path),
        "responseMimeType" => {
            let words = ["text/plain", "application/json", "text/x.enum"];
            config.mime_type = Some(reader.word_at(&words, path)?.to_owned());
            Ok(())
        }
        "responseSchema" | "responseJsonSchema" => {
            config.schemas += 1;
            any_object(reader, path)
        }
        "responseLogprobs" => {
            config.wants_logprobs = reader.boolean_at(path)?;
            Ok(())
        }
        "logprobs" => {
            config.has_logprobs = true;
            reader.integer_at(0..=MAX_LOGPROBS, path).map(drop)
        }
        "responseModalities" => modalities(reader, path),
        "thinkingConfig" => thinking(reader, head, path),
        "mediaResolution" => {
            head.own_hint("generationConfig.mediaResolution");
            reader.non_empty_string_at(path).map(drop)
        }
        _ => unsupported(path, "applies to audio or image output, which is not supported"),
    }
}

impl Config {
    fn finish(self, head: &mut GenerateHead, path: &Path<'_>) -> Result<(), BoxedError> {
        if self.schemas > 1 {
            return Err(path
                .key("responseSchema")
                .invalid("cannot be combined with 'responseJsonSchema'; send only one of them"));
        }
        if self.has_logprobs && !self.wants_logprobs {
            return Err(path.key("logprobs").invalid("requires 'responseLogprobs': true"));
        }
        head.response_format = match (self.mime_type.as_deref(), self.schemas) {
            (Some("application/json"), 0) => ResponseFormatKind::JsonObject,
            (Some("application/json" | "text/x.enum"), 1) => ResponseFormatKind::JsonSchema,
            (Some("text/x.enum"), _) => return Err(path.missing("responseSchema")),
            (_, 0) => ResponseFormatKind::Text,
            _ => {
                return Err(path
                    .key("responseMimeType")
                    .invalid("must be 'application/json' or 'text/x.enum' when a schema is set"));
            }
        };
        Ok(())
    }
}

/// Validates an integer that may have a fraction of zero: the official Python client sends `40.0`.
fn top_k(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let value = reader.number_at(1.0..=1_000_000.0, path)?;
    match value.fract() == 0.0 {
        true => Ok(()),
        false => Err(path.invalid("must be an integer")),
    }
}

fn stops(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut count = 0;
    while reader.item()? {
        if count == MAX_STOP_SEQUENCES {
            return Err(path.invalid(format_args!("must have at most {MAX_STOP_SEQUENCES} strings")));
        }
        reader.non_empty_string_at(&path.index(count))?;
        count += 1;
    }
    Ok(())
}

fn modalities(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        let here = path.index(index);
        if word(reader, &["TEXT", "IMAGE", "AUDIO", "MODALITY_UNSPECIFIED"], &here)? != "TEXT" {
            return unsupported(
                &here,
                "must be 'TEXT'; audio output and image output are not supported",
            );
        }
        index += 1;
    }
    Ok(())
}

fn thinking(reader: &mut Reader<'_>, head: &mut GenerateHead, path: &Path<'_>) -> Result<(), BoxedError> {
    let names = ["includeThoughts", "thinkingBudget", "thinkingLevel"];
    let mut control_count = 0;
    fields(reader, &names, path, |reader, name, path| {
        match name {
            "includeThoughts" => {
                head.include_thoughts = reader.boolean_at(path)?;
                return Ok(());
            }
            "thinkingBudget" => drop(reader.integer_at(-1..=i64::from(i32::MAX), path)?),
            _ => drop(word(reader, LEVELS, path)?),
        }
        control_count += 1;
        Ok(())
    })?;
    head.has_reasoning_params = control_count > 0;
    if control_count > 1 {
        return Err(path
            .key("thinkingLevel")
            .invalid("cannot be combined with 'thinkingBudget'; send only one of them"));
    }
    Ok(())
}

/// Reads one of the listed upper-case words, ignoring case, because the documentation uses lower
/// case for some values.
pub(super) fn word(
    reader: &mut Reader<'_>,
    words: &[&'static str],
    path: &Path<'_>,
) -> Result<&'static str, BoxedError> {
    if reader.kind()? == Kind::String {
        let text = reader.ahead().string()?.decoded();
        if let Some(found) = words.iter().find(|word| word.eq_ignore_ascii_case(&text)) {
            reader.skip()?;
            return Ok(found);
        }
    }
    reader.word_at(words, path)
}
