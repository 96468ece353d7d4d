//! Validation of messages requests. Reads the bytes once and stores only a [`MessagesHead`].
//! `decode_request` performs the same validation.
//!
//! Unknown top-level fields are refused. Unknown fields of blocks and tools are accepted. An
//! optional field that is null is treated as omitted.

mod blocks;
mod messages;
mod options;
mod source;
mod tools;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::head::{FieldPlace, Layout, MessagesHead, Purpose, Version};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, MAX_NODES, Path, Reader};
use crate::lossless::Span;
use crate::request::ResponseFormatKind;

/// All top-level fields.
const FIELDS: &[&str] = &[
    "model",
    "messages",
    "max_tokens",
    "system",
    "stream",
    "tools",
    "tool_choice",
    "thinking",
    "metadata",
    "temperature",
    "output_config",
    "output_format",
    "stop_sequences",
    "cache_control",
    "top_p",
    "top_k",
    "service_tier",
    "speed",
    "inference_geo",
    "container",
    "mcp_servers",
    "thread",
    "response_format",
    "context_management",
    "diagnostics",
    "betas",
    "labels",
    "client_metadata",
];

/// Sampling parameters, which the newer version of the format does not support.
const SAMPLING: &[&str] = &["temperature", "top_p", "top_k"];

/// Checks a complete request against the documentation of `POST /v1/messages`: required fields,
/// types, bounds, and the rules between fields.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8], version: Version, purpose: Purpose) -> Result<MessagesHead<'_>, DecodeError> {
    read_request(body, version, purpose).map_err(|error| match well_formed(body) {
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

fn read_request(body: &[u8], version: Version, purpose: Purpose) -> Result<MessagesHead<'_>, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.object_at(&Path::TOP)?;
    let mut request = Request::new(version);
    while let Some(key) = reader.key()? {
        request.field(&mut reader, &key)?;
    }
    reader.finish()?;
    request.finish(purpose)
}

/// State of a request during validation.
struct Request<'a> {
    head: MessagesHead<'a>,
    chooses_tool: bool,
    /// Whether `output_config` has a format.
    has_format: bool,
}

impl<'a> Request<'a> {
    fn new(version: Version) -> Self {
        let layout = Layout {
            fields: Vec::with_capacity(12),
            ..Layout::default()
        };
        let head = MessagesHead {
            first_instructions: None,
            model: Cow::Borrowed(""),
            version,
            stream: false,
            max_tokens: None,
            reasoning_budget: 0,
            messages: 0,
            tools: 0,
            response_format: ResponseFormatKind::Text,
            media: Default::default(),
            has_reasoning_params: false,
            caches_for_an_hour: false,
            own_hints: Vec::new(),
            layout,
        };
        Self {
            head,
            chooses_tool: false,
            has_format: false,
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
        let required = matches!(name, "model" | "messages");
        if required || !reader.take_null()? {
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
        if SAMPLING.contains(&name) && head.version == Version::V2026_10_21 {
            return Err(path.invalid("is not supported with 'anthropic-version: 2026-10-21'; remove it"));
        }
        match name {
            "model" => head.model = reader.non_empty_string_at(path)?.decoded(),
            "messages" => messages::read(reader, head, path)?,
            "max_tokens" => head.max_tokens = Some(reader.integer_at(0..=i64::MAX, path)?.cast_unsigned()),
            "system" => messages::system(reader, head, path)?,
            "stream" => head.stream = reader.boolean_at(path)?,
            "tools" => tools::read(reader, head, path)?,
            "tool_choice" => {
                tools::choice(reader, path)?;
                self.chooses_tool = true;
            }
            "thinking" => {
                head.reasoning_budget = options::thinking(reader, path)?;
                head.has_reasoning_params = true;
            }
            "output_config" => {
                let config = options::output_config(reader, path)?;
                head.has_reasoning_params |= config.has_effort;
                head.layout.output_config = Some(config.place);
                self.has_format = config.has_format;
                if config.has_format {
                    head.response_format = ResponseFormatKind::JsonSchema;
                }
            }
            "output_format" => {
                head.layout.schema = Some(options::output_format(reader, path)?);
                head.response_format = ResponseFormatKind::JsonSchema;
            }
            "response_format" => {
                let (kind, schema) = options::response_format(reader, path)?;
                head.layout.schema = schema;
                if !self.has_format && head.layout.field("output_format").is_none() {
                    head.response_format = kind;
                }
            }
            "temperature" | "top_p" => {
                reader.number_at(0.0..=1.0, path)?;
            }
            "top_k" => {
                reader.integer_at(0..=i64::MAX, path)?;
            }
            "cache_control" => options::cache_control(reader, head, path)?,
            "service_tier" => {
                reader.word_at(&["auto", "standard_only"], path)?;
                head.own_hints.push("service_tier");
            }
            _ => options::plain(reader, name, path)?,
        }
        Ok(())
    }

    /// Checks the rules between fields.
    fn finish(self, purpose: Purpose) -> Result<MessagesHead<'a>, BoxedError> {
        let head = self.head;
        for required in ["model", "messages", "max_tokens"] {
            let optional = required == "max_tokens" && purpose == Purpose::Count;
            if !optional && head.layout.field(required).is_none() {
                return Err(Path::TOP.missing(required));
            }
        }
        if head
            .max_tokens
            .is_some_and(|max_tokens| head.reasoning_budget > 0 && head.reasoning_budget >= max_tokens)
        {
            let thinking = Path::TOP.key("thinking");
            return Err(thinking
                .key("budget_tokens")
                .invalid("must be less than 'max_tokens'"));
        }
        if self.chooses_tool && head.tools == 0 {
            return Err(Path::TOP.key("tool_choice").invalid("requires 'tools'"));
        }
        let is_sent = |name: &str| head.layout.field(name).is_some();
        let names = [
            ("output_config.format", self.has_format),
            ("output_format", is_sent("output_format")),
            ("response_format", is_sent("response_format")),
        ];
        let mut sent = names.into_iter().filter(|(_, is_sent)| *is_sent);
        if let (Some((one, _)), Some((other, _))) = (sent.next(), sent.next()) {
            let rule = format_args!("cannot be combined with '{one}'; send only one of them");
            return Err(Path::TOP.key(other).invalid(rule));
        }
        Ok(head)
    }
}
