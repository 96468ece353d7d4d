//! How much an answer says. What an upstream gets wrong is passed over: only text that is not JSON is an error.

use crate::error::Flaw;
use crate::json::{Kind, Reader};

/// What the choices of an answer, or of one event of it, hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// How many choices.
    pub(super) choices: u32,
    /// Bytes of text, reasoning, refusals and tool arguments.
    pub(super) bytes: u64,
    /// Whether there is anything of that, or a tool call.
    pub(super) content: bool,
    /// Whether a choice says why it ended.
    pub(super) finished: bool,
}

impl Output {
    /// Reads the value of `choices`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Output, Flaw> {
        let mut output = Output::default();
        if reader.kind()? != Kind::Array {
            reader.skip()?;
            return Ok(output);
        }
        reader.begin_array()?;
        while reader.item()? {
            output.choices += 1;
            output.read_choice(reader)?;
        }
        Ok(output)
    }

    fn read_choice(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        each_key(reader, |reader, key| {
            match key {
                "delta" | "message" => self.read_message(reader)?,
                // Where completions, the older format, have theirs.
                "text" => self.add(string_bytes(reader)?),
                "finish_reason" => {
                    self.finished |= reader.kind()? != Kind::Null;
                    reader.skip()?;
                }
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn read_message(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        // Some servers send the same reasoning under both names.
        let (mut reasoning, mut reasoning_content) = (0, 0);
        each_key(reader, |reader, key| {
            match key {
                "content" => self.add(text_bytes(reader)?),
                "refusal" => self.add(string_bytes(reader)?),
                "reasoning_content" => reasoning_content = string_bytes(reader)?,
                "reasoning" => reasoning = string_bytes(reader)?,
                "tool_calls" => self.read_tool_calls(reader)?,
                "function_call" => self.read_call(reader)?,
                "audio" => self.read_audio(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
        self.add(reasoning.max(reasoning_content));
        Ok(())
    }

    fn read_tool_calls(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        if reader.kind()? != Kind::Array {
            return reader.skip();
        }
        reader.begin_array()?;
        while reader.item()? {
            self.content = true;
            each_key(reader, |reader, key| match key {
                "function" | "custom" => self.read_call(reader),
                _ => reader.skip(),
            })?;
        }
        Ok(())
    }

    fn read_call(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        self.content |= reader.kind()? == Kind::Object;
        each_key(reader, |reader, key| {
            match key {
                "arguments" | "input" => self.add(string_bytes(reader)?),
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn read_audio(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        each_key(reader, |reader, key| {
            match key {
                "transcript" => self.add(string_bytes(reader)?),
                "data" => self.content |= string_bytes(reader)? > 0,
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.content |= bytes > 0;
    }
}

/// Calls `read` for every key of an object; anything else is passed over.
fn each_key<'a>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>, &str) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    if reader.kind()? != Kind::Object {
        return reader.skip();
    }
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        read(reader, &key.name)?;
    }
    Ok(())
}

fn string_bytes(reader: &mut Reader<'_>) -> Result<u64, Flaw> {
    if reader.kind()? == Kind::String {
        return Ok(reader.string()?.len as u64);
    }
    reader.skip()?;
    Ok(0)
}

/// Bytes of a content: a string, or (Mistral) parts with `text` and with `thinking`, which has parts again.
fn text_bytes(reader: &mut Reader<'_>) -> Result<u64, Flaw> {
    if reader.kind()? != Kind::Array {
        return string_bytes(reader);
    }
    let mut bytes = 0;
    reader.begin_array()?;
    while reader.item()? {
        each_key(reader, |reader, key| {
            match key {
                "text" | "refusal" => bytes += string_bytes(reader)?,
                "thinking" => bytes += text_bytes(reader)?,
                _ => reader.skip()?,
            }
            Ok(())
        })?;
    }
    Ok(bytes)
}
