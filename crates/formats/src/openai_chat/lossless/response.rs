//! Rewriting of complete responses for the caller.

use bytes::Bytes;
use tollgate_types::{Credits, Usage};

use super::super::usage::{UsageReport, encode_usage};
use super::output::Output;
use super::usage_object::UsagePlace;
use crate::error::DecodeError;
use crate::json::{Kind, Reader, write_string};
use crate::lossless::{Edit, Span, splice};

/// Metadata of a complete response of an upstream, without its content.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead {
    /// Number of choices; zero if the body is not a response.
    pub choices: u32,
    /// Number of choices that ended at the output token limit.
    pub capped: u32,
    /// Usage report of the response.
    pub report: UsageReport,
    /// Number of bytes of text, reasoning, refusals, audio transcripts and tool arguments, with
    /// escapes resolved.
    pub output_bytes: u64,
    /// Whether the choices have text, but none of them has token probabilities.
    pub lacks_logprobs: bool,
    /// Whether the body is an error object, despite a success status.
    pub is_error: bool,
    model: Option<Span>,
    usage: Option<UsagePlace>,
    /// Position just after the opening brace.
    open: u32,
    /// Position just after the last value, or after the opening brace.
    last: u32,
    empty: bool,
}

/// Inspects a complete response. Fails only if the body is not a JSON object; invalid members are
/// ignored.
pub fn inspect_response(body: &[u8]) -> Result<ResponseHead, DecodeError> {
    let mut reader = Reader::new(body, u32::MAX)?;
    reader.kind()?;
    reader.begin_object()?;
    let mut head = ResponseHead {
        choices: 0,
        capped: 0,
        report: UsageReport::default(),
        output_bytes: 0,
        lacks_logprobs: false,
        is_error: false,
        model: None,
        usage: None,
        open: reader.end(),
        last: reader.end(),
        empty: true,
    };
    while let Some(key) = reader.key()? {
        head.empty = false;
        let start = reader.place();
        match &*key.name {
            "model" => {
                reader.skip()?;
                head.model = Some(Span::new(start, reader.end()));
            }
            "choices" => {
                let output = Output::read(&mut reader)?;
                head.choices = output.choices;
                head.capped = output.capped;
                head.output_bytes = output.bytes;
                head.lacks_logprobs = output.lacks_logprobs();
            }
            "usage" => {
                let (place, report) = UsagePlace::read(&mut reader, key.start)?;
                head.usage = Some(place);
                head.report = report;
            }
            "error" => {
                head.is_error = reader.kind()? != Kind::Null;
                reader.skip()?;
            }
            _ => reader.skip()?,
        }
        head.last = reader.end();
    }
    reader.finish()?;
    Ok(head)
}

/// Rewrites a response for the caller. Sets `model` to the name from the request, and removes the
/// upstream's cost from `usage`. `charged` contains the usage and the cost of the call: the cost is
/// added to `usage`, and if the response has no usage object, the usage is added, too. `head` must
/// be the result of [`inspect_response`] for this body.
pub fn splice_response(
    body: &Bytes,
    head: &ResponseHead,
    public_model: &str,
    charged: Option<(&Usage, Credits)>,
) -> Bytes {
    let mut model = Vec::with_capacity(public_model.len() + 16);
    let mut edits = Vec::with_capacity(2);
    if head.model.is_none() {
        model.extend_from_slice(b"\"model\":");
    }
    write_string(&mut model, public_model);
    match head.model {
        Some(place) if place.of(body) == model => {}
        Some(place) => edits.push(Edit::replace(place, &model)),
        None => {
            if !head.empty {
                model.push(b',');
            }
            edits.push(Edit::insert(head.open, &model));
        }
    }
    let reported = head.usage.filter(|usage| usage.is_object);
    let usage = match (reported, charged) {
        (None, Some((counted, cost))) => {
            let value = encode_usage(counted, Some(cost));
            Some(match head.usage {
                Some(place) => (place.value, value.to_string().into_bytes()),
                None => (Span::at(head.last), format!(",\"usage\":{value}").into_bytes()),
            })
        }
        (reported, charged) => reported.and_then(|place| place.change(body, charged.map(|(_, cost)| cost))),
    };
    if let Some((place, with)) = &usage {
        edits.push(Edit::replace(*place, with));
    }
    if edits.is_empty() {
        return body.clone();
    }
    edits.sort_by_key(|edit| edit.span.start);
    splice(b"", body, &edits, b"")
}
