//! Validation of the conversation: `messages` and `system`.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::head::{ContentPlace, MessagesHead};
use super::blocks::{Place, content};
use super::options::once;
use crate::error::BoxedError;
use crate::json::{Path, Reader};
use crate::lossless::Span;

/// Ids of the tool calls in the messages read so far.
pub(super) type Calls<'a> = HashSet<Cow<'a, str>>;

const ROLES: &[&str] = &["user", "assistant", "system"];

pub(super) fn read(
    reader: &mut Reader<'_>,
    head: &mut MessagesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut calls = Calls::new();
    while reader.item()? {
        message(reader, head, &mut calls, &path.index(head.messages))?;
        head.messages += 1;
    }
    if head.messages == 0 {
        return Err(path.invalid("must have at least one message"));
    }
    Ok(())
}

pub(super) fn system(
    reader: &mut Reader<'_>,
    head: &mut MessagesHead<'_>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    content(reader, head, &mut Calls::new(), Place::System, path, |_| {})
}

fn message<'a>(
    reader: &mut Reader<'a>,
    head: &mut MessagesHead<'_>,
    calls: &mut Calls<'a>,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let place = role(&mut reader.ahead(), path)?;
    if place == Place::System {
        head.first_instructions.get_or_insert(head.messages);
    }
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        match &*key.name {
            "role" => {
                once(&mut seen, 0, path, "role")?;
                reader.skip()?;
            }
            "content" => {
                once(&mut seen, 1, path, "content")?;
                message_content(reader, head, calls, place, &path.key("content"))?;
            }
            _ => reader.skip()?,
        }
    }
    match seen & 0b10 {
        0 => Err(path.missing("content")),
        _ => Ok(()),
    }
}

/// Reads the role before the other fields, because the role determines the valid content.
fn role(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Place, BoxedError> {
    reader.object_at(path)?;
    while let Some(key) = reader.key()? {
        if key.name != "role" {
            reader.skip()?;
            continue;
        }
        return Ok(match reader.word_at(ROLES, &path.key("role"))? {
            "user" => Place::User,
            "assistant" => Place::Assistant,
            _ => Place::System,
        });
    }
    Err(path.missing("role"))
}

fn message_content<'a>(
    reader: &mut Reader<'a>,
    head: &mut MessagesHead<'_>,
    calls: &mut Calls<'a>,
    place: Place,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    let start = reader.place();
    let mut blocks = Vec::new();
    let is_assistant = place == Place::Assistant;
    content(reader, head, calls, place, path, |block| {
        if is_assistant {
            blocks.push(block);
        }
    })?;
    if blocks.iter().any(|block| block.seal.is_some()) {
        let span = Span::new(start, reader.end());
        head.layout.contents.push(ContentPlace { span, blocks });
    }
    Ok(())
}
