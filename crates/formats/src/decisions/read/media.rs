//! Decoding of the media in a state, in any form that callers use: parts of chat completions and
//! responses, blocks of messages, parts of Gemini's two interfaces, and bare data URLs. A JSON
//! object whose `type` is a common word, such as `image` or `file`, is a medium only if it also has
//! the members of such a part.

use tollgate_types::decide::StateMediaKind::{self, Audio, Image, Video};

use super::address::{self, DataUrl};
use crate::error::BoxedError;
use crate::gemini::stored_id;
use crate::json::{Node, Path};

/// Part types whose URL is in a member: type, name of the member, media kind.
const ADDRESSED: &[(&str, &str, StateMediaKind)] = &[
    ("image_url", "image_url", Image),
    ("input_image", "image_url", Image),
    ("audio_url", "audio_url", Audio),
    ("video_url", "video_url", Video),
    ("input_video", "video_url", Video),
];

/// Values of `format` for audio data, with their media types.
const AUDIO_FORMATS: &[(&str, &str)] = &[
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
    ("flac", "audio/flac"),
    ("ogg", "audio/ogg"),
    ("opus", "audio/opus"),
    ("aac", "audio/aac"),
    ("m4a", "audio/mp4"),
    ("webm", "audio/webm"),
    ("aiff", "audio/aiff"),
];

const NO_DOCUMENTS: &str =
    "is a document, which is not supported in a state; send its text, or images of its pages";

/// Medium of a state.
pub(super) struct FoundMedium {
    /// Kind of the medium; `None` for a file whose part does not declare the kind.
    pub(super) kind: Option<StateMediaKind>,
    pub(super) source: Source,
    /// Path of the source in the request.
    pub(super) param: String,
}

/// Source of a medium.
pub(super) enum Source {
    /// An http, https or data URL.
    Url(String),
    /// Id of an uploaded file.
    File(String),
}

/// Reads a value as a medium; `None` if the value is not a medium. Fails for documents and for
/// invalid media.
pub(super) fn find(node: &Node<'_>, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    match node {
        Node::Text(text) => bare(text, path),
        Node::Object(_) => match node.get("type").and_then(Node::as_text) {
            Some(kind) => typed(node, kind, path),
            None => gemini(node, path),
        },
        _ => Ok(None),
    }
}

/// Reads a text that is only a data URL. Other URLs remain text: only declared media are fetched.
fn bare(text: &str, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    let Some(parts) = DataUrl::parse(text).filter(|parts| parts.is_base64) else {
        return Ok(None);
    };
    match parts.kind() {
        Some(kind) => url_medium(kind, address::url(text, kind, path)?, path),
        None if is_document(parts.mime) => Err(path.unsupported(NO_DOCUMENTS)),
        None => Ok(None),
    }
}

fn typed(node: &Node<'_>, kind: &str, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    if let Some((_, member, kind)) = ADDRESSED.iter().find(|(name, ..)| *name == kind) {
        return addressed(node, member, *kind, path);
    }
    let has = |member: &str| node.get(member).is_some();
    match kind {
        "input_audio" => audio(node, path),
        "image" => block(node, Image, path),
        "audio" => block(node, Audio, path),
        "video" => block(node, Video, path),
        "document" if is_source(node) || (has("mime_type") && (has("data") || has("uri"))) => {
            Err(path.unsupported(NO_DOCUMENTS))
        }
        "input_file" if has("file_data") || has("file_url") => Err(path.unsupported(NO_DOCUMENTS)),
        "input_file" if has("file_id") => file(node, None, path),
        "file" => match node.get("file") {
            Some(inner) if inner.get("file_id").is_some() => file(inner, None, &path.key("file")),
            Some(Node::Object(_)) => Err(path.unsupported(NO_DOCUMENTS)),
            _ => gemini(node, path),
        },
        _ => gemini(node, path),
    }
}

/// Reads an uploaded file by its `file_id`.
fn file(
    node: &Node<'_>,
    kind: Option<StateMediaKind>,
    path: &Path<'_>,
) -> Result<Option<FoundMedium>, BoxedError> {
    let id = node.need("file_id", path)?;
    let path = path.key("file_id");
    stored_medium(kind, id.non_empty_at(&path)?, &path)
}

/// Reads `{"type":"image_url","image_url":{"url":…}}`, with the URL itself instead of the object,
/// or with a `file_id`.
fn addressed(
    node: &Node<'_>,
    member: &str,
    kind: StateMediaKind,
    path: &Path<'_>,
) -> Result<Option<FoundMedium>, BoxedError> {
    if node.get("file_id").is_some() {
        if node.get(member).is_some() {
            let problem = format_args!("cannot be combined with '{member}'");
            return Err(path.key("file_id").invalid(problem));
        }
        return file(node, Some(kind), path);
    }
    let address = node.need(member, path)?;
    let path = path.key(member);
    match address {
        Node::Object(_) => at(address.need("url", &path)?, kind, &path.key("url")),
        _ => at(address, kind, &path),
    }
}

/// Reads `{"type":"input_audio","input_audio":{"data":…,"format":…}}`, or with both members next to
/// the type. `audio_url` or `file_id` may replace the data.
fn audio(node: &Node<'_>, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    let has_file = node.get("file_id").is_some();
    match node.get("input_audio") {
        Some(nested) => {
            let path = path.key("input_audio");
            nested.object_at(&path)?;
            audio_data(nested, &path)
        }
        None => match node.get("audio_url") {
            Some(_) => addressed(node, "audio_url", Audio, path),
            None if node.get("data").is_some() => audio_data(node, path),
            None if has_file => file(node, Some(Audio), path),
            None => Err(path.missing("input_audio")),
        },
    }
}

