//! Parsing of one event: a block of lines that ends with a blank line.

use bytes::Bytes;

use super::Event;

/// Parses a block, including its blank line; `None` if the block has no `data` field.
pub(super) fn parse(block: Bytes) -> Option<Event> {
    if let Some(event) = parse_simple(&block) {
        return Some(event);
    }
    let (mut name, mut id) = (None, None);
    let mut data: Option<Data> = None;
    for line in lines(&block) {
        let (field, value) = split(line);
        match field {
            b"data" => data = Some(Data::joined(data, value)),
            b"event" => name = (!value.is_empty()).then(|| block.slice_ref(value)),
            b"id" if !value.contains(&0) => id = Some(block.slice_ref(value)),
            _ => {}
        }
    }
    let data = match data? {
        Data::Line(line) => block.slice_ref(line),
        Data::Lines(lines) => Bytes::from(lines),
    };
    Some(Event {
        name,
        id,
        data,
        raw: None,
    })
}

/// Parses the most common form: a line `data: …` and a blank line, both ended by a line feed.
fn parse_simple(block: &Bytes) -> Option<Event> {
    const PREFIX: usize = "data: ".len();
    if !block.starts_with(b"data: ") || !block.ends_with(b"\n\n") {
        return None;
    }
    let end = block.len() - 2;
    let line = block.get(PREFIX..end)?;
    if memchr::memchr2(b'\n', b'\r', line).is_some() {
        return None;
    }
    Some(Event {
        name: None,
        id: None,
        data: block.slice(PREFIX..end),
        raw: Some(block.clone()),
    })
}

/// Data lines of an event so far: one borrowed line, or several lines joined by line feeds.
enum Data<'b> {
    Line(&'b [u8]),
    Lines(Vec<u8>),
}

impl<'b> Data<'b> {
    fn joined(before: Option<Data<'b>>, line: &'b [u8]) -> Data<'b> {
        let mut lines = match before {
            None => return Data::Line(line),
            Some(Data::Line(first)) => first.to_vec(),
            Some(Data::Lines(lines)) => lines,
        };
        lines.push(b'\n');
        lines.extend_from_slice(line);
        Data::Lines(lines)
    }
}

/// Splits a block into lines, which end with LF, CR or CRLF.
fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, tail) = rest.split_at(end);
        rest = match tail {
            [b'\r', b'\n', after @ ..] | [_, after @ ..] => after,
            [] => &[],
        };
        Some(line)
    })
}

/// Splits a line into field name and value; the field name of a comment is empty.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr::memchr(b':', line) else {
        return (line, &[]);
    };
    let (name, value) = line.split_at(colon);
    let value = value.get(1..).unwrap_or_default();
    (name, value.strip_prefix(b" ").unwrap_or(value))
}
