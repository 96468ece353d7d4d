//! Endpoints that accept questions: those of System One, OpenRouter, OpenAI and Google.

use serde_json::{Map, Value, json};

use super::super::reply::Reply;
use super::labels::with_synonyms;
use super::truth::{Script, of_question};
use super::{DecisionFault, json_reply};

/// Probability of yes for a question without a script.
const UNSAID: f64 = 0.5;

pub(super) fn reply(path: &str, body: &Value, fault: Option<DecisionFault>) -> Result<Reply, String> {
    match fault {
        Some(DecisionFault::NoEndpoint) => return Ok(Reply::error(404, "unknown_url", "Not Found")),
        Some(DecisionFault::NoDecisionModel) => {
            return Ok(Reply::error(501, "not_supported", "This model does not decide"));
        }
        Some(DecisionFault::WrongModel) => {
            let error =
                json!({"message": "Not a decision model", "param": "model", "code": "unsupported_model"});
            return Ok(Reply::body(
                400,
                "application/json",
                json!({"error": error}).to_string(),
            ));
        }
        Some(DecisionFault::RefusesSilently) => {
            return Ok(Reply::body(
                400,
                "application/json",
                r#"{"error":{"message":"No."}}"#,
            ));
        }
        _ => {}
    }
    let state = body
        .get("state")
        .or_else(|| body.get("input"))
        .ok_or("the state is missing")?
        .to_string();
    let questions: Vec<(String, &Value)> = match body.get("questions") {
        Some(Value::Object(map)) => map.iter().map(|(id, question)| (id.clone(), question)).collect(),
        Some(Value::Array(list)) => {
            let id = |question: &Value| {
                question["name"]
                    .as_str()
                    .or(question["id"].as_str())
                    .map(str::to_owned)
            };
            list.iter()
                .map(|question| (id(question).unwrap_or_default(), question))
                .collect()
        }
        _ => return Err("questions are missing".to_owned()),
    };
    if questions.is_empty() {
        return Err("there are no questions".to_owned());
    }
    let is_list = body["questions"].is_array();
    let is_google = !is_list && body.get("input").is_some();
    let mut answers: Vec<(String, Value)> = Vec::with_capacity(questions.len());
    for (id, question) in &questions {
        let instructions = question["instructions"]
            .as_str()
            .ok_or("instructions are missing")?;
        let script = of_question(instructions, &state, id)?;
        let mut answer = answer(question, script.as_ref(), is_list, fault)?;
        if is_google && answer.get("noul").is_some() {
            let yes = answer["noul"].as_f64().unwrap_or(UNSAID);
            answer["confidence"] = json!(yes.max(1.0 - yes));
        }
        if is_list {
            answer["name"] = json!(id);
        }
        answers.push((id.clone(), answer));
    }
    match fault {
        Some(DecisionFault::FewerAnswers) => _ = answers.pop(),
        Some(DecisionFault::AnotherQuestion) => {
            "another".clone_into(&mut answers[0].0);
            if is_list {
                answers[0].1["name"] = json!("another");
            }
        }
        _ => {}
    }
    let answers = match is_list {
        true => answers.into_iter().map(|(_, answer)| answer).collect(),
        false => Value::Object(answers.into_iter().collect()),
    };
    let tokens = body.to_string().len().div_ceil(4);
    let usage = match is_google {
        true => json!({"total_input_tokens": tokens, "total_output_tokens": 0, "total_tokens": tokens}),
        false => json!({"input_tokens": tokens, "output_tokens": 0, "total_tokens": tokens}),
    };
    let mut whole = json!({"model": body["model"], "answers": answers, "usage": usage});
    if path.contains("/alpha/") {
        whole["id"] = json!("gen-1");
        whole["provider"] = json!("Fake");
    }
    Ok(json_reply(&whole, fault))
}

