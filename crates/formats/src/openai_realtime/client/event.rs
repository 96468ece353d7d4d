//! The parser of client events.

use std::sync::Arc;

use super::super::audio::decode_audio;
use super::super::fields::reference_at;
use super::super::item::{read_item, read_item_id};
use super::super::{SessionKind, SessionUpdate, duplicates};
use super::append::parse_append;
use super::{ClientEvent, ParsedEvent, Previous, RefusedEvent, ResponseParams};
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Node, Path};

/// Maximum length of the id of an event, in characters.
pub(super) const MAX_EVENT_ID_CHARS: usize = 512;

/// Events of both kinds of sessions.
const SHARED_TYPES: &[&str] = &[
    "session.update",
    "transcription_session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
];

/// Events of voice sessions.
const VOICE_TYPES: &[&str] = &[
    "conversation.item.create",
    "conversation.item.retrieve",
    "conversation.item.delete",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
];

/// Parses the text of a message of a client. Checks everything that does not depend on the state of
/// the session; `kind` is that of the session.
///
/// Objects with duplicate members are `invalid_json`. Errors contain the event's id if the text is
/// JSON and the id is valid.
pub fn parse(text: &str, kind: SessionKind) -> Result<ParsedEvent, Box<RefusedEvent>> {
    if let Some(parsed) = parse_append(text) {
        return parsed;
    }
    let node = Node::of_body(text.as_bytes(), MAX_NODES).map_err(|error| refused(None, *error))?;
    let event_id = event_id(&node);
    match read(&node, kind) {
        Ok(event) => Ok(ParsedEvent { event_id, event }),
        Err(error) => Err(refused(event_id, *error)),
    }
}

/// Returns the refusal of an event. The reader of JSON speaks of bodies.
#[cold]
pub(super) fn refused(event_id: Option<String>, mut error: DecodeError) -> Box<RefusedEvent> {
    error.message = error.message.replacen("The body", "The event", 1);
    Box::new(RefusedEvent { event_id, error })
}

/// Returns the id if it is valid and occurs once.
fn event_id(node: &Node<'_>) -> Option<String> {
    let Node::Object(members) = node else {
        return None;
    };
    let mut ids = members.iter().filter(|(key, _)| key == "event_id");
    let (_, id) = ids.next()?;
    if ids.next().is_some() {
        return None;
    }
    check_event_id(id, &Path::TOP).ok().flatten()
}

fn check_event_id(node: &Node<'_>, path: &Path<'_>) -> Result<Option<String>, BoxedError> {
    if *node == Node::Null {
        return Ok(None);
    }
    let id = node.text_at(path)?;
    if id.len() > MAX_EVENT_ID_CHARS && id.chars().count() > MAX_EVENT_ID_CHARS {
        return Err(path.invalid(format_args!("must have at most {MAX_EVENT_ID_CHARS} characters")));
    }
    Ok(Some(id.to_owned()))
}

fn read(node: &Node<'_>, kind: SessionKind) -> Result<ClientEvent, BoxedError> {
    let path = &Path::TOP;
    duplicates::check(node)?;
    let Node::Object(_) = node else {
        return Err(path.invalid("must be an object: an event with its 'type'"));
    };
    if let Some(id) = node.get("event_id") {
        check_event_id(id, &path.key("event_id"))?;
    }
    match event_type(node, kind)? {
        "session.update" | "transcription_session.update" => read_update(node, kind),
        "input_audio_buffer.append" => {
            check_members(node, &["audio"])?;
            let path = path.key("audio");
            let audio = node.need("audio", &Path::TOP)?.text_at(&path)?;
            let audio = decode_audio(audio, &path)?;
            Ok(ClientEvent::AppendAudio { audio })
        }
        "input_audio_buffer.commit" => check_members(node, &[]).map(|()| ClientEvent::CommitAudio),
        "input_audio_buffer.clear" => check_members(node, &[]).map(|()| ClientEvent::ClearAudio),
        "conversation.item.create" => read_create(node),
        "conversation.item.retrieve" => {
            check_members(node, &["item_id"])?;
            let item_id = read_item_id(node, path)?;
            Ok(ClientEvent::RetrieveItem { item_id })
        }
        "conversation.item.delete" => {
            check_members(node, &["item_id"])?;
            let item_id = read_item_id(node, path)?;
            Ok(ClientEvent::DeleteItem { item_id })
        }
        "conversation.item.truncate" => read_truncate(node),
        "response.create" => {
            check_members(node, &["response"])?;
            let params = match node.get("response") {
                Some(response) => ResponseParams::read(response, &path.key("response"))?,
                None => ResponseParams::default(),
            };
            Ok(ClientEvent::CreateResponse(Box::new(params)))
        }
        _ => {
            check_members(node, &["response_id"])?;
            let response_id = optional_reference(node, "response_id")?;
            Ok(ClientEvent::CancelResponse { response_id })
        }
    }
}

