//! Cases that the golden files do not cover: errors, cost, and omitted fields.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, ErrorCode, Usage};

use super::*;

const COST: Option<Credits> = Some(Credits::from_nanos(12_500_000));

/// Returns the JSON of an event, which must be one complete event in the plain form.
fn data_of(event: &Bytes) -> Value {
    let text = std::str::from_utf8(event).unwrap();
    let data = text.strip_prefix("data: ").unwrap().strip_suffix("\n\n").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn errors_have_all_four_keys() {
    let error = Error::new(ErrorCode::InvalidParameter, "Say \"please\".").with_param("messages[0].content");
    let expected = json!({"error": {
        "message": "Say \"please\".",
        "type": "invalid_request_error",
        "code": "invalid_parameter",
        "param": "messages[0].content",
    }});
    let body = encode_error(&error, "invalid_request_error");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), expected);
    let event = encode_error_event(&error, "invalid_request_error");
    assert_eq!(data_of(&event), expected);
    assert_eq!(
        inspect_event(&event[6..event.len() - 2]).unwrap().kind,
        EventKind::Error
    );

    let error = Error::new(ErrorCode::UpstreamError, "Try again.");
    let body: Value = serde_json::from_slice(&encode_error(&error, "upstream_error")).unwrap();
    assert_eq!(body["error"]["param"], Value::Null);
    assert!(body["error"].as_object().unwrap().contains_key("param"));
}