fn audio_data(node: &Node<'_>, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    let here = path.key("data");
    let data = node.need("data", path)?.text_at(&here)?;
    if DataUrl::parse(data).is_some() {
        return url_medium(Audio, address::url(data, Audio, &here)?, &here);
    }
    let names: Vec<&'static str> = AUDIO_FORMATS.iter().map(|(name, _)| *name).collect();
    let format = node.need("format", path)?.word_at(&names, &path.key("format"))?;
    let named = AUDIO_FORMATS.iter().find(|(name, _)| *name == format);
    let mime = named.map_or(format, |(_, mime)| *mime);
    url_medium(Audio, address::data_url(mime, data, &here)?, &here)
}

/// Reads a block of messages, which has a `source`, or of Gemini's interactions, which has `data`
/// or `uri`.
fn block(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    if is_source(node) {
        return source(node.need("source", path)?, kind, &path.key("source"));
    }
    match (node.get("data"), node.get("uri")) {
        (Some(Node::Text(data)), _) if node.get("mime_type").is_some() => {
            inline(node, "mime_type", data, Some(kind), path)
        }
        (None, Some(Node::Text(uri))) => named(uri, kind, &path.key("uri")),
        _ => Ok(None),
    }
}

/// Whether the object has a `source` with a `type`, like a block of messages.
fn is_source(node: &Node<'_>) -> bool {
    let kind = node.get("source").and_then(|source| source.get("type"));
    kind.and_then(Node::as_text).is_some()
}

fn source(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    match node
        .need("type", path)?
        .word_at(&["base64", "url", "file"], &path.key("type"))?
    {
        "file" => file(node, Some(kind), path),
        "url" => at(node.need("url", path)?, kind, &path.key("url")),
        _ => {
            let data = node.need("data", path)?.text_at(&path.key("data"))?;
            inline(node, "media_type", data, Some(kind), path)
        }
    }
}

/// Reads `{"inline_data":{"mime_type":…,"data":…}}` or
/// `{"file_data":{"mime_type":…,"file_uri":…}}`, in either spelling.
fn gemini(node: &Node<'_>, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    for (name, address, mime) in [
        ("inline_data", "data", "mime_type"),
        ("inlineData", "data", "mimeType"),
        ("file_data", "file_uri", "mime_type"),
        ("fileData", "fileUri", "mimeType"),
    ] {
        let Some(part) = node.get(name).filter(|part| part.get(address).is_some()) else {
            continue;
        };
        let path = path.key(name);
        let here = path.key(address);
        let text = part.need(address, &path)?.text_at(&here)?;
        if address == "data" {
            return inline(part, mime, text, None, &path);
        }
        return named(text, kind_at(part, mime, &path)?, &here);
    }
    Ok(None)
}

/// Resolves Gemini's `uri`: the name of an uploaded file (`files/{id}`, or a URL that ends with
/// it), or another URL.
fn named(uri: &str, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    match stored_id(uri) {
        Some(id) => stored_medium(Some(kind), id, path),
        None => url_medium(kind, address::url(uri, kind, path)?, path),
    }
}

/// Reads base64 whose media type is in the member `mime`. The type must match `kind`, if given.
fn inline(
    node: &Node<'_>,
    mime: &str,
    data: &str,
    kind: Option<StateMediaKind>,
    path: &Path<'_>,
) -> Result<Option<FoundMedium>, BoxedError> {
    let declared_kind = kind_at(node, mime, path)?;
    if let Some(kind) = kind.filter(|kind| *kind != declared_kind) {
        let word = kind.as_str();
        return Err(path
            .key(mime)
            .invalid(format_args!("must be '{word}/…', to match the type of the part")));
    }
    let mime = node.need(mime, path)?.as_text().unwrap_or_default();
    let here = path.key("data");
    url_medium(declared_kind, address::data_url(mime, data, &here)?, &here)
}

fn kind_at(node: &Node<'_>, mime: &str, path: &Path<'_>) -> Result<StateMediaKind, BoxedError> {
    let here = path.key(mime);
    let text = node.need(mime, path)?.text_at(&here)?;
    match address::kind_of(text) {
        Some(kind) => Ok(kind),
        None if is_document(text) => Err(here.unsupported(NO_DOCUMENTS)),
        None => Err(here.invalid("must be an image, audio or video type, such as 'image/png'")),
    }
}

fn is_document(mime: &str) -> bool {
    let begins = |start: &str| {
        mime.get(..start.len())
            .is_some_and(|text| text.eq_ignore_ascii_case(start))
    };
    begins("application/") || begins("text/")
}

fn at(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    url_medium(kind, address::url(node.text_at(path)?, kind, path)?, path)
}

#[expect(clippy::unnecessary_wraps, reason = "the callers return this type")]
fn url_medium(kind: StateMediaKind, url: String, path: &Path<'_>) -> Result<Option<FoundMedium>, BoxedError> {
    Ok(Some(FoundMedium {
        kind: Some(kind),
        source: Source::Url(url),
        param: path.to_string(),
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "the callers return this type")]
fn stored_medium(
    kind: Option<StateMediaKind>,
    id: &str,
    path: &Path<'_>,
) -> Result<Option<FoundMedium>, BoxedError> {
    Ok(Some(FoundMedium {
        kind,
        source: Source::File(id.to_owned()),
        param: path.to_string(),
    }))
}
