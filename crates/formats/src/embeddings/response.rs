//! Inspection and rewriting of the responses of an upstream with the same format.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::head::Encoding;
use super::usage::{self, EmbedReport};
use super::vector;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader, write_string};
use crate::lossless::{Edit, Span, splice};

/// Metadata of a response, without its vectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseHead {
    /// Number of items in `data`.
    pub vectors: u32,
    /// Encoding of the vectors; `None` without vectors, if the encodings differ, or if an item is
    /// not a vector.
    pub encoding: Option<Encoding>,
    /// Number of dimensions of each vector; `None` if [`encoding`](Self::encoding) is `None` or if
    /// the numbers differ.
    pub dimensions: Option<u32>,
    /// Reported usage of the call.
    pub report: EmbedReport,
    /// Number of bytes of the vectors on the wire.
    pub output_bytes: u64,
    /// Whether the body is an error object, despite a success status.
    pub is_error: bool,
    model: Option<Span>,
    usage: Option<Span>,
    /// Position just after the opening brace.
    open: u32,
    empty: bool,
}

/// Inspects a response. Fails only if the body is not a JSON object; members with invalid values
/// are not errors.
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

fn read_data(reader: &mut Reader<'_>, head: &mut ResponseHead) -> Result<(), BoxedError> {
    if reader.kind()? != Kind::Array {
        return reader.skip();
    }
    let (mut vectors, mut encoding, mut odd) = (0, None, false);
    let (mut dimensions, mut uneven) = (None, false);
    reader.begin_array()?;
    while reader.item()? {
        vectors += 1;
        match read_item(reader)? {
            Some(info) if encoding.is_none_or(|known| known == info.encoding) => {
                encoding = Some(info.encoding);
                uneven |= dimensions.is_some_and(|known| known != info.dimensions);
                dimensions = Some(info.dimensions);
                head.output_bytes += info.bytes;
            }
            _ => odd = true,
        }
    }
    head.vectors = vectors;
    head.encoding = encoding.filter(|_| !odd);
    head.dimensions = dimensions.filter(|_| !odd && !uneven);
    Ok(())
}

fn read_item(reader: &mut Reader<'_>) -> Result<Option<vector::VectorInfo>, BoxedError> {
    let mut info = None;
    if reader.kind()? != Kind::Object {
        reader.skip()?;
        return Ok(None);
    }
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name {
            "embedding" => info = vector::inspect(reader)?,
            _ => reader.skip()?,
        }
    }
    Ok(info)
}

/// Rewrites a response for the caller. Sets `model` to the name from the request, and replaces any
/// upstream cost in `usage` with the caller's cost. A missing or implausible usage is replaced with
/// the charged usage. `head` must be the result of [`inspect_response`] for this body.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    public_model: &str,
    charged: &Usage,
    cost: Credits,
) -> Result<Bytes, DecodeError> {
    let mut named = Vec::with_capacity(public_model.len() + 2);
    write_string(&mut named, public_model);
    let counted_usage = || {
        let mut object = Vec::with_capacity(64);
        usage::write(&mut object, charged, cost);
        object
    };
    let reported = match head.usage {
        Some(place) if head.report.usage.is_some() => usage::with_cost(place.of(body), cost)?,
        _ => counted_usage(),
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
