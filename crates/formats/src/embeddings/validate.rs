//! Validation of embeddings requests. Reads the bytes once and stores only an [`EmbedHead`].
//! `decode_request` performs the same validation.
//!
//! Unknown top-level fields are listed for [`check_unknown`](super::check_unknown). An optional
//! field that is null is treated as omitted.

use super::head::{EmbedHead, Encoding, Field, FieldName, FieldPlace, MAX_INPUTS};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Key, Kind, MAX_NODES, Path, Reader};
use crate::lossless::Span;

/// Maximum number of unknown top-level fields in a request.
const MAX_UNKNOWN_FIELDS: usize = 64;

const FORMS: &str =
    "must be a string, an array of strings, an array of tokens or an array of arrays of tokens";

/// Checks a complete request against the documentation of `POST /v1/embeddings`: required fields,
/// types, bounds. The token limit of an input depends on the model, so the provider checks it.
///
/// A body that is not JSON is `invalid_json`, even if it also breaks other rules.
pub fn validate(body: &[u8]) -> Result<EmbedHead<'_>, DecodeError> {
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

fn read_request(body: &[u8]) -> Result<EmbedHead<'_>, BoxedError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    reader.object_at(&Path::TOP)?;
    let mut head = EmbedHead::default();
    let mut seen = 0_u8;
    while let Some(key) = reader.key()? {
        match Field::parse(&key.name) {
            Some(field) => known_field(&mut head, &mut reader, &mut seen, field, &key)?,
            None => unknown_field(&mut head, &mut reader, key)?,
        }
    }
    reader.finish()?;
    for required in [Field::Model, Field::Input] {
        if !head.has(required) {
            return Err(Path::TOP.missing(required.as_str()));
        }
    }
    Ok(head)
}

fn known_field<'a>(
    head: &mut EmbedHead<'a>,
    reader: &mut Reader<'a>,
    seen: &mut u8,
    field: Field,
    key: &Key<'a>,
) -> Result<(), BoxedError> {
    let bit = 1 << field as u8;
    if *seen & bit != 0 {
        return Err(Path::TOP.duplicate(field.as_str()));
    }
    *seen |= bit;
    let start = reader.place();
    let required = matches!(field, Field::Model | Field::Input);
    if required || !reader.take_null()? {
        head.present |= bit;
        value(head, reader, field, &Path::TOP.key(field.as_str()))?;
    }
    head.layout.fields.push(FieldPlace {
        name: FieldName::Known(field),
        key: key.start,
        value: Span::new(start, reader.end()),
    });
    Ok(())
}

fn unknown_field<'a>(
    head: &mut EmbedHead<'a>,
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
    head: &mut EmbedHead<'a>,
    reader: &mut Reader<'a>,
    field: Field,
    path: &Path<'_>,
) -> Result<(), BoxedError> {
    match field {
        Field::Model => head.model = reader.non_empty_string_at(path)?.decoded(),
        Field::Input => input(head, reader, path)?,
        Field::EncodingFormat => {
            let word = reader.word_at(&[Encoding::Float.as_str(), Encoding::Base64.as_str()], path)?;
            head.encoding = if word == Encoding::Base64.as_str() {
                Encoding::Base64
            } else {
                Encoding::Float
            };
        }
        Field::Dimensions => {
            let dimensions = reader.integer_at(1..=i64::from(u32::MAX), path)?;
            head.dimensions = u32::try_from(dimensions).ok();
        }
        Field::User => {
            reader.string_at(path)?;
        }
    }
    Ok(())
}

fn input(head: &mut EmbedHead<'_>, reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => {
            head.inputs = 1;
            head.text_bytes = reader.non_empty_string_at(path)?.len as u64;
            Ok(())
        }
        Kind::Array => list(head, reader, path),
        _ => Err(path.invalid(FORMS)),
    }
}

/// Reads an array: one input that consists of tokens, or several inputs of the same kind. The type
/// of the first element determines the kind.
fn list(head: &mut EmbedHead<'_>, reader: &mut Reader<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    reader.begin_array()?;
    if !reader.item()? {
        return Err(path.invalid("must not be empty"));
    }
    match reader.kind()? {
        Kind::Number => {
            head.inputs = 1;
            head.tokens = tokens(reader, path)?;
            Ok(())
        }
        first @ (Kind::String | Kind::Array) => loop {
            if head.inputs == MAX_INPUTS {
                return Err(path.invalid(format_args!("must have at most {MAX_INPUTS} inputs")));
            }
            let path_of_item = path.index(head.inputs);
            if first == Kind::String {
                head.text_bytes += reader.non_empty_string_at(&path_of_item)?.len as u64;
            } else {
                reader.array_at(&path_of_item)?;
                if !reader.item()? {
                    return Err(path_of_item.invalid("must not be empty"));
                }
                head.tokens += tokens(reader, &path_of_item)?;
            }
            head.inputs += 1;
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
