//! Embeddings at Vertex AI: `:predict` for older models
//! (cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api), and
//! `:embedContent` for newer models, which accept one text per call
//! (cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.publishers.models/embedContent).

use serde_json::{Map, Value, json};
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Unit, Usage};

use super::embed::{EMBED_FIELDS, TASK_FIELDS};
use super::usage::read_usage;
use super::wire::to_bytes;
use crate::error::DecodeError;

/// Writes the request for an upstream, with one instance for each text. Disables truncation, so
/// that the upstream refuses a text that is too long. Fails for token inputs, which the format does
/// not support.
pub fn encode_predict_request(request: &EmbedRequest) -> Result<Vec<u8>, DecodeError> {
    let mut instances = Vec::with_capacity(request.inputs.len());
    for input in &request.inputs {
        let text = text_of(input)?;
        let mut instance = Map::new();
        instance.insert("content".to_owned(), json!(text));
        for name in EMBED_FIELDS {
            if let Some(Value::String(value)) = request.extra.get(*name) {
                instance.insert((*name).to_owned(), json!(value));
            }
        }
        instances.push(Value::Object(instance));
    }
    let mut parameters = json!({"autoTruncate": false});
    if let Some(dimensions) = request.dimensions {
        parameters["outputDimensionality"] = json!(dimensions);
    }
    Ok(to_bytes(
        &json!({"instances": instances, "parameters": parameters}),
    ))
}

/// Writes the request for an upstream that creates one vector per call, with truncation disabled.
/// Fails for more than one input, and for token inputs.
pub fn encode_embed_content_request(request: &EmbedRequest) -> Result<Vec<u8>, DecodeError> {
    let [input] = &*request.inputs else {
        return Err(DecodeError::unsupported(
            "input",
            "must be a single string for this model; send each string in a separate request",
        ));
    };
    let mut body = json!({
        "content": {"role": "user", "parts": [{"text": text_of(input)?}]}, "autoTruncate": false,
    });
    if let Some(dimensions) = request.dimensions {
        body["outputDimensionality"] = json!(dimensions);
    }
    for (own, common) in TASK_FIELDS {
        if let Some(Value::String(value)) = request.extra.get(*common) {
            body[*own] = json!(value);
        }
    }
    Ok(to_bytes(&body))
}

fn text_of(input: &EmbedInput) -> Result<&str, DecodeError> {
    match input {
        EmbedInput::Text(text) => Ok(text),
        EmbedInput::Tokens(_) => {
            let why = "must be text for this model, not tokens";
            Err(DecodeError::unsupported("input", why))
        }
    }
}

/// Decodes the vector of an upstream's response. Fails if the response has no `embedding`.
pub fn decode_embed_content(body: &[u8]) -> Result<EmbedResponse, DecodeError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Answer {
        embedding: Vector,
        usage_metadata: Option<Value>,
    }
    #[derive(serde::Deserialize)]
    struct Vector {
        values: Vec<f32>,
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let counted = answer.usage_metadata.as_ref().and_then(read_usage);
    Ok(EmbedResponse {
        vectors: vec![answer.embedding.values],
        usage: counted.map(|usage| Usage::ZERO.with(Unit::Input, usage.total_input())),
    })
}

/// Decodes the vectors of an upstream's response. The usage is the sum of the token counts of all
/// texts; `None` if a count is missing or implausible. Fails if the response has no `predictions`.
pub fn decode_predictions(body: &[u8]) -> Result<EmbedResponse, DecodeError> {
    #[derive(serde::Deserialize)]
    struct Answer {
        predictions: Vec<Prediction>,
    }
    #[derive(serde::Deserialize)]
    struct Prediction {
        embeddings: Vector,
    }
    #[derive(serde::Deserialize)]
    struct Vector {
        values: Vec<f32>,
        statistics: Option<Statistics>,
    }
    #[derive(serde::Deserialize)]
    struct Statistics {
        /// A float, because some versions of the API append a fraction of zero.
        token_count: Option<f64>,
    }
    let answer: Answer = serde_json::from_slice(body)
        .map_err(|error| DecodeError::invalid_json(format!("The response cannot be parsed: {error}.")))?;
    let (mut vectors, mut tokens) = (Vec::with_capacity(answer.predictions.len()), Some(0_u64));
    for Prediction { embeddings } in answer.predictions {
        let counted = embeddings
            .statistics
            .and_then(|statistics| whole(statistics.token_count?));
        tokens = tokens
            .zip(counted)
            .map(|(sum, counted)| sum.saturating_add(counted));
        vectors.push(embeddings.values);
    }
    let plausible = tokens.filter(|tokens| *tokens <= MAX_QUANTITY);
    Ok(EmbedResponse {
        usage: plausible.map(|tokens| Usage::ZERO.with(Unit::Input, tokens)),
        vectors,
    })
}

