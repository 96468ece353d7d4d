//! Rewriting of the events of a streamed response. This is a hot path: it runs for every event.

use bytes::Bytes;
use tollgate_types::Credits;

use super::super::usage::UsageReport;
use super::output::Output;
use super::usage_object::UsagePlace;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader, write_string};
use crate::lossless::{Edit, Span, field_with_comma, splice};
use crate::sse;

/// Role of an event in a streamed response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Framing: a role, an empty delta, or no choices.
    Preamble,
    /// Content of a choice.
    Content,
    /// The finish reason of a choice, possibly with its last content.
    Finish,
    /// Usage report, without choices.
    Usage,
    /// An error object: the upstream failed.
    Error,
    /// End marker `[DONE]`.
    Done,
}

/// Metadata of one event of a streamed response, without its content.
#[derive(Clone, Copy, Debug)]
pub struct EventHead {
    /// Role of the event in the stream.
    pub kind: EventKind,
    /// Cumulative usage report of this event. Events of any kind may have one.
    pub report: UsageReport,
    /// Number of bytes of text, reasoning, refusals, audio transcripts and tool arguments, with
    /// escapes resolved.
    pub output_bytes: u64,
    model: Option<Span>,
    usage: Option<UsagePlace>,
    open: u32,
    /// Number of keys in the object.
    keys: u32,
}

