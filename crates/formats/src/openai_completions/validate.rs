//! Validation of completions requests. Reads the bytes of a valid request once and stores only a
//! [`CompletionHead`]. `decode_request` validates with the same function.
//!
//! Unknown top-level fields are listed for [`check_unknown`](super::check_unknown). An optional
//! field that is null is treated as omitted.

use std::borrow::Cow;

use super::DEFAULT_MAX_TOKENS;
use super::head::{CompletionHead, Field, FieldName, FieldPlace, Layout};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, Kind, MAX_NODES, Path, Reader};
use crate::lossless::Span;
use crate::openai_chat::validate::{options, response_format};

/// Maximum number of unknown top-level fields. A further field is refused as unknown.
const MAX_UNKNOWN_FIELDS: usize = 64;
/// Maximum number of prompts per request, the same as the maximum number of inputs of embeddings.
const MAX_PROMPTS: u32 = 2_048;

const FORMS: &str =
    "must be a string, an array of strings, an array of tokens or an array of arrays of tokens";

/// Checks a complete request against the documentation of `POST /v1/completions`: required fields,
/// types, bounds, and the rules between fields.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8]) -> Result<CompletionHead<'_>, DecodeError> {
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

fn read_request(body: &[u8]) -> Result<CompletionHead<'_>, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.object_at(&Path::TOP)?;
    let mut head = CompletionHead::empty();
    let mut seen = 0_u32;
    while let Some(key) = reader.key()? {
        match Field::parse(&key.name) {
            Some(field) => known_field(&mut head, &mut reader, &mut seen, field, &key)?,
            None => unknown_field(&mut head, &mut reader, key)?,
        }
    }
    reader.finish()?;
    finish(head)
}

fn known_field<'a>(
    head: &mut CompletionHead<'a>,
    reader: &mut Reader<'a>,
    seen: &mut u32,
    field: Field,
    key: &Key<'a>,
) -> Result<(), BoxedError> {
    let bit = 1 << field as u8;
    if *seen & bit != 0 {
        return Err(Path::TOP.duplicate(field.as_str()));
    }
    *seen |= bit;
    let start = reader.place();
    let required = matches!(field, Field::Model | Field::Prompt);
    if required || !reader.take_null()? {
        head.present |= bit;
        value(head, reader, field, &Path::TOP.key(field.as_str()))?;
    }
    let value = Span::new(start, reader.end());
    if field == Field::Prompt && head.tokens > 0 {
        head.token_bytes = u64::from(value.end - value.start);
    }
    head.layout.fields.push(FieldPlace {
        name: FieldName::Known(field),
        key: key.start,
        value,
    });
    Ok(())
}

fn unknown_field<'a>(
    head: &mut CompletionHead<'a>,
    reader: &mut Reader<'a>,
    key: Key<'a>,
) -> Result<(), BoxedError> {
    let unknown = &mut head.layout.unknown;
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
    head.layout.fields.push(FieldPlace {
        name,
        key: key.start,
        value: Span::new(start, reader.end()),
    });
    Ok(())
}

fn value<'a>(
    head: &mut CompletionHead<'a>,
    reader: &mut Reader<'a>,
    field: Field,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match field {
        Field::Model => head.model = reader.non_empty_string_at(path)?.decoded(),
        Field::Prompt => prompt(head, reader, path)?,
        Field::MaxTokens => head.max_tokens = reader.integer_at(0..=i64::MAX, path)?.cast_unsigned(),
        Field::Stream => head.stream = reader.boolean_at(path)?,
        Field::StreamOptions => head.include_usage = options::stream_options(reader, path)?.include_usage,
        Field::N => head.n = reader.integer_at(1..=128, path)? as u32,
        Field::BestOf => head.best_of = reader.integer_at(0..=20, path)? as u32,
        Field::Echo => head.echo = reader.boolean_at(path)?,
        Field::ResponseFormat => head.response_format = response_format::read(reader, path)?,
        Field::Temperature => {
            reader.number_at(0.0..=2.0, path)?;
        }
        Field::TopP => {
            reader.number_at(0.0..=1.0, path)?;
        }
        Field::FrequencyPenalty | Field::PresencePenalty => {
            reader.number_at(-2.0..=2.0, path)?;
        }
        Field::Logprobs => {
            reader.integer_at(0..=5, path)?;
        }
        Field::Seed => {
            reader.integer_at(i64::MIN..=i64::MAX, path)?;
        }
        Field::Suffix | Field::User => {
            reader.string_at(path)?;
        }
        Field::ServiceTier => options::service_tier(reader, path)?,
        Field::Stop => options::stop(reader, path)?,
        Field::LogitBias => options::logit_bias(reader, path)?,
    }
    Ok(())
}

