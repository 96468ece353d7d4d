//! Decoding of embeddings requests and responses to the common form.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};

use super::usage::EmbedReport;
use super::{validate, vector};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};

#[derive(Deserialize)]
struct Wire {
    model: String,
    input: WireInput,
    dimensions: Option<u32>,
    user: Option<String>,
    /// Ignored: the encoding of the response does not affect the vectors.
    #[serde(rename = "encoding_format")]
    _encoding: Option<String>,
    #[serde(flatten)]
    extra: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WireInput {
    Text(String),
    Texts(Vec<String>),
    Tokens(Vec<u32>),
    TokenLists(Vec<Vec<u32>>),
}

/// Decodes a request. Accepts exactly what [`validate()`] accepts; `extra` receives the fields that
/// neither the format nor the common form defines.
pub fn decode_request(body: &[u8]) -> Result<EmbedRequest, DecodeError> {
    validate(body)?;
    let wire: Wire = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The body cannot be parsed: {error}.")))?;
    let inputs = match wire.input {
        WireInput::Text(text) => vec![EmbedInput::Text(text)],
        WireInput::Texts(texts) => texts.into_iter().map(EmbedInput::Text).collect(),
        WireInput::Tokens(tokens) => vec![EmbedInput::Tokens(tokens)],
        WireInput::TokenLists(lists) => lists.into_iter().map(EmbedInput::Tokens).collect(),
    };
    Ok(EmbedRequest {
        model: wire.model,
        inputs,
        dimensions: wire.dimensions,
        user: wire.user,
        extra: wire.extra,
    })
}

/// Decodes a response of an upstream, with vectors in either encoding. Sorts the vectors by
/// `index`.
pub fn decode_response(body: &[u8]) -> Result<EmbedResponse, DecodeError> {
    Ok(read_response(body)?)
}

fn read_response(body: &[u8]) -> Result<EmbedResponse, BoxedError> {
    let mut reader = Reader::new(body, u32::MAX)?;
    reader.kind()?;
    reader.begin_object()?;
    let mut vectors = Vec::new();
    let mut report = EmbedReport::default();
    while let Some(key) = reader.key()? {
        match &*key.name {
            "data" if reader.kind()? == Kind::Array => {
                reader.begin_array()?;
                while reader.item()? {
                    vectors.push(read_item(&mut reader, vectors.len())?);
                }
            }
            "usage" => report = EmbedReport::read(&mut reader)?,
            _ => reader.skip()?,
        }
    }
    reader.finish()?;
    vectors.sort_by_key(|(index, _)| *index);
    Ok(EmbedResponse {
        vectors: vectors.into_iter().map(|(_, vector)| vector).collect(),
        usage: report.usage,
    })
}

/// Reads one vector and its `index`; the default `index` is the position in the list.
fn read_item(reader: &mut Reader<'_>, place: usize) -> Result<(i64, Vec<f32>), BoxedError> {
    let mut index = i64::try_from(place).unwrap_or(i64::MAX);
    let mut found = None;
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        match &*key.name {
            "embedding" => found = Some(vector::read(reader)?),
            "index" if reader.kind()? == Kind::Number => {
                index = reader.number()?.as_i64().unwrap_or(index);
            }
            _ => reader.skip()?,
        }
    }
    let missing = || Box::new(DecodeError::missing("embedding"));
    Ok((index, found.ok_or_else(missing)?))
}
