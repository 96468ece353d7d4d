use serde_json::json;

use super::super::cases::{EvaluationTarget, read};
use super::*;

fn questions() -> Vec<Question> {
    let line = json!({"state": "It is.", "questions": {
        "yes": {"type": "noul", "instructions": "Is it?"},
        "team": {"type": "choice", "instructions": "Who?", "criteria": {"b": null, "a": null, "c": null}},
        "next": {"type": "tool", "instructions": "What now?", "tools": [
            {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "reply", "parameters": {"type": "object"}}},
        ]},
    }, "truth": {"yes": true}});
    let target = EvaluationTarget {
        model: "sim/decide".to_owned(),
        calibration: None,
    };
    read(&line.to_string(), &target).unwrap().remove(0).questions
}

fn answer(answers: Value) -> Answer {
    serde_json::from_value(json!({"answers": answers, "usage": {"cost": "0.5"}})).unwrap()
}

#[test]
fn answers_are_brought_to_the_order_of_the_options() {
    let questions = questions();
    let noul = json!({"type": "noul", "noul": 0.25, "abstain": 0.5, "method": {"source": "logits"}});
    let choice =
        json!({"type": "choice", "probabilities": {"b": 0.5, "a": 0.25, "c": 0.25}, "confidence": 0.25});
    for answers in [
        json!({"team": choice, "yes": noul, "next": {"type": "refusal"}}),
        json!([noul, choice, {"type": "error", "error": {"code": "upstream_error"}}]),
    ] {
        let answer = answer(answers);
        let parsed = answer.parsed(questions.iter()).unwrap();
        let ParsedAnswer::Answered(yes) = &parsed[0] else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            (&*yes.probabilities, yes.abstain),
            ([0.25, 0.75].as_slice(), Some(0.5))
        );
        assert_eq!(yes.source.as_deref(), Some("logits"));
        let ParsedAnswer::Answered(team) = &parsed[1] else {
            panic!("{parsed:?}")
        };
        assert_eq!(
            (&*team.probabilities, team.confidence),
            ([0.5, 0.25, 0.25].as_slice(), Some(0.25))
        );
        assert!(
            matches!(&parsed[2], ParsedAnswer::Refused | ParsedAnswer::Failed(_)),
            "{parsed:?}"
        );
        assert_eq!(answer.cost().to_string(), "0.5");
    }
}

#[test]
fn malformed_answers_are_reported() {
    let questions = questions();
    for (answers, expected) in [
        (json!({}), "no answer to 'yes'"),
        (json!({"yes": {"type": "choice"}}), "'yes' is malformed"),
        (
            json!([{"type": "noul", "noul": 1}, {"type": "choice", "probabilities": {"b": 1}}]),
            "'team' is malformed",
        ),
    ] {
        let wrong = answer(answers).parsed(questions.iter()).unwrap_err();
        assert!(wrong.contains(expected), "{wrong}");
    }
}

#[test]
fn reversed_options_are_restored_and_none_stays_last() {
    let questions = questions();
    assert_eq!(restore_order(&questions[1], vec![0.1, 0.2, 0.7]), [0.7, 0.2, 0.1]);
    assert_eq!(restore_order(&questions[2], vec![0.1, 0.2, 0.7]), [0.2, 0.1, 0.7]);
}
