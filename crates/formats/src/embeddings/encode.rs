//! Encoding of embeddings requests and responses from the common form.

use serde_json::{Map, Value, json};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::{Credits, Usage};

use super::head::Encoding;
use super::{usage, vector};
use crate::json::write_string;

/// Writes a request for an upstream of this format. All inputs must be texts or all must be token
/// lists: the format does not allow both in one list.
pub fn encode_request(request: &EmbedRequest, encoding: Encoding) -> Vec<u8> {
    let inputs: Vec<Value> = request
        .inputs
        .iter()
        .map(|input| match input {
            EmbedInput::Text(text) => json!(text),
            EmbedInput::Tokens(tokens) => json!(tokens),
        })
        .collect();
    let mut object = Map::new();
    object.insert("model".to_owned(), json!(request.model));
    object.insert("input".to_owned(), Value::Array(inputs));
    object.insert("encoding_format".to_owned(), json!(encoding.as_str()));
    if let Some(dimensions) = request.dimensions {
        object.insert("dimensions".to_owned(), json!(dimensions));
    }
    if let Some(user) = &request.user {
        object.insert("user".to_owned(), json!(user));
    }
    object.extend(request.extra.clone());
    Value::Object(object).to_string().into_bytes()
}

/// Writes the response for the caller. `public_model` is the model name from the request, `cost`
/// the price for the caller. `charged` replaces a missing usage report.
pub fn encode_response(
    response: &EmbedResponse,
    public_model: &str,
    encoding: Encoding,
    charged: &Usage,
    cost: Credits,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(b"{\"object\":\"list\",\"data\":[");
    for (index, values) in response.vectors.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(
            format!("{{\"object\":\"embedding\",\"index\":{index},\"embedding\":").as_bytes(),
        );
        vector::write(&mut out, values, encoding);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"model\":");
    write_string(&mut out, public_model);
    out.extend_from_slice(b",\"usage\":");
    usage::write(&mut out, response.usage.as_ref().unwrap_or(charged), cost);
    out.push(b'}');
    out
}
