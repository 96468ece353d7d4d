//! Answers of an upstream of the same format.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::head::Encoding;
use super::usage::{self, EmbedReport};
use super::vector;
use crate::error::{DecodeError, Flaw};
use crate::json::{Kind, Reader, write_string};
use crate::lossless::{Edit, Span, splice};

/// An answer of an upstream, without its vectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseHead {
    /// How many vectors it has.
    pub vectors: u32,
    /// How they are written; `None` when there is none, or when they are not all written in one way.
    pub encoding: Option<Encoding>,
    /// What it says was consumed.
    pub report: EmbedReport,
    /// Bytes of the vectors on the wire.
    pub output_bytes: u64,
    /// Whether it is an error object in the guise of an answer.
    pub is_error: bool,
    model: Option<Span>,
    usage: Option<Span>,
    /// Just after the opening brace.
    open: u32,
    empty: bool,
}

/// Reads an answer. The error is that of a text that is not a JSON object; what is merely odd is passed over.
pub fn inspect_response(body: &[u8]) -> Result<ResponseHead, DecodeError> {
    let mut reader = Reader::new(body, u32::MAX)?;
    reader.kind()?;
    reader.begin_object()?;
    let mut head = ResponseHead {
        open: reader.end(),
        empty: true,
        ..ResponseHead::default()
    };
    while let Some(key) = reader.key()? {
        head.empty = false;
        let start = reader.place();
        match &*key.name {
            "model" => {
                reader.skip()?;
                head.model = Some(Span::new(start, reader.end()));
            }
            "data" => read_data(&mut reader, &mut head)?,
            "usage" => {
                head.report = EmbedReport::read(&mut reader)?;
                head.usage = Some(Span::new(start, reader.end()));
            }
            "error" => {
                head.is_error = reader.kind()? != Kind::Null;
                reader.skip()?;
            }
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    Ok(head)
}

fn read_data(reader: &mut Reader<'_>, head: &mut ResponseHead) -> Result<(), Flaw> {
    if reader.kind()? != Kind::Array {
        return reader.skip();
    }
    let (mut vectors, mut encoding, mut odd) = (0, None, false);
    reader.begin_array()?;
    while reader.item()? {
        vectors += 1;
        match read_item(reader)? {
            Some(seen) if encoding.is_none_or(|known| known == seen.encoding) => {
                encoding = Some(seen.encoding);
                head.output_bytes += seen.bytes;
            }
            _ => odd = true,
        }
    }
    head.vectors = vectors;
    head.encoding = encoding.filter(|_| !odd);
    Ok(())
}

fn read_item(reader: &mut Reader<'_>) -> Result<Option<vector::Seen>, Flaw> {
    let mut seen = None;
    if reader.kind()? != Kind::Object {
        reader.skip()?;
        return Ok(None);
    }
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name {
            "embedding" => seen = vector::pass(reader)?,
            _ => reader.skip()?,
        }
    }
    Ok(seen)
}

/// The answer as the caller gets it: `model` as the caller named it, and in `usage` the cost to the caller in place of
/// any cost that the upstream named. An answer without a usage that can be read gets one, of what is charged. `head` is
/// what [`inspect_response`] made of this body.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    public_model: &str,
    charged: &Usage,
    cost: Credits,
) -> Result<Bytes, DecodeError> {
    let mut named = Vec::with_capacity(public_model.len() + 2);
    write_string(&mut named, public_model);
    let own = || {
        let mut object = Vec::with_capacity(64);
        usage::write(&mut object, charged, cost);
        object
    };
    let reported = match head.usage {
        Some(place) if head.report.usage.is_some() => usage::with_cost(place.of(body), cost)?,
        _ => own(),
    };
    let mut missing = Vec::new();
    for (name, place, value) in [("model", head.model, &named), ("usage", head.usage, &reported)] {
        if place.is_none() {
            write_string(&mut missing, name);
            missing.push(b':');
            missing.extend_from_slice(value);
            missing.push(b',');
        }
    }
    if head.empty {
        missing.pop();
    }
    let mut edits = vec![Edit::insert(head.open, &missing)];
    edits.extend(head.model.map(|place| Edit::replace(place, &named)));
    edits.extend(head.usage.map(|place| Edit::replace(place, &reported)));
    edits.sort_by_key(|edit| edit.span.start);
    Ok(splice(b"", body, &edits, b""))
}
