//! Embeddings in Gemini's format: `:embedContent` for one text, `:batchEmbedContents` for several.

use serde_json::{Map, Value, json};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::{Credits, Unit, Usage};

use super::usage::with_cost;
use super::validate::{fields, known, open_fields, unsupported};
use super::wire::to_bytes;
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Path, Reader, write_string};

/// Maximum number of texts per request (ai.google.dev/api/embeddings).
const MAX_TEXTS: u32 = 100;
/// Fields that affect the vectors and that other formats do not define, with their names in the
/// common form.
pub(super) const TASK_FIELDS: &[(&str, &str)] = &[("taskType", "task_type"), ("title", "title")];

/// One text with its options.
struct SingleRequest {
    text: String,
    dimensions: Option<u32>,
    own: Map<String, Value>,
}

/// Decodes a request for one vector. The model is in the path, so the caller sets it.
pub fn embed_request(body: &[u8]) -> Result<EmbedRequest, DecodeError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    let one = one(&mut reader, &Path::TOP)?;
    reader.finish()?;
    Ok(common(vec![one.text], one.dimensions, one.own))
}

/// Decodes a request for several vectors. The options of all texts must be equal, because one
/// upstream call creates all vectors.
pub fn embed_requests(body: &[u8]) -> Result<EmbedRequest, DecodeError> {
    let mut reader = Reader::new(body, MAX_NODES)?;
    let mut all: Option<Vec<SingleRequest>> = None;
    fields(
        &mut reader,
        &["requests", "model"],
        &Path::TOP,
        |reader, name, path| {
            match name {
                "requests" => all = Some(read_requests(reader, path)?),
                _ => drop(reader.string_at(path)?),
            }
            Ok(())
        },
    )?;
    reader.finish()?;
    let mut all = all.ok_or_else(|| DecodeError::missing("requests"))?.into_iter();
    let first = all
        .next()
        .ok_or_else(|| DecodeError::invalid("requests", "'requests' must have at least one request."))?;
    let mut texts = vec![first.text];
    for (index, one) in all.enumerate() {
        if (&one.dimensions, &one.own) != (&first.dimensions, &first.own) {
            let why = "has other settings than 'requests[0]'; send it in a separate call";
            return Err(DecodeError::unsupported(format!("requests[{}]", index + 1), why));
        }
        texts.push(one.text);
    }
    Ok(common(texts, first.dimensions, first.own))
}

fn common(texts: Vec<String>, dimensions: Option<u32>, extra: Map<String, Value>) -> EmbedRequest {
    EmbedRequest {
        model: String::new(),
        inputs: texts.into_iter().map(EmbedInput::Text).collect(),
        dimensions,
        user: None,
        extra,
    }
}

