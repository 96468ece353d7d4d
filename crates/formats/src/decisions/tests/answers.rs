//! Tests of answers in each dialect.

use serde_json::{Value, json};
use tollgate_types::decide::{
    Argument, ArgumentDecision, Decision, DecisionSource, Method, QuestionKind, Verdict,
};
use tollgate_types::{Credits, Error, ErrorCode};

use super::decision_request;
use crate::decisions::{DecisionRequest, InputTokens, ResponseFrame, write};

fn questions() -> Value {
    let schema =
        json!({"type": "object", "properties": {"notify": {"type": "boolean"}, "note": {"type": "string"}}});
    json!([
        {"type": "noul", "instructions": "?", "name": "refund", "abstain": true},
        {"type": "choice", "instructions": "?", "choices": [{"value": "a"}, {"value": true}, {"value": "true"}]},
        {"type": "score", "instructions": "?", "name": "urgency", "levels": ["low", "high"]},
        {"type": "tool", "instructions": "?", "name": "next", "tools": [
            {"type": "function", "name": "pay", "parameters": schema},
            {"type": "function", "name": "wait", "parameters": {"type": "object"}}
        ]},
        {"type": "noul", "instructions": "?", "name": "shy"},
        {"type": "noul", "instructions": "?", "name": "broken"}
    ])
}

fn method(calibrated: Option<&str>, mass: Option<f64>) -> Option<Method> {
    Some(Method {
        source: DecisionSource::Logits,
        permutations: 2,
        mass,
        calls: 3,
        calibrated: calibrated.map(str::to_owned),
    })
}

fn decided(verdict: Verdict) -> Decision {
    let has_none = matches!(verdict, Verdict::Refused | Verdict::Failed(_));
    Decision {
        verdict,
        abstain: None,
        method: method(Some("cal_1"), Some(0.75)).filter(|_| !has_none),
    }
}

fn decisions() -> Vec<Decision> {
    let notify = Argument {
        name: "notify".to_owned(),
        description: None,
        values: vec![json!(true), json!(false)],
    };
    let notify = ArgumentDecision {
        argument: notify,
        probabilities: vec![0.25, 0.75],
    };
    vec![
        Decision {
            abstain: Some(0.125),
            ..decided(Verdict::Noul(0.75))
        },
        decided(Verdict::Choice(vec![0.25, 0.25, 0.5])),
        decided(Verdict::Score(vec![0.25, 0.75])),
        decided(Verdict::Tool {
            probabilities: vec![0.5, 0.25, 0.25],
            arguments: vec![vec![notify], Vec::new()],
        }),
        decided(Verdict::Refused),
        decided(Verdict::Failed(Error::new(ErrorCode::UpstreamTimeout, "Retry."))),
    ]
}

fn frame() -> ResponseFrame<'static> {
    ResponseFrame {
        id: "dec_1",
        created: 7,
        model: "maker/\"model\"",
        usage: InputTokens {
            state: 100,
            questions: 20,
            media: 3,
        },
        cost: Credits::from_nanos(1_500),
    }
}

fn written(decision_request: &DecisionRequest) -> Value {
    serde_json::from_slice(&write(decision_request, &decisions(), &frame())).unwrap()
}

/// Converts a list of answers to a map with the keys `q0`, `q1` and so on, without the names.
fn mapped(list: &Value) -> Value {
    let items = list.as_array().unwrap().iter().enumerate();
    let item = |(place, item): (usize, &Value)| {
        let mut item = item.clone();
        item.as_object_mut().unwrap().shift_remove("name");
        (format!("q{place}"), item)
    };
    Value::Object(items.map(item).collect())
}

fn method_of_one() -> Value {
    json!({"source": "logits", "permutations": 2, "calibrated": true, "calibration": "cal_1", "min_mass": 0.75, "calls": 3})
}

#[test]
fn native_dialect_has_every_member() {
    let body = json!({"model": "m", "state": "s", "questions": questions()});
    let answer = written(&decision_request(&body));
    let mut method = method_of_one();
    let expected = json!([
        {"id": "refund", "type": "noul", "noul": 0.75, "probability": 0.75, "confidence": 0.5, "abstain": 0.125, "method": method},
        {"id": "1", "type": "choice", "choice": "true", "probabilities": {"a": 0.25, "true": 0.25, "\"true\"": 0.5}, "confidence": 0.25, "method": method},
        {"id": "urgency", "type": "score", "score": 0.75, "probabilities": {"0": 0.25, "1": 0.75}, "legend": {"0": "low", "1": "high"}, "confidence": 0.5, "method": method},
        {"id": "next", "type": "tool", "tool": "pay", "confidence": 0.25, "probabilities": {"pay": 0.5, "wait": 0.25, "none": 0.25},
            "arguments": {"pay": {"notify": {"value": false, "probabilities": {"true": 0.25, "false": 0.75}, "confidence": 0.5}}}, "method": method},
        {"id": "shy", "type": "refusal"},
        {"id": "broken", "type": "error", "error": {"code": "upstream_timeout", "message": "Retry.", "param": "questions[5]"}}
    ]);
    let found = answer["answers"].as_array().unwrap();
    for (found, expected) in found.iter().zip(expected.as_array().unwrap()) {
        for (name, value) in expected.as_object().unwrap() {
            match (name.as_str(), value.as_f64()) {
                ("confidence", Some(confidence)) => {
                    assert!(
                        (found[name].as_f64().unwrap() - confidence).abs() < 1e-12,
                        "{found}"
                    );
                }
                _ => assert_eq!(&found[name], value, "{name} of {found}"),
            }
        }
        assert_eq!(
            found.as_object().unwrap().len(),
            expected.as_object().unwrap().len()
        );
    }
    assert_eq!(found.len(), 6);
    method.as_object_mut().unwrap().shift_remove("calls");
    assert_eq!(answer["method"], method);
    assert_eq!(
        answer["usage"],
        json!({"input_tokens": 123, "input_tokens_details": {"state": 100, "questions": 20, "media": 3},
        "output_tokens": 0, "total_tokens": 123, "cost": "0.0000015"})
    );
    assert_eq!(
        (
            &answer["id"],
            &answer["object"],
            &answer["created"],
            &answer["model"]
        ),
        (
            &json!("dec_1"),
            &json!("decision"),
            &json!(7),
            &json!("maker/\"model\"")
        )
    );
}

