//! Native endpoints of model servers: vLLM's and SGLang's `/tokenize`, SGLang's `/generate`,
//! llama.cpp's `/tokenize`, `/apply-template` and `/completion`.

use serde_json::{Value, json};

use super::super::reply::Reply;
use super::labels::{Next, next, text_of};
use super::{DecisionFault, json_reply};

pub(super) const PATHS: [&str; 4] = ["/tokenize", "/generate", "/completion", "/apply-template"];

/// Computes the id of a token from its bytes.
fn number(token: &str) -> u64 {
    token
        .bytes()
        .fold(0, |number, byte| number << 8 | u64::from(byte))
}

/// Returns the token with this id.
fn token(number: u64) -> String {
    let bytes = number.to_be_bytes().into_iter().skip_while(|byte| *byte == 0);
    String::from_utf8(bytes.collect()).unwrap_or_default()
}

/// Splits a text into tokens. A line of one letter, or of two letters without a Q, is one token
/// with its leading spaces; any other line has one token for each byte.
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

/// Returns the probabilities of tokens by their ids, in vLLM's format.
pub(super) fn by_ids(next: &Next, ids: &[Value], fault: Option<DecisionFault>) -> Vec<Value> {
    let ids = ids.iter().filter_map(Value::as_u64);
    let logprobs = ids.enumerate().map(|(position, id)| {
        let logprob = match (fault, position) {
            (Some(DecisionFault::PositiveLogprob), 0) => json!(0.5),
            (Some(DecisionFault::NotANumber), 0) => json!("NaN"),
            _ => json!(next.share(&token(id)).ln()),
        };
        json!({"token": format!("token_id:{id}"), "logprob": logprob, "bytes": null})
    });
    logprobs.collect()
}

fn templated(body: &Value) -> String {
    format!("<user>{}<model>", text_of(body))
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
            // Messages are rendered with the chat template first.
            let turn = body.get("messages").map(|_| templated(body));
            let tokens = match &turn {
                Some(turn) => tokens(turn),
                None => tokens(text("prompt").or(text("content"))?),
            };
            json!({"count": tokens.len(), "max_model_len": 4_096, "tokens": tokens})
        }
        "apply-template" => json!({"prompt": templated(body)}),
        "completion" => {
            let next = next(text("prompt")?)?;
            let max = body.get("n_probs").and_then(Value::as_u64).unwrap_or(0) as usize;
            let logprobs = json!([{"id": 7, "token": "A", "logprob": -0.5, "top_logprobs": next.top_logprobs(max, fault)}]);
            match fault {
                Some(DecisionFault::DropsLogprobs) => json!({"content": "A", "stop": true}),
                _ => json!({"content": "A", "stop": true, "completion_probabilities": logprobs}),
            }
        }
        _ => {
            let next = next(text("text")?)?;
            let ids = body.get("token_ids_logprob").and_then(Value::as_array);
            let logprobs = by_ids(&next, ids.map_or(&[], Vec::as_slice), fault);
            let logprobs: Vec<Value> = logprobs
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
                    json!({"text": "A", "meta_info": {"completion_tokens": 1, "output_token_ids_logprobs": [logprobs]}})
                }
            }
        }
    };
    Ok(json_reply(&answer, fault))
}
