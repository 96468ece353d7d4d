//! Media in a state, in whatever form a caller has them: parts of chat completions and responses, blocks of messages,
//! parts of Gemini's two interfaces, and data URLs that stand alone. JSON that only has a member `type` with one of
//! their names is no medium: it must have what such a part has.

use tollgate_types::decide::StateMediaKind::{self, Audio, Image, Video};

use super::address::{self, DataUrl};
use crate::error::Flaw;
use crate::gemini::stored_id;
use crate::json::{Node, Path};

/// Types of parts whose address is the member of the second name.
const ADDRESSED: &[(&str, &str, StateMediaKind)] = &[
    ("image_url", "image_url", Image),
    ("input_image", "image_url", Image),
    ("audio_url", "audio_url", Audio),
    ("video_url", "video_url", Video),
    ("input_video", "video_url", Video),
];

/// Formats of audio without a type, and the types that they are.
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
    "is a document, and those are not decided about: send its text, or pictures of its pages";

/// A medium of a state.
pub(super) struct Found {
    /// What it is; `None` for a file whose part does not say it.
    pub(super) kind: Option<StateMediaKind>,
    pub(super) source: Source,
    /// Where that stands.
    pub(super) param: String,
}

/// Where the bytes of a medium are.
pub(super) enum Source {
    /// At an address, or in a data URL.
    Url(String),
    /// In an uploaded file of this id.
    File(String),
}

/// The medium that a value is, if it is one. Documents are refused.
pub(super) fn find(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    match node {
        Node::Text(text) => bare(text, path),
        Node::Object(_) => match node.get("type").and_then(Node::as_text) {
            Some(kind) => typed(node, kind, path),
            None => gemini(node, path),
        },
        _ => Ok(None),
    }
}

/// A text that is nothing but a data URL. Addresses are text: nothing is fetched that is not said to be a medium.
fn bare(text: &str, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    let Some(parts) = DataUrl::parse(text).filter(|parts| parts.is_base64) else {
        return Ok(None);
    };
    match parts.kind() {
        Some(kind) => found(kind, address::url(text, kind, path)?, path),
        None if is_document(parts.mime) => Err(path.unsupported(NO_DOCUMENTS)),
        None => Ok(None),
    }
}

fn typed(node: &Node<'_>, kind: &str, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
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

/// An uploaded file by its `file_id`.
fn file(node: &Node<'_>, kind: Option<StateMediaKind>, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    let id = node.need("file_id", path)?;
    let path = path.key("file_id");
    stored(kind, id.filled_at(&path)?, &path)
}

/// `{"type":"image_url","image_url":{"url":…}}`, or with the address itself, or with a `file_id` in its place.
fn addressed(
    node: &Node<'_>,
    member: &str,
    kind: StateMediaKind,
    path: &Path<'_>,
) -> Result<Option<Found>, Flaw> {
    if node.get("file_id").is_some() {
        if node.get(member).is_some() {
            let what = format_args!("cannot stand beside '{member}'");
            return Err(path.key("file_id").invalid(what));
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

/// `{"type":"input_audio","input_audio":{"data":…,"format":…}}`, or with the two beside the type.
fn audio(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
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

fn audio_data(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    let here = path.key("data");
    let data = node.need("data", path)?.text_at(&here)?;
    if DataUrl::parse(data).is_some() {
        return found(Audio, address::url(data, Audio, &here)?, &here);
    }
    let names: Vec<&'static str> = AUDIO_FORMATS.iter().map(|(name, _)| *name).collect();
    let format = node.need("format", path)?.word_at(&names, &path.key("format"))?;
    let named = AUDIO_FORMATS.iter().find(|(name, _)| *name == format);
    let mime = named.map_or(format, |(_, mime)| *mime);
    found(Audio, address::data_url(mime, data, &here)?, &here)
}

/// A block of messages, with a `source`, or of Gemini's interactions, with `data` or `uri`.
fn block(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
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

/// Whether it has a `source` as blocks have one.
fn is_source(node: &Node<'_>) -> bool {
    let kind = node.get("source").and_then(|source| source.get("type"));
    kind.and_then(Node::as_text).is_some()
}

fn source(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
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

/// `{"inline_data":{"mime_type":…,"data":…}}` or `{"file_data":{"mime_type":…,"file_uri":…}}`, of either spelling.
fn gemini(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
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

/// What a `uri` of Gemini's names: an uploaded file (`files/{id}`, or an address that ends so), or what is at the address.
fn named(uri: &str, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    match stored_id(uri) {
        Some(id) => stored(Some(kind), id, path),
        None => found(kind, address::url(uri, kind, path)?, path),
    }
}

/// Base64 beside its type, which is in the member `mime`, and must be of a kind if one is given.
fn inline(
    node: &Node<'_>,
    mime: &str,
    data: &str,
    kind: Option<StateMediaKind>,
    path: &Path<'_>,
) -> Result<Option<Found>, Flaw> {
    let said = kind_at(node, mime, path)?;
    if let Some(kind) = kind.filter(|kind| *kind != said) {
        let word = kind.as_str();
        return Err(path
            .key(mime)
            .invalid(format_args!("must be '{word}/…', as the part's type is")));
    }
    let mime = node.need(mime, path)?.as_text().unwrap_or_default();
    let here = path.key("data");
    found(said, address::data_url(mime, data, &here)?, &here)
}

fn kind_at(node: &Node<'_>, mime: &str, path: &Path<'_>) -> Result<StateMediaKind, Flaw> {
    let here = path.key(mime);
    let text = node.need(mime, path)?.text_at(&here)?;
    match address::kind_of(text) {
        Some(kind) => Ok(kind),
        None if is_document(text) => Err(here.unsupported(NO_DOCUMENTS)),
        None => Err(here.invalid("must be a type of image, audio or video, such as 'image/png'")),
    }
}

fn is_document(mime: &str) -> bool {
    let begins = |start: &str| {
        mime.get(..start.len())
            .is_some_and(|text| text.eq_ignore_ascii_case(start))
    };
    begins("application/") || begins("text/")
}

fn at(node: &Node<'_>, kind: StateMediaKind, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    found(kind, address::url(node.text_at(path)?, kind, path)?, path)
}

#[expect(clippy::unnecessary_wraps, reason = "it is what finding ends with")]
fn found(kind: StateMediaKind, url: String, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    Ok(Some(Found {
        kind: Some(kind),
        source: Source::Url(url),
        param: path.to_string(),
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "it is what finding ends with")]
fn stored(kind: Option<StateMediaKind>, id: &str, path: &Path<'_>) -> Result<Option<Found>, Flaw> {
    Ok(Some(Found {
        kind,
        source: Source::File(id.to_owned()),
        param: path.to_string(),
    }))
}
