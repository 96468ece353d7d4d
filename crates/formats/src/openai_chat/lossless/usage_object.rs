//! Reads the usage object of a response, and replaces the upstream's cost with the caller's.

use tollgate_types::Credits;

use super::super::usage::{Reported, UsageReport, is_cost};
use crate::error::BoxedError;
use crate::json::{Kind, Reader};
use crate::lossless::Span;

/// Position and properties of the value of `usage`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsagePlace {
    /// Position of the field, from key to value.
    pub(super) field: Span,
    /// Position of the value.
    pub(super) value: Span,
    /// Whether the value is an object.
    pub(super) is_object: bool,
    /// Whether the object contains the upstream's cost.
    pub(super) has_cost: bool,
    /// Position just after the last value of the object, or after its opening brace.
    last: u32,
    /// Whether the object has no members.
    is_empty: bool,
}

impl UsagePlace {
    /// Reads the value of `usage`, whose key starts at the position `key`.
    pub(super) fn read(reader: &mut Reader<'_>, key: u32) -> Result<(UsagePlace, UsageReport), BoxedError> {
        let start = reader.place();
        let kind = reader.kind()?;
        let mut place = UsagePlace {
            is_object: kind == Kind::Object,
            ..UsagePlace::default()
        };
        let report = if place.is_object {
            let reported = Reported::read(reader)?;
            place.has_cost = reported.has_cost;
            place.last = reported.last;
            place.is_empty = reported.is_empty;
            reported.normalise()
        } else {
            reader.skip()?;
            UsageReport {
                usage: None,
                implausible: kind != Kind::Null,
            }
        };
        place.field = Span::new(key, reader.end());
        place.value = Span::new(start, reader.end());
        Ok((place, report))
    }

    /// Returns the range to replace and its new bytes, which contain the caller's cost instead of
    /// the upstream's; `None` if nothing changes.
    pub(super) fn change(&self, body: &[u8], cost: Option<Credits>) -> Option<(Span, Vec<u8>)> {
        match cost {
            _ if !self.is_object => None,
            _ if self.has_cost => Some((self.value, rewrite(self.value.of(body), cost).ok()?)),
            None => None,
            Some(cost) => {
                let mut field = Vec::with_capacity(40);
                if !self.is_empty {
                    field.push(b',');
                }
                push_cost(&mut field, cost);
                Some((Span::at(self.last), field))
            }
        }
    }
}

fn rewrite(object: &[u8], cost: Option<Credits>) -> Result<Vec<u8>, BoxedError> {
    let mut out = Vec::with_capacity(object.len() + 40);
    let mut reader = Reader::new(object, u32::MAX)?;
    reader.begin_object()?;
    out.push(b'{');
    while let Some(key) = reader.key()? {
        reader.skip()?;
        if !is_cost(&key.name) {
            out.extend_from_slice(Span::new(key.start, reader.end()).of(object));
            out.push(b',');
        }
    }
    if let Some(cost) = cost {
        push_cost(&mut out, cost);
        out.push(b',');
    }
    if out.len() > 1 {
        out.pop();
    }
    out.push(b'}');
    Ok(out)
}

fn push_cost(out: &mut Vec<u8>, cost: Credits) {
    out.extend_from_slice(b"\"cost\":\"");
    out.extend_from_slice(cost.decimal().as_bytes());
    out.push(b'"');
}
