//! Whole answers.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::usage::{read_usage, with_cost};
use super::{json_string, text_of, wrapped};
use crate::error::{DecodeError, Flaw};
use crate::json::{Kind, Reader};
use crate::lossless::{Edit, Span, splice};

/// A whole answer, without its content.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Whether it is an error object.
    pub is_error: bool,
    /// Whether it has a content at all.
    pub has_content: bool,
    /// What it says was consumed.
    pub usage: Option<Usage>,
    /// Bytes of text, reasoning and tool inputs.
    pub output_bytes: u64,
    /// Whose the seals are.
    origin: String,
    open: u32,
    model: Option<Span>,
    usage_place: Option<Span>,
    /// Strings that seal reasoning.
    seals: Vec<Span>,
}

/// Reads a whole answer of an upstream whose seals have this origin. The error is that of a text that is no JSON object.
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
    fn read_content(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
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

    fn read_block(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
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

/// The answer as the caller gets it: its own name for the model, reasoning sealed with its origin, and the cost in the
/// usage, if there is one. `head` is what [`inspect_response`] made of this body.
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
