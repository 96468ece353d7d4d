//! Tests of validation, forwarding and encoding.

use serde_json::{Value, json};
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part, Reasoning};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, ErrorCode, Usage};

use super::*;

fn body(members: Value) -> String {
    let mut body = json!({"model": "maker/model", "prompt": "Once upon"});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string()
}

#[test]
fn bounds_hold_on_both_sides() {
    let bias = |value: i64| json!({"logit_bias": {"7": value}});
    let texts = |count: usize| json!({"prompt": vec!["a"; count]});
    let lists = |count: usize| json!({"prompt": vec![json!([1]); count]});
    for members in [
        json!({"max_tokens": 0}),
        json!({"max_tokens": i64::MAX}),
        json!({"n": 1}),
        json!({"n": 128}),
        json!({"n": 20, "best_of": 20}),
        json!({"best_of": 1, "stream": true}),
        json!({"logprobs": 0}),
        json!({"logprobs": 5}),
        json!({"temperature": 0}),
        json!({"temperature": 2}),
        json!({"top_p": 0}),
        json!({"top_p": 1}),
        json!({"frequency_penalty": -2, "presence_penalty": 2}),
        json!({"seed": i64::MIN}),
        json!({"stop": ["a", "b", "c", "d"]}),
        json!({"stop": "a"}),
        json!({"suffix": "", "echo": true, "user": "u"}),
        json!({"stream": true, "stream_options": {"include_usage": true}}),
        json!({"n": null, "best_of": null, "stop": null, "max_tokens": null, "stream_options": null}),
        bias(-100),
        bias(100),
        texts(1),
        texts(2_048),
        lists(2_048),
        json!({"prompt": [0, u32::MAX]}),
        json!({"response_format": {"type": "json_object"}}),
    ] {
        let body = body(members);
        validate(body.as_bytes()).unwrap_or_else(|error| panic!("{body:.200}: {error}"));
    }
    for (members, param) in [
        (json!({"model": ""}), "model"),
        (json!({"prompt": ""}), "prompt"),
        (json!({"prompt": null}), "prompt"),
        (json!({"prompt": 7}), "prompt"),
        (json!({"prompt": []}), "prompt"),
        (json!({"prompt": ["a", 1]}), "prompt[1]"),
        (json!({"prompt": ["a", ""]}), "prompt[1]"),
        (json!({"prompt": [1, "a"]}), "prompt[1]"),
        (json!({"prompt": [[1], []]}), "prompt[1]"),
        (json!({"prompt": [[1], [1.5]]}), "prompt[1][0]"),
        (json!({"prompt": [-1]}), "prompt[0]"),
        (json!({"prompt": [true]}), "prompt[0]"),
        (json!({"prompt": [4_294_967_296_u64]}), "prompt[0]"),
        (texts(2_049), "prompt"),
        (lists(2_049), "prompt"),
        (json!({"max_tokens": -1}), "max_tokens"),
        (json!({"max_tokens": 1.5}), "max_tokens"),
        (json!({"n": 0}), "n"),
        (json!({"n": 129}), "n"),
        (json!({"best_of": -1}), "best_of"),
        (json!({"best_of": 21}), "best_of"),
        (json!({"best_of": 0}), "best_of"),
        (json!({"n": 3, "best_of": 2}), "best_of"),
        (json!({"best_of": 2, "stream": true}), "best_of"),
        (json!({"logprobs": -1}), "logprobs"),
        (json!({"logprobs": 6}), "logprobs"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"temperature": 2.1}), "temperature"),
        (json!({"top_p": 1.1}), "top_p"),
        (json!({"frequency_penalty": -2.1}), "frequency_penalty"),
        (json!({"presence_penalty": 2.1}), "presence_penalty"),
        (json!({"seed": 1.5}), "seed"),
        (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
        (json!({"stop": 7}), "stop"),
        (json!({"stream_options": {}}), "stream_options"),
        (json!({"echo": 1}), "echo"),
        (json!({"suffix": 1}), "suffix"),
        (json!({"stream": "yes"}), "stream"),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
        ),
        (bias(-101), "logit_bias.7"),
        (bias(101), "logit_bias.7"),
    ] {
        let error = validate(body(members.clone()).as_bytes()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::InvalidParameter, Some(param)),
            "{members}"
        );
    }
}

