//! The items of a request, for those who keep conversations.

use bytes::Bytes;
use serde_json::{Value, json};

use super::wire::{self, to_bytes};
use crate::error::{DecodeError, Flaw};
use crate::json::{Kind, MAX_NODES, Path, Reader};
use crate::lossless::{Edit, Span, splice};

/// The items of a request's input that [`validate`](super::validate()) has accepted: a text is a message of the user.
pub fn input_items(body: &[u8]) -> Result<Vec<Value>, DecodeError> {
    #[derive(serde::Deserialize)]
    struct WithInput {
        input: Option<wire::Input>,
    }
    let request: WithInput = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be read: {error}.")))?;
    Ok(match request.input {
        None => Vec::new(),
        Some(wire::Input::Text(text)) => vec![message(&text)],
        Some(wire::Input::Items(items)) => items,
    })
}

fn message(text: &str) -> Value {
    json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
}

/// The same request with these items in front of its input and without `previous_response_id`, whose items they are.
/// Other values keep their bytes. The result has to be validated: a call may be answered that was made before.
pub fn prepend_items(body: &Bytes, items: &[Value]) -> Result<Bytes, DecodeError> {
    let places = Places::read(body)?;
    let mut front = to_bytes(&items);
    // Without its closing bracket.
    front.pop();
    let comma: &[u8] = if items.is_empty() { b"" } else { b"," };
    let input = match places.input {
        None | Some((_, Kind::Null)) => [&*front, b"]"].concat(),
        Some((place, Kind::Array)) => {
            let inner = Span::new(place.start + 1, place.end - 1).of(body);
            let is_empty = inner.iter().all(u8::is_ascii_whitespace);
            [&*front, if is_empty { b"" } else { comma }, inner, b"]"].concat()
        }
        Some((place, _)) => {
            let text: String = serde_json::from_slice(place.of(body)).unwrap_or_default();
            [&*front, comma, &*to_bytes(&message(&text)), b"]"].concat()
        }
    };
    let added = [b"\"input\":", &*input, b","].concat();
    let mut edits = match places.input {
        Some((place, _)) => vec![Edit::replace(place, &input)],
        None => vec![Edit::insert(places.open, &added)],
    };
    if let Some(place) = places.previous {
        edits.push(Edit::replace(place, b"null"));
    }
    edits.sort_by_key(|edit| edit.span.start);
    Ok(splice(b"", body, &edits, b""))
}

#[derive(Default)]
struct Places {
    open: u32,
    input: Option<(Span, Kind)>,
    previous: Option<Span>,
}

impl Places {
    fn read(body: &[u8]) -> Result<Self, Flaw> {
        let mut reader = Reader::new(body, MAX_NODES)?;
        reader.object_at(&Path::TOP)?;
        let mut places = Places {
            open: reader.end(),
            ..Places::default()
        };
        while let Some(key) = reader.key()? {
            let start = reader.place();
            let kind = reader.kind()?;
            reader.skip()?;
            let place = Span::new(start, reader.end());
            match &*key.name {
                "input" => places.input = Some((place, kind)),
                "previous_response_id" => places.previous = Some(place),
                _ => {}
            }
        }
        reader.finish()?;
        Ok(places)
    }
}
