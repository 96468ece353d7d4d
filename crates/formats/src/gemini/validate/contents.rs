//! Validation of the conversation: `contents` and `systemInstruction`.

use super::super::head::{GenerateHead, PartPlace, PartsPlace};
use super::open_fields;
use super::parts::{Calls, part};
use crate::error::BoxedError;
use crate::json::{Path, Reader};
use crate::lossless::Span;

const ROLES: &[&str] = &["user", "model", "function"];

/// Author of the parts, which determines their valid kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    System,
    User,
    Model,
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut calls = Calls::default();
    while reader.item()? {
        turn(reader, head, &mut calls, &path.index(head.contents))?;
        head.contents += 1;
    }
    if head.contents == 0 {
        return Err(path.invalid("must have at least one turn"));
    }
    Ok(())
}

/// Reads `systemInstruction`. The official clients send a role in it, which has no effect.
pub(super) fn system(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    let mut ignored = GenerateHead::default();
    content(
        reader,
        &mut ignored,
        &mut Calls::default(),
        Some(Side::System),
        path,
    )
}

fn turn(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    content(reader, head, calls, None, path)
}

fn content(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    side: Option<Side>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let side = match side {
        Some(side) => side,
        None => role(&mut reader.ahead(), path)?,
    };
    let mut has_parts = false;
    open_fields(reader, &["role", "parts"], path, |reader, name, path| {
        if name == "role" {
            return reader.string_at(path).map(drop);
        }
        has_parts = true;
        parts(reader, head, calls, side, path)
    })?;
    match has_parts {
        true => Ok(()),
        false => Err(path.missing("parts")),
    }
}

/// Reads the role before the other fields, because the role determines the valid parts. The default
/// is the user.
fn role(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Side, BoxedError> {
    let mut side = Side::User;
    open_fields(reader, &["role"], path, |reader, _, path| {
        if reader.word_at(ROLES, path)? == "model" {
            side = Side::Model;
        }
        Ok(())
    })?;
    Ok(side)
}

fn parts(
    reader: &mut Reader<'_>,
    head: &mut GenerateHead,
    calls: &mut Calls,
    side: Side,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let start = reader.place();
    reader.array_at(path)?;
    let (mut places, mut index) = (Vec::<PartPlace>::new(), 0);
    while reader.item()? {
        let place = part(reader, head, calls, side, &path.index(index))?;
        if side == Side::Model {
            places.push(place);
        }
        index += 1;
    }
    if index == 0 {
        return Err(path.invalid("must have at least one part"));
    }
    if places.iter().any(|place| place.seal.is_some()) {
        let span = Span::new(start, reader.end());
        head.layout.parts.push(PartsPlace { span, parts: places });
    }
    Ok(())
}
