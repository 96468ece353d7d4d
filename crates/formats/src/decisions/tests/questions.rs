//! Tests of the alternative spellings of one question.

use serde_json::{Value, json};
use tollgate_types::decide::{CalibrationChoice, ChoiceOption, Level, QuestionKind};

use super::{decision_request, native, noul};
use crate::decisions::{Container, Dialect};

fn kind(question: Value) -> QuestionKind {
    decision_request(&native(json!("text"), json!([question])))
        .questions
        .remove(0)
        .kind
}

#[test]
fn dialect_follows_from_the_body() {
    for (body, dialect, container) in [
        (
            json!({"model": "m", "state": "s", "questions": [noul()]}),
            Dialect::Native,
            Container::List,
        ),
        (
            json!({"model": "m", "state": "s", "questions": {"a": noul()}}),
            Dialect::Native,
            Container::Map,
        ),
        (
            json!({"model": "m", "input": "s", "questions": [noul()]}),
            Dialect::OpenAi,
            Container::List,
        ),
        (
            json!({"model": "m", "input": "s", "questions": {"a": noul()}}),
            Dialect::Google,
            Container::Map,
        ),
        (
            json!({"model": "m", "input": "s", "state": null, "questions": {"a": noul()}}),
            Dialect::Google,
            Container::Map,
        ),
    ] {
        let read = decision_request(&body);
        assert_eq!((read.dialect, read.container), (dialect, container), "{body}");
        assert_eq!(read.state.text, "s");
    }
}

#[test]
fn only_the_google_dialect_strips_the_models_prefix() {
    let of = |state: &str| {
        decision_request(&json!({"model": "models/acme/d", state: "s", "questions": {"a": noul()}})).model
    };
    assert_eq!(
        (of("input"), of("state")),
        ("acme/d".to_owned(), "models/acme/d".to_owned())
    );
}

#[test]
fn yes_and_no_have_meanings_in_either_vocabulary() {
    let meant = |criteria: Value| kind(json!({"type": "noul", "instructions": "?", "criteria": criteria}));
    let both = QuestionKind::Noul {
        yes: Some("y".to_owned()),
        no: Some("n".to_owned()),
    };
    assert_eq!(meant(json!({"true": "y", "false": "n"})), both);
    assert_eq!(
        meant(json!({"true_description": "y", "false_description": "n"})),
        both
    );
    assert_eq!(
        meant(json!({"true": "", "false": null})),
        QuestionKind::Noul { yes: None, no: None }
    );
    assert_eq!(
        kind(json!({"type": "predicate", "instructions": "?"})),
        QuestionKind::Noul { yes: None, no: None }
    );
}

#[test]
fn options_are_the_same_in_every_form() {
    let option = |value: Value, description: Option<&str>| ChoiceOption {
        value,
        description: description.map(str::to_owned),
    };
    let of = |member: &str, options: Value| match kind(
        json!({"type": "choice", "instructions": "?", member: options}),
    ) {
        QuestionKind::Choice { options } => options,
        other => panic!("{other:?}"),
    };
    let described = vec![option(json!("b"), Some("Pay")), option(json!("a"), None)];
    for member in ["criteria", "options", "choices"] {
        assert_eq!(of(member, json!({"b": "Pay", "a": null})), described);
        assert_eq!(
            of(member, json!([{"value": "b", "description": "Pay"}, "a"])),
            described
        );
    }
    assert_eq!(of("criteria", json!({"b": "Pay", "a": ""})), described);
    assert_eq!(
        of("choices", json!([{"value": true}, {"value": "true"}])),
        [option(json!(true), None), option(json!("true"), None)]
    );
    let structured = of("criteria", json!({"a": {"min": 1}, "b": ["x"]}));
    assert_eq!(structured[0].description.as_deref(), Some("{\n  \"min\": 1\n}"));
}

