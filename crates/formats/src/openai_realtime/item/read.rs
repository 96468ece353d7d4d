//! Reading of items from a client.

use std::sync::Arc;

use bytes::Bytes;

use super::super::audio::decode_audio;
use super::super::fields::{id_at, name_at, reference_at, text_at};
use super::{ContentPart, Item, ItemKind, Role};
use crate::error::BoxedError;
use crate::json::{Node, Path};

const SHARED_KEYS: &[&str] = &["id", "object", "type", "status"];
const MESSAGE_KEYS: &[&str] = &["role", "content"];
const CALL_KEYS: &[&str] = &["call_id", "name", "arguments"];
const OUTPUT_KEYS: &[&str] = &["call_id", "output"];

const MAX_NAME_CHARS: usize = 256;

/// Reads an item of either dialect.
pub(in super::super) fn read_item(node: &Node<'_>, path: &Path<'_>) -> Result<Item, BoxedError> {
    node.check_keys(&[SHARED_KEYS, MESSAGE_KEYS, CALL_KEYS, OUTPUT_KEYS], path)?;
    let kinds = ["message", "function_call", "function_call_output"];
    let kind = node.need("type", path)?;
    refuse_mcp(kind, &path.key("type"))?;
    let kind = kind.word_at(&kinds, &path.key("type"))?;
    let keys = match kind {
        "message" => MESSAGE_KEYS,
        "function_call" => CALL_KEYS,
        _ => OUTPUT_KEYS,
    };
    node.check_keys(&[SHARED_KEYS, keys], path)?;
    check_constants(node, path)?;
    let id = node.get("id").map(|id| id_at(id, &path.key("id"))).transpose()?;
    let kind = match kind {
        "message" => read_message(node, path)?,
        "function_call" => ItemKind::FunctionCall {
            call_id: node
                .get("call_id")
                .map(|id| reference_at(id, &path.key("call_id")))
                .transpose()?,
            name: name_at(node.need("name", path)?, MAX_NAME_CHARS, &path.key("name"))?,
            arguments: text_at(node.need("arguments", path)?, &path.key("arguments"))?,
        },
        _ => ItemKind::FunctionCallOutput {
            call_id: reference_at(node.need("call_id", path)?, &path.key("call_id"))?,
            output: text_at(node.need("output", path)?, &path.key("output"))?,
        },
    };
    Ok(Item { id, kind })
}

/// Reads the required id of an item that an event refers to.
pub(in super::super) fn read_item_id(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    reference_at(node.need("item_id", path)?, &path.key("item_id"))
}

/// Reads an `item_reference`; `None` if the value has another type.
pub(in super::super) fn read_reference(
    node: &Node<'_>,
    path: &Path<'_>,
) -> Result<Option<Arc<str>>, BoxedError> {
    if node.get("type").and_then(Node::as_text) != Some("item_reference") {
        return Ok(None);
    }
    node.check_keys(&[&["type", "id"]], path)?;
    reference_at(node.need("id", path)?, &path.key("id")).map(Some)
}

fn refuse_mcp(kind: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match kind.as_text() {
        Some(name) if name.starts_with("mcp_") => {
            Err(path.unsupported("names an item of an MCP tool, but sessions support function tools alone"))
        }
        _ => Ok(()),
    }
}

/// Checks the members that have no effect: `object` and `status`.
fn check_constants(node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    if let Some(object) = node.get("object") {
        object.word_at(&["realtime.item"], &path.key("object"))?;
    }
    if let Some(status) = node.get("status") {
        status.word_at(&["completed", "incomplete", "in_progress"], &path.key("status"))?;
    }
    Ok(())
}

fn read_message(node: &Node<'_>, path: &Path<'_>) -> Result<ItemKind, BoxedError> {
    let role = Role::read(node.need("role", path)?, &path.key("role"))?;
    let content = node.need("content", path)?;
    let path = path.key("content");
    let parts = content.list_at(&path)?.iter().zip(0..);
    let content: Result<Vec<_>, BoxedError> = parts
        .map(|(part, place)| ContentPart::read(part, role, &path.index(place)))
        .collect();
    Ok(ItemKind::Message {
        role,
        content: content?,
    })
}

impl Role {
    fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        Ok(match node.word_at(&["user", "assistant", "system"], path)? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => Role::System,
        })
    }

    /// Returns the types of the parts that a message of this role can have, in both dialects.
    const fn part_types(self) -> &'static [&'static str] {
        match self {
            Role::User => &["input_text", "input_audio", "input_image"],
            Role::Assistant => &["output_text", "output_audio", "text", "audio"],
            Role::System => &["input_text"],
        }
    }
}

impl ContentPart {
    fn read(node: &Node<'_>, role: Role, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.object_at(path)?;
        let kind = node.need("type", path)?;
        let kind = kind.word_at(role.part_types(), &path.key("type"))?;
        let keys: &[&str] = match kind {
            "input_text" | "output_text" | "text" => &["type", "text"],
            "input_image" => &["type", "image_url", "detail"],
            _ => &["type", "audio", "transcript"],
        };
        node.check_keys(&[keys], path)?;
        match kind {
            "input_text" => Ok(ContentPart::InputText {
                text: text_at(node.need("text", path)?, &path.key("text"))?,
            }),
            "output_text" | "text" => Ok(ContentPart::OutputText {
                text: text_at(node.need("text", path)?, &path.key("text"))?,
            }),
            "input_image" => Self::read_image(node, path),
            "input_audio" => Ok(ContentPart::InputAudio {
                audio: read_audio(node, path)?,
                transcript: read_transcript(node, path)?,
            }),
            _ => Ok(ContentPart::OutputAudio {
                audio: read_audio(node, path)?,
                transcript: read_transcript(node, path)?,
            }),
        }
    }

    fn read_image(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        let image_url = node.need("image_url", path)?;
        let detail = node.get("detail");
        Ok(ContentPart::InputImage {
            image_url: Arc::from(image_url.non_empty_at(&path.key("image_url"))?),
            detail: detail
                .map(|detail| detail.word_at(&["auto", "low", "high"], &path.key("detail")))
                .transpose()?,
        })
    }
}

fn read_audio(node: &Node<'_>, path: &Path<'_>) -> Result<Bytes, BoxedError> {
    let Some(audio) = node.get("audio") else {
        return Ok(Bytes::new());
    };
    let path = path.key("audio");
    decode_audio(audio.text_at(&path)?, &path)
}

fn read_transcript(node: &Node<'_>, path: &Path<'_>) -> Result<Option<Arc<str>>, BoxedError> {
    let transcript = node.get("transcript");
    transcript
        .map(|text| text_at(text, &path.key("transcript")))
        .transpose()
}