fn read_requests(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<Vec<SingleRequest>, BoxedError> {
    reader.array_at(path)?;
    let mut all = Vec::new();
    while reader.item()? {
        let index = all.len() as u32;
        if index == MAX_TEXTS {
            return Err(path.invalid(format_args!("must have at most {MAX_TEXTS} requests")));
        }
        all.push(one(reader, &path.index(index))?);
    }
    Ok(all)
}

fn one(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<SingleRequest, BoxedError> {
    const FIELDS: &[&str] = &["model", "content", "taskType", "title", "outputDimensionality"];
    let (mut text, mut dimensions, mut own, mut seen) = (None, None, Map::new(), 0);
    reader.object_at(path)?;
    while let Some(key) = reader.key()? {
        let here = path.key(&key.name);
        let name = known(&key, FIELDS, &mut seen, &here)?;
        if reader.take_null()? {
            continue;
        }
        match name {
            "model" => drop(reader.string_at(&here)?),
            "content" => text = Some(content(reader, &here)?),
            "outputDimensionality" => {
                let length = reader.integer_at(1..=i64::from(u32::MAX), &here)?;
                dimensions = u32::try_from(length).ok();
            }
            name => {
                let value = reader.non_empty_string_at(&here)?.decoded().into_owned();
                let common = TASK_FIELDS.iter().find(|(own, _)| *own == name);
                own.insert(
                    common.map_or(name, |(_, common)| common).to_owned(),
                    Value::String(value),
                );
            }
        }
    }
    match text {
        Some(text) => Ok(SingleRequest {
            text,
            dimensions,
            own,
        }),
        None => Err(path.missing("content")),
    }
}

/// Returns the text of a `content` object, which must have exactly one part.
fn content(reader: &mut Reader<'_>, path: &Path<'_>) -> Result<String, BoxedError> {
    let mut text = None;
    open_fields(reader, &["role", "parts"], path, |reader, name, path| {
        if name == "role" {
            return reader.string_at(path).map(drop);
        }
        reader.array_at(path)?;
        let mut index = 0;
        while reader.item()? {
            let here = path.index(index);
            if index > 0 {
                return unsupported(&here, "is a second part; an embedding takes exactly one part");
            }
            open_fields(reader, &["text"], &here, |reader, _, path| {
                text = Some(reader.non_empty_string_at(path)?.decoded().into_owned());
                Ok(())
            })?;
            if text.is_none() {
                return unsupported(&here, "must have 'text'; other content cannot be embedded");
            }
            index += 1;
        }
        Ok(())
    })?;
    text.ok_or_else(|| path.missing("parts"))
}

/// Translates a parameter name of the common form to this format.
pub fn embed_param(param: &str) -> &str {
    match param {
        "input" => "content",
        "dimensions" => "outputDimensionality",
        other => TASK_FIELDS
            .iter()
            .find(|(_, common)| *common == other)
            .map_or(other, |(own, _)| own),
    }
}

/// Writes the response to a request for one vector. `charged` replaces a missing usage report;
/// `cost` is the price for the caller.
pub fn encode_embedding(response: &EmbedResponse, charged: &Usage, cost: Credits) -> Vec<u8> {
    let mut out = b"{\"embedding\":".to_vec();
    write_vector(
        &mut out,
        response
            .vectors
            .first()
            .map(|vector| &**vector)
            .unwrap_or_default(),
    );
    finish(out, response, charged, cost)
}

/// Writes the response to a request for several vectors. `charged` replaces a missing usage report;
/// `cost` is the price for the caller.
pub fn encode_embeddings(response: &EmbedResponse, charged: &Usage, cost: Credits) -> Vec<u8> {
    let mut out = b"{\"embeddings\":[".to_vec();
    for (index, vector) in response.vectors.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_vector(&mut out, vector);
    }
    out.push(b']');
    finish(out, response, charged, cost)
}

fn write_vector(out: &mut Vec<u8>, values: &[f32]) {
    out.extend_from_slice(b"{\"values\":");
    out.extend_from_slice(&to_bytes(&values));
    out.push(b'}');
}

fn finish(mut out: Vec<u8>, response: &EmbedResponse, charged: &Usage, cost: Credits) -> Vec<u8> {
    let tokens = response.usage.as_ref().unwrap_or(charged).total_input();
    let mut usage = Map::new();
    usage.insert("promptTokenCount".to_owned(), json!(tokens));
    usage.insert("totalTokenCount".to_owned(), json!(tokens));
    with_cost(&mut usage, Some(cost));
    out.extend_from_slice(b",\"usageMetadata\":");
    out.extend_from_slice(&to_bytes(&usage));
    out.push(b'}');
    out
}

/// Writes the request for an upstream: all texts in one `:batchEmbedContents` request. Fails for
/// token inputs, which the format does not support.
pub fn encode_embed_request(request: &EmbedRequest) -> Result<Vec<u8>, DecodeError> {
    let mut out = b"{\"requests\":[".to_vec();
    for (index, input) in request.inputs.iter().enumerate() {
        let EmbedInput::Text(text) = input else {
            return Err(DecodeError::unsupported(
                "input",
                "must be text for this model, not tokens",
            ));
        };
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"model\":");
        write_string(&mut out, &format!("models/{}", request.model));
        out.extend_from_slice(b",\"content\":{\"parts\":[{\"text\":");
        write_string(&mut out, text);
        out.extend_from_slice(b"}]}");
        if let Some(dimensions) = request.dimensions {
            out.extend_from_slice(format!(",\"outputDimensionality\":{dimensions}").as_bytes());
        }
        for (own, common) in TASK_FIELDS {
            if let Some(Value::String(value)) = request.extra.get(*common) {
                out.push(b',');
                write_string(&mut out, own);
                out.push(b':');
                write_string(&mut out, value);
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// Top-level fields outside OpenAI's format that [`encode_embed_request`] supports.
pub const EMBED_FIELDS: &[&str] = &["task_type", "title"];

/// Decodes the vectors of an upstream's response. Fails if the response has no `embeddings`. An
/// implausible token count is omitted.
pub fn decode_embeddings(body: &[u8]) -> Result<EmbedResponse, DecodeError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        embeddings: Vec<Vector>,
        usage_metadata: Option<Report>,
    }
    #[derive(serde::Deserialize)]
    struct Vector {
        values: Vec<f32>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Report {
        prompt_token_count: Option<u64>,
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let tokens = answer.usage_metadata.and_then(|report| report.prompt_token_count);
    let plausible = tokens.filter(|tokens| *tokens <= tollgate_types::usage::MAX_QUANTITY);
    Ok(EmbedResponse {
        vectors: answer
            .embeddings
            .into_iter()
            .map(|vector| vector.values)
            .collect(),
        usage: plausible.map(|tokens| Usage::ZERO.with(Unit::Input, tokens)),
    })
}
