//! Tests of values on both sides of every limit.

use serde_json::{Map, Value, json};
use tollgate_types::ErrorCode::{
    InvalidParameter, MissingRequiredParameter, UnknownParameter, UnsupportedParameter,
};

use super::{decision_request, error_of, native, noul};

/// Returns a request with one question in a list.
fn one(question: Value) -> Value {
    native(json!("text"), json!([question]))
}

fn numbered(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn keyed(count: usize, item: impl Fn(usize) -> Value) -> Value {
    let members: Map<String, Value> = (0..count)
        .map(|place| (format!("k{place}"), item(place)))
        .collect();
    Value::Object(members)
}

fn choice(member: &str, options: Value) -> Value {
    json!({"type": "choice", "instructions": "Which?", member: options})
}

fn score(member: &str, levels: Value) -> Value {
    json!({"type": "score", "instructions": "How far?", member: levels})
}

fn tools(tools: Value) -> Value {
    json!({"type": "tool", "instructions": "Which?", "tools": tools})
}

fn tool(name: &str, properties: Value) -> Value {
    let parameters = json!({"type": "object", "properties": properties});
    json!({"type": "function", "function": {"name": name, "parameters": parameters}})
}

#[test]
fn questions_are_1_to_128() {
    for count in [1, 128] {
        let read = decision_request(&native(json!("text"), numbered(count, |_| noul())));
        assert_eq!(read.questions.len(), count);
        assert_eq!(
            decision_request(&native(json!("text"), keyed(count, |_| noul())))
                .questions
                .len(),
            count
        );
    }
    for count in [0, 129] {
        let list = native(json!("text"), numbered(count, |_| noul()));
        assert_eq!(error_of(&list), (InvalidParameter, "questions".to_owned()));
        let map = native(json!("text"), keyed(count, |_| noul()));
        assert_eq!(error_of(&map), (InvalidParameter, "questions".to_owned()));
    }
}

#[test]
fn options_are_2_to_255() {
    let text = |place: usize| json!(format!("o{place}"));
    let valued = |place: usize| json!({"value": format!("o{place}")});
    for count in [2, 255] {
        decision_request(&one(choice("criteria", keyed(count, |_| Value::Null))));
        decision_request(&one(choice("options", numbered(count, text))));
        decision_request(&one(choice("choices", numbered(count, valued))));
    }
    for count in [0, 1, 256] {
        let at = |member: &str| (InvalidParameter, format!("questions[0].{member}"));
        let map = choice("criteria", keyed(count, |_| Value::Null));
        assert_eq!(error_of(&one(map)), at("criteria"));
        assert_eq!(
            error_of(&one(choice("options", numbered(count, text)))),
            at("options")
        );
        assert_eq!(
            error_of(&one(choice("choices", numbered(count, valued)))),
            at("choices")
        );
    }
}

#[test]
fn levels_are_2_to_10() {
    let text = |place: usize| json!(format!("l{place}"));
    let labelled = |place: usize| json!({"label": format!("l{place}")});
    for count in [2, 10] {
        decision_request(&one(score("criteria", numbered(count, text))));
        decision_request(&one(score("levels", numbered(count, labelled))));
    }
    for count in [1, 11] {
        let found = error_of(&one(score("criteria", numbered(count, text))));
        assert_eq!(found, (InvalidParameter, "questions[0].criteria".to_owned()));
        let map = json!({"refund": score("levels", numbered(count, labelled))});
        let found = error_of(&native(json!("text"), map));
        assert_eq!(found, (InvalidParameter, "questions.refund.levels".to_owned()));
    }
}

#[test]
fn functions_are_1_to_254_and_their_values_2_to_255() {
    let named = |place: usize| tool(&format!("f{place}"), json!({}));
    for count in [1, 254] {
        decision_request(&one(tools(numbered(count, named))));
    }
    for count in [0, 255] {
        let found = error_of(&one(tools(numbered(count, named))));
        assert_eq!(found, (InvalidParameter, "questions[0].tools".to_owned()));
    }
    let of = |count: usize| {
        let values = numbered(count, |place| json!(format!("v{place}")));
        one(tools(json!([tool("f", json!({"reason": {"enum": values}}))])))
    };
    for count in [2, 255] {
        decision_request(&of(count));
    }
    let param = "questions[0].tools[0].function.parameters.properties.reason";
    for count in [0, 1, 256] {
        assert_eq!(error_of(&of(count)), (InvalidParameter, param.to_owned()));
    }
    let named = json!({"type": "object", "properties": {"reason": {"$ref": "#/$defs/R"}},
        "$defs": {"R": {"enum": ["only"]}}});
    let tool = json!({"type": "function", "name": "f", "parameters": named});
    let param = "questions[0].tools[0].parameters.properties.reason";
    assert_eq!(
        error_of(&one(tools(json!([tool])))),
        (InvalidParameter, param.to_owned())
    );
}

#[test]
fn media_are_16_images_8_audio_and_4_videos() {
    for (kind, max) in [("image", 16), ("audio", 8), ("video", 4)] {
        let url = format!("data:{kind}/x;base64,iVBORw0KGgo=");
        let of = |count: usize| native(json!({"a": numbered(count, |_| json!(url))}), json!([noul()]));
        assert_eq!(decision_request(&of(max)).state.media.len(), max);
        assert_eq!(
            error_of(&of(max + 1)),
            (InvalidParameter, format!("state.a[{max}]"))
        );
    }
}

#[test]
fn names_have_1_to_64_characters() {
    let of = |name: &str| {
        native(
            json!("text"),
            json!([{"type": "noul", "instructions": "?", "id": name}]),
        )
    };
    for name in ["x".repeat(64), "é".repeat(64), "a b.c".to_owned()] {
        assert_eq!(decision_request(&of(&name)).questions[0].id, name);
    }
    for name in ["x".repeat(65), String::new(), " ".to_owned(), "a\nb".to_owned()] {
        assert_eq!(
            error_of(&of(&name)),
            (InvalidParameter, "questions[0].id".to_owned())
        );
    }
}

#[test]
fn options_of_the_request_have_bounds() {
    let of = |options: Value| json!({"model": "m", "state": "s", "questions": [noul()], "options": options});
    for permutations in [1, 8] {
        let read = decision_request(&of(json!({"permutations": permutations})));
        assert_eq!(read.options.permutations, Some(permutations));
    }
    for (options, param) in [
        (json!({"permutations": 0}), "options.permutations"),
        (json!({"permutations": 9}), "options.permutations"),
        (json!({"permutations": 1.0}), "options.permutations"),
        (json!({"detail": "more"}), "options.detail"),
        (json!({"calibration": ""}), "options.calibration"),
        (json!({"seed": -1}), "options.seed"),
        (json!({"seed": 9_223_372_036_854_775_808_u64}), "options.seed"),
        (json!(1), "options"),
    ] {
        assert_eq!(error_of(&of(options)), (InvalidParameter, param.to_owned()));
    }
    assert_eq!(
        decision_request(&of(json!({"seed": i64::MAX}))).options.seed,
        i64::MAX as u64
    );
    assert_eq!(
        error_of(&of(json!({"shots": 1}))),
        (UnknownParameter, "options.shots".to_owned())
    );
}

#[test]
fn errors_name_the_parameter_at_fault() {
    let good = tool("f", json!({}));
    let schema = |parameters: Value| {
        let function = json!({"name": "f", "parameters": parameters});
        one(tools(json!([{"type": "function", "function": function}])))
    };
    let cases = [
        (
            one(json!({"type": "span", "instructions": "?"})),
            InvalidParameter,
            "questions[0].type",
        ),
        (
            one(json!({"instructions": "?"})),
            MissingRequiredParameter,
            "questions[0].type",
        ),
        (
            one(json!({"type": "noul"})),
            MissingRequiredParameter,
            "questions[0].instructions",
        ),
        (
            one(json!({"type": "noul", "instructions": " "})),
            InvalidParameter,
            "questions[0].instructions",
        ),
        (
            one(json!({"type": "noul", "instructions": []})),
            InvalidParameter,
            "questions[0].instructions",
        ),
        (
            one(json!({"type": "noul", "instructions": 7})),
            InvalidParameter,
            "questions[0].instructions",
        ),
        (one(json!("noul")), InvalidParameter, "questions[0]"),
        (
            one(json!({"type": "noul", "instructions": "?", "levels": []})),
            UnknownParameter,
            "questions[0].levels",
        ),
        (
            one(json!({"type": "noul", "instructions": "?", "criteria": {"yes": "a"}})),
            UnknownParameter,
            "questions[0].criteria.yes",
        ),
        (
            one(json!({"type": "noul", "instructions": "?", "abstain": "yes"})),
            InvalidParameter,
            "questions[0].abstain",
        ),
        (
            one(json!({"type": "noul", "instructions": "?", "id": "a", "name": "a"})),
            InvalidParameter,
            "questions[0].name",
        ),
        (
            one(json!({"type": "choice", "instructions": "?"})),
            MissingRequiredParameter,
            "questions[0].criteria",
        ),
        (
            one(
                json!({"type": "choice", "instructions": "?", "criteria": ["a", "b"], "options": ["a", "b"]}),
            ),
            InvalidParameter,
            "questions[0].options",
        ),
        (
            one(choice("options", json!(["a", "b", "a"]))),
            InvalidParameter,
            "questions[0].options[2]",
        ),
        (
            one(choice("options", json!(["a", 1]))),
            InvalidParameter,
            "questions[0].options[1]",
        ),
        (
            one(choice("options", json!(["a", " "]))),
            InvalidParameter,
            "questions[0].options[1]",
        ),
        (
            one(choice("options", json!("a"))),
            InvalidParameter,
            "questions[0].options",
        ),
        (
            one(choice("choices", json!([{"value": "a"}, {"name": "b"}]))),
            UnknownParameter,
            "questions[0].choices[1].name",
        ),
        (
            one(choice("choices", json!([{"value": "a"}, {}]))),
            MissingRequiredParameter,
            "questions[0].choices[1].value",
        ),
        (
            one(choice("criteria", json!({"a": 1, "b": null}))),
            InvalidParameter,
            "questions[0].criteria.a",
        ),
        (
            one(score("levels", json!(["a", ""]))),
            InvalidParameter,
            "questions[0].levels[1]",
        ),
        (
            one(score("levels", json!({"a": "b"}))),
            InvalidParameter,
            "questions[0].levels",
        ),
        (
            one(json!({"type": "tool", "instructions": "?"})),
            MissingRequiredParameter,
            "questions[0].tools",
        ),
        (
            one(tools(json!([good, good]))),
            InvalidParameter,
            "questions[0].tools[1]",
        ),
        (
            one(tools(json!([tool("none", json!({}))]))),
            InvalidParameter,
            "questions[0].tools[0]",
        ),
        (
            one(tools(json!([{"type": "custom", "name": "f"}]))),
            InvalidParameter,
            "questions[0].tools[0].type",
        ),
        (
            one(tools(json!([{"type": "function", "function": {"name": "f"}}]))),
            MissingRequiredParameter,
            "questions[0].tools[0].function.parameters",
        ),
        (
            schema(json!([])),
            InvalidParameter,
            "questions[0].tools[0].function.parameters",
        ),
        (
            schema(json!({})),
            MissingRequiredParameter,
            "questions[0].tools[0].function.parameters.type",
        ),
        (
            schema(json!({"type": "string"})),
            InvalidParameter,
            "questions[0].tools[0].function.parameters.type",
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"enum": "b"}}})),
            InvalidParameter,
            "questions[0].tools[0].function.parameters.properties.a.enum",
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"enum": ["b", "b"]}}})),
            InvalidParameter,
            "questions[0].tools[0].function.parameters.properties.a",
        ),
        (
            one(json!({"type": "tool", "instructions": "?", "tools": [good], "tool_choice": "none"})),
            InvalidParameter,
            "questions[0].tool_choice",
        ),
        (
            one(json!({"type": "tool", "instructions": "?", "tools": [good], "abstain": true})),
            InvalidParameter,
            "questions[0].abstain",
        ),
        (
            one(
                json!({"type": "noul", "instructions": [{"type": "input_image", "image_url": "https://a.b/c"}]}),
            ),
            UnsupportedParameter,
            "questions[0].instructions[0]",
        ),
        (
            native(json!("text"), json!("noul")),
            InvalidParameter,
            "questions",
        ),
        (
            json!({"model": "m", "questions": [noul()]}),
            MissingRequiredParameter,
            "state",
        ),
        (
            json!({"model": "m", "state": "s"}),
            MissingRequiredParameter,
            "questions",
        ),
        (
            json!({"state": "s", "questions": [noul()]}),
            MissingRequiredParameter,
            "model",
        ),
        (
            json!({"model": "m", "state": "s", "input": "s", "questions": [noul()]}),
            InvalidParameter,
            "input",
        ),
        (
            json!({"model": "m", "state": "s", "questions": [noul()], "temperature": 1}),
            UnknownParameter,
            "temperature",
        ),
        (
            json!({"model": "m", "input": {"a": 1}, "questions": [noul()]}),
            InvalidParameter,
            "input",
        ),
        (
            json!({"model": "m", "input": ["a"], "questions": [noul()]}),
            InvalidParameter,
            "input[0]",
        ),
        (
            json!({"model": "m", "input": [{"type": "image_url"}], "questions": {"a": noul()}}),
            InvalidParameter,
            "input[0].type",
        ),
    ];
    for (body, code, param) in cases {
        assert_eq!(error_of(&body), (code, param.to_owned()), "{body}");
    }
    // Valid values just inside the limits.
    decision_request(&one(
        json!({"type": "tool", "instructions": "?", "tools": [tool("none", json!({}))], "tool_choice": "required"}),
    ));
    decision_request(&one(
        json!({"type": "tool", "instructions": "?", "tools": [good], "abstain": false}),
    ));
    decision_request(&one(choice(
        "choices",
        json!([{"value": "true"}, {"value": true}]),
    )));
}

