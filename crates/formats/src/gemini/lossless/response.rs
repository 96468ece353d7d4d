//! Rewriting of complete responses for the caller.

use bytes::Bytes;
use tollgate_types::generate::Seal;
use tollgate_types::{Credits, Usage};

use super::super::answer::is_malformed;
use super::super::seals;
use super::super::usage::{read_usage, with_cost};
use super::{json_string, text_of};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};
use crate::lossless::{Edit, Span, splice};

/// Metadata of a complete response or of a stream event, without its content.
#[derive(Clone, Debug, Default)]
pub struct ResponseHead {
    /// Whether the body is an error object.
    pub is_error: bool,
    /// Whether the prompt was blocked.
    pub is_blocked: bool,
    /// Number of candidates.
    pub candidates: u32,
    /// Bit mask, by index, of the candidates that end in this response or event.
    pub finished: u32,
    /// Bit mask, by index, of the candidates in this response or event.
    pub seen: u32,
    /// Whether a candidate ended because the model failed to generate a valid response.
    pub is_malformed: bool,
    /// Whether a candidate has text, thoughts, a call or inline data.
    pub has_content: bool,
    /// The reported usage; `None` if it is missing or implausible.
    pub usage: Option<Usage>,
    /// Number of bytes of text and thoughts, escapes resolved, and of calls and inline data as
    /// JSON.
    pub output_bytes: u64,
    /// Origin of the upstream's signatures.
    origin: String,
    open: u32,
    model: Option<Span>,
    usage_place: Option<Span>,
    /// Positions of the values of `thoughtSignature`, quotes included.
    seals: Vec<Span>,
}

/// Inspects a complete response, or an event of a stream, of an upstream whose signatures have this
/// origin. Fails if the body is not a JSON object.
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
        let kind = reader.kind()?;
        if (&*key.name, kind) == ("candidates", Kind::Array) {
            head.read_candidates(&mut reader)?;
            continue;
        }
        reader.skip()?;
        let value = Span::new(start, reader.end());
        match (&*key.name, kind) {
            ("error", kind) => head.is_error |= kind != Kind::Null,
            ("modelVersion", _) => head.model = Some(value),
            ("usageMetadata", Kind::Object) => {
                head.usage_place = Some(value);
                let report = serde_json::from_slice(value.of(body)).unwrap_or_default();
                head.usage = read_usage(&report);
            }
            ("promptFeedback", Kind::Object) => {
                let feedback: serde_json::Value = serde_json::from_slice(value.of(body)).unwrap_or_default();
                let reason = feedback.get("blockReason").and_then(serde_json::Value::as_str);
                head.is_blocked = reason.is_some_and(|reason| reason != "BLOCK_REASON_UNSPECIFIED");
            }
            _ => {}
        }
    }
    reader.finish()?;
    Ok(head)
}

impl ResponseHead {
    fn read_candidates(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_array()?;
        while reader.item()? {
            if reader.kind()? != Kind::Object {
                reader.skip()?;
                continue;
            }
            self.read_candidate(reader)?;
            self.candidates += 1;
        }
        Ok(())
    }

    fn read_candidate(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        let (mut index, mut is_finished) = (u64::from(self.candidates), false);
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            match (&*key.name, reader.kind()?) {
                ("content", Kind::Object) => self.read_content(reader)?,
                ("index", Kind::Number) => index = reader.number()?.as_i64().unwrap_or(0).cast_unsigned(),
                ("finishReason", Kind::String) => {
                    let reason = reader.string()?.decoded();
                    is_finished = reason != "FINISH_REASON_UNSPECIFIED";
                    self.is_malformed |= is_malformed(&reason);
                }
                _ => reader.skip()?,
            }
        }
        let bit = 1 << index.min(31);
        self.seen |= bit;
        if is_finished {
            self.finished |= bit;
        }
        Ok(())
    }

    fn read_content(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            if (&*key.name, reader.kind()?) != ("parts", Kind::Array) {
                reader.skip()?;
                continue;
            }
            reader.begin_array()?;
            while reader.item()? {
                match reader.kind()? {
                    Kind::Object => self.read_part(reader)?,
                    _ => reader.skip()?,
                }
            }
        }
        Ok(())
    }

    fn read_part(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            let start = reader.place();
            match (&*key.name, reader.kind()?) {
                ("text", Kind::String) => {
                    let length = reader.string()?.len as u64;
                    self.output_bytes += length;
                    self.has_content |= length > 0;
                }
                ("thoughtSignature", Kind::String) => {
                    if reader.string()?.len > 0 {
                        self.seals.push(Span::new(start, reader.end()));
                    }
                }
                ("functionCall" | "inlineData", Kind::Object) => {
                    reader.skip()?;
                    self.output_bytes += u64::from(reader.end() - start);
                    self.has_content = true;
                }
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    pub(super) fn usage_place(&self) -> Option<Span> {
        self.usage_place
    }
}

/// Rewrites a response for the caller. Sets the model name from the request, wraps signatures with
/// the upstream's origin, and adds the cost to the usage object, if present. The model name is not
/// added to a response without candidates. `head` must be the result of [`inspect_response`] for
/// this body.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    public_model: &str,
    cost: Option<Credits>,
) -> Bytes {
    let model = json_string(public_model);
    let inserted = [b"\"modelVersion\":", &*model, b","].concat();
    let mut changes: Vec<(Span, Vec<u8>)> = head
        .seals
        .iter()
        .map(|place| (*place, wrapped(&head.origin, &text_of(place.of(body)))))
        .collect();
    match head.model {
        Some(place) => changes.push((place, model)),
        // The inserted text ends with a comma, which would be invalid in an empty object.
        None if head.candidates > 0 => changes.push((Span::at(head.open), inserted)),
        None => {}
    }
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

/// Returns the signature, wrapped for a caller, as a JSON string.
fn wrapped(origin: &str, data: &str) -> Vec<u8> {
    json_string(&seals::wrap(&Seal {
        origin: origin.to_owned(),
        data: data.to_owned(),
    }))
}

pub(super) fn usage_with_cost(usage: &[u8], cost: Credits) -> Vec<u8> {
    let mut usage: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(usage).unwrap_or_default();
    with_cost(&mut usage, Some(cost));
    serde_json::to_vec(&usage).unwrap_or_default()
}
