//! Validation of the top-level fields other than messages and tools.

use super::super::head::{Field, StreamOptionsPlace};
use super::{content, tools};
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader};
use crate::lossless::Span;

pub(super) const REASONING_EFFORTS: &[&str] = &["none", "minimal", "low", "medium", "high", "xhigh", "max"];
const SERVICE_TIERS: &[&str] = &[
    "auto",
    "default",
    "flex",
    "scale",
    "priority",
    "fast",
    "ultrafast",
];
/// Service tiers at list price.
const LIST_PRICE_TIERS: &[&str] = &["auto", "default"];
const LEVELS: &[&str] = &["low", "medium", "high"];
const CACHE_RETENTIONS: &[&str] = &["in_memory", "in-memory", "24h"];
const AUDIO_FORMATS: &[&str] = &["wav", "aac", "mp3", "flac", "opus", "pcm16"];

/// Validates fields whose values the head does not store.
pub(super) fn plain(reader: &mut Reader<'_>, field: Field, path: &Path<'_>) -> Result<(), BoxedError> {
    match field {
        Field::TopP => {
            reader.number_at(0.0..=1.0, path)?;
        }
        Field::FrequencyPenalty | Field::PresencePenalty => {
            reader.number_at(-2.0..=2.0, path)?;
        }
        Field::Seed => {
            reader.integer_at(i64::MIN..=i64::MAX, path)?;
        }
        Field::ParallelToolCalls => {
            reader.boolean_at(path)?;
        }
        Field::Verbosity => {
            reader.word_at(LEVELS, path)?;
        }
        Field::PromptCacheRetention => {
            reader.word_at(CACHE_RETENTIONS, path)?;
        }
        Field::SafetyIdentifier => {
            reader.short_string_at(128, path)?;
        }
        Field::User | Field::PromptCacheKey => {
            reader.string_at(path)?;
        }
        Field::Stop => stop(reader, path)?,
        Field::LogitBias => logit_bias(reader, path)?,
        Field::Metadata => metadata(reader, path)?,
        Field::Audio => audio(reader, path)?,
        Field::Prediction => prediction(reader, path)?,
        Field::Moderation => return Err(path.unsupported("is not supported")),
        Field::WebSearchOptions => {
            return Err(
                path.unsupported("runs searches at the provider, which is not supported; use a function")
            );
        }
        Field::ToolChoice => tools::tool_choice(reader, path)?,
        Field::FunctionCall => tools::function_choice(reader, path)?,
        // Options of the provider's own services: objects whose content the provider validates.
        _ => open_object(reader, path)?,
    }
    Ok(())
}

/// Reads an integer of at least 1.
pub(super) fn positive(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    Ok(reader.integer_at(1..=i64::MAX, path)?.cast_unsigned())
}

/// Skips an object with any content; refuses other types.
pub(super) fn open_object(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    while reader.key()?.is_some() {
        reader.skip()?;
    }
    Ok(())
}

/// Refuses a duplicate key of a small object. Each key has one bit in `seen`.
pub(super) fn once(seen: &mut u32, bit: u32, path: &Path<'_>, key: &str) -> Result<(), BoxedError> {
    if *seen & (1 << bit) != 0 {
        return Err(path.duplicate(key));
    }
    *seen |= 1 << bit;
    Ok(())
}

/// Reads the service tier. Refuses tiers with separate prices, because the gateway would charge the
/// wrong price.
pub(crate) fn service_tier(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let tier = reader.word_at(SERVICE_TIERS, path)?;
    match LIST_PRICE_TIERS.contains(&tier) {
        true => Ok(()),
        false => Err(path.unsupported("must be 'auto' or 'default'; other service tiers are not supported")),
    }
}

/// The parsed `stream_options`, with positions for their rewriting.
pub(crate) struct StreamOptions {
    pub(crate) include_usage: bool,
    pub(super) place: StreamOptionsPlace,
}

pub(crate) fn stream_options(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<StreamOptions, BoxedError> {
    reader.object_at(path)?;
    let mut options = StreamOptions {
        include_usage: false,
        place: StreamOptionsPlace {
            open: reader.end(),
            empty: true,
            include_usage: None,
        },
    };
    while let Some(key) = reader.key()? {
        options.place.empty = false;
        let path = path.key(&key.name);
        match &*key.name {
            "include_usage" => {
                if options.place.include_usage.is_some() {
                    return Err(path.duplicate_here());
                }
                let start = reader.place();
                if !reader.take_null()? {
                    options.include_usage = reader.boolean_at(&path)?;
                }
                options.place.include_usage = Some(Span::new(start, reader.end()));
            }
            "include_obfuscation" => {
                if !reader.take_null()? {
                    reader.boolean_at(&path)?;
                }
            }
            _ => reader.skip()?,
        }
    }
    Ok(options)
}

pub(crate) fn stop(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    if reader.kind()? == Kind::String {
        reader.string()?;
        return Ok(());
    }
    if reader.kind()? != Kind::Array {
        return Err(path.invalid("must be a string or an array of up to 4 strings"));
    }
    reader.begin_array()?;
    let mut count = 0;
    while reader.item()? {
        if count == 4 {
            return Err(path.invalid("must have at most 4 entries"));
        }
        reader.string_at(&path.index(count))?;
        count += 1;
    }
    Ok(())
}

pub(crate) fn logit_bias(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    while let Some(key) = reader.key()? {
        reader.number_at(-100.0..=100.0, &path.key(&key.name))?;
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

/// Reads `modalities`; returns whether audio is requested.
pub(super) fn modalities(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    reader.array_at(path)?;
    let (mut count, mut audio) = (0, false);
    while reader.item()? {
        audio |= reader.word_at(&["text", "audio"], &path.index(count))? == "audio";
        count += 1;
    }
    if count == 0 {
        return Err(path.invalid("must have at least one entry"));
    }
    Ok(audio)
}

fn audio(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut format, mut voice) = (false, false);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "format" => {
                reader.word_at(AUDIO_FORMATS, &here)?;
                format = true;
            }
            "voice" => {
                match reader.kind()? {
                    Kind::String => {
                        reader.string()?;
                    }
                    Kind::Object => named(reader, "id", &here)?,
                    _ => return Err(here.invalid("must be a string or an object with 'id'")),
                }
                voice = true;
            }
            _ => reader.skip()?,
        }
    }
    match (format, voice) {
        (false, _) => Err(path.missing("format")),
        (_, false) => Err(path.missing("voice")),
        _ => Ok(()),
    }
}

fn prediction(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut content) = (false, false);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "type" => {
                reader.word_at(&["content"], &here)?;
                kind = true;
            }
            "content" => {
                content::read(reader, &here)?.only_text(&here)?;
                content = true;
            }
            _ => reader.skip()?,
        }
    }
    match (kind, content) {
        (false, _) => Err(path.missing("type")),
        (_, false) => Err(path.missing("content")),
        _ => Ok(()),
    }
}

/// Checks that the value is an object with a non-empty string under the key `name`; ignores other
/// keys.
pub(super) fn named(reader: &mut Reader<'_>, name: &str, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut found = false;
    while let Some(key) = reader.key()? {
        if key.name != name {
            reader.skip()?;
            continue;
        }
        let here = path.key(name);
        if std::mem::replace(&mut found, true) {
            return Err(here.duplicate_here());
        }
        reader.non_empty_string_at(&here)?;
    }
    if found { Ok(()) } else { Err(path.missing(name)) }
}
