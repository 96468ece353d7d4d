//! Validation of responses requests. Stores only a [`ResponsesHead`]. `decode_request` validates
//! with the same function.
//!
//! Unknown top-level fields are refused. Unknown fields of items and tools are accepted. An
//! optional field that is null is treated as omitted.

mod content;
mod input;
mod options;
mod tools;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::head::{FieldPlace, Layout, ResponsesHead};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, MAX_NODES, Path, Reader};
use crate::lossless::Span;
use crate::request::ResponseFormatKind;

/// All top-level fields, sorted by frequency.
const FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "stream",
    "store",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "max_output_tokens",
    "temperature",
    "top_p",
    "include",
    "metadata",
    "previous_response_id",
    "prompt_cache_key",
    "truncation",
    "service_tier",
    "user",
    "safety_identifier",
    "stream_options",
    "top_logprobs",
    "max_tool_calls",
    "presence_penalty",
    "frequency_penalty",
    "prompt_cache_options",
    "prompt_cache_retention",
    "background",
    "starting_after",
    "conversation",
    "prompt",
    "moderation",
    "client_metadata",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
];

/// Fields that other formats cannot express and that do not affect the response.
const OWN_HINTS: &[&str] = &[
    "max_tool_calls",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// Checks a complete request against the documentation of `POST /v1/responses`: required fields,
/// types, bounds, and the rules between fields.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8]) -> Result<ResponsesHead<'_>, DecodeError> {
    read_request(body).map_err(|error| match well_formed(body) {
        Ok(()) => *error,
        Err(syntax) => *syntax,
    })
}

#[cold]
fn well_formed(body: &[u8]) -> Result<(), BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.skip()?;
    reader.finish()
}

fn read_request(body: &[u8]) -> Result<ResponsesHead<'_>, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.object_at(&Path::TOP)?;
    let mut request = Request::new();
    while let Some(key) = reader.key()? {
        request.field(&mut reader, &key)?;
    }
    reader.finish()?;
    request.finish()
}

/// State of a request during validation.
struct Request<'a> {
    head: ResponsesHead<'a>,
    /// Whether `tool_choice` is `required` or names tools, so that `tools` must not be empty.
    requires_call: bool,
}

impl<'a> Request<'a> {
    fn new() -> Self {
        let layout = Layout {
            fields: Vec::with_capacity(12),
            ..Layout::default()
        };
        let head = ResponsesHead {
            model: Cow::Borrowed(""),
            stream: false,
            store: true,
            background: false,
            previous_response_id: None,
            max_tokens: None,
            items: 0,
            tools: 0,
            response_format: ResponseFormatKind::Text,
            media: Default::default(),
            has_reasoning_params: false,
            shows_reasoning: false,
            own_hints: Vec::new(),
            layout,
        };
        Self {
            head,
            requires_call: false,
        }
    }

    fn field(&mut self, reader: &mut Reader<'a>, key: &Key<'a>) -> Result<(), BoxedError> {
        let Some(name) = FIELDS.iter().copied().find(|name| **name == *key.name) else {
            let name = Path::TOP.key(&key.name).to_string();
            return Err(Box::new(DecodeError::unknown(name)));
        };
        if self.head.layout.field(name).is_some() {
            return Err(Path::TOP.duplicate(name));
        }
        let start = reader.place();
        if name == "model" || !reader.take_null()? {
            self.value(reader, name, &Path::TOP.key(name))?;
            let value = Span::new(start, reader.end());
            self.head.layout.fields.push(FieldPlace { name, value });
        }
        Ok(())
    }

    fn value(
        &mut self,
        reader: &mut Reader<'a>,
        name: &'static str,
        path: &Path<'_>,
    ) -> Result<(), BoxedError> {
        let head = &mut self.head;
        match name {
            "model" => head.model = reader.non_empty_string_at(path)?.decoded(),
            "input" => input::read(reader, head, path)?,
            "stream" => head.stream = reader.boolean_at(path)?,
            "store" => head.store = reader.boolean_at(path)?,
            "background" => head.background = reader.boolean_at(path)?,
            "previous_response_id" => {
                head.previous_response_id = Some(reader.non_empty_string_at(path)?.decoded());
            }
            "max_output_tokens" => {
                let cap = reader.integer_at(options::MIN_OUTPUT_TOKENS..=i64::MAX, path)?;
                head.max_tokens = Some(cap.cast_unsigned());
            }
            "tools" => tools::read(reader, head, path)?,
            "tool_choice" => self.requires_call = tools::choice(reader, path)?,
            "text" => head.response_format = options::text(reader, path)?,
            "reasoning" => {
                (head.has_reasoning_params, head.shows_reasoning) = options::reasoning(reader, path)?;
            }
            "include" => head.layout.includes_seal = options::include(reader, path)?,
            "truncation" => {
                if reader.word_at(&["auto", "disabled"], path)? == "auto" {
                    head.own_hints.push("truncation");
                }
            }
            _ => {
                options::plain(reader, name, path)?;
                head.own_hints
                    .extend(OWN_HINTS.iter().copied().filter(|hint| *hint == name));
            }
        }
        Ok(())
    }

    /// Checks the rules between fields.
    fn finish(self) -> Result<ResponsesHead<'a>, BoxedError> {
        let head = self.head;
        if head.layout.field("model").is_none() {
            return Err(Path::TOP.missing("model"));
        }
        if head.items == 0 && head.previous_response_id.is_none() {
            return Err(match head.layout.field("input") {
                None => Path::TOP.missing("input"),
                Some(_) => Path::TOP.key("input").invalid("must have at least one item"),
            });
        }
        if self.requires_call && head.tools == 0 {
            return Err(Path::TOP.key("tool_choice").invalid("requires 'tools'"));
        }
        if head.background && !head.store {
            return Err(Path::TOP
                .key("background")
                .invalid("requires 'store': true, because the response is retrieved later"));
        }
        if head.layout.field("stream_options").is_some() && !head.stream {
            return Err(Path::TOP
                .key("stream_options")
                .invalid("is only allowed with 'stream': true"));
        }
        Ok(head)
    }
}
