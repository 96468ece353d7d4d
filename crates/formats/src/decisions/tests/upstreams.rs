//! Tests of questions to upstreams and of the plausibility checks of their answers.

use serde_json::{Value, json};
use tollgate_types::decide::{Decision, Question, Verdict};
use tollgate_types::{Unit, Usage};

use super::{decision_request, native};
use crate::decisions::{DecisionRequest, Shape, answers, ask, check_compatible};
use crate::error::DecodeError;

fn three() -> DecisionRequest {
    decision_request(&native(
        json!({"photo": "data:image/png;base64,iVBORw0KGgo="}),
        json!({
            "n": {"type": "noul", "instructions": "Red?", "criteria": {"true": "It is."}},
            "c": {"type": "choice", "instructions": "Which?", "criteria": {"a": "One", "b": null}},
            "s": {"type": "score", "instructions": "How?", "levels": [{"label": "low", "description": "Later"}, "high"]}
        }),
    ))
}

fn body(shape: Shape, decision_request: &DecisionRequest) -> Value {
    check_compatible(shape, &decision_request.state, &decision_request.questions).unwrap();
    serde_json::from_slice(&ask(
        shape,
        "up",
        &decision_request.state,
        &decision_request.questions,
    ))
    .unwrap()
}

fn read_answers(questions: &[Question], body: Value) -> Result<(Vec<Decision>, Option<Usage>), DecodeError> {
    answers(Shape::SystemOne, body.to_string().as_bytes(), questions)
}

/// Returns the answers to `three`, with the answer `name` replaced.
fn with(name: &str, answer: Value) -> Value {
    let mut answers = json!({
        "n": {"type": "noul", "noul": 0.5},
        "c": {"type": "choice", "probabilities": {"a": 0.25, "b": 0.75}},
        "s": {"type": "score", "probabilities": {"0": 0.5, "1": 0.5}}
    });
    answers[name] = answer;
    json!({"answers": answers})
}

#[test]
fn each_shape_has_its_own_request_format() {
    let decision_request = three();
    let parts = json!([
        {"type": "text", "text": "{\n  \"photo\": \"[image 1]"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "text", "text": "\"\n}"}
    ]);
    let mut questions = json!({
        "n": {"type": "noul", "criteria": {"true": "It is."}, "instructions": "Red?"},
        "c": {"type": "choice", "criteria": {"a": "One", "b": null}, "instructions": "Which?"},
        "s": {"type": "score", "criteria": ["low: Later", "high"], "instructions": "How?"}
    });
    assert_eq!(
        body(Shape::SystemOne, &decision_request),
        json!({"model": "up", "state": parts, "questions": questions})
    );
    questions["n"]["criteria"]["false"] = json!("Otherwise.");
    assert_eq!(body(Shape::OpenRouter, &decision_request)["questions"], questions);
    questions["n"]["criteria"] = json!({"true_description": "It is."});
    questions["c"]["criteria"]["b"] = json!("");
    let google = body(Shape::Google, &decision_request);
    assert_eq!(google["questions"], questions);
    assert_eq!(
        google["input"][1],
        json!({"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"})
    );
    let openai = body(Shape::OpenAi, &decision_request);
    assert_eq!(
        openai["questions"],
        json!([
            {"type": "predicate", "name": "n", "instructions": "Red?\nTrue when: It is."},
            {"type": "choice", "choices": [{"value": "a", "description": "One"}, {"value": "b"}], "name": "c", "instructions": "Which?"},
            {"type": "score", "levels": [{"label": "low", "description": "Later"}, {"label": "high"}], "name": "s", "instructions": "How?"}
        ])
    );
    assert_eq!(openai["input"][0]["role"], "user");
    assert_eq!(
        openai["input"][0]["content"][1],
        json!({"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="})
    );
    let plain = super::decision_request(&native(json!("text"), json!([super::noul()])));
    assert_eq!(body(Shape::OpenAi, &plain)["input"], "text");
    assert_eq!(body(Shape::Google, &plain)["input"], "text");
}

#[test]
fn unsupported_features_of_a_shape_are_refused() {
    let tool = json!([{"type": "tool", "instructions": "?", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}]);
    let abstaining = json!([{"type": "noul", "instructions": "?", "abstain": true}]);
    let audio_state = json!({"a": "data:audio/wav;base64,AAAA"});
    for (state, questions, param, shapes) in [
        (
            json!("s"),
            tool,
            "questions[0].type",
            &[Shape::OpenAi, Shape::Google, Shape::OpenRouter][..],
        ),
        (
            json!("s"),
            abstaining,
            "questions[0].abstain",
            &[Shape::OpenAi, Shape::Google, Shape::OpenRouter],
        ),
        (audio_state, json!([super::noul()]), "state.a", &[Shape::OpenAi]),
    ] {
        let decision_request = decision_request(&native(state, questions));
        for shape in [Shape::SystemOne, Shape::OpenAi, Shape::Google, Shape::OpenRouter] {
            let found = check_compatible(shape, &decision_request.state, &decision_request.questions).err();
            let expected = shapes.contains(&shape).then(|| param.to_owned());
            assert_eq!(found.and_then(|error| error.param), expected, "{shape:?}");
        }
    }
}

