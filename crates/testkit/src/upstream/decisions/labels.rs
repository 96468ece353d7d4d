//! Labels in text requests: the probability of each label, and sampled answers.

use serde_json::{Value, json};

use super::super::chat_request::Shape;
use super::super::reply::Reply;
use super::truth::{Script, chance, normal, scripts};
use super::{DecisionFault, json_reply};

/// Options that state whether a question is answerable.
const ANSWERABLE: [&str; 2] = ["answerable", "unanswerable"];
/// Number of tokens that are not labels. Their probabilities descend.
const OTHERS: usize = 600;
/// The spellings of a label, and the share of the label's probability that each has.
const SPELLINGS: [(&str, f64); 2] = [("", 0.7), (" ", 0.3)];

/// The distribution of the next token.
pub(super) struct Next {
    /// Labels with probabilities, in the order of the text.
    pub labels: Vec<(String, f64)>,
    others: Vec<(String, f64)>,
}

/// Computes the distribution of the next token after a text with a line `LABEL) name: description`
/// for each label.
pub(super) fn next(text: &str) -> Result<Next, String> {
    let mut labels: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        let Some((label, name)) = line.trim().split_once(") ") else {
            continue;
        };
        if (1..=3).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_uppercase()) {
            let short = name.match_indices(": ").map(|(at, _)| name[..at].to_owned());
            let names = short.chain([name.to_owned()]).collect();
            labels.retain(|(other, _)| other != label);
            labels.push((label.to_owned(), names));
        }
    }
    let found = scripts(text)?;
    let named: Vec<Vec<String>> = labels.iter().map(|(_, names)| with_synonyms(names)).collect();
    let script = found.first().cloned();
    let truth = match &script {
        Some(script) => truth(script, &named),
        None => vec![1.0 / labels.len().max(1) as f64; labels.len()],
    };
    let (noise, bias, mass) = match &script {
        Some(script) if script.refuse => (0.0, 0.0, 0.0),
        Some(script) => (script.noise, script.bias, script.mass),
        None => (0.0, 0.0, 1.0),
    };
    let weights = truth.iter().enumerate().map(|(position, probability)| {
        let bonus = if position == 0 { bias } else { 0.0 };
        probability * (bonus + noise * normal(text, position as u64)).exp()
    });
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    let shares = weights
        .iter()
        .map(|weight| mass * weight / sum.max(f64::MIN_POSITIVE));
    let falling = |position: usize| 0.97_f64.powi(position as i32);
    let all: f64 = (0..OTHERS).map(falling).sum();
    Ok(Next {
        labels: labels.into_iter().map(|(label, _)| label).zip(shares).collect(),
        others: (0..OTHERS)
            .map(|position| (format!("word{position}"), (1.0 - mass) * falling(position) / all))
            .collect(),
    })
}

fn truth(script: &Script, named: &[Vec<String>]) -> Vec<f64> {
    let is_companion = |names: &Vec<String>| names.iter().any(|name| ANSWERABLE.contains(&name.as_str()));
    match script.abstain {
        Some(abstain) if named.len() == 2 && named.iter().all(is_companion) => {
            let share = |names: &Vec<String>| match names.iter().any(|name| name == ANSWERABLE[0]) {
                true => 1.0 - abstain,
                false => abstain,
            };
            named.iter().map(share).collect()
        }
        _ => script.probabilities(named),
    }
}

/// Returns the names of an option, with synonyms of yes and no.
pub(super) fn with_synonyms(names: &[String]) -> Vec<String> {
    let mut all = names.to_vec();
    for (word, other) in [("yes", "true"), ("true", "yes"), ("no", "false"), ("false", "no")] {
        if names.iter().any(|name| name.eq_ignore_ascii_case(word)) {
            all.extend([word.to_owned(), other.to_owned()]);
        }
    }
    all
}

impl Next {
    /// Returns the probability of one spelling of a label.
    pub fn share(&self, spelling: &str) -> f64 {
        let label = spelling.trim_start();
        let lead = &spelling[..spelling.len() - label.len()];
        let share = self.labels.iter().find(|(other, _)| other == label);
        let part = SPELLINGS.iter().find(|(other, _)| *other == lead);
        match (share, part) {
            (Some((_, share)), Some((_, part))) => share * part,
            _ => 1e-12,
        }
    }

    /// Returns the `max` most probable tokens.
    pub fn top_logprobs(&self, max: usize, fault: Option<DecisionFault>) -> Vec<Value> {
        let spelled = self.labels.iter().flat_map(|(label, share)| {
            SPELLINGS.map(|(lead, part)| (format!("{lead}{label}"), share * part))
        });
        let mut all: Vec<(String, f64)> = spelled.chain(self.others.iter().cloned()).collect();
        all.sort_by(|(_, one), (_, two)| two.total_cmp(one));
        let max = match fault {
            Some(DecisionFault::FewerLogprobs(fewer)) => fewer.min(max),
            Some(DecisionFault::DropsLogprobs) => 0,
            _ => max,
        };
        let logprobs = all.into_iter().take(max).enumerate();
        logprobs
            .map(|(rank, (token, share))| {
                let logprob = match (fault, rank) {
                    (Some(DecisionFault::PositiveLogprob), 0) => json!(0.5),
                    (Some(DecisionFault::NotANumber), 0) => json!("NaN"),
                    // Providers write -9999 for a probability that they do not report.
                    _ => json!(share.ln().max(-9_999.0)),
                };
                json!({"token": token, "logprob": logprob, "bytes": token.as_bytes()})
            })
            .collect()
    }