#[test]
fn duplicate_keys_are_refused() {
    let twice = |body: &str| super::read(body.as_bytes()).unwrap_err().param.unwrap();
    let question = r#"{"type":"noul","instructions":"?"}"#;
    let map = format!(r#"{{"model":"m","state":"s","questions":{{"a":{question},"a":{question}}}}}"#);
    assert_eq!(twice(&map), "questions.a");
    let model = format!(r#"{{"model":"m","model":"n","state":"s","questions":[{question}]}}"#);
    assert_eq!(twice(&model), "model");
    let options = r#"{"model":"m","state":"s","questions":[{"type":"choice","instructions":"?","criteria":{"a":null,"a":null}}]}"#;
    assert_eq!(twice(options), "questions[0].criteria.a");
    let names = native(
        json!("s"),
        json!([{"type": "noul", "instructions": "?", "id": "a"}, {"type": "noul", "instructions": "?", "name": "a"}]),
    );
    assert_eq!(
        error_of(&names),
        (InvalidParameter, "questions[1].name".to_owned())
    );
}

#[test]
fn errors_do_not_repeat_long_texts() {
    let long = "x".repeat(100_000);
    for body in [
        one(json!({"type": long, "instructions": "?"})),
        one(json!({"type": "noul", "instructions": "?", long.as_str(): 1})),
        one(choice("criteria", json!({long.as_str(): 1, "b": null}))),
        native(json!({long.as_str(): {"type": "image_url"}}), json!([noul()])),
        native(json!({"type": "image_url", "image_url": long}), json!([noul()])),
        native(json!("s"), json!({long.as_str(): noul()})),
    ] {
        error_of(&body);
    }
}
