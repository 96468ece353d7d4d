//! Input items of a request, for code that stores conversations.

use bytes::Bytes;
use serde_json::{Value, json};

use super::identity::item_id;
use super::wire::{self, to_bytes};
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Path, Reader};
use crate::lossless::{Edit, Span, splice};

/// Returns the input items of a request that [`validate`](super::validate()) accepted. A text is
/// converted to a user message.
pub fn input_items(body: &[u8]) -> Result<Vec<Value>, DecodeError> {
    #[derive(serde::Deserialize)]
    struct WithInput {
        input: Option<wire::Input>,
    }
    let request: WithInput = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    Ok(match request.input {
        None => Vec::new(),
        Some(wire::Input::Text(text)) => vec![message(&text)],
        Some(wire::Input::Items(items)) => items,
    })
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// Replaces the input of a request with these items and sets `previous_response_id` to null. For a
/// request that continues a response, `items` contains the earlier items, then those of the
/// request. Other values are unchanged, byte for byte.
pub fn with_items(body: &Bytes, items: &[Value]) -> Result<Bytes, DecodeError> {
    let places = Places::read(body)?;
    let input = to_bytes(&items);
    let added = [b"\"input\":", &*input, b","].concat();
    let mut edits = match places.input {
        Some(place) => vec![Edit::replace(place, &input)],
        None => vec![Edit::insert(places.open, &added)],
    };
    if let Some(place) = places.previous {
        edits.push(Edit::replace(place, b"null"));
    }
    edits.sort_by_key(|edit| edit.span.start);
    Ok(splice(b"", body, &edits, b""))
}

/// Converts an input item to its form in lists of items: adds the type and the id if they are
/// missing, and converts a text to a part. A new id is derived from `response` and from `index`,
/// the index of the item in the input.
pub fn listed_item(mut item: Value, response: u128, index: usize) -> Value {
    let Some(members) = item.as_object_mut() else {
        return item;
    };
    let kind = members.entry("type").or_insert_with(|| "message".into());
    let prefix = match kind.as_str() {
        Some("function_call") => "fc",
        Some("function_call_output") => "fco",
        Some("reasoning") => "rs",
        Some("custom_tool_call") => "ctc",
        Some("custom_tool_call_output") => "ctco",
        _ => "msg",
    };
    if members.get("id").is_none_or(Value::is_null) {
        members.insert("id".to_owned(), item_id(response, prefix, INPUT + index).into());
    }
    if let Some(Value::String(text)) = members.get("content") {
        let kind = if members.get("role").is_some_and(|role| role == "assistant") {
            "output_text"
        } else {
            "input_text"
        };
        let content = json!([{"type": kind, "text": text}]);
        members.insert("content".to_owned(), content);
    }
    item
}

/// Returns a developer message, which the gateway adds to the conversation.
pub fn developer_message(text: &str) -> Value {
    json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": text}]})
}

/// Offset of the indices of input items, so that their ids differ from those of output items.
const INPUT: usize = 1 << 32;

#[derive(Default)]
struct Places {
    open: u32,
    input: Option<Span>,
    previous: Option<Span>,
}

impl Places {
    fn read(body: &[u8]) -> Result<Self, BoxedError> {
        let mut reader = Reader::new(body, MAX_NODES)?;
        reader.object_at(&Path::TOP)?;
        let mut places = Places {
            open: reader.end(),
            ..Places::default()
        };
        while let Some(key) = reader.key()? {
            let start = reader.place();
            reader.kind()?;
            reader.skip()?;
            let place = Span::new(start, reader.end());
            match &*key.name {
                "input" => places.input = Some(place),
                "previous_response_id" => places.previous = Some(place),
                _ => {}
            }
        }
        reader.finish()?;
        Ok(places)
    }
}
