//! The response to `POST …/moderations`: texts with "violent" are flagged as violence.

use serde_json::{Value, json};

use super::reply::Reply;

/// The word that flags a text as violent.
const WORD: &str = "violent";

/// Returns the moderation result of the inputs of a request.
pub(super) fn reply(body: &[u8]) -> Reply {
    let Ok(request) = serde_json::from_slice::<Value>(body) else {
        return Reply::error(
            400,
            "invalid_request",
            "We could not parse the JSON body of your request.",
        );
    };
    let inputs: Vec<String> = match &request["input"] {
        Value::String(text) => vec![text.clone()],
        // The parts of one input share one result.
        Value::Array(parts) if parts.first().is_some_and(Value::is_object) => {
            vec![request["input"].to_string()]
        }
        Value::Array(texts) => texts
            .iter()
            .map(|text| text.as_str().unwrap_or_default().to_owned())
            .collect(),
        _ => return Reply::error(400, "invalid_request", "'$.input' is invalid."),
    };
    let result = |text: &String| {
        let is_violent = text.contains(WORD);
        json!({
            "flagged": is_violent,
            "categories": {"violence": is_violent, "harassment": false, "illicit": null},
            "category_scores": {"violence": if is_violent { 0.9 } else { 0.1 }, "harassment": 0.01},
            "category_applied_input_types": {"violence": ["text", "image"], "harassment": ["text"]},
        })
    };
    let results: Vec<Value> = inputs.iter().map(result).collect();
    let answer = json!({"id": "modr-1", "model": request["model"], "results": results});
    Reply::body(200, "application/json", answer.to_string())
}