#[test]
fn answers_are_read_in_every_container() {
    let decision_request = three();
    let list = json!([
        {"type": "predicate", "name": "n", "probability": 0.5},
        {"type": "choice", "name": "c", "choice": "b", "confidence": 0.5, "probabilities": [{"value": "b", "probability": 0.75}, {"value": "a", "probability": 0.25}]},
        {"type": "score", "name": null, "probabilities": [{"value": 1, "label": "high", "probability": 0.5}, {"value": 0, "label": "low", "probability": 0.5}]}
    ]);
    let numbers =
        json!([{"probability": 0.5}, {"probabilities": [0.25, 0.75]}, {"probabilities": [0.5, 0.5]}]);
    let map = with("n", json!({"noul": 0.5}));
    for body in [
        map.clone(),
        json!({"answers": list}),
        json!({"answers": numbers}),
        json!({"result": map, "success": true, "errors": []}),
    ] {
        let (decisions, usage) = read_answers(&decision_request.questions, body).unwrap();
        let [Verdict::Noul(yes), Verdict::Choice(choice), Verdict::Score(score)] =
            [0, 1, 2].map(|place| &decisions[place].verdict)
        else {
            panic!("{decisions:?}");
        };
        assert_eq!(
            (*yes, choice.as_slice(), score.as_slice()),
            (0.5, &[0.25, 0.75][..], &[0.5, 0.5][..])
        );
        assert_eq!((usage, decisions[0].abstain), (None, None));
    }
}

