//! What the golden files do not show: errors, cost, and calls that come by turns.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, ErrorCode, Unit, Usage};

use super::*;

#[test]
fn errors_have_the_members_of_both_contracts() {
    let error = Error::new(ErrorCode::RateLimitExceeded, "Slow down.");
    let body: Value = serde_json::from_slice(&encode_error(&error, 429, "req_1")).unwrap();
    let inner = json!({"type": "rate_limit_error", "message": "Slow down.", "code": "rate_limit_exceeded", "param": null});
    assert_eq!(
        body,
        json!({"type": "error", "error": inner, "request_id": "req_1"})
    );
    let event = encode_error_event(&error, 429, "req_1");
    assert!(event.starts_with(b"event: error\ndata: {") && event.ends_with(b"}\n\n"));
}

#[test]
fn clients_are_told_to_go_on_without_a_thread() {
    let details = |code, param: &str| {
        let error = Error::new(code, "No.").with_param(param);
        let body: Value = serde_json::from_slice(&encode_error(&error, 400, "req_1")).unwrap();
        body["error"].get("details").cloned()
    };
    let expected = json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]});
    assert_eq!(details(ErrorCode::UnsupportedParameter, "thread"), Some(expected));
    assert_eq!(details(ErrorCode::UnknownParameter, "thread"), None);
    assert_eq!(details(ErrorCode::UnsupportedParameter, "speed"), None);
}

#[test]
fn marks_of_the_cache_go_there_and_back() {
    let hour = json!({"type": "ephemeral", "ttl": "1h"});
    let minutes = json!({"type": "ephemeral"});
    let body = json!({
        "model": "m", "max_tokens": 9, "cache_control": hour,
        "system": [{"type": "text", "text": "s", "cache_control": hour}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": hour}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "q", "cache_control": minutes}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "let me"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}, "cache_control": minutes},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "r", "cache_control": minutes},
                {"type": "text", "text": "go on"},
            ]},
        ],
    });
    let request = decode_request(body.to_string().as_bytes()).unwrap();
    let written: Value = serde_json::from_slice(&encode_request(&request, 9)).unwrap();
    assert_eq!(written["system"][0]["cache_control"], hour);
    assert_eq!(written["tools"][0]["cache_control"], hour);
    let marks = |turn: usize, block: usize| {
        written["messages"][turn]["content"][block]
            .get("cache_control")
            .cloned()
    };
    assert_eq!(marks(0, 0), Some(minutes.clone()));
    assert_eq!(
        (marks(1, 0), marks(1, 1)),
        (Some(minutes.clone()), None),
        "a call has no place for it"
    );
    let result = &written["messages"][2]["content"][0]["content"][0];
    assert_eq!(result["cache_control"], minutes, "{written}");
    assert_eq!(marks(2, 1), Some(hour), "automatic: at the end");
}

