//! Decoding of the guidance for a question: a text, parts of text, or any object or array, which is
//! shown as JSON (System One: "a JSON object or array of structured guidance").
//!
//! Markers stay unchanged: a question may refer to the media of its state.

use crate::error::BoxedError;
use crate::json::{Node, Path};

const TEXTS: &[&str] = &["text", "input_text"];
const MEDIA: &[&str] = &[
    "input_image",
    "image_url",
    "input_audio",
    "audio_url",
    "input_video",
    "video_url",
];

/// Reads guidance that must not be empty.
pub(super) fn required(node: &Node<'_>, path: &Path<'_>) -> Result<String, BoxedError> {
    optional(node, path)?.ok_or_else(|| path.invalid("must not be empty"))
}

/// Reads optional guidance; `None` if it is empty.
pub(super) fn optional(node: &Node<'_>, path: &Path<'_>) -> Result<Option<String>, BoxedError> {
    let text = match node {
        Node::Null => return Ok(None),
        Node::Text(text) => text.clone().into_owned(),
        Node::List(items) if items.is_empty() => return Ok(None),
        Node::Object(members) if members.is_empty() => return Ok(None),
        Node::List(items) => match parts(items, path)? {
            Some(parts) => parts.join("\n"),
            None => node.pretty(),
        },
        Node::Object(_) => part(node, path)?.unwrap_or_else(|| node.pretty()),
        Node::Bool(_) | Node::Number(_) => {
            return Err(path.invalid("must be a string, an object or an array"));
        }
    };
    Ok((!text.trim().is_empty()).then_some(text))
}

/// Returns the texts of a list that consists only of text parts; otherwise `None`.
fn parts(items: &[Node<'_>], path: &Path<'_>) -> Result<Option<Vec<String>>, BoxedError> {
    let parts = items
        .iter()
        .enumerate()
        .map(|(place, item)| part(item, &path.index(place as u32)));
    parts.collect()
}

/// Returns the text of a text part; `None` if the value is not a text part.
fn part(node: &Node<'_>, path: &Path<'_>) -> Result<Option<String>, BoxedError> {
    let Some(kind) = node.get("type").and_then(Node::as_text) else {
        return Ok(None);
    };
    if MEDIA.contains(&kind) {
        let why = "is media; move it to the state and use its marker in the question, as in '[image 1]'";
        return Err(path.unsupported(why));
    }
    Ok(match kind {
        "input_json" => node.get("data").map(Node::pretty),
        kind if TEXTS.contains(&kind) => node.get("text").and_then(Node::as_text).map(str::to_owned),
        _ => None,
    })
}