#[test]
fn levels_are_the_same_in_every_form() {
    let level = |label: &str, description: Option<&str>| Level {
        label: label.to_owned(),
        description: description.map(str::to_owned),
    };
    let of = |member: &str, levels: Value| match kind(
        json!({"type": "score", "instructions": "?", member: levels}),
    ) {
        QuestionKind::Score { levels } => levels,
        other => panic!("{other:?}"),
    };
    for member in ["criteria", "levels"] {
        assert_eq!(
            of(member, json!(["low", {"label": "high", "description": "Now"}])),
            [level("low", None), level("high", Some("Now"))]
        );
    }
    assert_eq!(
        of("criteria", json!([{"min": 1}, "b"]))[0].label,
        "{\n  \"min\": 1\n}"
    );
}

#[test]
fn functions_are_nested_or_flat() {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "boolean"}}});
    let nested = json!({"type": "function", "function": {"name": "f", "description": "Does.", "parameters": parameters, "strict": true}});
    let flat = json!({"type": "function", "name": "f", "description": "Does.", "parameters": parameters});
    for (tool, choice, required) in [(&nested, "auto", false), (&flat, "required", true)] {
        let QuestionKind::Tool {
            tools,
            required: found,
        } = kind(json!({"type": "tool", "instructions": "?", "tools": [tool], "tool_choice": choice}))
        else {
            panic!("{tool}");
        };
        assert_eq!(
            (tools[0].name.as_str(), tools[0].description.as_deref()),
            ("f", Some("Does."))
        );
        assert_eq!((&tools[0].parameters, found), (&parameters, required));
    }
}

#[test]
fn instructions_are_a_text_or_parts_or_json() {
    let of = |instructions: Value| {
        let question = json!({"type": "noul", "instructions": instructions});
        decision_request(&native(json!("text"), json!([question])))
            .questions
            .remove(0)
            .instructions
    };
    assert_eq!(of(json!("Is [image 1] red?")), "Is [image 1] red?");
    assert_eq!(of(json!({"type": "text", "text": "a"})), "a");
    assert_eq!(
        of(json!([{"type": "input_text", "text": "a"}, {"type": "input_json", "data": {"b": 1}}])),
        "a\n{\n  \"b\": 1\n}"
    );
    assert_eq!(of(json!({"rule": "a"})), "{\n  \"rule\": \"a\"\n}");
    assert_eq!(of(json!(["a", "b"])), "[\n  \"a\",\n  \"b\"\n]");
}

#[test]
fn unnamed_questions_get_a_free_id() {
    let questions = json!([noul(), {"type": "noul", "instructions": "?", "name": "0"}, noul()]);
    let read = decision_request(&native(json!("text"), questions));
    let ids: Vec<&str> = read
        .questions
        .iter()
        .map(|question| question.id.as_str())
        .collect();
    assert_eq!(ids, ["#0", "0", "2"]);
    let params: Vec<&str> = read
        .questions
        .iter()
        .map(|question| question.param.as_str())
        .collect();
    assert_eq!(params, ["questions[0]", "questions[1]", "questions[2]"]);
}

#[test]
fn decide_options_are_read() {
    let of = |options: Value| {
        decision_request(&json!({"model": "m", "state": "s", "questions": [noul()], "options": options}))
            .options
    };
    let all = of(json!({"permutations": 3, "calibration": "cal_7", "detail": "fast", "seed": 9}));
    assert_eq!((all.permutations, all.fast, all.seed), (Some(3), true, 9));
    assert_eq!(all.calibration, CalibrationChoice::Profile("cal_7".to_owned()));
    assert_eq!(
        of(json!({"calibration": "none"})).calibration,
        CalibrationChoice::None
    );
    assert_eq!(
        of(json!({"calibration": "default", "detail": "full"})),
        Default::default()
    );
}

#[test]
fn ignored_hints_are_reported() {
    let body = json!({"model": "m", "input": "s", "questions": [noul()], "prompt_cache_key": "k", "safety_identifier": "u", "prompt_cache_options": {"ttl": "30m"}});
    assert_eq!(
        decision_request(&body).ignored,
        ["prompt_cache_key", "safety_identifier", "prompt_cache_options"]
    );
}