#[test]
fn usage_keeps_what_the_end_of_a_stream_leaves_out() {
    let start = json!({"input_tokens": 9, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 3, "output_tokens": 1});
    let usage = |now: Value| read_usage(Some(&start), &now);
    let expected = Usage::ZERO
        .with(Unit::Input, 9)
        .with(Unit::CacheRead, 5)
        .with(Unit::CacheWrite, 3)
        .with(Unit::Output, 7);
    assert_eq!(usage(json!({"output_tokens": 7})), Some(expected));
    assert_eq!(
        usage(
            json!({"output_tokens": 7, "input_tokens": 10, "output_tokens_details": {"thinking_tokens": 4}})
        ),
        Some(
            expected
                .with(Unit::Input, 10)
                .with(Unit::Output, 3)
                .with(Unit::Reasoning, 4)
        )
    );
    let split = json!({"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2});
    let hour = expected.with(Unit::CacheWrite, 1).with(Unit::CacheWriteHour, 2);
    assert_eq!(
        usage(json!({"output_tokens": 7, "cache_creation": split})),
        Some(hour)
    );
    let mut told_at_the_start = start.clone();
    told_at_the_start["cache_creation"] = split.clone();
    let end = json!({"output_tokens": 7});
    assert_eq!(read_usage(Some(&told_at_the_start), &end), Some(hour));
    assert_eq!(encode_usage(&hour, None)["cache_creation"], split);
    assert_eq!(encode_usage(&hour, None)["cache_creation_input_tokens"], 3);
    for nonsense in [
        json!({}),
        json!({"output_tokens": -7}),
        json!({"output_tokens": 1.5}),
        json!({"output_tokens": "7"}),
        json!({"output_tokens": u64::MAX}),
        json!({"output_tokens": 7, "input_tokens": "9"}),
    ] {
        assert_eq!(usage(nonsense.clone()), None, "{nonsense}");
    }
    let too_much = json!({"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 9}});
    assert_eq!(
        usage(too_much).map(|usage| usage.total_output()),
        Some(7),
        "a part is not above its whole"
    );
}

#[test]
fn the_cost_stands_in_the_usage() {
    let cost = Credits::from_nanos(12_500_000);
    let event = Bytes::from(
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n",
    );
    assert_eq!(
        event_with_cost(&event, cost),
        "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7,\"cost\":\"0.0125\"}}\n\n"
    );
    let without = Bytes::from("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    assert_eq!(event_with_cost(&without, cost), without);
    let body = Bytes::from("{\"content\":[],\"usage\":{\"output_tokens\":7},\"n\":1.50}");
    let head = inspect_response(&body, "").unwrap();
    assert_eq!(
        splice_response(&body, &head, "m", Some(cost)),
        "{\"model\":\"m\",\"content\":[],\"usage\":{\"output_tokens\":7,\"cost\":\"0.0125\"},\"n\":1.50}"
    );
}

/// Type and index of each event, and the piece of input that it has.
fn shape(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| {
        let event: Value = serde_json::from_str(data).unwrap();
        let kind = event["type"]
            .as_str()
            .unwrap()
            .trim_start_matches("content_block_");
        let index = event["index"]
            .as_u64()
            .map_or(String::new(), |index| index.to_string());
        let piece = event
            .pointer("/delta/partial_json")
            .and_then(Value::as_str)
            .unwrap_or_default();
        format!("{kind}{index}{piece}")
    })
    .collect()
}

#[test]
fn calls_that_come_by_turns_follow_one_another() {
    let start = |call| StreamEvent::ToolCallStart {
        choice: 0,
        call,
        id: format!("c{call}"),
        name: "f".to_owned(),
    };
    let piece = |call, arguments: &str| StreamEvent::ToolCallArguments {
        choice: 0,
        call,
        arguments: arguments.to_owned(),
    };
    let finish = StreamEvent::Finish {
        choice: 0,
        reason: FinishReason::ToolCalls,
        stop_sequence: None,
    };
    let mut encoder = StreamEncoder::new("m", true);
    let mut out = Vec::new();
    for event in [
        start(0),
        start(1),
        piece(0, "{"),
        piece(1, "["),
        piece(0, "}"),
        piece(1, "]"),
        finish,
    ] {
        out.extend(encoder.encode(&event));
    }
    out.extend(encoder.end(None, None));
    let expected = [
        "message_start",
        "start0",
        "delta0{",
        "delta0}",
        "stop0",
        "start1",
        "delta1[]",
        "stop1",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(shape(&out), expected);
}

#[test]
fn an_input_that_is_no_object_is_put_into_one() {
    for (arguments, input) in [
        ("", json!({})),
        ("{\"x\": 1}", json!({"x": 1})),
        ("{\"x\": ", json!({"arguments": "{\"x\":"})),
        ("[1]", json!({"arguments": "[1]"})),
    ] {
        let call = json!({"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}]});
        let answer =
            json!({"id": "x", "choices": [{"index": 0, "message": call, "finish_reason": "length"}]});
        let response = crate::openai_chat::decode_response(answer.to_string().as_bytes()).unwrap();
        let body: Value = serde_json::from_slice(&encode_response(&response, "m", None, true)).unwrap();
        assert_eq!(body["content"][0]["input"], input, "{arguments}");
        assert_eq!(body["stop_reason"], "max_tokens");
    }
}