#[test]
fn a_decode_error_is_a_public_error() {
    let error: Error = validate(br#"{"model":"m","messages":[],"n":0}"#)
        .unwrap_err()
        .into();
    assert_eq!(error.code, ErrorCode::InvalidParameter);
    assert_eq!(error.param.as_deref(), Some("messages"));
    assert_eq!(error.message, "'messages' must have at least one message.");
}

#[test]
fn errors_of_upstreams_are_read() {
    let report = |message: &str, code: Option<&str>, kind: Option<&str>, param: Option<&str>| ErrorReport {
        message: message.to_owned(),
        code: code.map(str::to_owned),
        kind: kind.map(str::to_owned),
        param: param.map(str::to_owned),
    };
    let cases = [
        (
            r#"{"error":{"message":"bad","type":"invalid_request_error","code":"context_length_exceeded","param":"messages"}}"#,
            report(
                "bad",
                Some("context_length_exceeded"),
                Some("invalid_request_error"),
                Some("messages"),
            ),
        ),
        (
            r#"{"error":{"message":"bad","code":429,"type":null}}"#,
            report("bad", Some("429"), None, None),
        ),
        (
            r#"{"error":"model 'x' not found"}"#,
            report("model 'x' not found", None, None, None),
        ),
        (
            r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#,
            report("too long", Some("400"), Some("BadRequestError"), None),
        ),
        (r#"{"detail":"Not Found"}"#, report("Not Found", None, None, None)),
        (
            r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
            report(r#"[{"loc":["body"],"msg":"field required"}]"#, None, None, None),
        ),
        (r#"{"error":null,"message":"x"}"#, report("x", None, None, None)),
        (
            "<html>502 Bad Gateway</html>\n",
            report("<html>502 Bad Gateway</html>", None, None, None),
        ),
        ("", report("", None, None, None)),
        ("[]", report("[]", None, None, None)),
    ];
    for (body, expected) in cases {
        assert_eq!(read_error(body.as_bytes()), expected, "{body}");
    }
    assert_eq!(read_error(&[0xff; 10]).message.chars().count(), 10);
    for long in [
        "é".repeat(5_000),
        format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(5_000)),
    ] {
        assert_eq!(
            read_error(long.as_bytes()).message.chars().count(),
            MAX_ERROR_MESSAGE
        );
    }
}

#[test]
fn whole_responses_have_the_public_model_and_the_cost() {
    let body =
        br#"{"id":"x","model":"up","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":9}}"#;
    let response = decode_response(body).unwrap();
    let encoded: Value = serde_json::from_slice(&encode_response(&response, "public/m", COST)).unwrap();
    assert_eq!(encoded["model"], "public/m");
    assert_eq!(encoded["object"], "chat.completion");
    assert_eq!(encoded["usage"]["total_tokens"], 3);
    assert_eq!(encoded["usage"]["cost"], "0.0125");
    let silent = decode_response(br#"{"choices":[]}"#).unwrap();
    assert_eq!(silent.usage, None);
    let encoded: Value = serde_json::from_slice(&encode_response(&silent, "m", COST)).unwrap();
    assert!(encoded.get("usage").is_none());
}

#[test]
fn answers_are_read_leniently() {
    let body = br#"{"created":1.5,"choices":[{"message":{"content":"x","unknown":[1]}},{}],"usage":"much"}"#;
    let response = decode_response(body).unwrap();
    assert_eq!(
        (response.created, response.choices.len(), response.usage),
        (0, 2, None)
    );
    assert_eq!(response.choices[0].extra["unknown"], json!([1]));
    for body in ["", "<html>", "[1]", r#"{"choices":7}"#] {
        assert!(decode_response(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn finish_reasons_are_mapped() {
    let finish = |reason: &str, message: &str| {
        let body = format!(r#"{{"choices":[{{"message":{{{message}}},"finish_reason":{reason}}}]}}"#);
        decode_response(body.as_bytes()).unwrap().choices[0].finish
    };
    let call = r#""tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":""}}]"#;
    let cases = [
        ("\"stop\"", "", FinishReason::Stop),
        ("\"stop\"", call, FinishReason::ToolCalls),
        ("\"length\"", call, FinishReason::Length),
        ("\"tool_calls\"", call, FinishReason::ToolCalls),
        ("\"function_call\"", "", FinishReason::ToolCalls),
        ("\"content_filter\"", "", FinishReason::ContentFilter),
        ("\"eos\"", "", FinishReason::Stop),
        ("null", "", FinishReason::Stop),
        ("null", call, FinishReason::ToolCalls),
    ];
    for (reason, message, expected) in cases {
        assert_eq!(finish(reason, message), expected, "{reason} {message}");
    }
}

#[test]
fn usage_is_sent_only_on_request() {
    let usage = StreamEvent::Usage(Usage::tokens(1, 2));
    let start = StreamEvent::Start {
        id: "x".to_owned(),
        created: 7,
        model: "up".to_owned(),
    };
    let mut silent = StreamEncoder::new("public/m", false);
    let first = data_of(&silent.encode(&start, None).unwrap());
    assert_eq!(first["model"], "public/m");
    assert!(first.get("usage").is_none());
    assert_eq!(silent.encode(&usage, COST), None);

    let mut with_usage = StreamEncoder::new("public/m", true);
    let first = data_of(&with_usage.encode(&start, None).unwrap());
    assert_eq!(first.as_object().unwrap().get("usage"), Some(&Value::Null));
    let last = with_usage.encode(&usage, COST).unwrap();
    assert_eq!(data_of(&last)["choices"], json!([]));
    assert_eq!(data_of(&last)["usage"]["cost"], "0.0125");
    assert_eq!(
        last,
        encode_usage_event("x", 7, "public/m", &Usage::tokens(1, 2), COST)
    );
    assert_eq!(StreamEncoder::done(), "data: [DONE]\n\n");
}

#[test]
fn call_deltas_are_matched_to_their_calls() {
    let mut decoder = StreamDecoder::new();
    let mut decoded = |calls: &str| {
        let chunk = format!(r#"{{"id":"x","choices":[{{"index":0,"delta":{{"tool_calls":{calls}}}}}]}}"#);
        let events = decoder.decode(chunk.as_bytes()).unwrap();
        let is_start = |event: &StreamEvent| matches!(event, StreamEvent::Start { .. });
        let call_events = events.into_iter().filter(|event| !is_start(event));
        call_events
            .map(|event| match event {
                StreamEvent::ToolCallStart { call, id, name, .. } => format!("{call} {id} {name}"),
                StreamEvent::ToolCallArguments { call, arguments, .. } => format!("{call} {arguments}"),
                other => format!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    // Two complete parallel calls without an index.
    let whole = r#"[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g"}}]"#;
    assert_eq!(decoded(whole), ["0 a f", "0 {}", "1 b g"]);
    // A later delta repeats id and name.
    assert_eq!(
        decoded(r#"[{"index":1,"id":"b","function":{"name":"g","arguments":"x"}}]"#),
        ["1 x"]
    );
    assert_eq!(
        decoded(r#"[{"index":2,"id":"c","custom":{"name":"h","input":"y"}}]"#),
        ["2 c h", "2 y"]
    );
}

#[test]
fn malformed_chunks_are_refused() {
    for data in ["", "{", "[]", r#"{"choices":{}}"#] {
        assert!(StreamDecoder::new().decode(data.as_bytes()).is_err(), "{data}");
    }
    assert_eq!(StreamDecoder::new().decode(b"[DONE]"), Ok(Vec::new()));
}