/// Inspects the data of one event. Fails if it is neither `[DONE]` nor a JSON object.
pub fn inspect_event(data: &[u8]) -> Result<EventHead, DecodeError> {
    let mut head = EventHead {
        kind: EventKind::Done,
        report: UsageReport::default(),
        output_bytes: 0,
        model: None,
        usage: None,
        open: 0,
        keys: 0,
    };
    if data.trim_ascii() == sse::DONE {
        return Ok(head);
    }
    let mut reader = Reader::new(data, u32::MAX)?;
    reader.kind()?;
    reader.begin_object()?;
    head.open = reader.end();
    let mut output = Output::default();
    let mut is_error = false;
    while let Some(key) = reader.key()? {
        head.keys += 1;
        match &*key.name {
            "choices" => output = Output::read(&mut reader)?,
            "model" => {
                let start = reader.place();
                reader.skip()?;
                head.model = Some(Span::new(start, reader.end()));
            }
            "usage" => {
                let (place, report) = UsagePlace::read(&mut reader, key.start)?;
                head.usage = Some(place);
                head.take_report(report);
            }
            "x_groq" => read_groq(&mut reader, &mut head)?,
            "error" => {
                is_error |= reader.kind()? != Kind::Null;
                reader.skip()?;
            }
            "object" => {
                is_error |= reader.kind()? == Kind::String && reader.string()?.raw == "error";
            }
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    head.output_bytes = output.bytes;
    let has_report = head.report != UsageReport::default();
    head.kind = match output {
        _ if is_error => EventKind::Error,
        Output { finished: true, .. } => EventKind::Finish,
        Output { content: true, .. } => EventKind::Content,
        Output { choices: 0, .. } if has_report => EventKind::Usage,
        _ => EventKind::Preamble,
    };
    Ok(head)
}

impl EventHead {
    fn take_report(&mut self, report: UsageReport) {
        if report.usage.is_some() || self.report.usage.is_none() {
            self.report = UsageReport {
                usage: report.usage.or(self.report.usage),
                implausible: report.implausible || self.report.implausible,
            };
        }
    }
}

/// Reads Groq's field `x_groq`, which has the usage of streams without `include_usage`.
fn read_groq(reader: &mut Reader<'_>, head: &mut EventHead) -> Result<(), BoxedError> {
    if reader.kind()? != Kind::Object {
        return reader.skip();
    }
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        if key.name == "usage" && head.report.usage.is_none() {
            let (_, report) = UsagePlace::read(reader, key.start)?;
            head.take_report(report);
        } else {
            reader.skip()?;
        }
    }
    Ok(())
}

/// Changes to the events of one stream.
#[derive(Clone, Debug)]
pub struct EventEdits {
    model: Box<[u8]>,
    model_field: Box<[u8]>,
    include_usage: bool,
}

impl EventEdits {
    /// Creates the edits. `public_model` is the model name from the request.
    pub fn new(public_model: &str, include_usage: bool) -> Self {
        let mut model = Vec::new();
        write_string(&mut model, public_model);
        Self {
            model_field: [b"\"model\":", &*model].concat().into(),
            model: model.into(),
            include_usage,
        }
    }
}

/// Rewrites an event for the caller as one chunk, `data: …` and a blank line. Sets the model name
/// from the request. If the caller requested usage, retains the upstream's `usage`, with `cost`
/// instead of the upstream's cost; otherwise removes `usage`. An event with `raw` bytes that needs
/// no changes is not copied.
///
/// Returns `None` if the caller must not receive the event: usage that the caller did not request,
/// and errors, because their text is that of the upstream. `head` must be the result of
/// [`inspect_event`] for `event.data`.
pub fn splice_event(
    event: &sse::Event,
    head: &EventHead,
    edits: &EventEdits,
    cost: Option<Credits>,
) -> Option<Bytes> {
    match head.kind {
        EventKind::Done => return Some(Bytes::from_static(sse::DONE_EVENT)),
        EventKind::Error => return None,
        EventKind::Usage if !edits.include_usage => return None,
        _ => {}
    }
    let data = &event.data;
    let model = model_edit(data, head, edits);
    let change = head.usage.filter(|_| edits.include_usage);
    let change = change.and_then(|usage| usage.change(data, cost));
    let usage = match (&change, head.usage) {
        (Some((place, with)), _) => Some(Edit::replace(*place, with)),
        (None, Some(usage)) if !edits.include_usage => {
            Some(Edit::delete(field_with_comma(data, usage.field)))
        }
        (None, _) => None,
    };
    let (model_insert, comma);
    let model = match model {
        ModelEdit::None => None,
        ModelEdit::Replace(place) => Some(Edit::replace(place, &edits.model)),
        ModelEdit::Insert => {
            let dropped = u32::from(usage.is_some() && !edits.include_usage);
            comma = if head.keys == dropped { &b""[..] } else { b"," };
            model_insert = [&edits.model_field, comma].concat();
            Some(Edit::insert(head.open, &model_insert))
        }
    };
    let changes = match (model, usage) {
        (None, None) => return Some(event.raw.clone().unwrap_or_else(|| one_line(data))),
        (Some(one), None) | (None, Some(one)) => [one, Edit::insert(data.len() as u32, b"")],
        (Some(model), Some(usage)) if model.span.start <= usage.span.start => [model, usage],
        (Some(model), Some(usage)) => [usage, model],
    };
    if memchr::memchr(b'\n', data).is_some() {
        return Some(one_line(&splice(b"", data, &changes, b"")));
    }
    Some(splice(b"data: ", data, &changes, b"\n\n"))
}

/// Writes an event without a name and with its JSON on one line: line feeds are white space in
/// JSON, and some clients do not join `data` lines.
fn one_line(data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 8);
    out.extend_from_slice(b"data: ");
    out.extend(data.iter().copied().filter(|byte| *byte != b'\n'));
    out.extend_from_slice(b"\n\n");
    Bytes::from(out)
}

enum ModelEdit {
    None,
    Replace(Span),
    Insert,
}

fn model_edit(data: &[u8], head: &EventHead, edits: &EventEdits) -> ModelEdit {
    match head.model {
        Some(place) if *place.of(data) == *edits.model => ModelEdit::None,
        Some(place) => ModelEdit::Replace(place),
        None => ModelEdit::Insert,
    }
}

/// Adds the cost to the `usage` of an event that was already rewritten. Returns an event without a
/// usage object unchanged.
pub fn event_with_cost(event: &Bytes, cost: Credits) -> Result<Bytes, DecodeError> {
    let Some(data) = event
        .strip_prefix(b"data: ")
        .and_then(|data| data.strip_suffix(b"\n\n"))
    else {
        return Ok(event.clone());
    };
    let head = inspect_event(data)?;
    let change = head.usage.and_then(|usage| usage.change(data, Some(cost)));
    Ok(match &change {
        Some((place, with)) => splice(b"data: ", data, &[Edit::replace(*place, with)], b"\n\n"),
        None => event.clone(),
    })
}
