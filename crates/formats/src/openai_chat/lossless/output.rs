//! Measures the output of a response. Malformed fields are skipped: only text that is not JSON
//! causes an error.

use crate::error::BoxedError;
use crate::json::{Kind, Reader};

/// Measurements of the choices of a response or of one event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    /// Number of choices.
    pub(super) choices: u32,
    /// Number of bytes of text, reasoning, refusals, audio transcripts and tool arguments, with
    /// escapes resolved.
    pub(super) bytes: u64,
    /// Whether a choice has any of these bytes, a tool call or audio data.
    pub(super) content: bool,
    /// Whether a choice has a finish reason.
    pub(super) finished: bool,
    /// Number of choices that ended at the output token limit.
    pub(super) capped: u32,
    /// Whether a choice has text.
    has_text: bool,
    /// Whether a choice has token probabilities.
    has_logprobs: bool,
}

impl Output {
    /// Reads the value of `choices`.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Output, BoxedError> {
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

    /// Whether the choices have text, but none of them has token probabilities.
    pub(super) fn lacks_logprobs(&self) -> bool {
        self.has_text && !self.has_logprobs
    }

    fn read_choice(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        each_key(reader, |reader, key| {
            match key {
                "delta" | "message" => self.read_message(reader)?,
                // Text of a choice in completions, the older format.
                "text" => self.add_text(string_bytes(reader)?),
                "logprobs" => {
                    self.has_logprobs |= reader.kind()? != Kind::Null;
                    reader.skip()?;
                }
                "finish_reason" => match reader.kind()? {
                    Kind::String => {
                        self.finished = true;
                        self.capped += u32::from(reader.string()?.decoded() == "length");
                    }
                    kind => {
                        self.finished |= kind != Kind::Null;
                        reader.skip()?;
                    }
                },
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn read_message(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        // Some servers send the same reasoning under both names, so only the longer one counts.
        let (mut reasoning, mut reasoning_content) = (0, 0);
        each_key(reader, |reader, key| {
            match key {
                "content" => self.add_text(text_bytes(reader)?),
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

    fn read_tool_calls(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
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

    fn read_call(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        self.content |= reader.kind()? == Kind::Object;
        each_key(reader, |reader, key| {
            match key {
                "arguments" | "input" => self.add(string_bytes(reader)?),
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn read_audio(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        each_key(reader, |reader, key| {
            match key {
                "transcript" => self.add(string_bytes(reader)?),
                "data" => self.content |= string_bytes(reader)? > 0,
                _ => reader.skip()?,
            }
            Ok(())
        })
    }

    fn add_text(&mut self, bytes: u64) {
        self.has_text |= bytes > 0;
        self.add(bytes);
    }

    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.content |= bytes > 0;
    }
}

/// Calls `read` for every key of an object; skips other values.
fn each_key<'a>(
    reader: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>, &str) -> Result<(), BoxedError>,
) -> Result<(), BoxedError> {
    if reader.kind()? != Kind::Object {
        return reader.skip();
    }
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        read(reader, &key.name)?;
    }
    Ok(())
}

fn string_bytes(reader: &mut Reader<'_>) -> Result<u64, BoxedError> {
    if reader.kind()? == Kind::String {
        return Ok(reader.string()?.len as u64);
    }
    reader.skip()?;
    Ok(0)
}

/// Returns the number of text bytes of message content: a string, or an array of parts with `text`,
/// `refusal` or Mistral's `thinking`, which contains nested parts.
fn text_bytes(reader: &mut Reader<'_>) -> Result<u64, BoxedError> {
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
