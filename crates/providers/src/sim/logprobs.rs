//! Log probabilities in OpenAI's format. The values depend only on the rank.

use serde_json::{Value, json};

/// Returns the log probabilities of these tokens, each with `alternatives` top tokens.
pub(super) fn of<'t>(tokens: impl Iterator<Item = &'t str>, alternatives: u32) -> Value {
    let content: Vec<Value> = tokens.map(|token| entry(token, alternatives)).collect();
    json!({"content": content, "refusal": null})
}

fn entry(token: &str, alternatives: u32) -> Value {
    let mut entry = candidate(token, 0);
    let others = (0..alternatives).map(|rank| {
        let text = if rank == 0 {
            token.to_owned()
        } else {
            format!("{token}~{rank}")
        };
        candidate(&text, rank)
    });
    entry["top_logprobs"] = others.collect();
    entry
}

fn candidate(token: &str, rank: u32) -> Value {
    let logprob = -0.125 - f64::from(rank);
    json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()})
}
