//! Cases that the golden files do not cover: signatures of reasoning, failures, interleaved calls,
//! and the items of conversations.

use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_types::generate::{
    Choice, FinishReason, GenerateResponse, Part, Reasoning, Role, Seal, ToolCall,
};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Credits, Error, ErrorCode, Unit, Usage};

use super::*;
use crate::sse::{Event, EventReader};

const ORIGIN: &str = "0123456789abcdef";

/// Members that Open Responses requires in every response.
const REQUIRED: &[&str] = &[
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

fn identity() -> Identity {
    Identity {
        number: 0x0197_0000_0000_7000_bfff_ffff_ffff_ffff,
        created_at: 7,
        model: "maker/model".to_owned(),
        store: true,
        background: false,
        previous_response_id: Some("resp_before".to_owned()),
    }
}

fn usage() -> Usage {
    Usage::ZERO.with(Unit::Input, 3).with(Unit::Output, 2)
}

fn events_of(bytes: &[u8]) -> Vec<Value> {
    let mut reader = EventReader::default();
    reader.push(Bytes::copy_from_slice(bytes));
    let events: Vec<Event> = std::iter::from_fn(|| reader.next_event().unwrap()).collect();
    let read = |event: Event| {
        let data: Value = serde_json::from_slice(&event.data).unwrap();
        assert_eq!(event.name.as_deref(), data["type"].as_str().map(str::as_bytes));
        data
    };
    events.into_iter().map(read).collect()
}

/// Returns a complete response with all kinds of content.
fn whole() -> GenerateResponse {
    let reasoned = |text: Option<&str>, data: &str| {
        Part::Reasoning(Reasoning {
            text: text.map(str::to_owned),
            seal: Some(Seal {
                origin: ORIGIN.to_owned(),
                data: data.to_owned(),
            }),
        })
    };
    let call = |id: &str, name: &str, custom| ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: "{\"a\":1}".to_owned(),
        custom,
    };
    GenerateResponse {
        id: "x".to_owned(),
        created: 1,
        model: "m".to_owned(),
        choices: vec![Choice {
            index: 0,
            parts: vec![
                reasoned(Some("hm"), "sig"),
                reasoned(None, "dark"),
                Part::Text("so".to_owned()),
                Part::Refusal("no".to_owned()),
            ],
            tool_calls: vec![call("a", "f", false), call("b", "c", true)],
            finish: FinishReason::ToolCalls,
            stop_sequence: None,
            logprobs: None,
            extra: Default::default(),
        }],
        usage: Some(usage()),
        extra: Default::default(),
    }
}

/// Returns the response of [`whole`] as stream events. The deltas of the two calls are interleaved.
fn stream_events() -> Vec<StreamEvent> {
    let choice = 0;
    let seal = |data: &str, hidden| StreamEvent::ReasoningSeal {
        choice,
        seal: Seal {
            origin: ORIGIN.to_owned(),
            data: data.to_owned(),
        },
        hidden,
    };
    let text = |text: &str| text.to_owned();
    let start = |call, id: &str, name: &str| StreamEvent::ToolCallStart {
        choice,
        call,
        id: id.to_owned(),
        name: name.to_owned(),
    };
    let arguments = |call, stream_event: &str| StreamEvent::ToolCallArguments {
        choice,
        call,
        arguments: stream_event.to_owned(),
    };
    vec![
        StreamEvent::Start {
            id: text("x"),
            created: 1,
            model: text("m"),
        },
        StreamEvent::Reasoning {
            choice,
            text: text("h"),
        },
        StreamEvent::Reasoning {
            choice,
            text: text("m"),
        },
        seal("sig", false),
        seal("dark", true),
        StreamEvent::Text {
            choice,
            text: text("s"),
            logprobs: None,
        },
        StreamEvent::Text {
            choice,
            text: text("o"),
            logprobs: None,
        },
        StreamEvent::Refusal {
            choice,
            text: text("no"),
        },
        start(0, "a", "f"),
        start(1, "b", "c"),
        arguments(0, "{\"a\""),
        arguments(1, "{\"a\":"),
        arguments(0, ":1}"),
        arguments(1, "1}"),
        StreamEvent::Finish {
            choice,
            reason: FinishReason::ToolCalls,
            stop_sequence: None,
        },
    ]
}

fn echo() -> Echo {
    let body = json!({"model": "m", "input": "x", "tools": [
        {"type": "function", "name": "f"}, {"type": "custom", "name": "c"},
    ], "metadata": {"a": "b"}, "max_output_tokens": 99});
    Echo::of(body.to_string().as_bytes()).unwrap()
}