#[test]
fn a_map_of_questions_has_a_map_of_answers() {
    let body = json!({"model": "m", "state": "s", "questions": mapped(&questions())});
    let answer = written(&decision_request(&body));
    let keys: Vec<&String> = answer["answers"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["q0", "q1", "q2", "q3", "q4", "q5"]);
    assert_eq!(answer["answers"]["q0"]["noul"], 0.75);
    assert!(answer["answers"]["q0"].get("id").is_none());
    assert_eq!(answer["answers"]["q5"]["error"]["param"], "questions.q5");
}

#[test]
fn openai_answers_match_the_sdk_types() {
    let body = json!({"model": "m", "input": "s", "questions": questions()});
    let answer = written(&decision_request(&body));
    let method = method_of_one();
    let found = &answer["answers"];
    assert_eq!(
        found[0],
        json!({"name": "refund", "type": "predicate", "probability": 0.75, "confidence": 0.5, "abstain": 0.125, "method": method})
    );
    assert_eq!(found[1]["name"], Value::Null);
    assert!(found[1].as_object().unwrap().contains_key("name"));
    assert_eq!(found[1]["choice"], "true");
    assert_eq!(
        found[1]["probabilities"],
        json!([{"value": "a", "probability": 0.25}, {"value": true, "probability": 0.25}, {"value": "true", "probability": 0.5}])
    );
    assert_eq!(
        found[2]["probabilities"],
        json!([{"value": 0, "label": "low", "probability": 0.25}, {"value": 1, "label": "high", "probability": 0.75}])
    );
    assert_eq!(
        (&found[2]["type"], &found[2]["score"]),
        (&json!("score"), &json!(0.75))
    );
    assert_eq!(
        (&found[3]["type"], &found[3]["tool"]),
        (&json!("tool"), &json!("pay"))
    );
    assert_eq!(found[4], json!({"name": "shy", "type": "refusal"}));
    assert_eq!(
        (&found[5]["type"], &found[5]["error"]["code"]),
        (&json!("refusal"), &json!("upstream_timeout"))
    );
    assert_eq!(
        answer["usage"],
        json!({"input_tokens": 123, "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": 0, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 123, "cost": "0.0000015"})
    );
}

#[test]
fn google_answers_match_the_sdk_types() {
    let body = json!({"model": "m", "input": "s", "questions": mapped(&questions())});
    let answer = written(&decision_request(&body));
    let first = &answer["answers"]["q0"];
    assert_eq!(
        (&first["type"], &first["noul"], &first["confidence"]),
        (&json!("noul"), &json!(0.75), &json!(0.5))
    );
    assert!(first.get("probability").is_none());
    assert_eq!(
        answer["answers"]["q2"]["legend"],
        json!({"0": "low", "1": "high"})
    );
    assert_eq!(answer["answers"]["q4"], json!({"type": "refusal"}));
    assert_eq!(answer["usage"]["total_input_tokens"], 123);
    assert_eq!(answer["usage"]["total_output_tokens"], 0);
    assert_eq!(answer["usage"]["cost"], "0.0000015");
}

#[test]
fn overall_method_is_the_weakest_of_all_answers() {
    let body = json!({"model": "m", "state": "s", "questions": questions()});
    let decision_request = decision_request(&body);
    let mut all = decisions();
    all[2].method = Some(Method {
        source: DecisionSource::Sampled,
        permutations: 4,
        mass: None,
        calls: 1,
        calibrated: None,
    });
    all[1].method = method(Some("cal_1"), Some(0.5));
    let answer: Value = serde_json::from_slice(&write(&decision_request, &all, &frame())).unwrap();
    assert_eq!(
        answer["method"],
        json!({"source": "sampled", "permutations": 4, "calibrated": false, "min_mass": 0.5})
    );
    let none = decision_request
        .questions
        .iter()
        .map(|_| decided(Verdict::Refused))
        .collect::<Vec<_>>();
    let answer: Value = serde_json::from_slice(&write(&decision_request, &none, &frame())).unwrap();
    assert!(answer.get("method").is_none());
    assert!(matches!(
        decision_request.questions[3].kind,
        QuestionKind::Tool { .. }
    ));
}
