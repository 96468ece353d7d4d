//! Encoding in OpenAI's dialect (`types/decision.py`): every answer has a `name`, which may be
//! null, and probabilities are a list.

use serde_json::{Map, Value, json};
use tollgate_types::decide::{
    Decision, Question, QuestionKind, Verdict, argmax, confidence_of_choice, confidence_of_noul,
    confidence_of_score, expected_level,
};

use super::{ResponseFrame, arguments, error, members, refusal, rounded, tool_names};

pub(super) fn answer(question: &Question, decision: &Decision) -> Map<String, Value> {
    let value = match (&decision.verdict, &question.kind) {
        (Verdict::Noul(yes), _) => json!({
            "type": "predicate",
            "probability": yes,
            "confidence": rounded(confidence_of_noul(*yes)),
        }),
        (Verdict::Choice(probabilities), QuestionKind::Choice { options }) => {
            let values: Vec<Value> = options.iter().map(|option| option.value.clone()).collect();
            json!({
                "type": "choice",
                "choice": values.get(argmax(probabilities)),
                "confidence": rounded(confidence_of_choice(probabilities)),
                "probabilities": listed(values, probabilities),
            })
        }
        (Verdict::Score(probabilities), QuestionKind::Score { levels }) => {
            let numbered = levels.iter().zip(probabilities).enumerate();
            let numbered = numbered.map(|(place, (level, probability))| {
                json!({"value": place, "label": level.label, "probability": probability})
            });
            json!({
                "type": "score",
                "score": rounded(expected_level(probabilities)),
                "confidence": rounded(confidence_of_score(probabilities)),
                "probabilities": numbered.collect::<Vec<_>>(),
            })
        }
        (
            Verdict::Tool {
                probabilities,
                arguments: decided,
            },
            QuestionKind::Tool { tools, .. },
        ) => {
            let names = tool_names(tools, probabilities);
            json!({
                "type": "tool",
                "tool": names.get(argmax(probabilities)),
                "confidence": rounded(confidence_of_choice(probabilities)),
                "probabilities": listed(names.into_iter().map(Value::String), probabilities),
                "arguments": arguments(tools, decided),
            })
        }
        // The dialect has no answer for a failed question, so the error is added to a refusal.
        (Verdict::Failed(failure), _) => json!({"type": "refusal", "error": error(failure, question)}),
        _ => return refusal(),
    };
    members(value)
}

fn listed(values: impl IntoIterator<Item = Value>, probabilities: &[f64]) -> Vec<Value> {
    let pairs = values.into_iter().zip(probabilities);
    pairs
        .map(|(value, probability)| json!({"value": value, "probability": probability}))
        .collect()
}

pub(super) fn usage(frame: &ResponseFrame<'_>) -> Value {
    let total = frame.usage.total();
    json!({
        "input_tokens": total,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": total,
        "cost": frame.cost.to_string(),
    })
}