#[test]
fn final_stream_event_has_the_whole_response() {
    for show in [true, false] {
        let mut encoder = StreamEncoder::new(identity(), echo(), show);
        let mut out: Vec<u8> = stream_events()
            .iter()
            .flat_map(|stream_event| encoder.encode(stream_event))
            .collect();
        let end = encoder.end(Some(&usage()), Some(Credits::ZERO), 9);
        out.extend_from_slice(&end);
        let events = events_of(&out);
        for (number, event) in events.iter().enumerate() {
            assert_eq!(event["sequence_number"], number);
        }
        let named = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(named("response.output_item.added"), 5);
        assert_eq!(named("response.output_item.done"), 5);
        assert_eq!(named("response.content_part.done"), 2);
        assert_eq!(
            named("response.reasoning_summary_text.delta"),
            if show { 2 } else { 0 }
        );
        assert_eq!(named("response.custom_tool_call_input.done"), 1);
        let end = end.slice(memchr::memmem::rfind(&end, b"event: ").unwrap()..);
        let last: Value = serde_json::from_slice(&response_in_event(&end).unwrap()).unwrap();
        assert_eq!(last, events[events.len() - 1]["response"]);
        let whole = encode_response(&whole(), &identity(), &echo(), 9, Some(Credits::ZERO), show);
        assert_eq!(last, serde_json::from_slice::<Value>(&whole).unwrap());
        let object = last.as_object().unwrap();
        for name in REQUIRED {
            assert!(object.contains_key(*name), "{name}");
        }
        assert_eq!(object["id"], "resp_0197000000007000bfffffffffffffff");
        assert_eq!(object["output"][0]["id"], "rs_01970000000070008000000000000000");
        let ids: std::collections::HashSet<&Value> = object["output"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| &item["id"])
            .collect();
        assert_eq!(ids.len(), 5, "no two items have one id");
    }
}

#[test]
fn returned_reasoning_decodes_to_the_original() {
    let answer = encode_response(&whole(), &identity(), &echo(), 9, None, true);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let mut input = answer["output"].as_array().unwrap().clone();
    input.push(json!({"type": "function_call_output", "call_id": "a", "output": "1"}));
    let body = json!({"model": "m", "input": input}).to_string();
    let request = decode_request(body.as_bytes()).unwrap();
    let [turn, result] = &*request.messages else {
        panic!("{request:?}")
    };
    let choice = &whole().choices[0];
    assert_eq!(
        (&turn.parts, &turn.tool_calls),
        (&choice.parts, &choice.tool_calls)
    );
    assert_eq!(
        turn.place.path, "input[3]",
        "calls are named by the first of them"
    );
    assert_eq!(result.role, Role::Tool);
}

