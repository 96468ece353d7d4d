//! Conversion of token probabilities between this format and OpenAI's, which the common form uses.

use serde_json::{Value, json};

/// Converts `logprobsResult` to `{"content": […]}`.
pub(super) fn to_common(result: &Value) -> Option<Value> {
    let chosen = result.get("chosenCandidates")?.as_array()?;
    let tops = result.get("topCandidates").and_then(Value::as_array);
    let content: Vec<Value> = chosen
        .iter()
        .enumerate()
        .map(|(index, candidate)| {
            let top = tops.and_then(|tops| tops.get(index)?.get("candidates")?.as_array());
            let mut entry = token(candidate);
            entry["top_logprobs"] = top.into_iter().flatten().map(token).collect();
            entry
        })
        .collect();
    Some(json!({"content": content, "refusal": null}))
}

fn token(candidate: &Value) -> Value {
    let text = candidate.get("token").and_then(Value::as_str).unwrap_or_default();
    json!({"token": text, "logprob": candidate.get("logProbability"), "bytes": text.as_bytes()})
}

/// Converts `{"content": […]}` to `logprobsResult`.
pub(super) fn to_wire(common: &Value) -> Option<Value> {
    let content = common.get("content")?.as_array()?;
    let of = |entry: &Value| json!({"token": entry.get("token"), "logProbability": entry.get("logprob")});
    let chosen: Vec<Value> = content.iter().map(of).collect();
    let top = |entry: &Value| -> Value {
        let top = entry.get("top_logprobs").and_then(Value::as_array);
        json!({"candidates": top.into_iter().flatten().map(of).collect::<Vec<_>>()})
    };
    let tops: Vec<Value> = content.iter().map(top).collect();
    Some(json!({"chosenCandidates": chosen, "topCandidates": tops}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logprobs_round_trip() {
        let result = json!({
            "chosenCandidates": [{"token": "hi", "logProbability": -0.5}],
            "topCandidates": [{"candidates": [
                {"token": "hi", "logProbability": -0.5}, {"token": "ho", "logProbability": -1.5},
            ]}],
        });
        let common = to_common(&result).unwrap();
        assert_eq!(common["content"][0]["top_logprobs"][1]["token"], "ho");
        assert_eq!(common["content"][0]["bytes"], json!([104, 105]));
        assert_eq!(to_wire(&common), Some(result));
        assert_eq!(to_common(&json!({})), None);
        assert_eq!(to_wire(&json!(null)), None);
    }
}