fn answer(
    question: &Value,
    script: Option<&Script>,
    is_list: bool,
    fault: Option<DecisionFault>,
) -> Result<Value, String> {
    if script.is_some_and(|script| script.refuse) {
        return Ok(json!({"type": "refusal"}));
    }
    let kind = question["type"].as_str().ok_or("a type is missing")?;
    let shares_of = |names: &[Vec<String>]| match script {
        Some(script) => script.probabilities(names),
        None => vec![1.0 / names.len() as f64; names.len()],
    };
    let single = |name: &str| with_synonyms(&[name.to_owned()]);
    Ok(match kind {
        "noul" => json!({"type": "noul", "noul": yes(script, &shares_of, fault)}),
        "predicate" => json!({"type": "predicate", "probability": yes(script, &shares_of, fault)}),
        "choice" => {
            let values: Vec<Value> = match (&question["criteria"], &question["choices"]) {
                (Value::Object(map), _) => map.keys().map(|key| json!(key)).collect(),
                (_, Value::Array(list)) => list.iter().map(|choice| choice["value"].clone()).collect(),
                _ => return Err("a choice has no options".to_owned()),
            };
            let name = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let names: Vec<Vec<String>> = values.iter().map(|value| single(&name(value))).collect();
            let shares = shares_of(&names);
            let best = best(&shares);
            json!({
                "type": "choice",
                "choice": values[best],
                "confidence": shares[best],
                "probabilities": spread(&values, &shares, is_list, fault),
            })
        }
        "score" => {
            let levels = question.get("criteria").or_else(|| question.get("levels"));
            let levels = levels.and_then(Value::as_array).ok_or("a score has no levels")?;
            let label = |level: &Value| {
                level["label"]
                    .as_str()
                    .or(level.as_str())
                    .unwrap_or_default()
                    .to_owned()
            };
            let names: Vec<Vec<String>> = levels
                .iter()
                .enumerate()
                .map(|(position, level)| vec![label(level), position.to_string()])
                .collect();
            let shares = shares_of(&names);
            let expected: f64 = shares
                .iter()
                .enumerate()
                .map(|(position, share)| position as f64 * share)
                .sum();
            let values: Vec<Value> = (0..levels.len())
                .map(|position| {
                    if is_list {
                        json!(position)
                    } else {
                        json!(position.to_string())
                    }
                })
                .collect();
            let legend: Map<String, Value> = names
                .iter()
                .enumerate()
                .map(|(position, names)| (position.to_string(), json!(names[0])))
                .collect();
            let mut answer = json!({
                "type": "score",
                "score": expected,
                "confidence": shares[best(&shares)],
                "probabilities": spread(&values, &shares, is_list, fault),
            });
            if is_list {
                for (entry, names) in answer["probabilities"]
                    .as_array_mut()
                    .into_iter()
                    .flatten()
                    .zip(&names)
                {
                    entry["label"] = json!(names[0]);
                }
            } else {
                answer["legend"] = Value::Object(legend);
            }
            answer
        }
        other => return Err(format!("'{other}' is no type of question here")),
    })
}

/// Returns the probability of yes.
fn yes(
    script: Option<&Script>,
    shares_of: &dyn Fn(&[Vec<String>]) -> Vec<f64>,
    fault: Option<DecisionFault>,
) -> Value {
    let names = [
        vec!["yes".to_owned(), "true".to_owned()],
        vec!["no".to_owned(), "false".to_owned()],
    ];
    match fault {
        Some(DecisionFault::NoSum | DecisionFault::PositiveLogprob) => json!(1.7),
        Some(DecisionFault::NotANumber) => json!("NaN"),
        _ => match script {
            Some(_) => json!(shares_of(&names)[0]),
            None => json!(UNSAID),
        },
    }
}

fn best(shares: &[f64]) -> usize {
    let ranked = shares.iter().enumerate();
    ranked
        .max_by(|(_, one), (_, two)| one.total_cmp(two))
        .map_or(0, |(position, _)| position)
}

/// Returns the probabilities by option, as a list or as a map.
fn spread(values: &[Value], shares: &[f64], is_list: bool, fault: Option<DecisionFault>) -> Value {
    let factor = if fault == Some(DecisionFault::NoSum) {
        0.5
    } else {
        1.0
    };
    let max = match fault {
        Some(DecisionFault::ForgetsOption) => values.len() - 1,
        _ => values.len(),
    };
    let entries = values.iter().zip(shares).take(max);
    match is_list {
        true => entries
            .map(|(value, share)| json!({"value": value, "probability": share * factor}))
            .collect(),
        false => {
            let named = entries.map(|(value, share)| {
                let name = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (name, json!(share * factor))
            });
            Value::Object(named.collect())
        }
    }
}