/// Converts a count to an integer; `None` if it is implausible.
fn whole(count: f64) -> Option<u64> {
    let fits = count.fract() == 0.0 && (0.0..=MAX_QUANTITY as f64).contains(&count);
    fits.then_some(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(inputs: Vec<EmbedInput>, dimensions: Option<u32>, extra: &Value) -> EmbedRequest {
        EmbedRequest {
            model: "m".to_owned(),
            inputs,
            dimensions,
            user: None,
            extra: extra.as_object().unwrap().clone(),
        }
    }

    #[test]
    fn a_request_has_an_instance_for_each_text() {
        let texts = || vec![EmbedInput::Text("a".to_owned()), EmbedInput::Text("b".to_owned())];
        for (dimensions, extra, expected) in [
            (
                None,
                json!({}),
                json!({"instances": [{"content": "a"}, {"content": "b"}], "parameters": {"autoTruncate": false}}),
            ),
            (
                Some(3),
                json!({"task_type": "RETRIEVAL_DOCUMENT", "title": "t", "other": 1}),
                json!({
                    "instances": [
                        {"content": "a", "task_type": "RETRIEVAL_DOCUMENT", "title": "t"},
                        {"content": "b", "task_type": "RETRIEVAL_DOCUMENT", "title": "t"},
                    ],
                    "parameters": {"autoTruncate": false, "outputDimensionality": 3},
                }),
            ),
        ] {
            let body = encode_predict_request(&request(texts(), dimensions, &extra)).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
        }
        let tokens = request(vec![EmbedInput::Tokens(vec![1])], None, &json!({}));
        assert_eq!(
            encode_predict_request(&tokens).unwrap_err().param.as_deref(),
            Some("input")
        );
    }

    #[test]
    fn single_text_uses_embed_content() {
        let text = || EmbedInput::Text("a".to_owned());
        let extra = json!({"task_type": "RETRIEVAL_DOCUMENT", "title": "t"});
        let body = encode_embed_content_request(&request(vec![text()], Some(3), &extra)).unwrap();
        let content = json!({"role": "user", "parts": [{"text": "a"}]});
        assert_eq!(
            serde_json::from_slice::<Value>(&body).unwrap(),
            json!({
                "content": content, "autoTruncate": false, "outputDimensionality": 3,
                "taskType": "RETRIEVAL_DOCUMENT", "title": "t",
            })
        );
        for inputs in [
            vec![text(), text()],
            Vec::new(),
            vec![EmbedInput::Tokens(vec![1])],
        ] {
            let error = encode_embed_content_request(&request(inputs, None, &json!({}))).unwrap_err();
            assert_eq!(error.param.as_deref(), Some("input"));
        }
        let answer =
            r#"{"embedding":{"values":[0.5]},"usageMetadata":{"promptTokenCount":7,"totalTokenCount":7}}"#;
        let answer = decode_embed_content(answer.as_bytes()).unwrap();
        assert_eq!(answer.usage, Some(Usage::ZERO.with(Unit::Input, 7)));
        assert_eq!(answer.vectors, [[0.5]]);
        let answer = decode_embed_content(br#"{"embedding":{"values":[]}}"#).unwrap();
        assert_eq!(answer.usage, None);
        assert!(decode_embed_content(b"{}").is_err());
    }

    #[test]
    fn usage_needs_a_count_for_every_text() {
        let of = |counts: [Value; 2]| {
            let all = counts
                .map(|count| json!({"embeddings": {"values": [0.5], "statistics": {"token_count": count}}}));
            decode_predictions(json!({ "predictions": all }).to_string().as_bytes()).unwrap()
        };
        for (counts, expected) in [
            ([json!(2), json!(3.0)], Some(5)),
            ([json!(2), json!(null)], None),
            ([json!(2), json!(-1)], None),
            ([json!(2), json!(0.5)], None),
            ([json!(2), json!(2_000_000_000_000_i64)], None),
        ] {
            let answer = of(counts);
            assert_eq!(answer.vectors, [[0.5], [0.5]]);
            assert_eq!(
                answer.usage,
                expected.map(|tokens| Usage::ZERO.with(Unit::Input, tokens))
            );
        }
        for body in ["", "{}", r#"{"predictions":[{}]}"#] {
            assert!(decode_predictions(body.as_bytes()).is_err(), "{body}");
        }
    }
}