    /// Samples a token. `text` and `number` determine the sample.
    fn drawn(&self, text: &str, number: u64) -> String {
        let mut left = chance(text, number);
        let drawn = self.labels.iter().find(|(_, share)| {
            left -= share;
            left < 0.0
        });
        drawn.map_or_else(|| "neither".to_owned(), |(label, _)| label.clone())
    }
}

/// Joins all texts of a request, in their order.
pub(super) fn text_of(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let texts = members
                .iter()
                .map(|(name, member)| match (name.as_str(), member) {
                    ("text" | "content" | "input" | "prompt", Value::String(text)) => text.clone(),
                    ("messages" | "contents" | "content" | "parts" | "input", nested) => text_of(nested),
                    _ => String::new(),
                });
            texts.collect()
        }
        Value::Array(list) => list.iter().map(text_of).collect(),
        _ => String::new(),
    }
}

/// Returns the reply to a text request; `None` for requests that the common script answers.
pub(super) fn reply(
    path: &str,
    body: &Value,
    fault: Option<DecisionFault>,
    sequence: u64,
) -> Option<Result<Reply, String>> {
    let text = text_of(body);
    let next = match next(&text) {
        Ok(next) => next,
        Err(wrong) => return Some(Err(wrong)),
    };
    let number = |position: &str| body.pointer(position).and_then(Value::as_u64);
    match Shape::of(path)? {
        Shape::Chat => Some(Ok(chat(body, &text, &next, fault, sequence))),
        Shape::Content if number("/generationConfig/maxOutputTokens") == Some(1) => {
            let max = number("/generationConfig/logprobs").unwrap_or(0) as usize;
            Some(Ok(content(&text, &next, max, fault)))
        }
        _ => {
            let seed = number("/seed")
                .or(number("/generationConfig/seed"))
                .unwrap_or(sequence);
            Some(Ok(Reply::text(&shaped(body, &next.drawn(&text, seed)))))
        }
    }
}

/// Returns a label in the output format of the request.
fn shaped(body: &Value, label: &str) -> String {
    let is_shaped = body.to_string().contains(r#""enum":["#);
    match is_shaped {
        true => json!({"answer": label}).to_string(),
        false => label.to_owned(),
    }
}

fn chat(body: &Value, text: &str, next: &Next, fault: Option<DecisionFault>, sequence: u64) -> Reply {
    let refused = |param: Value| {
        let error =
            json!({"message": "This is not supported.", "type": "invalid_request_error", "param": param});
        Reply::body(400, "application/json", json!({"error": error}).to_string())
    };
    let wants = body.get("logprobs") == Some(&Value::Bool(true));
    match fault {
        Some(DecisionFault::RefusesLogprobs) if wants => return refused(json!("logprobs")),
        Some(DecisionFault::RefusesSilently) if wants => return refused(Value::Null),
        _ => {}
    }
    let number = |name: &str| body.get(name).and_then(Value::as_u64);
    let seed = number("seed").unwrap_or(sequence);
    let ids = body.get("logprob_token_ids").and_then(Value::as_array);
    let ids = ids.filter(|_| fault != Some(DecisionFault::IgnoresTokenIds));
    let top: Option<Vec<Value>> = match (wants, ids, fault) {
        (false, ..) | (_, _, Some(DecisionFault::DropsLogprobs)) => None,
        (_, Some(ids), _) => Some(super::servers::by_ids(next, ids, fault)),
        (_, None, _) => Some(next.top_logprobs(number("top_logprobs").unwrap_or(0) as usize, fault)),
    };
    let choices: Vec<Value> = (0..number("n").unwrap_or(1))
        .map(|index| {
            let label = next.drawn(text, seed.wrapping_mul(1_000).wrapping_add(index));
            let logprobs = top.as_ref().map(|top| {
                json!({"content": [{"token": label, "logprob": -0.5, "bytes": null, "top_logprobs": top}], "refusal": null})
            });
            let message = json!({"role": "assistant", "content": shaped(body, &label), "refusal": null});
            json!({"index": index, "message": message, "logprobs": logprobs, "finish_reason": "stop"})
        })
        .collect();
    let tokens = text.len().div_ceil(4);
    let usage = json!({"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1});
    let answer = json!({
        "id": format!("chatcmpl-decision-{sequence}"),
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": body["model"],
        "choices": choices,
        "usage": usage,
    });
    json_reply(&answer, fault)
}

fn content(text: &str, next: &Next, max: usize, fault: Option<DecisionFault>) -> Reply {
    let refused = |violation: Value| {
        let error = json!({"code": 400, "message": "Logprobs is not enabled.", "status": "INVALID_ARGUMENT", "details": violation});
        Reply::body(400, "application/json", json!({"error": error}).to_string())
    };
    match fault {
        Some(DecisionFault::RefusesLogprobs) => {
            return refused(json!([{"fieldViolations": [{"field": "generation_config.response_logprobs"}]}]));
        }
        Some(DecisionFault::RefusesSilently) => return refused(json!([])),
        _ => {}
    }
    let label = next.drawn(text, 0);
    let top = next.top_logprobs(max, fault).into_iter();
    let top: Vec<Value> = top
        .map(|entry| json!({"token": entry["token"], "tokenId": 7, "logProbability": entry["logprob"]}))
        .collect();
    let chosen = json!([{"token": label, "tokenId": 7, "logProbability": -0.5}]);
    let result = (fault != Some(DecisionFault::DropsLogprobs))
        .then(|| json!({"topCandidates": [{"candidates": top}], "chosenCandidates": chosen}));
    let candidate = json!({
        "content": {"role": "model", "parts": [{"text": label}]},
        "finishReason": "MAX_TOKENS",
        "index": 0,
        "logprobsResult": result,
    });
    let usage = json!({"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8});
    json_reply(
        &json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "fake"}),
        fault,
    )
}
