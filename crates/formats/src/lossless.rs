//! Byte-level edits, which change parts of a body and preserve every other byte.

use bytes::Bytes;

/// Byte range within a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just after the last byte.
    pub end: u32,
}

impl Span {
    /// Returns the range from `start` up to but not including `end`.
    pub(crate) const fn new(start: u32, end: u32) -> Self {
        Self { start, end }
    }

    /// Returns the empty range at a position, for insertions.
    pub(crate) const fn at(place: u32) -> Self {
        Self::new(place, place)
    }

    /// Returns the bytes of this range; empty if it is out of bounds.
    pub fn of(self, body: &[u8]) -> &[u8] {
        body.get(self.start as usize..self.end as usize)
            .unwrap_or_default()
    }
}

/// Replacement for a range of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit<'e> {
    /// Range to replace.
    pub(crate) span: Span,
    /// The new bytes.
    pub(crate) with: &'e [u8],
}

impl<'e> Edit<'e> {
    pub(crate) const fn replace(span: Span, with: &'e [u8]) -> Self {
        Self { span, with }
    }

    /// Returns the edit that inserts bytes at a position.
    pub(crate) const fn insert(place: u32, with: &'e [u8]) -> Self {
        Self::replace(Span::at(place), with)
    }

    pub(crate) const fn delete(span: Span) -> Self {
        Self::replace(span, b"")
    }
}

/// Applies the edits and writes the result between `before` and `after`, in one allocation. Edits
/// must be in the order of the body and must not overlap; at the same position, they apply in the
/// given order.
pub(crate) fn splice(before: &[u8], body: &[u8], edits: &[Edit<'_>], after: &[u8]) -> Bytes {
    let removed: usize = edits
        .iter()
        .map(|edit| (edit.span.end - edit.span.start) as usize)
        .sum();
    let added: usize = edits.iter().map(|edit| edit.with.len()).sum();
    let length = (before.len() + body.len() + added + after.len()).saturating_sub(removed);
    let mut out = Vec::with_capacity(length);
    out.extend_from_slice(before);
    let mut copied = 0;
    for edit in edits {
        debug_assert!(copied <= edit.span.start, "edits are in order");
        out.extend_from_slice(Span::new(copied, edit.span.start).of(body));
        out.extend_from_slice(edit.with);
        copied = edit.span.end;
    }
    out.extend_from_slice(body.get(copied as usize..).unwrap_or_default());
    out.extend_from_slice(after);
    Bytes::from(out)
}

/// Applies the edits and returns the result in chunks. Unchanged chunks share the memory of the
/// body.
pub(crate) fn splice_chunks(body: &Bytes, edits: &[Edit<'_>]) -> Vec<Bytes> {
    let mut out = Vec::with_capacity(edits.len() * 2 + 1);
    let mut copied = 0;
    for edit in edits {
        out.push(part(body, copied, edit.span.start as usize));
        out.push(Bytes::copy_from_slice(edit.with));
        copied = edit.span.end as usize;
    }
    out.push(part(body, copied, body.len()));
    out.retain(|chunk| !chunk.is_empty());
    out
}

fn part(body: &Bytes, start: usize, end: usize) -> Bytes {
    let end = end.min(body.len());
    body.slice(start.min(end)..end)
}

/// Returns the range to delete in order to remove one field from an object: the field and the comma
/// before it, or the comma after it if the field is the first. The only field of an object has no
/// comma. `field` starts at the key and ends with the value. Ranges of several fields of one object
/// may overlap, so only one field can be removed this way.
pub(crate) fn field_with_comma(body: &[u8], field: Span) -> Span {
    let is_space = |byte: &u8| byte.is_ascii_whitespace();
    let before = body.get(..field.start as usize).unwrap_or_default();
    let after = body.get(field.end as usize..).unwrap_or_default();
    if let Some(comma) = before.iter().rposition(|byte| !is_space(byte))
        && before.get(comma) == Some(&b',')
    {
        return Span::new(comma as u32, field.end);
    }
    match after.iter().position(|byte| !is_space(byte)) {
        Some(comma) if after.get(comma) == Some(&b',') => {
            Span::new(field.start, field.end + comma as u32 + 1)
        }
        _ => field,
    }
}
