//! Reading of the server's events.

use std::sync::Arc;

use super::super::audio::decode_audio;
use super::super::fields::reference_at;
use super::usage::read_usage;
use super::{AddedKind, EndedResponse, EndedStatus, OutputCall, OutputPlace, UpstreamEvent};
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Node, Path};

/// Maximum length of an error's code, type and event id, in characters.
const MAX_CODE_CHARS: usize = 512;

impl UpstreamEvent {
    /// Parses the text of a message of the server. An event of an unknown type is
    /// [`UpstreamEvent::Unknown`]; one that lacks a necessary member is an error.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let read = || {
            let node = Node::of_body(text.as_bytes(), MAX_NODES)?;
            read(&node)
        };
        read().map_err(|error: BoxedError| {
            let mut error = *error;
            error.message = error.message.replacen("The body", "The event", 1);
            error
        })
    }
}

fn read(event: &Node<'_>) -> Result<UpstreamEvent, BoxedError> {
    let top = &Path::TOP;
    let kind = event.need("type", top)?.text_at(&top.key("type"))?;
    let place = || read_place(event);
    let delta = || -> Result<String, BoxedError> {
        let delta = event.need("delta", top)?;
        delta.text_at(&top.key("delta")).map(str::to_owned)
    };
    Ok(match kind {
        "session.created" | "transcription_session.created" | "conversation.created" => {
            UpstreamEvent::Created
        }
        "session.updated" | "transcription_session.updated" => UpstreamEvent::Updated {
            has_turn_detection: event.get("session").is_some_and(detects_turns),
        },
        "input_audio_buffer.committed" => UpstreamEvent::AudioCommitted {
            item_id: id_at(event, "item_id", top)?,
        },
        "conversation.item.added" | "conversation.item.created" => {
            let path = &top.key("item");
            let item = event.need("item", top)?;
            UpstreamEvent::ItemAdded {
                item_id: id_at(item, "id", path)?,
                kind: added_kind(item),
            }
        }
        "conversation.item.input_audio_transcription.delta" => UpstreamEvent::InputTranscriptDelta {
            item_id: id_at(event, "item_id", top)?,
            delta: text_of(event, "delta"),
        },
        "conversation.item.input_audio_transcription.completed" => UpstreamEvent::InputTranscriptCompleted {
            item_id: id_at(event, "item_id", top)?,
            transcript: {
                let transcript = event.need("transcript", top)?;
                transcript.text_at(&top.key("transcript"))?.to_owned()
            },
        },
        "conversation.item.input_audio_transcription.failed" => UpstreamEvent::InputTranscriptFailed {
            item_id: id_at(event, "item_id", top)?,
            error: wrapped_error(event.get("error")),
        },
        "response.created" => UpstreamEvent::ResponseCreated {
            response_id: id_at(event.need("response", top)?, "id", &top.key("response"))?,
        },
        "response.output_item.added" => {
            let item = event.need("item", top)?;
            UpstreamEvent::OutputItemAdded {
                place: item_place(event, item)?,
                call: read_call(item, &top.key("item"))?,
            }
        }
        "response.output_item.done" => {
            let item = event.need("item", top)?;
            match read_call(item, &top.key("item"))? {
                Some(call) => UpstreamEvent::CallDone {
                    place: item_place(event, item)?,
                    call: Some(call),
                    arguments: text_of(item, "arguments"),
                },
                None => UpstreamEvent::Ignored,
            }
        }
        "response.output_text.delta" | "response.text.delta" => UpstreamEvent::TextDelta {
            place: place()?,
            delta: delta()?,
        },
        "response.output_audio_transcript.delta" | "response.audio_transcript.delta" => {
            UpstreamEvent::TranscriptDelta {
                place: place()?,
                delta: delta()?,
            }
        }
        "response.output_audio.delta" | "response.audio.delta" => {
            let path = top.key("delta");
            UpstreamEvent::AudioDelta {
                place: place()?,
                audio: decode_audio(event.need("delta", top)?.text_at(&path)?, &path)?,
            }
        }
        "response.function_call_arguments.delta" => UpstreamEvent::ArgumentsDelta {
            place: place()?,
            delta: delta()?,
        },
        "response.function_call_arguments.done" => UpstreamEvent::CallDone {
            place: place()?,
            call: match event.get("call_id") {
                Some(_) => Some(call_of(event, top)?),
                None => None,
            },
            arguments: text_of(event, "arguments"),
        },
        "response.done" => UpstreamEvent::ResponseDone(Box::new(read_ended(event)?)),
        "error" => read_error(event),
        _ if is_known(kind) => UpstreamEvent::Ignored,
        _ => UpstreamEvent::Unknown,
    })
}

/// Whether the protocol has an event of this type that needs no reaction.
fn is_known(kind: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "conversation.item.",
        "input_audio_buffer.",
        "rate_limits.",
        "response.audio.",
        "response.audio_transcript.",
        "response.content_part.",
        "response.output_audio.",
        "response.output_audio_transcript.",
        "response.output_text.",
        "response.text.",
    ];
    PREFIXES.iter().any(|prefix| kind.starts_with(prefix))
}