#[test]
fn missing_duplicate_and_malformed_fields_are_refused() {
    for (text, code, param) in [
        (
            r#"{"prompt":"a"}"#,
            ErrorCode::MissingRequiredParameter,
            Some("model"),
        ),
        (
            r#"{"model":"m"}"#,
            ErrorCode::MissingRequiredParameter,
            Some("prompt"),
        ),
        (
            r#"{"model":"m","prompt":"a","n":1,"n":2}"#,
            ErrorCode::InvalidParameter,
            Some("n"),
        ),
        (
            r#"{"model":"m","prompt":"a","response_format":{}}"#,
            ErrorCode::MissingRequiredParameter,
            Some("response_format.type"),
        ),
        (r#"{"model":"m","prompt":["", }"#, ErrorCode::InvalidJson, None),
        ("[]", ErrorCode::InvalidParameter, None),
    ] {
        let error = validate(text.as_bytes()).unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), (code, param), "{text}");
    }
}

#[test]
fn heads_count_prompts_and_choices() {
    // Members, number of prompts, tokens, generated choices, returned choices.
    for (members, expected) in [
        (json!({}), (1, 0, 1, 1)),
        (json!({"n": 3}), (1, 0, 3, 3)),
        (json!({"n": 2, "best_of": 5}), (1, 0, 5, 2)),
        (json!({"prompt": ["a", "b"], "n": 2}), (2, 0, 2, 4)),
        (json!({"prompt": [1, 2, 3]}), (1, 3, 1, 1)),
        (json!({"prompt": [[1, 2], [3]], "best_of": 4}), (2, 3, 4, 2)),
    ] {
        let text = body(members.clone());
        let head = validate(text.as_bytes()).unwrap();
        let found = (head.prompts, head.tokens, head.best_of, head.choices());
        assert_eq!(found, expected, "{members}");
        assert_eq!(head.token_bytes > 0, head.tokens > 0, "{members}");
        assert_eq!(head.max_tokens, DEFAULT_MAX_TOKENS);
    }
}

#[test]
fn completions_only_fields_are_refused_for_chat() {
    for (members, param) in [
        (json!({"prompt": ["a", "b"]}), "prompt"),
        (json!({"prompt": [1]}), "prompt"),
        (json!({"suffix": "x"}), "suffix"),
        (json!({"best_of": 2}), "best_of"),
        (json!({"echo": true}), "echo"),
        (json!({"logprobs": 0}), "logprobs"),
    ] {
        let text = body(members);
        let head = validate(text.as_bytes()).unwrap();
        assert_eq!(check_unsupported(&head, &[]), Ok(()), "{text}");
        let error = check_unsupported(&head, COMPLETIONS_ONLY).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::UnsupportedParameter, Some(param))
        );
        assert_eq!(decode_request(text.as_bytes()).unwrap_err(), error);
        let structured = text.replacen('{', r#"{"response_format":{"type":"json_object"},"#, 1);
        let head = validate(structured.as_bytes()).unwrap();
        let error = check_unsupported(&head, &[]).unwrap_err();
        assert_eq!(
            error.param.as_deref(),
            Some(param),
            "no endpoint of this format forces a shape"
        );
    }
    let nothing = body(json!({"prompt": ["a"], "best_of": 1, "echo": false, "n": 1, "suffix": null}));
    let head = validate(nothing.as_bytes()).unwrap();
    assert_eq!(
        check_unsupported(&head, &["prompt", "best_of", "echo", "n", "suffix"]),
        Ok(())
    );
}

