//! Validation of the `source` of images and documents.

use super::options::once;
use crate::error::BoxedError;
use crate::image::{MUST_BE_IMAGE, text_begins_as_image};
use crate::json::{Path, Reader};
use crate::request::Media;

const TYPES: &[&str] = &["base64", "url", "text", "content", "file"];
const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// A parsed source. Its rules depend on the type of the block, which may follow the source in the
/// body.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Source {
    kind: Option<&'static str>,
    media_type: Option<MediaType>,
    data_bytes: Option<u64>,
    /// Whether the data starts with the signature of an image.
    is_image: bool,
    has_url: bool,
    has_id: bool,
    has_content: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediaType {
    Image,
    Pdf,
    Plain,
    Other,
}

impl Source {
    /// Reads the source object. Calls `read_content` for the content of a document that consists of
    /// blocks.
    pub(super) fn read<'a>(
        reader: &mut Reader<'a>,
        path: &Path<'_>,
        read_content: impl FnOnce(&mut Reader<'a>, &Path<'_>) -> Result<(), BoxedError>,
    ) -> Result<Source, BoxedError> {
        reader.object_at(path)?;
        let (mut source, mut seen, mut read_content) = (Source::default(), 0, Some(read_content));
        while let Some(key) = reader.key()? {
            let here = path.key(&key.name);
            match &*key.name {
                "type" => {
                    once(&mut seen, 0, path, "type")?;
                    source.kind = Some(reader.word_at(TYPES, &here)?);
                }
                "media_type" => {
                    once(&mut seen, 1, path, "media_type")?;
                    source.media_type = Some(media_type(&reader.non_empty_string_at(&here)?.decoded()));
                }
                "data" => {
                    once(&mut seen, 2, path, "data")?;
                    let text = reader.non_empty_string_at(&here)?;
                    source.data_bytes = Some(text.raw.len() as u64);
                    source.is_image = text_begins_as_image(text);
                }
                "url" => {
                    once(&mut seen, 3, path, "url")?;
                    web_address(reader, &here)?;
                    source.has_url = true;
                }
                "file_id" => {
                    once(&mut seen, 5, path, "file_id")?;
                    reader.non_empty_string_at(&here)?;
                    source.has_id = true;
                }
                "content" => {
                    once(&mut seen, 4, path, "content")?;
                    if let Some(read) = read_content.take() {
                        read(reader, &here)?;
                    }
                    source.has_content = true;
                }
                _ => reader.skip()?,
            }
        }
        Ok(source)
    }

    /// Checks the rules for an image and counts the image in `media`.
    pub(super) fn check_image(&self, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
        match self.kind {
            None => return Err(path.missing("type")),
            Some("base64") => {
                self.has_data(path)?;
                if self.media_type != Some(MediaType::Image) {
                    return Err(path
                        .key("media_type")
                        .invalid("must be one of 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"));
                }
                if !self.is_image {
                    return Err(path.key("data").invalid(MUST_BE_IMAGE));
                }
            }
            Some("url") if !self.has_url => return Err(path.missing("url")),
            Some("url") => {}
            Some("file") if !self.has_id => return Err(path.missing("file_id")),
            Some("file") => {}
            Some(_) => {
                return Err(path
                    .key("type")
                    .invalid("must be one of 'base64', 'url' or 'file'"));
            }
        }
        media.images += 1;
        media.addresses += u32::from(self.kind == Some("url"));
        media.stored += u32::from(self.kind == Some("file"));
        media.inline_bytes += self.data_bytes.unwrap_or(0);
        Ok(())
    }

    /// Whether the bytes are not in the request: the source is a URL or an uploaded file.
    pub(super) fn is_remote(&self) -> bool {
        matches!(self.kind, Some("url" | "file"))
    }

    /// Checks the rules for a document and counts the document in `media`.
    pub(super) fn check_document(&self, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
        match self.kind {
            None => return Err(path.missing("type")),
            Some("base64") => {
                self.has_data(path)?;
                if self.media_type != Some(MediaType::Pdf) {
                    return Err(path.key("media_type").invalid("must be 'application/pdf'"));
                }
                media.inline_bytes += self.data_bytes.unwrap_or(0);
            }
            Some("text") => {
                self.has_data(path)?;
                if self.media_type != Some(MediaType::Plain) {
                    return Err(path.key("media_type").invalid("must be 'text/plain'"));
                }
            }
            Some("content") if !self.has_content => return Err(path.missing("content")),
            Some("content") => {}
            Some("file") if !self.has_id => return Err(path.missing("file_id")),
            Some("file") => media.stored += 1,
            Some(_) if !self.has_url => return Err(path.missing("url")),
            Some(_) => media.addresses += 1,
        }
        media.files += 1;
        Ok(())
    }

    fn has_data(&self, path: &Path<'_>) -> Result<(), BoxedError> {
        match (self.media_type, self.data_bytes) {
            (None, _) => Err(path.missing("media_type")),
            (_, None) => Err(path.missing("data")),
            _ => Ok(()),
        }
    }
}

fn media_type(text: &str) -> MediaType {
    match text {
        text if IMAGE_TYPES.contains(&text) => MediaType::Image,
        "application/pdf" => MediaType::Pdf,
        "text/plain" => MediaType::Plain,
        _ => MediaType::Other,
    }
}

/// Reads an http or https URL. Other schemes are refused: some model servers read `file:` URLs from
/// their own disk.
fn web_address(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let text = reader.non_empty_string_at(path)?.decoded();
    let has_scheme = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if has_scheme("https://") || has_scheme("http://") {
        return Ok(());
    }
    Err(path.invalid("must be an http or https URL"))
}
