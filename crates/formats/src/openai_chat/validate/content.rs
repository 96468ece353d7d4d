//! Validation of the content of messages: a string, or typed parts.

use super::super::head::Media;
use super::options::once;
use crate::decisions::is_base64;
use crate::error::BoxedError;
use crate::image::{MUST_BE_IMAGE, is_false_image};
use crate::json::{Kind, Path, Reader, Text};

/// Part types, in the order of [`Content::first`].
const PART_TYPES: &[&str] = &["text", "refusal", "image_url", "input_audio", "file"];
const TEXT: usize = 0;
const REFUSAL: usize = 1;
const DETAILS: &[&str] = &["auto", "low", "high", "original"];

/// Properties of the content of a message. The role determines which part types are valid. It may
/// follow the content in the body, so the part types are checked after the whole message was read.
#[derive(Default)]
pub(super) struct Content {
    pub(super) media: Media,
    /// Index of the first part of each type.
    first: [Option<u32>; PART_TYPES.len()],
}

impl Content {
    /// Refuses parts other than text.
    pub(super) fn only_text(&self, path: &Path<'_>) -> Result<(), BoxedError> {
        self.only(&[TEXT], path)
    }

    /// Refuses parts that are invalid for an assistant.
    pub(super) fn only_text_and_refusal(&self, path: &Path<'_>) -> Result<(), BoxedError> {
        self.only(&[TEXT, REFUSAL], path)
    }

    /// Refuses refusals, the only parts that are invalid for a user.
    pub(super) fn no_refusal(&self, path: &Path<'_>) -> Result<(), BoxedError> {
        self.only(&[TEXT, 2, 3, 4], path)
    }

    fn only(&self, allowed: &[usize], path: &Path<'_>) -> Result<(), BoxedError> {
        for (place, first) in self.first.iter().enumerate() {
            if let Some(index) = first
                && !allowed.contains(&place)
            {
                return Err(path.index(*index).key("type").invalid(format_args!(
                    "is '{}', which this role does not support",
                    PART_TYPES[place]
                )));
            }
        }
        Ok(())
    }
}

/// Reads a string or an array of parts.
pub(super) fn read(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Content, BoxedError> {
    let mut content = Content::default();
    match reader.kind()? {
        Kind::String => {
            reader.string()?;
        }
        Kind::Array => {
            reader.begin_array()?;
            let mut index = 0;
            while reader.item()? {
                part(reader, index, &mut content, &path.index(index))?;
                index += 1;
            }
        }
        other => {
            return Err(path.invalid(format_args!(
                "must be a string or an array of content parts, not {}",
                other.name()
            )));
        }
    }
    Ok(content)
}

fn part(
    reader: &mut Reader<'_>,
    index: u32,
    content: &mut Content,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut kind, mut bodies, mut seen) = (None, 0_u32, 0);
    while let Some(key) = reader.key()? {
        if key.name == "type" {
            once(&mut seen, 31, path, "type")?;
            kind = Some(reader.word_at(PART_TYPES, &path.key("type"))?);
            continue;
        }
        let Some(place) = PART_TYPES.iter().position(|name| **name == key.name) else {
            reader.skip()?;
            continue;
        };
        once(&mut seen, place as u32, path, PART_TYPES[place])?;
        bodies |= 1 << place;
        part_body(reader, place, &mut content.media, &path.key(PART_TYPES[place]))?;
    }
    let Some(kind) = kind else {
        return Err(path.missing("type"));
    };
    let place = PART_TYPES
        .iter()
        .position(|name| *name == kind)
        .unwrap_or_default();
    if bodies & (1 << place) == 0 {
        return Err(path.missing(kind));
    }
    content.first[place].get_or_insert(index);
    match kind {
        "image_url" => content.media.images += 1,
        "input_audio" => content.media.audio += 1,
        "file" => content.media.files += 1,
        _ => {}
    }
    Ok(())
}

