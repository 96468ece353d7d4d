//! Rewriting of complete responses for the caller.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::usage::{read_usage, with_cost};
use super::{json_string, text_of, wrapped};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};
use crate::lossless::{Edit, Span, splice};

/// Metadata of a complete response, without its content.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Whether the body is an error object.
    pub is_error: bool,
    /// Whether the response has a `content` array.
    pub has_content: bool,
    /// The reported usage; `None` if it is missing or implausible.
    pub usage: Option<Usage>,
    /// Number of bytes of text and reasoning, escapes resolved, and of tool inputs as JSON.
    pub output_bytes: u64,
    /// Origin of the upstream's signatures.
    origin: String,
    open: u32,
    model: Option<Span>,
    usage_place: Option<Span>,
    /// Positions of the signatures and the redacted data, quotes included.
    seals: Vec<Span>,
}

/// Inspects a complete response of an upstream whose signatures have this origin. Fails if the body
/// is not a JSON object.
pub fn inspect_response(body: &[u8], origin: &str) -> Result<ResponseHead, DecodeError> {
    let mut reader = Reader::new(body, u32::MAX)?;
    reader.kind()?;
    reader.begin_object()?;
    let mut head = ResponseHead {
        origin: origin.to_owned(),
        open: reader.end(),
        ..ResponseHead::default()
    };
    while let Some(key) = reader.key()? {
        let start = reader.place();
        match &*key.name {
            "content" if reader.kind()? == Kind::Array => {
                head.has_content = true;
                head.read_content(&mut reader)?;
                continue;
            }
            "type" if reader.kind()? == Kind::String => {
                head.is_error |= reader.string()?.raw == "error";
                continue;
            }
            "error" => head.is_error |= reader.kind()? != Kind::Null,
            _ => {}
        }
        let is_object = reader.kind()? == Kind::Object;
        reader.skip()?;
        let value = Span::new(start, reader.end());
        match &*key.name {
            "model" => head.model = Some(value),
            "usage" if is_object => {
                head.usage_place = Some(value);
                let report: serde_json::Value = serde_json::from_slice(value.of(body)).unwrap_or_default();
                head.usage = read_usage(None, &report);
            }
            _ => {}
        }
    }
    reader.finish()?;
    Ok(head)
}

impl ResponseHead {
    fn read_content(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_array()?;
        while reader.item()? {
            if reader.kind()? != Kind::Object {
                reader.skip()?;
                continue;
            }
            self.read_block(reader)?;
        }
        Ok(())
    }

    fn read_block(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_object()?;
        let (mut kind, mut seal) = (None, None);
        while let Some(key) = reader.key()? {
            let start = reader.place();
            let found = reader.kind()?;
            match (&*key.name, found) {
                ("type", Kind::String) => kind = Some(reader.string()?.decoded()),
                ("text" | "thinking", Kind::String) => self.output_bytes += reader.string()?.len as u64,
                ("signature" | "data", Kind::String) => {
                    reader.string()?;
                    seal = Some(Span::new(start, reader.end()));
                }
                ("input", _) => {
                    reader.skip()?;
                    self.output_bytes += u64::from(reader.end() - start);
                }
                _ => reader.skip()?,
            }
        }
        if matches!(kind.as_deref(), Some("thinking" | "redacted_thinking")) {
            self.seals.extend(seal);
        }
        Ok(())
    }
}

/// Rewrites a response for the caller. Sets the model name from the request, wraps signatures and
/// redacted data with the upstream's origin, and adds the cost to the usage object, if present.
/// `head` must be the result of [`inspect_response`] for this body.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    public_model: &str,
    cost: Option<Credits>,
) -> Bytes {
    let model = json_string(public_model);
    let inserted = [b"\"model\":", &*model, b","].concat();
    let mut changes: Vec<(Span, Vec<u8>)> = head
        .seals
        .iter()
        .map(|place| (*place, wrapped(&head.origin, &text_of(place.of(body)))))
        .collect();
    changes.push(match head.model {
        Some(place) => (place, model),
        None => (Span::at(head.open), inserted),
    });
    if let (Some(place), Some(cost)) = (head.usage_place, cost) {
        changes.push((place, usage_with_cost(place.of(body), cost)));
    }
    changes.sort_by_key(|(place, _)| place.start);
    let edits: Vec<Edit<'_>> = changes
        .iter()
        .map(|(place, with)| Edit::replace(*place, with))
        .collect();
    splice(b"", body, &edits, b"")
}

fn usage_with_cost(usage: &[u8], cost: Credits) -> Vec<u8> {
    let mut usage: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(usage).unwrap_or_default();
    with_cost(&mut usage, Some(cost));
    serde_json::to_vec(&usage).unwrap_or_default()
}
