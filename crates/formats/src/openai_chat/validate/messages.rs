//! Validation of the conversation in `messages`.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::head::Media;
use super::content::{self, Content};
use super::options::{named, once};
use crate::error::BoxedError;
use crate::json::{Path, Reader};

const ROLES: &[&str] = &["user", "assistant", "system", "developer", "tool", "function"];

/// Reads the messages. Returns their number and the counts of their media.
pub(super) fn read(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(u32, Media), BoxedError> {
    reader.array_at(path)?;
    let mut calls = HashSet::new();
    let mut media = Media::default();
    let mut count = 0;
    while reader.item()? {
        let path = path.index(count);
        let message = Message::read(reader, &mut calls, &path)?;
        message.check(&calls, &path)?;
        if let Some(content) = message.content {
            media.images += content.media.images;
            media.audio += content.media.audio;
            media.files += content.media.files;
            media.addresses += content.media.addresses;
            media.stored += content.media.stored;
            media.inline_bytes += content.media.inline_bytes;
        }
        count += 1;
    }
    if count == 0 {
        return Err(path.invalid("must have at least one message"));
    }
    Ok((count, media))
}

/// Ids of the tool calls so far.
type Calls<'a> = HashSet<Cow<'a, str>>;

#[derive(Default)]
struct Message<'a> {
    role: Option<&'static str>,
    content: Option<Content>,
    null_content: bool,
    tool_call_id: Option<Cow<'a, str>>,
    has_tool_calls: bool,
    has_name: bool,
}

impl<'a> Message<'a> {
    fn read(
        reader: &mut Reader<'a>,
        calls: &mut Calls<'a>,
        path: &Path<'_>,
    ) -> Result<Message<'a>, BoxedError> {
        reader.object_at(path)?;
        let (mut message, mut seen) = (Message::default(), 0);
        while let Some(key) = reader.key()? {
            let Some(place) = KEYS.iter().position(|name| **name == key.name) else {
                reader.skip()?;
                continue;
            };
            once(&mut seen, place as u32, path, KEYS[place])?;
            message.value(reader, calls, KEYS[place], &path.key(KEYS[place]))?;
        }
        Ok(message)
    }

    fn value(
        &mut self,
        reader: &mut Reader<'a>,
        calls: &mut Calls<'a>,
        key: &str,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        if key == "role" {
            self.role = Some(reader.word_at(ROLES, path)?);
            return Ok(());
        }
        if reader.take_null()? {
            self.null_content |= key == "content";
            return Ok(());
        }
        match key {
            "content" => self.content = Some(content::read(reader, path)?),
            "tool_call_id" => self.tool_call_id = Some(reader.non_empty_string_at(path)?.decoded()),
            "tool_calls" => {
                tool_calls(reader, calls, path)?;
                self.has_tool_calls = true;
            }
            "name" => {
                reader.string_at(path)?;
                self.has_name = true;
            }
            "function_call" => function_call(reader, path)?,
            "audio" => named(reader, "id", path)?,
            _ => {
                reader.string_at(path)?;
            }
        }
        Ok(())
    }

    /// Checks the rules of the message's role.
    fn check(&self, calls: &Calls<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
        let Some(role) = self.role else {
            return Err(path.missing("role"));
        };
        let content_path = path.key("content");
        if role == "assistant" {
            return match &self.content {
                Some(content) => content.only_text_and_refusal(&content_path),
                None => Ok(()),
            };
        }
        if self.has_tool_calls {
            return Err(path
                .key("tool_calls")
                .invalid("is only allowed for the role 'assistant'"));
        }
        if role == "function" && !self.has_name {
            return Err(path.missing("name"));
        }
        match &self.content {
            Some(content) if role == "user" => content.no_refusal(&content_path)?,
            Some(content) => content.only_text(&content_path)?,
            None if role == "function" => {}
            None if self.null_content => {
                return Err(content_path.invalid("must be a string or an array of content parts, not null"));
            }
            None => return Err(path.missing("content")),
        }
        if role != "tool" {
            return Ok(());
        }
        match &self.tool_call_id {
            None => Err(path.missing("tool_call_id")),
            Some(id) if calls.contains(id) => Ok(()),
            Some(_) => Err(path
                .key("tool_call_id")
                .invalid("matches no tool call: no earlier message has a tool call with this id")),
        }
    }
}

/// Validated keys of a message. `role` must not be null, and `content` may be null only for the
/// roles `assistant` and `function`. All other keys may be null, which counts as omitted.
const KEYS: [&str; 8] = [
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "refusal",
    "function_call",
    "audio",
];

fn tool_calls<'a>(reader: &mut Reader<'a>, calls: &mut Calls<'a>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.array_at(path)?;
    let mut index = 0;
    while reader.item()? {
        calls.insert(tool_call(reader, &path.index(index))?);
        index += 1;
    }
    Ok(())
}

/// Reads one call and returns its id.
fn tool_call<'a>(reader: &mut Reader<'a>, path: &Path<'_>) -> Result<Cow<'a, str>, BoxedError> {
    reader.object_at(path)?;
    let (mut id, mut kind, mut bodies, mut seen) = (None, None, 0_u32, 0);
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        match &*key.name {
            "id" => {
                once(&mut seen, 0, path, "id")?;
                id = Some(reader.non_empty_string_at(&here)?.decoded());
            }
            "type" => {
                once(&mut seen, 1, path, "type")?;
                kind = Some(reader.word_at(&["function", "custom"], &here)?);
            }
            "function" => {
                once(&mut seen, 2, path, "function")?;
                function_call(reader, &here)?;
                bodies |= 1;
            }
            "custom" => {
                once(&mut seen, 3, path, "custom")?;
                named_with(reader, "input", &here)?;
                bodies |= 2;
            }
            _ => reader.skip()?,
        }
    }
    let Some(id) = id else {
        return Err(path.missing("id"));
    };
    match kind {
        None => Err(path.missing("type")),
        Some("function") if bodies & 1 == 0 => Err(path.missing("function")),
        Some("custom") if bodies & 2 == 0 => Err(path.missing("custom")),
        Some(_) => Ok(id),
    }
}

fn function_call(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    named_with(reader, "arguments", path)
}

/// Checks that the value is an object with a non-empty string `name` and a string under the key in
/// `second`; ignores other keys.
fn named_with(reader: &mut Reader<'_>, second: &str, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.object_at(path)?;
    let mut seen = 0;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        if key.name == "name" {
            once(&mut seen, 0, path, "name")?;
            reader.non_empty_string_at(&here)?;
        } else if key.name == second {
            once(&mut seen, 1, path, second)?;
            reader.string_at(&here)?;
        } else {
            reader.skip()?;
        }
    }
    match seen {
        0b11 => Ok(()),
        0b01 => Err(path.missing(second)),
        _ => Err(path.missing("name")),
    }
}
