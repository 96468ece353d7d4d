//! Content: a text, or parts by type.

use super::super::head::ResponsesHead;
use crate::error::Flaw;
use crate::json::{Kind, Path, Reader, once, open_keys};
use crate::request::Media;

const DETAILS: &[&str] = &["auto", "low", "high", "original"];

/// Where a content stands, which decides about its types of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    System,
    User,
    Assistant,
    /// The result of a tool.
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

/// Keys that are checked, whatever the type of the part.
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
) -> Result<(), Flaw> {
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

/// A part, as far as it was read.
#[derive(Default)]
struct Part {
    kind: Option<&'static str>,
    seen: u32,
    /// Bytes of media that are in it.
    inline: u64,
}

fn part(
    reader: &mut Reader<'_>,
    head: &mut ResponsesHead<'_>,
    place: Place,
    path: &Path<'_>,
) -> Result<(), Flaw> {
    let part = Part::read(reader, place, path)?;
    let way = part.way(path)?;
    part.check_required(way, path)?;
    part.count(way, &mut head.media);
    Ok(())
}

impl Part {
    fn read(reader: &mut Reader<'_>, place: Place, path: &Path<'_>) -> Result<Self, Flaw> {
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
    ) -> Result<(), Flaw> {
        match key {
            "type" => self.kind = Some(reader.word_at(place.types(), path)?),
            "image_url" => self.inline += image_bytes(reader, path)?,
            "detail" => {
                reader.word_at(DETAILS, path)?;
            }
            "file_data" => self.inline += reader.filled_string_at(path)?.raw.len() as u64,
            "input_audio" => self.inline += audio(reader, path)?,
            "file_id" => {
                reader.filled_string_at(path)?;
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

    /// The one way in which a picture or a document is named, if there is one.
    fn way(&self, path: &Path<'_>) -> Result<Option<&'static str>, Flaw> {
        let ways: &[&'static str] = match self.kind {
            Some("input_image") => &["image_url", "file_id"],
            Some("input_file") => &["file_data", "file_url", "file_id"],
            _ => &[],
        };
        let mut said = ways.iter().copied().filter(|way| self.has(way));
        match (said.next(), said.next()) {
            (Some(way), Some(other)) => {
                let what = format_args!("cannot stand beside '{way}'");
                Err(path.key(other).invalid(what))
            }
            (way, _) => Ok(way),
        }
    }

    fn check_required(&self, way: Option<&str>, path: &Path<'_>) -> Result<(), Flaw> {
        let required = match self.kind {
            None => "type",
            Some("input_image" | "input_file") if way.is_some() => return Ok(()),
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

    fn count(&self, way: Option<&str>, media: &mut Media) {
        match self.kind {
            Some("input_image") => media.images += 1,
            Some("input_file") => media.files += 1,
            Some("input_audio") => media.audio += 1,
            _ => return,
        }
        let is_address = match way {
            Some("image_url") => self.inline == 0,
            way => way == Some("file_url"),
        };
        media.addresses += u32::from(is_address);
        media.stored += u32::from(way == Some("file_id"));
        media.inline_bytes += self.inline;
    }
}

/// Bytes of a data URL, none for one that the model fetches. Other schemes are refused: some model servers read
/// `file:` from their own disk.
fn image_bytes(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, Flaw> {
    let url = reader.filled_string_at(path)?;
    match has_scheme(&url.decoded(), &["data:"]) {
        true => Ok(url.raw.len() as u64),
        false if has_scheme(&url.decoded(), WEB) => Ok(0),
        false => Err(path.invalid("must be an http, https or data URL")),
    }
}

fn web_address(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), Flaw> {
    match has_scheme(&reader.filled_string_at(path)?.decoded(), WEB) {
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

fn audio(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, Flaw> {
    let (mut bytes, mut has_format) = (None, false);
    open_keys(reader, &["data", "format"], path, |reader, key, path| {
        if key == "data" {
            bytes = Some(reader.filled_string_at(path)?.raw.len() as u64);
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

/// Reads the parts of reasoning, which are all of one type.
pub(super) fn texts(reader: &mut Reader<'_>, kind: &'static str, path: &Path<'_>) -> Result<(), Flaw> {
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
