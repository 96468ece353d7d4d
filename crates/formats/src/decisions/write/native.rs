//! Encoding in Tollgate's own dialect, a superset of System One.

use serde_json::{Map, Value, json};
use tollgate_types::decide::{
    Decision, Question, QuestionKind, Verdict, argmax, confidence_of_choice, confidence_of_noul,
    confidence_of_score, expected_level,
};

use super::{ResponseFrame, arguments, by_name, error, members, refusal, rounded, tool_names};
use crate::decisions::keys;

pub(super) fn answer(question: &Question, decision: &Decision) -> Map<String, Value> {
    let value = match (&decision.verdict, &question.kind) {
        (Verdict::Noul(yes), _) => json!({
            "type": "noul",
            "noul": yes,
            "probability": yes,
            "confidence": rounded(confidence_of_noul(*yes)),
        }),
        (Verdict::Choice(probabilities), QuestionKind::Choice { options }) => json!({
            "type": "choice",
            "choice": options.get(argmax(probabilities)).map(|option| &option.value),
            "probabilities": by_name(keys::for_options(options), probabilities),
            "confidence": rounded(confidence_of_choice(probabilities)),
        }),
        (Verdict::Score(probabilities), QuestionKind::Score { levels }) => {
            let numbered = levels.iter().enumerate();
            let legend: Map<String, Value> = numbered
                .map(|(place, level)| (place.to_string(), json!(level.label)))
                .collect();
            json!({
                "type": "score",
                "score": rounded(expected_level(probabilities)),
                "probabilities": by_name((0..levels.len()).map(|place| place.to_string()), probabilities),
                "legend": legend,
                "confidence": rounded(confidence_of_score(probabilities)),
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
                "probabilities": by_name(names, probabilities),
                "arguments": arguments(tools, decided),
            })
        }
        (Verdict::Failed(failure), _) => json!({"type": "error", "error": error(failure, question)}),
        _ => return refusal(),
    };
    members(value)
}

pub(super) fn usage(frame: &ResponseFrame<'_>) -> Value {
    let tokens = frame.usage;
    json!({
        "input_tokens": tokens.total(),
        "input_tokens_details": {
            "state": tokens.state,
            "questions": tokens.questions,
            "media": tokens.media,
        },
        "output_tokens": 0,
        "total_tokens": tokens.total(),
        "cost": frame.cost.to_string(),
    })
}