#[test]
fn a_request_is_one_turn_of_the_user() {
    let text = body(json!({
        "prompt": ["Once"], "n": 2, "stop": "x", "logit_bias": {"1": 2}, "top_k": 4, "metadata": {}, "echo": false,
        "user": "u", "stream": true, "stream_options": {"include_usage": true}, "seed": 3,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}},
    }));
    let request = decode_request(text.as_bytes()).unwrap();
    assert_eq!(request.messages.len(), 1);
    assert_eq!(request.messages[0].parts, [Part::Text("Once".to_owned())]);
    assert_eq!(request.messages[0].place.part(0), "prompt");
    assert_eq!((request.max_tokens, request.n), (Some(DEFAULT_MAX_TOKENS), 2));
    assert!(request.stream && request.include_usage);
    assert_eq!(
        Value::Object(request.extra),
        json!({"logit_bias": {"1": 2}, "top_k": 4})
    );
}

#[test]
fn only_text_prompts_are_read() {
    for (prompt, expected) in [
        (json!("Once \u{e9}"), vec!["Once \u{e9}"]),
        (json!(["a", "b"]), vec!["a", "b"]),
        (json!([1, 2]), vec![]),
        (json!([[1], [2]]), vec![]),
    ] {
        assert_eq!(
            prompts(body(json!({"prompt": prompt})).as_bytes()),
            expected,
            "{prompt}"
        );
    }
    assert_eq!(prompts(b"{"), Vec::<String>::new());
}

