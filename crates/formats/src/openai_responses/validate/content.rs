//! Validation of the content of items: a text, or typed parts.

use super::super::head::ResponsesHead;
use crate::error::BoxedError;
use crate::image::{MUST_BE_IMAGE, is_false_image};
use crate::json::{Kind, Path, Reader, once, open_keys};
use crate::request::Media;

const DETAILS: &[&str] = &["auto", "low", "high", "original"];

/// Location of content in the input. Determines the valid part types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    System,
    User,
    Assistant,
    /// Result of a tool.
    Output,
}

impl Place {
    const fn types(self) -> &'static [&'static str] {
        match self {
            Place::System => &["input_text"],
            Place::User => &["input_text", "input_image", "input_file", "input_audio"],
            Place::Assistant => &["output_text", "refusal"],
            Place::Output => &["input_text", "input_image", "input_file"],
        }
    }
}

/// Validated keys of a part of any type.
const KEYS: [&str; 10] = [
    "type",
    "text",
    "refusal",
    "image_url",
    "detail",
    "file_id",
    "file_data",
    "file_url",
    "filename",
    "input_audio",
];

/// Reads a string or an array of parts.
pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    place: Place,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => {
            reader.string()?;
            return Ok(());
        }
        Kind::Array => reader.begin_array()?,
        other => {
            return Err(path.invalid(format_args!(
                "must be a string or an array of content parts, not {}",
                other.name()
            )));
        }
    }
    let mut index = 0;
    while reader.item()? {
        part(reader, head, place, &path.index(index))?;
        index += 1;
    }
    Ok(())
}

/// State of a content part during validation.
#[derive(Default)]
struct Part {
    kind: Option<&'static str>,
    seen: u32,
    /// Number of bytes of inline media in the part.
    inline: u64,
}

fn part(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    place: Place,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let part = Part::read(reader, place, path)?;
    let source_key = part.source_key(path)?;
    part.check_required(source_key, path)?;
    part.count(source_key, &mut head.media);
    Ok(())
}

impl Part {
    fn read(reader: &mut Reader<'_>, place: Place, path: &Path<'_>) -> Result<Self, BoxedError> {
        reader.object_at(path)?;
        let mut part = Part::default();
        while let Some(key) = reader.key()? {
            let Some(bit) = KEYS.iter().position(|name| **name == *key.name) else {
                reader.skip()?;
                continue;
            };
            let mut sent = 0;
            once(&mut sent, bit as u32, path, KEYS[bit])?;
            if part.seen & sent != 0 {
                return Err(path.duplicate(KEYS[bit]));
            }
            if reader.take_null()? {
                continue;
            }
            part.seen |= sent;
            part.value(reader, place, KEYS[bit], &path.key(KEYS[bit]))?;
        }
        Ok(part)
    }

