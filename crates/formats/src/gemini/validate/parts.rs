//! Validation of one part of a turn. Exactly one of several fields determines its kind; other
//! fields may be added.

use super::super::decode::stored_id;
use super::super::head::{GenerateHead, PartPlace, SealPlace};
use super::super::name::canonical;
use super::contents::Side;
use super::{any_object, known, open_fields, unsupported};
use crate::error::BoxedError;
use crate::image::{MUST_BE_IMAGE, is_image_type, text_begins_as_image};
use crate::json::{Path, Reader};
use crate::lossless::Span;
use crate::request::Media;

/// Fields that determine the kind; a part has exactly one.
const DATA: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
];
const FIELDS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "thought",
    "thoughtSignature",
];

/// Calls without a result so far, each with its optional id and its name.
#[derive(Default)]
pub(super) struct Calls(Vec<(Option<String>, String)>);

impl Calls {
    /// Removes the call to which a result belongs: the call with this id, otherwise the first call
    /// with this name. Returns whether there was such a call.
    fn answer(&mut self, id: Option<&str>, name: &str) -> bool {
        let by_id = id.and_then(|id| self.0.iter().position(|(known, _)| known.as_deref() == Some(id)));
        let found = by_id.or_else(|| self.0.iter().position(|(_, known)| known == name));
        found.map(|index| self.0.remove(index)).is_some()
    }
}

pub(super) fn part(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    side: Side,
    path: &Path<'_>,
) -> Result<PartPlace, BoxedError> {
    let start = reader.place();
    reader.object_at(path)?;
    let (mut seen, mut kind) = (0, None);
    let mut place = PartPlace {
        span: Span::default(),
        is_thought: false,
        is_call: false,
        seal: None,
    };
    while let Some(key) = reader.key()? {
        if !FIELDS.contains(&&*canonical(&key.name)) {
            reader.skip()?;
            continue;
        }
        let here = path.key(&key.name);
        let name = known(&key, FIELDS, &mut seen, &here)?;
        if reader.take_null()? {
            continue;
        }
        match name {
            "thought" => place.is_thought = reader.boolean_at(&here)?,
            "thoughtSignature" => {
                let value = reader.place();
                reader.string_at(&here)?;
                place.seal = Some(SealPlace {
                    field: Span::new(key.start, reader.end()),
                    value: Span::new(value, reader.end()),
                });
            }
            _ if kind.is_some() => {
                return Err(here.invalid("is a second data field; send it in a separate part"));
            }
            _ => {
                data(reader, head, calls, side, name, &here)?;
                kind = Some(name);
            }
        }
    }
    place.span = Span::new(start, reader.end());
    place.is_call = kind == Some("functionCall");
    match kind {
        Some(_) => Ok(place),
        None => Err(path.invalid(format_args!("must have one of '{}'", DATA[..5].join("', '")))),
    }
}

fn data(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    side: Side,
    name: &str,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let fits = match side {
        Side::System => name == "text",
        Side::User => name != "functionCall",
        Side::Model => name != "functionResponse",
    };
    if !fits {
        return Err(path.invalid("is not allowed for this role"));
    }
    match name {
        "text" => reader.string_at(path).map(drop),
        "inlineData" => inline_data(reader, &mut head.media, path),
        "fileData" => file_data(reader, &mut head.media, path),
        "functionCall" => call(reader, calls, path),
        "functionResponse" => response(reader, head, calls, path),
        _ => unsupported(
            path,
            "belongs to a tool that the provider runs, which is not supported",
        ),
    }
}

fn inline_data(reader: &mut Reader<'_>, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
    let (mut mime_type, mut bytes, mut is_image) = (None, None, false);
    open_fields(reader, &["mimeType", "data"], path, |reader, name, path| {
        match name {
            "mimeType" => mime_type = Some(mime(reader, path)?),
            _ => {
                let text = reader.non_empty_string_at(path)?;
                bytes = Some(text.raw.len() as u64);
                is_image = text_begins_as_image(text);
            }
        }
        Ok(())
    })?;
    match (mime_type, bytes) {
        (None, _) => Err(path.missing("mimeType")),
        (_, None) => Err(path.missing("data")),
        (Some(mime_type), _) if is_image_type(&mime_type) && !is_image => {
            Err(path.key("data").invalid(MUST_BE_IMAGE))
        }
        (Some(mime_type), Some(bytes)) => {
            media.inline_bytes += bytes;
            match mime_type.split('/').next() {
                Some("image") => media.images += 1,
                Some("audio") => media.audio += 1,
                _ => media.files += 1,
            }
            Ok(())
        }
    }
}

