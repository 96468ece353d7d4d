//! The endpoints that model servers have beside those of the format: vLLM's and SGLang's `/tokenize`, SGLang's `/generate`,
//! llama.cpp's `/tokenize`, `/apply-template` and `/completion`.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::labels::{Next, next, text_of};
use super::{DecisionFault, json_reply};

pub(super) const PATHS: [&str; 4] = ["/tokenize", "/generate", "/completion", "/apply-template"];

/// The number of a token: its bytes.
fn number(token: &str) -> u64 {
    token
        .bytes()
        .fold(0, |number, byte| number << 8 | u64::from(byte))
}

/// The token of a number.
fn token(number: u64) -> String {
    let bytes = number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0);
    String::from_utf8(bytes.collect()).unwrap_or_default()
}

/// Letters and pairs of them are a token each, with a space before them or none; but not pairs with a Q.
fn tokens(text: &str) -> Vec<u64> {
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let word = line.trim_end_matches('\n');
        let letters = word.trim_start();
        let is_one = letters.len() < 2 || (letters.len() == 2 && !letters.contains('Q'));
        match is_one && !word.is_empty() {
            true => found.push(number(word)),
            false => found.extend(word.bytes().map(u64::from)),
        }
        found.extend(line.ends_with('\n').then_some(10));
    }
    found
}

/// The shares of tokens that are named by their numbers, as vLLM tells them.
pub(super) fn by_ids(next: &Next, ids: &[Value], fault: Option<DecisionFault>) -> Vec<Value> {
    let ids = ids.iter().filter_map(Value::as_u64);
    let told = ids.enumerate().map(|(place, id)| {
        let logprob = match (fault, place) {
            (Some(DecisionFault::PositiveLogprob), 0) => json!(0.5),
            (Some(DecisionFault::NotANumber), 0) => json!("NaN"),
            _ => json!(next.share(&token(id)).ln()),
        };
        json!({"token": format!("token_id:{id}"), "logprob": logprob, "bytes": null})
    });
    told.collect()
}

pub(super) fn reply(path: &str, body: &Value, fault: Option<DecisionFault>) -> Result<Reply, String> {
    if fault == Some(DecisionFault::NoEndpoint) {
        return Ok(Reply::error(404, "unknown_url", "Not Found"));
    }
    let text = |name: &str| {
        body.get(name)
            .and_then(Value::as_str)
            .ok_or(format!("{name} is missing"))
    };
    let end = path.rsplit('/').next().unwrap_or_default();
    let answer = match end {
        "tokenize" => {
            let text = text("prompt").or(text("content"))?;
            let tokens = tokens(text);
            json!({"count": tokens.len(), "max_model_len": 4_096, "tokens": tokens})
        }
        "apply-template" => json!({"prompt": format!("<user>{}<model>", text_of(body))}),
        "completion" => {
            let next = next(text("prompt")?)?;
            let most = body.get("n_probs").and_then(Value::as_u64).unwrap_or(0) as usize;
            let told = json!([{"id": 7, "token": "A", "logprob": -0.5, "top_logprobs": next.likeliest(most, fault)}]);
            match fault {
                Some(DecisionFault::DropsLogprobs) => json!({"content": "A", "stop": true}),
                _ => json!({"content": "A", "stop": true, "completion_probabilities": told}),
            }
        }
        _ => {
            let next = next(text("text")?)?;
            let ids = body.get("token_ids_logprob").and_then(Value::as_array);
            let told = by_ids(&next, ids.map_or(&[], Vec::as_slice), fault);
            let told: Vec<Value> = told
                .into_iter()
                .map(|entry| {
                    let id = entry["token"]
                        .as_str()
                        .and_then(|text| text.strip_prefix("token_id:"));
                    json!([entry["logprob"], id.and_then(|id| id.parse::<u64>().ok()), null])
                })
                .collect();
            match fault {
                Some(DecisionFault::DropsLogprobs | DecisionFault::IgnoresTokenIds) => {
                    json!({"text": "A", "meta_info": {"completion_tokens": 1}})
                }
                _ => {
                    json!({"text": "A", "meta_info": {"completion_tokens": 1, "output_token_ids_logprobs": [told]}})
                }
            }
        }
    };
    Ok(json_reply(&answer, fault))
}
