//! Golden files of embeddings. `request.json` decodes to `ir.json` and round-trips. `response.json`
//! round-trips, too, in both encodings and bit for bit. `relayed.json` is the result for a caller
//! in the requested encoding.

use serde_json::{Map, Value, json};
use tollgate_formats::embeddings::{
    Encoding, decode_request, decode_response, encode_request, encode_response, inspect_response,
    splice_response,
};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::{Credits, Unit, Usage};

use super::{Case, cases};

const COST: Credits = Credits::from_nanos(1_500);

#[test]
fn embeddings() {
    let cases = cases("embeddings");
    assert!(cases.len() >= 6, "the cases are found");
    cases.iter().for_each(check);
}

fn check(case: &Case) {
    let mut forms = Map::new();
    if let Some(body) = case.read("request.json") {
        let request = decode_request(&body).unwrap();
        for encoding in [Encoding::Float, Encoding::Base64] {
            let again = decode_request(&encode_request(&request, encoding)).unwrap();
            assert_eq!(again, request, "{}.request.json there and back", case.name);
        }
        forms.insert("request".to_owned(), request_form(&request));
    }
    if let Some(body) = case.read("response.json") {
        let response = decode_response(&body).unwrap();
        let usage = response.usage.unwrap();
        for encoding in [Encoding::Float, Encoding::Base64] {
            let written = encode_response(&response, "maker/model", encoding, &usage, COST);
            assert_eq!(inspect_response(&written).unwrap().encoding, Some(encoding));
            let again = decode_response(&written).unwrap();
            assert_eq!(again, response, "{}.response.json there and back", case.name);
        }
        let head = inspect_response(&body).unwrap();
        assert_eq!(head.report.usage, response.usage, "{}", case.name);
        assert_eq!(head.vectors as usize, response.vectors.len(), "{}", case.name);
        let relayed = splice_response(&body, &head, "maker/model", &Usage::ZERO, COST).unwrap();
        assert_eq!(decode_response(&relayed).unwrap(), response, "{}", case.name);
        case.expect("relayed.json", std::str::from_utf8(&relayed).unwrap());
        forms.insert("response".to_owned(), response_form(&response));
    }
    let text = serde_json::to_string_pretty(&Value::Object(forms)).unwrap();
    case.expect("ir.json", &format!("{text}\n"));
}

fn request_form(request: &EmbedRequest) -> Value {
    let inputs: Vec<Value> = request
        .inputs
        .iter()
        .map(|input| match input {
            EmbedInput::Text(text) => json!({ "text": text }),
            EmbedInput::Tokens(tokens) => json!({ "tokens": tokens }),
        })
        .collect();
    json!({
        "model": request.model,
        "inputs": inputs,
        "dimensions": request.dimensions,
        "user": request.user,
        "extra": request.extra,
    })
}

/// Returns the vectors as the bits of their numbers.
fn response_form(response: &EmbedResponse) -> Value {
    let bits = |vector: &Vec<f32>| -> Vec<String> {
        vector
            .iter()
            .map(|value| format!("{:08x}", value.to_bits()))
            .collect()
    };
    json!({
        "vectors": response.vectors.iter().map(bits).collect::<Vec<_>>(),
        "input_tokens": response.usage.map(|usage| usage.get(Unit::Input)),
    })
}