#[test]
fn rounding_is_corrected_and_invalid_answers_fail() {
    let decision_request = three();
    let (decisions, _) = read_answers(
        &decision_request.questions,
        with("c", json!({"probabilities": {"a": 0.2499, "b": 0.7499}})),
    )
    .unwrap();
    let Verdict::Choice(choice) = &decisions[1].verdict else {
        panic!("{decisions:?}");
    };
    assert!((choice.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    let cases = [
        ("n", json!({"type": "noul", "noul": 1.1})),
        ("n", json!({"type": "noul", "noul": -0.1})),
        ("n", json!({"type": "noul", "noul": "0.5"})),
        ("n", json!({"type": "noul"})),
        ("n", json!({"type": "choice", "noul": 0.5})),
        ("n", json!(null)),
        ("n", json!(0.5)),
        ("c", json!({"choice": "a"})),
        ("c", json!({"probabilities": {"a": 0.5, "b": 0.4}})),
        ("c", json!({"probabilities": {"a": 0.6, "b": 0.5}})),
        ("c", json!({"probabilities": {"a": 1.0}})),
        ("c", json!({"probabilities": {"a": 0.5, "x": 0.5}})),
        ("c", json!({"probabilities": {"a": 0.5, "b": 0.5, "x": 0.0}})),
        ("c", json!({"probabilities": {"a": 1.5, "b": -0.5}})),
        (
            "c",
            json!({"probabilities": [{"value": "a", "probability": 0.5}, {"value": "a", "probability": 0.5}]}),
        ),
        ("c", json!({"probabilities": 1})),
        ("s", json!({"score": 0.5})),
        ("s", json!({"probabilities": {"1": 0.5, "2": 0.5}})),
        ("s", json!({"type": "box", "box": {}})),
    ];
    for (name, answer) in cases {
        let error = read_answers(&decision_request.questions, with(name, answer.clone())).unwrap_err();
        assert!(
            error
                .param
                .is_some_and(|param| param.starts_with(&format!("answers.{name}"))),
            "{answer}"
        );
    }
    for body in [
        json!({}),
        json!([]),
        json!({"answers": 1}),
        json!({"answers": []}),
        json!({"result": {}, "success": true}),
        json!({"result": with("n", json!({"noul": 0.5})), "success": false}),
    ] {
        assert!(
            read_answers(&decision_request.questions, body.clone()).is_err(),
            "{body}"
        );
    }
    let other = json!({"answers": [{"name": "x", "probability": 0.5}, {"probabilities": [0.5, 0.5]}, {"probabilities": [0.5, 0.5]}]});
    assert!(read_answers(&decision_request.questions, other).is_err());
}

#[test]
fn a_question_can_be_refused_or_fail_alone() {
    let decision_request = three();
    let mut body = with("n", json!({"type": "refusal"}));
    body["answers"]["s"] = json!({"type": "error", "error": {"code": "x", "message": "of the maker"}});
    let (decisions, _) = read_answers(&decision_request.questions, body).unwrap();
    assert!(matches!(decisions[0].verdict, Verdict::Refused));
    assert!(matches!(decisions[1].verdict, Verdict::Choice(_)));
    let Verdict::Failed(error) = &decisions[2].verdict else {
        panic!("{decisions:?}");
    };
    assert_eq!(error.param.as_deref(), Some("questions.s"));
    assert!(!error.message.contains("maker"));
    assert!(decisions[0].method.is_none() && decisions[2].method.is_none() && decisions[1].method.is_some());
    let blocked = json!({"prompt_feedback": {"block_reason": "safety"}}).to_string();
    let (decisions, _) = answers(Shape::Google, blocked.as_bytes(), &decision_request.questions).unwrap();
    assert!(
        decisions
            .iter()
            .all(|decision| matches!(decision.verdict, Verdict::Refused))
    );
    assert!(answers(Shape::SystemOne, blocked.as_bytes(), &decision_request.questions).is_err());
}

#[test]
fn functions_and_abstentions_round_trip() {
    let schema = json!({"type": "object", "properties": {"fast": {"type": "boolean"}, "why": {"enum": ["x", "y", "z"]}}});
    let decision_request = decision_request(&native(
        json!("s"),
        json!({
            "t": {"type": "tool", "instructions": "?", "tools": [{"type": "function", "name": "f", "parameters": schema}]},
            "n": {"type": "noul", "instructions": "?", "abstain": true}
        }),
    ));
    let sent = body(Shape::SystemOne, &decision_request);
    assert_eq!(
        sent["questions"]["t"]["tools"][0]["function"]["parameters"],
        schema
    );
    assert_eq!(
        (
            &sent["questions"]["t"]["tool_choice"],
            &sent["questions"]["n"]["abstain"]
        ),
        (&json!("auto"), &json!(true))
    );
    let answer = json!({"answers": {
        "t": {"type": "tool", "probabilities": {"f": 0.75, "none": 0.25}, "arguments": {"f": {"why": {"probabilities": {"x": 0.5, "y": 0.25, "z": 0.25}}}}},
        "n": {"type": "noul", "noul": 0.5, "abstain": 0.125}
    }});
    let (decisions, _) = read_answers(&decision_request.questions, answer).unwrap();
    let Verdict::Tool {
        probabilities,
        arguments,
    } = &decisions[0].verdict
    else {
        panic!("{decisions:?}");
    };
    assert_eq!(
        (probabilities.as_slice(), arguments.len()),
        (&[0.75, 0.25][..], 1)
    );
    assert_eq!(
        (
            arguments[0][0].argument.name.as_str(),
            arguments[0][0].probabilities.as_slice()
        ),
        ("why", &[0.5, 0.25, 0.25][..])
    );
    assert_eq!(decisions[1].abstain, Some(0.125));
}

#[test]
fn usage_is_read_in_every_vocabulary() {
    let decision_request = three();
    let of = |usage: Value| {
        let mut body = with("n", json!({"noul": 0.5}));
        body["usage"] = usage;
        read_answers(&decision_request.questions, body).unwrap().1
    };
    assert_eq!(
        of(json!({"input_tokens": 7, "output_tokens": 0, "cost": 0.1})),
        Some(Usage::tokens(7, 0))
    );
    let cached = Usage::tokens(2, 1)
        .with(Unit::CacheRead, 3)
        .with(Unit::CacheWrite, 4);
    assert_eq!(
        of(
            json!({"input_tokens": 9, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4}})
        ),
        Some(cached)
    );
    assert_eq!(
        of(json!({"total_input_tokens": 5, "total_cached_tokens": 4, "total_output_tokens": 0})),
        Some(Usage::tokens(1, 0).with(Unit::CacheRead, 4))
    );
    assert_eq!(
        of(json!({"input_tokens": 2, "input_tokens_details": {"cached_tokens": 9}})),
        Some(Usage::ZERO.with(Unit::CacheRead, 2))
    );
    for malformed in [
        json!(null),
        json!({}),
        json!({"input_tokens": -1}),
        json!({"input_tokens": 1.5}),
        json!({"input_tokens": "7"}),
        json!({"input_tokens": 1e12}),
    ] {
        assert_eq!(of(malformed), None);
    }
}