#[test]
fn upstream_request_has_the_cap_and_the_usage_option() {
    let edits = RequestEdits {
        model: "up",
        clamp_output: None,
        remove: &["user", "prompt"],
        vendor_fields: &["top_k"],
    };
    for (sent, expected) in [
        (
            r#"{"model":"m","prompt":"a"}"#,
            r#"{"model":"up","prompt":"a","max_tokens":16}"#,
        ),
        (
            r#"{ "top_k": 4, "x": 1, "prompt": [1, 2], "max_tokens": 7, "user": "u", "model":"m", "n": null }"#,
            r#"{"model":"up","top_k": 4,"prompt": [1, 2],"max_tokens": 7}"#,
        ),
        (
            r#"{"model":"m","prompt":"a","max_tokens":null,"stream":true,"stream_options":{"include_usage":false}}"#,
            r#"{"model":"up","prompt":"a","stream":true,"max_tokens":16,"stream_options":{"include_usage":true}}"#,
        ),
    ] {
        let head = validate(sent.as_bytes()).unwrap_or_else(|error| panic!("{sent}: {error}"));
        assert_eq!(splice_request(sent.as_bytes(), &head, &edits), expected);
    }
    let clamped = RequestEdits {
        clamp_output: Some(9),
        ..edits
    };
    for (sent, expected) in [
        (r#","max_tokens":10"#, r#","max_tokens":9"#),
        (r#","max_tokens":9"#, r#","max_tokens":9"#),
        (r#","max_tokens":8"#, r#","max_tokens":8"#),
        // The default limit is 16 tokens.
        ("", r#","max_tokens":9"#),
        (r#","max_tokens":null"#, r#","max_tokens":9"#),
    ] {
        let sent = format!(r#"{{"model":"m","prompt":"a"{sent}}}"#);
        let head = validate(sent.as_bytes()).unwrap();
        assert_eq!(
            splice_request(sent.as_bytes(), &head, &clamped),
            format!(r#"{{"model":"up","prompt":"a"{expected}}}"#)
        );
    }
    let silent = RequestEdits {
        remove: &["stream_options"],
        ..edits
    };
    let sent = r#"{"model":"m","prompt":"a","max_tokens":1,"stream":true}"#;
    let head = validate(sent.as_bytes()).unwrap();
    assert_eq!(
        splice_request(sent.as_bytes(), &head, &silent),
        r#"{"model":"up","prompt":"a","max_tokens":1,"stream":true}"#
    );
}

#[test]
fn unknown_fields_need_a_vendor_allowance() {
    let text = body(json!({"top_k": 1, "store": true}));
    let head = validate(text.as_bytes()).unwrap();
    assert_eq!(check_unknown(&head, &["top_k"]), Ok(()));
    assert_eq!(
        check_unknown(&head, &[]).unwrap_err().param.as_deref(),
        Some("top_k")
    );
    assert_eq!(head.ignored_hints(&[]).collect::<Vec<_>>(), ["store"]);
    for field in Field::ALL {
        assert_eq!(Field::parse(field.as_str()), Some(*field));
    }
}

#[test]
fn responses_have_text_only() {
    let choice = |index, parts, finish| Choice {
        index,
        parts,
        tool_calls: Vec::new(),
        finish,
        stop_sequence: None,
        logprobs: None,
        extra: Default::default(),
    };
    let text_part = |text: &str| Part::Text(text.to_owned());
    let response = GenerateResponse {
        id: "cmpl-1".to_owned(),
        created: 7,
        model: "up".to_owned(),
        choices: vec![
            choice(
                0,
                vec![
                    Part::Reasoning(Reasoning::shown("hm")),
                    text_part("a"),
                    text_part("b"),
                ],
                FinishReason::Length,
            ),
            choice(
                1,
                vec![Part::Refusal("no".to_owned())],
                FinishReason::ContentFilter,
            ),
        ],
        usage: Some(Usage::tokens(3, 2)),
        extra: Default::default(),
    };
    let written = encode_response(&response, "maker/model", Some(Credits::from_nanos(12_500_000)));
    let mut written: Value = serde_json::from_slice(&written).unwrap();
    let usage = written.as_object_mut().unwrap().remove("usage").unwrap();
    assert_eq!(
        (&usage["prompt_tokens"], &usage["cost"]),
        (&json!(3), &json!("0.0125"))
    );
    assert_eq!(
        written,
        json!({"id": "cmpl-1", "object": "text_completion", "created": 7, "model": "maker/model", "choices": [
            {"text": "ab", "index": 0, "logprobs": null, "finish_reason": "length"},
            {"text": "no", "index": 1, "logprobs": null, "finish_reason": "content_filter"},
        ]})
    );
}

#[test]
fn streams_have_text_finish_reason_and_usage() {
    let events = [
        StreamEvent::Start {
            id: "cmpl-1".to_owned(),
            created: 7,
            model: "up".to_owned(),
        },
        StreamEvent::Reasoning {
            choice: 0,
            text: "hm".to_owned(),
        },
        StreamEvent::Text {
            choice: 0,
            text: "Hi".to_owned(),
            logprobs: None,
        },
        StreamEvent::Finish {
            choice: 0,
            reason: FinishReason::Stop,
            stop_sequence: None,
        },
        StreamEvent::Usage(Usage::tokens(3, 2)),
    ];
    for with_usage in [true, false] {
        let mut encoder = StreamEncoder::new("maker/model", with_usage);
        let written: Vec<_> = events
            .iter()
            .filter_map(|event| encoder.encode(event, None))
            .collect();
        let head =
            r#"{"id":"cmpl-1","object":"text_completion","created":7,"model":"maker/model","choices":["#;
        let tail = if with_usage { r#"],"usage":null}"# } else { "]}" };
        let expected_chunk = |text: &str, reason: &str| {
            format!(
                "data: {head}{{\"text\":\"{text}\",\"index\":0,\"logprobs\":null,\"finish_reason\":{reason}}}{tail}\n\n"
            )
        };
        assert_eq!(written[0], expected_chunk("Hi", "null"));
        assert_eq!(written[1], expected_chunk("", "\"stop\""));
        assert_eq!(written.len(), if with_usage { 3 } else { 2 });
        if with_usage {
            let own = encode_usage_event("cmpl-1", 7, "maker/model", &Usage::tokens(3, 2), None);
            assert_eq!(written[2], own);
        }
    }
}
