//! Validation of chat requests. Reads the bytes of a valid request once and stores only a
//! [`ChatHead`]. `decode_request` validates with the same function.
//!
//! Known nested fields are checked, too. Unknown top-level fields are listed for
//! [`check_unknown`](super::check_unknown). Unknown nested fields (of messages, parts, tools) are
//! accepted, because vendors add them and the gateway forwards them unchanged; only the limits on
//! depth and number of values apply to them. An optional field that is null is treated as omitted.

mod content;
mod messages;
pub(crate) mod options;
pub(crate) mod response_format;
mod tools;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use super::head::{ChatHead, Field, FieldName, FieldPlace, Layout, MaxTokens};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, MAX_NODES, Path, Reader};
use crate::lossless::Span;

/// Maximum number of unknown top-level fields. A further field is refused as unknown.
const MAX_UNKNOWN_FIELDS: usize = 64;

/// Checks a complete request against the documentation of `POST /v1/chat/completions`: required
/// fields, types, bounds, and the rules between fields.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8]) -> Result<ChatHead<'_>, DecodeError> {
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

fn read_request(body: &[u8]) -> Result<ChatHead<'_>, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.object_at(&Path::TOP)?;
    let mut request = Request::new(reader.end());
    while let Some(key) = reader.key()? {
        match Field::parse(&key.name) {
            Some(field) => request.known_field(&mut reader, field, &key)?,
            None => request.unknown_field(&mut reader, key)?,
        }
    }
    reader.finish()?;
    request.finish()
}

/// State of a request during validation.
struct Request<'a> {
    head: ChatHead<'a>,
    seen: u64,
    caps: Caps,
}

/// Values of `max_tokens` and `max_completion_tokens`, two names of the same limit.
#[derive(Default)]
struct Caps {
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
}

impl<'a> Request<'a> {
    fn new(open: u32) -> Self {
        let layout = Layout {
            open,
            fields: Vec::with_capacity(16),
            ..Layout::default()
        };
        Self {
            head: ChatHead::empty(layout),
            seen: 0,
            caps: Caps::default(),
        }
    }

    fn known_field(
        &mut self,
        reader: &mut Reader<'a>,
        field: Field,
        key: &Key<'a>,
    ) -> Result<(), BoxedError> {
        let bit = 1 << field as u8;
        if self.seen & bit != 0 {
            return Err(Path::TOP.duplicate(field.as_str()));
        }
        self.seen |= bit;
        let start = reader.place();
        let required = matches!(field, Field::Model | Field::Messages);
        if required || !reader.take_null()? {
            self.head.present |= bit;
            self.value(reader, field, &Path::TOP.key(field.as_str()))?;
        }
        self.head.layout.fields.push(FieldPlace {
            name: FieldName::Known(field),
            key: key.start,
            value: Span::new(start, reader.end()),
        });
        Ok(())
    }

    fn unknown_field(&mut self, reader: &mut Reader<'a>, key: Key<'a>) -> Result<(), BoxedError> {
        let unknown = &mut self.head.layout.unknown;
        if unknown.iter().any(|name| **name == *key.name) {
            return Err(Path::TOP.duplicate(&key.name));
        }
        if unknown.len() == MAX_UNKNOWN_FIELDS {
            let name = Path::TOP.key(&key.name).to_string();
            return Err(Box::new(DecodeError::unknown(name)));
        }
        let name = FieldName::Unknown(unknown.len() as u32);
        unknown.push(key.name.into());
        let start = reader.place();
        reader.skip()?;
        self.head.layout.fields.push(FieldPlace {
            name,
            key: key.start,
            value: Span::new(start, reader.end()),
        });
        Ok(())
    }

    fn value(&mut self, reader: &mut Reader<'a>, field: Field, path: &Path<'_>) -> Result<(), BoxedError> {
        let head = &mut self.head;
        match field {
            Field::Model => head.model = reader.non_empty_string_at(path)?.decoded(),
            Field::Messages => (head.messages, head.media) = messages::read(reader, path)?,
            Field::Stream => head.stream = reader.boolean_at(path)?,
            Field::StreamOptions => {
                let options = options::stream_options(reader, path)?;
                head.include_usage = options.include_usage;
                head.layout.stream_options = Some(options.place);
            }
            Field::MaxTokens => self.caps.max_tokens = Some(options::positive(reader, path)?),
            Field::MaxCompletionTokens => {
                self.caps.max_completion_tokens = Some(options::positive(reader, path)?);
            }
            Field::N => head.n = reader.integer_at(1..=128, path)? as u32,
            Field::Temperature => head.temperature = Some(reader.number_at(0.0..=2.0, path)?),
            Field::Logprobs => head.logprobs = reader.boolean_at(path)?,
            Field::TopLogprobs => {
                reader.integer_at(0..=20, path)?;
            }
            Field::ResponseFormat => head.response_format = response_format::read(reader, path)?,
            Field::ReasoningEffort => {
                head.reasoning_effort = Some(reader.word_at(options::REASONING_EFFORTS, path)?);
            }
            Field::ServiceTier => options::service_tier(reader, path)?,
            Field::Store => head.store = reader.boolean_at(path)?,
            Field::Modalities => head.audio_output = options::modalities(reader, path)?,
            Field::Tools => head.tools += tools::tools(reader, path)?,
            Field::Functions => head.tools += tools::functions(reader, path)?,
            _ => options::plain(reader, field, path)?,
        }
        Ok(())
    }

    /// Checks the rules between fields.
    fn finish(mut self) -> Result<ChatHead<'a>, BoxedError> {
        for required in [Field::Model, Field::Messages] {
            if !self.head.has(required) {
                return Err(Path::TOP.missing(required.as_str()));
            }
        }
        self.head.max_tokens = self.caps.agree()?;
        let rules = [
            (
                Field::StreamOptions,
                self.head.has(Field::StreamOptions) && !self.head.stream,
                "is only allowed with 'stream': true",
            ),
            (
                Field::TopLogprobs,
                self.head.has(Field::TopLogprobs) && !self.head.logprobs,
                "requires 'logprobs': true",
            ),
        ];
        for (field, broken, rule) in rules {
            if broken {
                return Err(Path::TOP.key(field.as_str()).invalid(rule));
            }
        }
        if self.head.audio_output && !self.head.has(Field::Audio) {
            return Err(Path::TOP.missing(Field::Audio.as_str()));
        }
        Ok(self.head)
    }
}

impl Caps {
    fn agree(&self) -> Result<Option<MaxTokens>, BoxedError> {
        let cap = |value, field| Some(MaxTokens { value, field });
        Ok(match (self.max_completion_tokens, self.max_tokens) {
            (Some(new), Some(old)) if new != old => {
                return Err(Path::TOP
                    .key(Field::MaxTokens.as_str())
                    .invalid("differs from 'max_completion_tokens'; send only one of them"));
            }
            (Some(value), _) => cap(value, Field::MaxCompletionTokens),
            (None, Some(value)) => cap(value, Field::MaxTokens),
            (None, None) => None,
        })
    }
}

impl ChatHead<'_> {
    fn empty(layout: Layout) -> Self {
        ChatHead {
            model: Cow::Borrowed(""),
            stream: false,
            include_usage: false,
            max_tokens: None,
            n: 1,
            messages: 0,
            tools: 0,
            response_format: Default::default(),
            logprobs: false,
            audio_output: false,
            reasoning_effort: None,
            temperature: None,
            store: false,
            media: Default::default(),
            present: 0,
            layout,
        }
    }
}