#[test]
fn only_own_seals_are_forwarded_to_the_upstream() {
    let sealed =
        |text: Value| json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": text});
    let body = Bytes::from(
        json!({"model": "m", "store": true, "previous_response_id": null, "labels": {}, "input": [
            {"role": "user", "content": "x"},
            sealed(json!("gw1.0123456789abcdef.mine")),
            sealed(json!("gw1.fedcba9876543210.theirs")),
            sealed(Value::Null),
            sealed(json!("plain")),
            {"role": "user", "content": "y"},
        ], "reasoning": {"effort": "low"}, "include": [ ]})
        .to_string(),
    );
    let head = validate(&body).unwrap();
    let edits = RequestEdits {
        reasons: false,
        model: "up",
        origin: ORIGIN,
        clamp_output: Some(2_000),
        stream: false,
    };
    let sent: Value = serde_json::from_slice(&splice_request(&body, &head, edits)).unwrap();
    assert_eq!(
        sent,
        json!({"model": "up", "input": [
            {"role": "user", "content": "x"}, sealed(json!("mine")), sealed(json!("plain")),
            {"role": "user", "content": "y"},
        ], "reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 2_000, "stream": false, "store": false})
    );
}

#[test]
fn clamp_replaces_a_larger_cap() {
    for (requested_cap, sent) in [(2_001, 2_000), (2_000, 2_000), (1_999, 1_999)] {
        let body =
            Bytes::from(json!({"model": "m", "max_output_tokens": requested_cap, "input": "x"}).to_string());
        let edits = RequestEdits {
            reasons: false,
            model: "up",
            origin: ORIGIN,
            clamp_output: Some(2_000),
            stream: false,
        };
        let spliced = splice_request(&body, &validate(&body).unwrap(), edits);
        assert_eq!(validate(&spliced).unwrap().max_tokens, Some(sent), "{spliced:?}");
    }
}

#[test]
fn failed_stream_has_no_completed_event() {
    let error = Error::new(ErrorCode::UpstreamError, "It broke.").with_param("input");
    let mut encoder = StreamEncoder::new(identity(), echo(), true);
    let mut out: Vec<u8> = stream_events()[..8]
        .iter()
        .flat_map(|stream_event| encoder.encode(stream_event))
        .collect();
    out.extend(encoder.fail(&error, "upstream_error"));
    let events = events_of(&out);
    let [.., received, failed] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(
        (&received["type"], &received["code"]),
        (&json!("error"), &json!("upstream_error"))
    );
    assert_eq!(received["error"]["message"], "It broke.");
    assert_eq!(received["error"]["type"], "upstream_error");
    assert_eq!(received["param"], "input");
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["status"], "failed");
    assert_eq!(
        failed["response"]["output"].as_array().unwrap().len(),
        2,
        "what was done is there"
    );

    let started_response = events_of(&out)[0]["response"].to_string();
    let relayed = encode_failure(Some(&Bytes::from(started_response)), 5, &error, "upstream_error");
    let numbers: Vec<Value> = events_of(&relayed)
        .iter()
        .map(|event| event["sequence_number"].clone())
        .collect();
    assert_eq!(numbers, [5, 6]);
}

/// llama.cpp omits all indices.
#[test]
fn indices_that_a_server_leaves_out_are_put_in() {
    let mut relay = Relay::new(ORIGIN);
    let message = json!({"type": "message", "id": "m", "content": []});
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": ""});
    let part = json!({"type": "output_text", "text": ""});
    for (mut event, expected) in [
        (
            json!({"type": "response.created", "response": {"id": "r"}}),
            json!({}),
        ),
        (
            json!({"type": "response.output_item.added", "item": {"type": "reasoning", "id": "r"}}),
            json!({"output_index": 0}),
        ),
        (
            json!({"type": "response.reasoning_text.delta", "item_id": "r", "delta": "a"}),
            json!({"output_index": 0, "content_index": 0}),
        ),
        (
            json!({"type": "response.reasoning_summary_part.added", "item_id": "r"}),
            json!({"output_index": 0, "summary_index": 0}),
        ),
        (
            json!({"type": "response.reasoning_summary_part.added", "item_id": "r"}),
            json!({"output_index": 0, "summary_index": 1}),
        ),
        (
            json!({"type": "response.output_item.added", "item": message}),
            json!({"output_index": 1}),
        ),
        (
            json!({"type": "response.content_part.added", "item_id": "m", "part": part}),
            json!({"output_index": 1, "content_index": 0}),
        ),
        (
            json!({"type": "response.output_text.delta", "item_id": "m", "delta": "a"}),
            json!({"output_index": 1, "content_index": 0}),
        ),
        (
            json!({"type": "response.content_part.added", "item_id": "m", "part": part}),
            json!({"output_index": 1, "content_index": 1}),
        ),
        (
            json!({"type": "response.output_text.done", "item_id": "m", "text": "a"}),
            json!({"output_index": 1, "content_index": 1}),
        ),
        (
            json!({"type": "response.output_item.added", "item": call}),
            json!({"output_index": 2}),
        ),
        (
            json!({"type": "response.function_call_arguments.delta", "item_id": "c", "delta": "{}"}),
            json!({"output_index": 2}),
        ),
        (
            json!({"type": "response.output_item.done", "item": message}),
            json!({"output_index": 1}),
        ),
        (
            json!({"type": "response.completed", "response": {"id": "r"}}),
            json!({}),
        ),
    ] {
        let passed = relay.pass(&event_of(&event)).unwrap().bytes.unwrap();
        let number = sequence_number(&passed).unwrap();
        let received = events_of(&passed).pop().unwrap();
        event["sequence_number"] = json!(number);
        for (name, index) in expected.as_object().unwrap() {
            event[name] = index.clone();
        }
        assert_eq!(received, event);
    }
}

#[test]
fn indices_of_a_server_stay() {
    let mut relay = Relay::new(ORIGIN);
    for event in [
        json!({"type": "response.created", "response": {"id": "r"}, "sequence_number": 5}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": "a", "sequence_number": 9,
            "output_index": 3, "content_index": 4}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "id": "m"}, "sequence_number": 10,
            "output_index": 3}),
    ] {
        let passed = relay.pass(&event_of(&event)).unwrap().bytes.unwrap();
        let name = event["type"].as_str().unwrap();
        assert_eq!(
            passed,
            crate::sse::write_event(Some(name.as_bytes()), event.to_string().as_bytes())
        );
    }
}