fn mime(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<String, BoxedError> {
    let text = reader.non_empty_string_at(path)?.decoded();
    match text.split_once('/') {
        Some((first, second)) if !first.is_empty() && !second.is_empty() => Ok(text.to_ascii_lowercase()),
        _ => Err(path.invalid("must be a media type, such as 'image/png'")),
    }
}

fn file_data(reader: &mut Reader<'_>, media: &mut Media, path: &Path<'_>) -> Result<(), BoxedError> {
    let (mut mime_type, mut is_stored) = (None, None);
    open_fields(reader, &["mimeType", "fileUri"], path, |reader, name, path| {
        match name {
            "mimeType" => mime_type = Some(mime(reader, path)?),
            _ => is_stored = Some(is_uploaded_file(reader, path)?),
        }
        Ok(())
    })?;
    let Some(is_stored) = is_stored else {
        return Err(path.missing("fileUri"));
    };
    let kind = mime_type.as_deref().and_then(|name| name.split('/').next());
    match kind {
        Some("image") => media.images += 1,
        None if is_stored => return Err(path.missing("mimeType")),
        Some("audio" | "video") if is_stored => {
            let problem = "must be an image or document type; send other media inline";
            return unsupported(&path.key("mimeType"), problem);
        }
        Some(_) if is_stored => media.files += 1,
        // The size of other media at a URL is unknown, and so is their maximum cost.
        _ => {
            let problem = "must be an image type; send other media inline";
            return unsupported(&path.key("mimeType"), problem);
        }
    }
    media.stored += u32::from(is_stored);
    Ok(())
}

/// Whether the text identifies an uploaded file. Fails if it is neither an uploaded file nor an
/// http or https URL: other schemes identify files stored at the provider.
fn is_uploaded_file(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<bool, BoxedError> {
    let text = reader.non_empty_string_at(path)?.decoded();
    if stored_id(&text).is_some() {
        return Ok(true);
    }
    let has_scheme = |scheme: &str| {
        let start = text.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    if has_scheme("https://") || has_scheme("http://") {
        return Ok(false);
    }
    Err(path.invalid("must be an http or https URL, or the name of an uploaded file"))
}

fn call(reader: &mut Reader<'_>, calls: &mut Calls, path: &Path<'_>) -> Result<(), BoxedError> {
    let (mut id, mut function) = (None, None);
    open_fields(reader, &["id", "name", "args"], path, |reader, name, path| {
        match name {
            "id" => id = Some(reader.string_at(path)?.decoded().into_owned()),
            "name" => function = Some(reader.non_empty_string_at(path)?.decoded().into_owned()),
            _ => any_object(reader, path)?,
        }
        Ok(())
    })?;
    let name = function.ok_or_else(|| path.missing("name"))?;
    calls.0.push((id.filter(|id| !id.is_empty()), name));
    Ok(())
}

fn response(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let names = ["id", "name", "response", "parts"];
    let (mut id, mut function, mut has_response) = (None, None, false);
    open_fields(reader, &names, path, |reader, name, path| {
        match name {
            "id" => id = Some(reader.string_at(path)?.decoded().into_owned()),
            "name" => function = Some(reader.non_empty_string_at(path)?.decoded().into_owned()),
            "response" => {
                any_object(reader, path)?;
                has_response = true;
            }
            _ => media_parts(reader, head, path)?,
        }
        Ok(())
    })?;
    let Some(function) = function else {
        return Err(path.missing("name"));
    };
    if !has_response {
        return Err(path.missing("response"));
    }
    if !calls.answer(id.as_deref().filter(|id| !id.is_empty()), &function) {
        return Err(path
            .key("name")
            .invalid("matches no call: no earlier turn has an unanswered 'functionCall' with this name"));
    }
    Ok(())
}

/// Reads the images and documents of a tool result.
fn media_parts(reader: &mut Reader<'_>, head: &mut GenerateHead, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        let here = path.index(index);
        let mut found = false;
        open_fields(
            reader,
            &["inlineData", "fileData"],
            &here,
            |reader, name, path| {
                found = true;
                match name {
                    "inlineData" => inline_data(reader, &mut head.media, path),
                    _ => file_data(reader, &mut head.media, path),
                }
            },
        )?;
        if !found {
            return Err(here.missing("inlineData"));
        }
        index += 1;
    }
    Ok(())
}
