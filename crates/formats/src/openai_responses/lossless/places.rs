//! Positions of values in a response object and in its items.

use std::borrow::Cow;

use serde_json::Value;
use tollgate_types::{Credits, Usage};

use super::super::identity::Identity;
use super::super::usage::{encode_usage, read_usage, with_cost};
use super::json_string;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};
use crate::lossless::Span;

/// Positions in a response object, without its content.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectPlaces {
    /// Position just after the opening brace.
    open: u32,
    id: Option<Span>,
    model: Option<Span>,
    store: Option<Span>,
    background: Option<Span>,
    previous: Option<Span>,
    usage: Option<Span>,
    /// Positions of the encrypted content of reasoning, quotes included.
    pub(super) seals: Vec<Span>,
    pub(super) has_output: bool,
    /// Whether the status is `failed` or `cancelled`, or the response has an error.
    pub(super) has_failed: bool,
    /// Number of bytes of text, refusals, reasoning and tool arguments, with escapes resolved.
    pub(super) output_bytes: u64,
}

impl ObjectPlaces {
    /// Returns the position of the value of `store`.
    pub(super) fn store(&self) -> Option<Span> {
        self.store
    }

    /// Reads the object under the cursor. Refuses an empty object: it is not a response, and an
    /// insertion into it would leave a trailing comma.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, BoxedError> {
        reader.begin_object()?;
        let mut is_empty = true;
        let mut places = ObjectPlaces {
            open: reader.end(),
            ..ObjectPlaces::default()
        };
        while let Some(key) = reader.key()? {
            is_empty = false;
            let start = reader.place();
            let kind = reader.kind()?;
            match (&*key.name, kind) {
                ("output", Kind::Array) => {
                    places.has_output = true;
                    reader.begin_array()?;
                    while reader.item()? {
                        let item = Item::read(reader)?;
                        places.output_bytes += item.output_bytes;
                        places.seals.extend(item.seal);
                    }
                    continue;
                }
                ("status", Kind::String) => {
                    let status = reader.string()?.decoded();
                    places.has_failed |= matches!(&*status, "failed" | "cancelled");
                    continue;
                }
                ("error", kind) => places.has_failed |= kind != Kind::Null,
                _ => {}
            }
            reader.skip()?;
            let value = Some(Span::new(start, reader.end()));
            match &*key.name {
                "id" => places.id = value,
                "model" => places.model = value,
                "store" => places.store = value,
                "background" => places.background = value,
                "previous_response_id" => places.previous = value,
                "usage" => places.usage = value,
                _ => {}
            }
        }
        match is_empty {
            true => Err(DecodeError::missing("id").into()),
            false => Ok(places),
        }
    }

    /// Returns the reported usage; `None` if it is missing or implausible.
    pub(super) fn usage(&self, body: &[u8]) -> Option<Usage> {
        let report: Value = serde_json::from_slice(self.usage?.of(body)).ok()?;
        read_usage(&report)
    }

    /// Returns the edits that replace or add the gateway's own members of the response.
    pub(super) fn edits(&self, identity: &Identity) -> Vec<(Span, Vec<u8>)> {
        let previous = identity.previous_response_id.as_deref();
        let members = [
            ("id", self.id, json_string(&identity.id())),
            ("model", self.model, json_string(&identity.model)),
            ("store", self.store, identity.store.to_string().into_bytes()),
            (
                "previous_response_id",
                self.previous,
                previous.map_or_else(|| b"null".to_vec(), json_string),
            ),
        ];
        let mut edits: Vec<_> = members
            .into_iter()
            .map(|(name, place, value)| self.edit(name, place, value))
            .collect();
        // llama.cpp omits `output` at the start of a stream, but clients append to it.
        if !self.has_output {
            edits.push(self.edit("output", None, b"[]".to_vec()));
        }
        if self.background.is_some() || identity.background {
            let value = identity.background.to_string().into_bytes();
            edits.push(self.edit("background", self.background, value));
        }
        edits
    }

    /// Returns the edit that adds the cost to the usage report, or writes the counted usage if the
    /// report is missing.
    pub(super) fn usage_edit(&self, body: &[u8], counted: &Usage, cost: Credits) -> (Span, Vec<u8>) {
        let report = self
            .usage
            .and_then(|place| serde_json::from_slice(place.of(body)).ok());
        let report = match report {
            Some(Value::Object(mut report)) => {
                with_cost(&mut report, Some(cost));
                Value::Object(report)
            }
            _ => encode_usage(counted, Some(cost)),
        };
        self.edit("usage", self.usage, report.to_string().into_bytes())
    }

    fn edit(&self, name: &str, place: Option<Span>, value: Vec<u8>) -> (Span, Vec<u8>) {
        match place {
            Some(place) => (place, value),
            None => (
                Span::at(self.open),
                [&*json_string(name), b":", &*value, b","].concat(),
            ),
        }
    }
}

/// Properties of an output item, without its content.
#[derive(Clone, Debug, Default)]
pub(super) struct Item<'a> {
    pub(super) kind: Cow<'a, str>,
    /// Value of `id`; for a call without an id, its `call_id`.
    pub(super) id: Cow<'a, str>,
    /// Position of `encrypted_content` with its quotes, if the item is reasoning.
    pub(super) seal: Option<Span>,
    /// Number of bytes of text, refusals, reasoning and tool arguments, with escapes resolved.
    pub(super) output_bytes: u64,
}

impl<'a> Item<'a> {
    /// Reads the value under the cursor. Any value other than an object yields an empty item.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, BoxedError> {
        let mut item = Item::default();
        if reader.kind()? != Kind::Object {
            reader.skip()?;
            return Ok(item);
        }
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            let start = reader.place();
            match (&*key.name, reader.kind()?) {
                ("type", Kind::String) => item.kind = reader.string()?.decoded(),
                ("id", Kind::String) => item.id = reader.string()?.decoded(),
                ("call_id", Kind::String) if item.id.is_empty() => item.id = reader.string()?.decoded(),
                ("encrypted_content", Kind::String) => {
                    reader.string()?;
                    item.seal = Some(Span::new(start, reader.end()));
                }
                ("arguments" | "input", Kind::String) => {
                    item.output_bytes += reader.string()?.len as u64;
                }
                ("content" | "summary", Kind::Array) => {
                    reader.begin_array()?;
                    while reader.item()? {
                        item.output_bytes += part_bytes(reader)?;
                    }
                }
                _ => reader.skip()?,
            }
        }
        item.seal = item.seal.filter(|_| item.kind == "reasoning");
        Ok(item)
    }
}

fn part_bytes(reader: &mut Reader<'_>) -> Result<u64, BoxedError> {
    if reader.kind()? != Kind::Object {
        reader.skip()?;
        return Ok(0);
    }
    let mut bytes = 0;
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        match (&*key.name, reader.kind()?) {
            ("text" | "refusal", Kind::String) => bytes += reader.string()?.len as u64,
            _ => reader.skip()?,
        }
    }
    Ok(bytes)
}