fn part_body(
    reader: &mut Reader<'_>,
    place: usize,
    media: &mut Media,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match PART_TYPES[place] {
        "image_url" => image(reader, media, path),
        "input_audio" => audio(reader, media, path),
        "file" => file(reader, media, path),
        _ => reader.string_at(path).map(|_| ()),
    }
}

fn image(reader: &mut Reader<'_>, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut has_url, mut seen) = (false, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "url" => {
                once(&mut seen, 0, path, "url")?;
                let url = reader.string_at(&here)?;
                has_url = true;
                match inline_bytes(url, &here)? {
                    0 => media.addresses += 1,
                    bytes => media.inline_bytes += bytes,
                }
            }
            "detail" => {
                once(&mut seen, 1, path, "detail")?;
                if !reader.take_null()? {
                    reader.word_at(DETAILS, &here)?;
                }
            }
            _ => reader.skip()?,
        }
    }
    if has_url { Ok(()) } else { Err(path.missing("url")) }
}

/// Returns the number of bytes of a data URL in the body; zero for an http or https URL. Refuses
/// data URLs with invalid base64 or with a false image type, and other schemes: some model servers
/// read `file:` URLs from their own disk.
fn inline_bytes(text: Text<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    let url = &*text.decoded();
    let has_scheme = |scheme: &str| {
        url.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    match has_scheme("data:") {
        true if has_broken_bytes(url) => {
            Err(path
                .invalid("must have valid base64 data after ';base64,' (standard alphabet, with padding)"))
        }
        true if is_false_image(url) => Err(path.invalid(MUST_BE_IMAGE)),
        true => Ok(text.raw.len() as u64),
        false if has_scheme("http://") || has_scheme("https://") => Ok(0),
        false => Err(path.invalid("must be an http, https or data URL")),
    }
}

/// Whether a data URL declares base64 but contains invalid base64.
fn has_broken_bytes(url: &str) -> bool {
    const MARK: &str = ";base64,";
    let Some(at) = memchr::memmem::find(url.as_bytes(), MARK.as_bytes()) else {
        return false;
    };
    !is_base64(url.as_bytes().get(at + MARK.len()..).unwrap_or_default())
}

fn audio(reader: &mut Reader<'_>, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let (mut has_data, mut has_format, mut seen) = (false, false, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "data" => {
                once(&mut seen, 0, path, "data")?;
                media.inline_bytes += reader.non_empty_string_at(&here)?.raw.len() as u64;
                has_data = true;
            }
            "format" => {
                once(&mut seen, 1, path, "format")?;
                reader.word_at(&["wav", "mp3"], &here)?;
                has_format = true;
            }
            _ => reader.skip()?,
        }
    }
    match (has_data, has_format) {
        (false, _) => Err(path.missing("data")),
        (_, false) => Err(path.missing("format")),
        _ => Ok(()),
    }
}

fn file(reader: &mut Reader<'_>, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
    const KEYS: [&str; 3] = ["file_id", "file_data", "filename"];
    reader.object_at(path)?;
    let (mut has_id, mut has_data, mut seen) = (false, false, 0);
    while let Some(key) = reader.key()? {
        let Some(place) = KEYS.iter().position(|name| **name == key.name) else {
            reader.skip()?;
            continue;
        };
        once(&mut seen, place as u32, path, KEYS[place])?;
        if reader.take_null()? {
            continue;
        }
        let value = reader.non_empty_string_at(&path.key(KEYS[place]))?;
        match KEYS[place] {
            "file_id" => has_id = true,
            "file_data" => {
                media.inline_bytes += value.raw.len() as u64;
                has_data = true;
            }
            _ => {}
        }
    }
    media.stored += u32::from(has_id);
    match (has_id, has_data) {
        (true, true) => Err(path.key("file_id").invalid("cannot be combined with 'file_data'")),
        (false, false) => Err(path.invalid("must have 'file_id' or 'file_data'")),
        _ => Ok(()),
    }
}