    fn value(
        &mut self,
        reader: &mut Reader<'_>,
        place: Place,
        key: &str,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        match key {
            "type" => self.kind = Some(reader.word_at(place.types(), path)?),
            "image_url" => self.inline += image_bytes(reader, path)?,
            "detail" => {
                reader.word_at(DETAILS, path)?;
            }
            "file_data" => self.inline += reader.non_empty_string_at(path)?.raw.len() as u64,
            "input_audio" => self.inline += audio(reader, path)?,
            "file_id" => {
                reader.non_empty_string_at(path)?;
            }
            "file_url" => web_address(reader, path)?,
            _ => {
                reader.string_at(path)?;
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        let bit = KEYS.iter().position(|key| *key == name);
        bit.is_some_and(|bit| self.seen & (1 << bit) != 0)
    }

    /// Returns the only source key of an image or document; `None` without one, an error if there
    /// are several.
    fn source_key(&self, path: &Path<'_>) -> Result<Option<&'static str>, BoxedError> {
        let source_keys: &[&'static str] = match self.kind {
            Some("input_image") => &["image_url", "file_id"],
            Some("input_file") => &["file_data", "file_url", "file_id"],
            _ => &[],
        };
        let mut sent_keys = source_keys
            .iter()
            .copied()
            .filter(|source_key| self.has(source_key));
        match (sent_keys.next(), sent_keys.next()) {
            (Some(source_key), Some(other)) => {
                let problem = format_args!("cannot be combined with '{source_key}'");
                Err(path.key(other).invalid(problem))
            }
            (source_key, _) => Ok(source_key),
        }
    }

    fn check_required(&self, source_key: Option<&str>, path: &Path<'_>) -> Result<(), BoxedError> {
        let required = match self.kind {
            None => "type",
            Some("input_image" | "input_file") if source_key.is_some() => return Ok(()),
            Some("input_text" | "output_text") => "text",
            Some("refusal") => "refusal",
            Some("input_image") => "image_url",
            Some("input_file") => "file_data",
            Some(_) => "input_audio",
        };
        match self.has(required) {
            true => Ok(()),
            false => Err(path.missing(required)),
        }
    }

    fn count(&self, source_key: Option<&str>, media: &mut Media) {
        match self.kind {
            Some("input_image") => media.images += 1,
            Some("input_file") => media.files += 1,
            Some("input_audio") => media.audio += 1,
            _ => return,
        }
        let is_address = match source_key {
            Some("image_url") => self.inline == 0,
            source_key => source_key == Some("file_url"),
        };
        media.addresses += u32::from(is_address);
        media.stored += u32::from(source_key == Some("file_id"));
        media.inline_bytes += self.inline;
    }
}

/// Returns the number of bytes of a data URL in the body; zero for an http or https URL. Refuses
/// data URLs with a false image type, and other schemes: some model servers read `file:` URLs from
/// their own disk.
fn image_bytes(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    let text = reader.non_empty_string_at(path)?;
    let url = &*text.decoded();
    match has_scheme(url, &["data:"]) {
        true if is_false_image(url) => Err(path.invalid(MUST_BE_IMAGE)),
        true => Ok(text.raw.len() as u64),
        false if has_scheme(url, WEB) => Ok(0),
        false => Err(path.invalid("must be an http, https or data URL")),
    }
}

fn web_address(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match has_scheme(&reader.non_empty_string_at(path)?.decoded(), WEB) {
        true => Ok(()),
        false => Err(path.invalid("must be an http or https URL")),
    }
}

const WEB: &[&str] = &["https://", "http://"];

fn has_scheme(text: &str, schemes: &[&str]) -> bool {
    let begins = |scheme: &&str| {
        let start = text.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    schemes.iter().any(begins)
}

fn audio(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    let (mut bytes, mut has_format) = (None, false);
    open_keys(reader, &["data", "format"], path, |reader, key, path| {
        if key == "data" {
            bytes = Some(reader.non_empty_string_at(path)?.raw.len() as u64);
        } else {
            reader.word_at(&["wav", "mp3"], path)?;
            has_format = true;
        }
        Ok(())
    })?;
    match (bytes, has_format) {
        (None, _) => Err(path.missing("data")),
        (_, false) => Err(path.missing("format")),
        (Some(bytes), true) => Ok(bytes),
    }
}

/// Reads the text parts of reasoning, which must all have the type `kind`.
pub(super) fn texts(reader: &mut Reader<'_>, kind: &'static str, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        let here = path.index(index);
        let mut seen = 0;
        open_keys(reader, &["type", "text"], &here, |reader, key, path| {
            if key == "type" {
                reader.word_at(&[kind], path)?;
                seen |= 0b01;
            } else {
                reader.string_at(path)?;
                seen |= 0b10;
            }
            Ok(())
        })?;
        match seen {
            0b11 => {}
            0b10 => return Err(here.missing("type")),
            _ => return Err(here.missing("text")),
        }
        index += 1;
    }
    Ok(())
}