fn event_of(data: &Value) -> Event {
    Event {
        name: None,
        id: None,
        data: Bytes::from(data.to_string()),
        raw: None,
    }
}

#[test]
fn upstream_failures_have_one_shape() {
    let mut relay = Relay::new(ORIGIN);
    for event in [
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "m"}}}),
        json!({"type": "error", "code": "c", "message": "m", "param": null, "sequence_number": 3}),
        json!({"type": "error", "error": {"code": "c", "message": "m"}}),
        json!({"error": {"code": "c", "message": "m"}}),
    ] {
        let relayed = relay.pass(&event_of(&event)).unwrap();
        assert_eq!((relayed.kind, relayed.bytes), (EventKind::Error, None));
        let received: Value = serde_json::from_slice(&relayed.failure.unwrap()).unwrap();
        assert_eq!(received["error"]["code"], "c");
    }
}

#[test]
fn missing_usage_is_replaced_by_the_counted_usage() {
    for usage_member in ["", r#""usage":null,"#, r#""usage":{"input_tokens":1,"x":1.50},"#] {
        let data = format!(
            r#"{{"type":"response.completed","response":{{{usage_member}"output":[],"id":"a"}},"sequence_number":41}}"#
        );
        let event = crate::sse::write_event(Some(b"response.completed"), data.as_bytes());
        assert_eq!(sequence_number(&event), Some(41));
        let rewritten = apply_identity(&event, &identity(), Some((&usage(), Credits::ZERO)));
        let response = &events_of(&rewritten)[0]["response"];
        assert_eq!(response["usage"]["cost"], "0", "{response}");
        let has_report = usage_member.contains("input_tokens");
        assert_eq!(response["usage"]["input_tokens"], if has_report { 1 } else { 3 });
        assert_eq!(response["id"], identity().id());
        assert_eq!(response["store"], true);
        assert_eq!(response["previous_response_id"], "resp_before");
    }
}

#[test]
fn items_replace_the_input() {
    let items = [
        json!({"type": "message", "role": "user", "content": "before"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "now"}]}),
    ];
    for body in [
        r#"{"model":"m","input":"x","previous_response_id":"r"}"#,
        r#"{"model":"m","input":[ ],"previous_response_id":"r"}"#,
        r#"{"model":"m","input":[{"role":"user","content":"x"}]}"#,
        r#"{"model":"m","previous_response_id":"r","temperature":1.50}"#,
        r#"{"model":"m","input":null,"previous_response_id":null}"#,
    ] {
        let received = with_items(&Bytes::from(body), &items).unwrap();
        let head = validate(&received).unwrap();
        assert_eq!(
            (head.items, head.previous_response_id.as_deref()),
            (2, None),
            "{body}"
        );
        assert_eq!(input_items(&received).unwrap(), items);
        assert_eq!(
            body.contains("1.50"),
            received.windows(4).any(|text| text == b"1.50")
        );
    }
}

#[test]
fn listed_items_have_ids_and_parts() {
    let listed = |item: Value, index| listed_item(item, identity().number, index);
    let first = listed(json!({"role": "user", "content": "hi"}), 0);
    assert_eq!(first["type"], "message");
    assert_eq!(first["content"], json!([{"type": "input_text", "text": "hi"}]));
    let second = listed(json!({"role": "assistant", "content": "ho"}), 1);
    assert_eq!(second["content"][0]["type"], "output_text");
    assert!(first["id"].as_str().unwrap().starts_with("msg_"));
    assert_ne!(first["id"], second["id"]);
    assert_eq!(first, listed(json!({"role": "user", "content": "hi"}), 0));
    for (kind, prefix) in [
        ("function_call", "fc_"),
        ("function_call_output", "fco_"),
        ("reasoning", "rs_"),
    ] {
        let item = listed(json!({"type": kind, "id": null}), 2);
        assert!(item["id"].as_str().unwrap().starts_with(prefix), "{item}");
    }
    assert_eq!(
        listed(json!({"type": "reasoning", "id": "rs_1"}), 0)["id"],
        "rs_1"
    );
}
