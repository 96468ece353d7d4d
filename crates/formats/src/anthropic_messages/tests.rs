//! Cases that the golden files do not cover: cache breakpoints, merged usage, cost, interleaved
//! calls and inputs that are not objects.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::FinishReason;
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Unit, Usage};

use super::*;

#[test]
fn cache_breakpoints_round_trip() {
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
    let written: Value = serde_json::from_slice(&encode_request(&request, &Default::default(), 9)).unwrap();
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
fn final_usage_is_merged_with_the_initial_usage() {
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
    let mut start_usage = start.clone();
    start_usage["cache_creation"] = split.clone();
    let end = json!({"output_tokens": 7});
    assert_eq!(read_usage(Some(&start_usage), &end), Some(hour));
    assert_eq!(encode_usage(&hour, None)["cache_creation"], split);
    assert_eq!(encode_usage(&hour, None)["cache_creation_input_tokens"], 3);
    for malformed in [
        json!({}),
        json!({"output_tokens": -7}),
        json!({"output_tokens": 1.5}),
        json!({"output_tokens": "7"}),
        json!({"output_tokens": u64::MAX}),
        json!({"output_tokens": 7, "input_tokens": "9"}),
    ] {
        assert_eq!(usage(malformed.clone()), None, "{malformed}");
    }
    let too_much = json!({"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 9}});
    assert_eq!(
        usage(too_much).map(|usage| usage.total_output()),
        Some(7),
        "a part is not above its whole"
    );
}

#[test]
fn usage_has_the_cost() {
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

/// Returns the type and the index of each event, followed by the tool input that the event adds.
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
        let arguments_delta = event
            .pointer("/delta/partial_json")
            .and_then(Value::as_str)
            .unwrap_or_default();
        format!("{kind}{index}{arguments_delta}")
    })
    .collect()
}

#[test]
fn interleaved_calls_become_sequential_blocks() {
    let start = |call| StreamEvent::ToolCallStart {
        choice: 0,
        call,
        id: format!("c{call}"),
        name: "f".to_owned(),
    };
    let arguments_delta = |call, arguments: &str| StreamEvent::ToolCallArguments {
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
        arguments_delta(0, "{"),
        arguments_delta(1, "["),
        arguments_delta(0, "}"),
        arguments_delta(1, "]"),
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
fn non_object_inputs_are_wrapped() {
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