/// Returns the type of the event; refuses unknown ones and those of other kinds of sessions.
fn event_type(node: &Node<'_>, kind: SessionKind) -> Result<&'static str, BoxedError> {
    let path = Path::TOP.key("type");
    let name = node.need("type", &Path::TOP)?.text_at(&path)?;
    let find = |names: &'static [&'static str]| names.iter().find(|known| **known == name).copied();
    match (find(SHARED_TYPES), find(VOICE_TYPES), kind) {
        (Some("transcription_session.update"), _, SessionKind::Voice) => {
            Err(path.invalid("names an event of transcription sessions; send 'session.update'"))
        }
        (Some(name), _, _) | (None, Some(name), SessionKind::Voice) => Ok(name),
        (None, Some(_), SessionKind::Transcription) => Err(path
            .invalid("names an event that transcription sessions do not have, because they only transcribe")),
        (None, None, _) if name.starts_with("output_audio_buffer.") => {
            Err(path.invalid("names an event of WebRTC connections"))
        }
        (None, None, _) => Err(path.invalid("is not the name of a client event")),
    }
}

/// Refuses members other than the common ones and `keys`.
fn check_members(node: &Node<'_>, keys: &[&str]) -> Result<(), BoxedError> {
    node.check_keys(&[&["type", "event_id"], keys], &Path::TOP)
}

fn read_update(node: &Node<'_>, kind: SessionKind) -> Result<ClientEvent, BoxedError> {
    check_members(node, &["session"])?;
    let session = node.need("session", &Path::TOP)?;
    let update = SessionUpdate::read(session, kind, &Path::TOP.key("session"))?;
    Ok(ClientEvent::UpdateSession(Box::new(update)))
}

fn read_create(node: &Node<'_>) -> Result<ClientEvent, BoxedError> {
    check_members(node, &["item", "previous_item_id"])?;
    let item = read_item(node.need("item", &Path::TOP)?, &Path::TOP.key("item"))?;
    let previous = optional_reference(node, "previous_item_id")?;
    Ok(ClientEvent::CreateItem {
        item: Box::new(item),
        previous: previous.map(|id| match &*id {
            "root" => Previous::Root,
            _ => Previous::After(id),
        }),
    })
}

fn read_truncate(node: &Node<'_>) -> Result<ClientEvent, BoxedError> {
    check_members(node, &["item_id", "content_index", "audio_end_ms"])?;
    let item_id = read_item_id(node, &Path::TOP)?;
    let number = |key: &str, max: u64| {
        let value = node.need(key, &Path::TOP)?;
        value.integer_at(0..=max, &Path::TOP.key(key))
    };
    let content_index = number("content_index", u64::from(u32::MAX))?;
    Ok(ClientEvent::TruncateItem {
        item_id,
        content_index: u32::try_from(content_index).unwrap_or(u32::MAX),
        audio_end_ms: number("audio_end_ms", i64::MAX.cast_unsigned())?,
    })
}

fn optional_reference(node: &Node<'_>, key: &str) -> Result<Option<Arc<str>>, BoxedError> {
    let value = node.get(key);
    value
        .map(|value| reference_at(value, &Path::TOP.key(key)))
        .transpose()
}