/// Whether the session object has turn detection, in one of its places.
fn detects_turns(session: &Node<'_>) -> bool {
    let is_on = |detection: &Node<'_>| match detection {
        Node::Text(name) => name != "none",
        Node::Object(_) => detection
            .get("type")
            .and_then(Node::as_text)
            .is_some_and(|name| name != "none"),
        _ => false,
    };
    let input = session.get("audio").and_then(|audio| audio.get("input"));
    [Some(session), input]
        .into_iter()
        .flatten()
        .filter_map(|place| place.get("turn_detection"))
        .any(is_on)
}

fn added_kind(item: &Node<'_>) -> AddedKind {
    let word = |key: &str| item.get(key).and_then(Node::as_text);
    match (word("type"), word("role")) {
        (Some("function_call"), _) => AddedKind::FunctionCall,
        (Some("function_call_output"), _) => AddedKind::FunctionOutput,
        (_, Some("user")) => AddedKind::User,
        (_, Some("assistant")) => AddedKind::Assistant,
        (_, Some("system")) => AddedKind::System,
        _ => AddedKind::Unknown,
    }
}

fn read_place(event: &Node<'_>) -> Result<OutputPlace, BoxedError> {
    Ok(OutputPlace {
        response_id: optional_id(event, "response_id")?,
        item_id: optional_id(event, "item_id")?,
        output_index: match event.get("output_index") {
            Some(Node::Number(token)) => token.parse().unwrap_or(0),
            _ => 0,
        },
    })
}

/// Reads the place of an event that contains the item itself.
fn item_place(event: &Node<'_>, item: &Node<'_>) -> Result<OutputPlace, BoxedError> {
    let item_id = id_at(item, "id", &Path::TOP.key("item"))?;
    Ok(OutputPlace {
        item_id: Some(item_id),
        ..read_place(event)?
    })
}

/// Reads the function call of an item; `None` for other items.
fn read_call(item: &Node<'_>, path: &Path<'_>) -> Result<Option<OutputCall>, BoxedError> {
    match item.get("type").and_then(Node::as_text) {
        Some("function_call") => call_of(item, path).map(Some),
        _ => Ok(None),
    }
}

fn call_of(node: &Node<'_>, path: &Path<'_>) -> Result<OutputCall, BoxedError> {
    let name = node.get("name");
    let name = name
        .map(|name| reference_at(name, &path.key("name")))
        .transpose()?;
    Ok(OutputCall {
        call_id: id_at(node, "call_id", path)?,
        name: name.unwrap_or_default(),
    })
}

fn read_ended(event: &Node<'_>) -> Result<EndedResponse, BoxedError> {
    let response = event.need("response", &Path::TOP)?;
    let id = response.get("id");
    let id = id.map(|id| reference_at(id, &Path::TOP.key("response").key("id")));
    Ok(EndedResponse {
        response_id: id.transpose()?,
        status: read_status(response),
        usage: response.get("usage").and_then(read_usage),
    })
}

/// Reads the status. A response without a status is completed, and one with an unknown status has
/// failed.
fn read_status(response: &Node<'_>) -> EndedStatus {
    let details = response.get("status_details");
    let word = |key: &str| details?.get(key).and_then(Node::as_text);
    let Some(status) = response.get("status").and_then(Node::as_text) else {
        return EndedStatus::Completed;
    };
    match (status, word("reason")) {
        ("completed", _) => EndedStatus::Completed,
        ("cancelled", _) => EndedStatus::Cancelled,
        ("incomplete", Some("content_filter")) => EndedStatus::ContentFilter,
        ("incomplete", _) => EndedStatus::MaxOutputTokens,
        _ => {
            let error = details.and_then(|details| details.get("error"));
            EndedStatus::Failed {
                error: wrapped_error(error),
            }
        }
    }
}

/// Returns `{"error": …}` with this error, or with an empty one.
fn wrapped_error(error: Option<&Node<'_>>) -> String {
    let error = error.map_or_else(|| "{}".to_owned(), Node::compact);
    format!("{{\"error\":{error}}}")
}

fn read_error(event: &Node<'_>) -> UpstreamEvent {
    let error = event.get("error").unwrap_or(event);
    let short = |node: &Node<'_>, key: &str| {
        let text = node.get(key).and_then(Node::as_text)?;
        (text.chars().count() <= MAX_CODE_CHARS).then(|| text.to_owned())
    };
    UpstreamEvent::Error {
        event_id: short(error, "event_id"),
        code: short(error, "code").or_else(|| short(error, "type")),
    }
}

fn id_at(node: &Node<'_>, key: &str, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    reference_at(node.need(key, path)?, &path.key(key))
}

fn optional_id(event: &Node<'_>, key: &str) -> Result<Option<Arc<str>>, BoxedError> {
    let id = event.get(key);
    id.map(|id| reference_at(id, &Path::TOP.key(key))).transpose()
}

fn text_of(node: &Node<'_>, key: &str) -> String {
    let text = node.get(key).and_then(Node::as_text);
    text.unwrap_or_default().to_owned()
}