fn prompt(head: &mut CompletionHead<'_>, reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => {
            head.prompts = 1;
            reader.non_empty_string_at(path)?;
            Ok(())
        }
        Kind::Array => list(head, reader, path),
        _ => Err(path.invalid(FORMS)),
    }
}

/// Reads an array: one prompt that consists of tokens, or several prompts of the same kind. The
/// type of the first element determines the kind.
fn list(head: &mut CompletionHead<'_>, reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.begin_array()?;
    if !reader.item()? {
        return Err(path.invalid("must not be empty"));
    }
    match reader.kind()? {
        Kind::Number => {
            head.prompts = 1;
            head.tokens = tokens(reader, path)?;
            Ok(())
        }
        first @ (Kind::String | Kind::Array) => loop {
            if head.prompts == MAX_PROMPTS {
                return Err(path.invalid(format_args!("must have at most {MAX_PROMPTS} prompts")));
            }
            let path_of_item = path.index(head.prompts);
            if first == Kind::String {
                reader.non_empty_string_at(&path_of_item)?;
            } else {
                reader.array_at(&path_of_item)?;
                if !reader.item()? {
                    return Err(path_of_item.invalid("must not be empty"));
                }
                head.tokens += tokens(reader, &path_of_item)?;
            }
            head.prompts += 1;
            if !reader.item()? {
                return Ok(());
            }
        },
        _ => Err(path
            .index(0)
            .invalid("must be a string, a token or an array of tokens")),
    }
}

/// Counts the tokens of an array. The cursor is at its first element.
fn tokens(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<u64, BoxedError> {
    let mut count = 0_u32;
    loop {
        reader.integer_at(0..=i64::from(u32::MAX), &path.index(count))?;
        count += 1;
        if !reader.item()? {
            return Ok(u64::from(count));
        }
    }
}

/// Checks the rules between fields.
fn finish(mut head: CompletionHead<'_>) -> Result<CompletionHead<'_>, BoxedError> {
    for required in [Field::Model, Field::Prompt] {
        if !head.has(required) {
            return Err(Path::TOP.missing(required.as_str()));
        }
    }
    let has_best_of = head.has(Field::BestOf);
    let rules = [
        (
            Field::StreamOptions,
            head.has(Field::StreamOptions) && !head.stream,
            "is only allowed with 'stream': true",
        ),
        (
            Field::BestOf,
            has_best_of && head.best_of < head.n,
            "must be at least 'n'",
        ),
        (
            Field::BestOf,
            has_best_of && head.best_of > 1 && head.stream,
            "cannot be combined with 'stream': true; remove it or set 'stream' to false",
        ),
    ];
    if let Some((field, _, rule)) = rules.into_iter().find(|(_, broken, _)| *broken) {
        return Err(Path::TOP.key(field.as_str()).invalid(rule));
    }
    if !has_best_of {
        head.best_of = head.n;
    }
    Ok(head)
}

impl CompletionHead<'_> {
    fn empty() -> Self {
        CompletionHead {
            model: Cow::Borrowed(""),
            stream: false,
            include_usage: false,
            max_tokens: DEFAULT_MAX_TOKENS,
            n: 1,
            best_of: 1,
            prompts: 0,
            tokens: 0,
            token_bytes: 0,
            echo: false,
            response_format: Default::default(),
            present: 0,
            layout: Layout::default(),
        }
    }
}
