use super::*;

fn target() -> EvaluationTarget {
    EvaluationTarget {
        model: "sim/decide".to_owned(),
        calibration: None,
    }
}

/// Returns a line with all four question types and these truths.
fn line(truth: &Value) -> String {
    json!({"state": "It is.", "questions": {
        "yes": {"type": "noul", "instructions": "Is it?", "abstain": true},
        "team": {"type": "choice", "instructions": "Who?", "criteria": {"billing": "Payments", "tech": null}},
        "level": {"type": "score", "instructions": "How?", "criteria": ["low", "middle", "high"]},
        "next": {"type": "tool", "instructions": "What now?", "tools": [
            {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}},
            {"type": "function", "function": {"name": "reply", "parameters": {"type": "object"}}},
        ]},
    }, "truth": truth})
    .to_string()
}

#[test]
fn truths_are_options_levels_functions_or_shares() {
    let option = |place| Some(ExpectedAnswer::Option(place));
    let soft = |shares: &[f64]| Some(ExpectedAnswer::Soft(shares.to_vec()));
    for (truth, place, expected) in [
        (json!({"yes": true}), 0, option(0)),
        (json!({"yes": false}), 0, option(1)),
        (json!({"yes": 0.25}), 0, soft(&[0.25, 0.75])),
        (json!({"yes": null}), 0, Some(ExpectedAnswer::Unanswerable)),
        (json!({"team": "tech"}), 1, option(1)),
        (json!({"team": {"tech": 1.0}}), 1, soft(&[0.0, 1.0])),
        (json!({"level": 2}), 2, option(2)),
        (json!({"level": "middle"}), 2, option(1)),
        (
            json!({"level": {"0": 0.5, "high": 0.5}}),
            2,
            soft(&[0.5, 0.0, 0.5]),
        ),
        (json!({"next": "reply"}), 3, option(1)),
        (json!({"next": "none"}), 3, option(2)),
        (json!({"next": "none"}), 0, None),
    ] {
        let cases = read(&line(&truth), &target()).unwrap();
        assert_eq!(cases[0].truths[place], expected, "{truth}");
    }
}

#[test]
fn invalid_cases_are_reported_with_their_line() {
    let fine = line(&json!({"yes": true}));
    for (bad, expected) in [
        ("{".to_owned(), "not a JSON object"),
        ("[]".to_owned(), "not a JSON object"),
        (line(&json!({})), "'truth' must be an object"),
        (line(&json!({"other": 1})), "truth.other: no question"),
        (
            line(&json!({"team": "sales"})),
            "'sales' is not a possible answer; use one of billing, tech",
        ),
        (line(&json!({"team": null})), "\"abstain\": true"),
        (line(&json!({"team": {"tech": 0.5}})), "the shares sum to 0.5"),
        (line(&json!({"team": {"sales": 1}})), "'sales' is not a possible"),
        (
            line(&json!({"team": 1})),
            "must be the correct answer, one of billing, tech",
        ),
        (
            line(&json!({"level": 3})),
            "the level 3 must be a whole number from 0 to 2",
        ),
        (line(&json!({"yes": 1.5})), "the share of yes must be from 0 to 1"),
        (
            r#"{"state":"","questions":{"a":{"type":"noul","instructions":"x"}},"truth":{"a":true}}"#
                .to_owned(),
            "state",
        ),
        (
            r#"{"input":"x","questions":{"a":{"type":"noul","instructions":"x"}},"truth":{"a":true}}"#
                .to_owned(),
            "write 'state'",
        ),
        (
            r#"{"state":"x","questions":{"a":{"type":"guess","instructions":"x"}},"truth":{"a":true}}"#
                .to_owned(),
            "questions.a.type",
        ),
        (
            r#"{"state":"x","questions":{},"truth":{"a":true},"group":7}"#.to_owned(),
            "'group' must be a string",
        ),
    ] {
        let wrong = read(&format!("\u{feff}{fine}\n\n{bad}\n"), &target()).unwrap_err();
        assert_eq!(wrong.line, 3, "{wrong}");
        assert!(wrong.what.contains(expected), "{wrong}, expected {expected}");
        assert!(!wrong.what.ends_with('.'), "{wrong}: no final period");
    }
}

#[test]
fn requests_carry_model_and_calibration_without_truth() {
    let target = EvaluationTarget {
        calibration: Some("none".to_owned()),
        ..target()
    };
    let cases = read(&line(&json!({"yes": true})), &target).unwrap();
    let body: Value = serde_json::from_slice(&cases[0].request()).unwrap();
    assert_eq!(body["model"], "sim/decide");
    assert_eq!(body["options"], json!({"calibration": "none"}));
    assert!(body.get("truth").is_none());
}

#[test]
fn only_unordered_options_are_reversed() {
    let cases = read(&line(&json!({"yes": true})), &target()).unwrap();
    let body: Value = serde_json::from_slice(&cases[0].reversed().unwrap()).unwrap();
    let ids: Vec<&String> = body["questions"].as_object().unwrap().keys().collect();
    assert_eq!(ids, ["team", "next"]);
    let options: Vec<&String> = body["questions"]["team"]["criteria"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(options, ["tech", "billing"]);
    assert_eq!(body["questions"]["next"]["tools"][0]["function"]["name"], "reply");
    let scale = r#"{"state":"x","questions":[{"id":"a","type":"score","instructions":"x","criteria":["a","b"]}],"truth":{"a":0}}"#;
    assert_eq!(read(scale, &target()).unwrap()[0].reversed(), None);
}
