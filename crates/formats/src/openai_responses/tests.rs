//! What golden files do not show: seals, failures, interleaved calls, and the items of conversations.

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

/// What Open Responses requires of every response.
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

/// An answer with everything in it, whole.
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

/// The same, piece by piece; the pieces of the two calls come by turns.
fn pieces() -> Vec<StreamEvent> {
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
    let arguments = |call, piece: &str| StreamEvent::ToolCallArguments {
        choice,
        call,
        arguments: piece.to_owned(),
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
fn a_stream_ends_with_the_response_that_a_whole_answer_is() {
    for show in [true, false] {
        let mut encoder = StreamEncoder::new(identity(), echo(), show);
        let mut out: Vec<u8> = pieces().iter().flat_map(|piece| encoder.encode(piece)).collect();
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
fn what_a_caller_sends_back_is_what_was_reasoned() {
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
fn only_what_this_upstream_has_sealed_goes_to_it() {
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
    };
    let sent: Value = serde_json::from_slice(&splice_request(&body, &head, edits)).unwrap();
    assert_eq!(
        sent,
        json!({"model": "up", "input": [
            {"role": "user", "content": "x"}, sealed(json!("mine")), sealed(json!("plain")),
            {"role": "user", "content": "y"},
        ], "reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 2_000, "store": false})
    );
}

#[test]
fn a_clamp_takes_the_place_of_a_larger_cap() {
    for (asked, sent) in [(2_001, 2_000), (2_000, 2_000), (1_999, 1_999)] {
        let body = Bytes::from(json!({"model": "m", "max_output_tokens": asked, "input": "x"}).to_string());
        let edits = RequestEdits {
            reasons: false,
            model: "up",
            origin: ORIGIN,
            clamp_output: Some(2_000),
        };
        let spliced = splice_request(&body, &validate(&body).unwrap(), edits);
        assert_eq!(validate(&spliced).unwrap().max_tokens, Some(sent), "{spliced:?}");
    }
}

#[test]
fn a_stream_that_breaks_off_has_no_other_end() {
    let error = Error::new(ErrorCode::UpstreamError, "It broke.").with_param("input");
    let mut encoder = StreamEncoder::new(identity(), echo(), true);
    let mut out: Vec<u8> = pieces()[..8]
        .iter()
        .flat_map(|piece| encoder.encode(piece))
        .collect();
    out.extend(encoder.fail(&error, "upstream_error"));
    let events = events_of(&out);
    let [.., told, failed] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(
        (&told["type"], &told["code"]),
        (&json!("error"), &json!("upstream_error"))
    );
    assert_eq!(told["error"]["message"], "It broke.");
    assert_eq!(told["error"]["type"], "upstream_error");
    assert_eq!(told["param"], "input");
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["status"], "failed");
    assert_eq!(
        failed["response"]["output"].as_array().unwrap().len(),
        2,
        "what was done is there"
    );

    let begun = events_of(&out)[0]["response"].to_string();
    let relayed = encode_failure(Some(&Bytes::from(begun)), 5, &error, "upstream_error");
    let numbers: Vec<Value> = events_of(&relayed)
        .iter()
        .map(|event| event["sequence_number"].clone())
        .collect();
    assert_eq!(numbers, [5, 6]);
}

#[test]
fn failures_of_an_upstream_are_told_in_one_shape() {
    let relay = Relay::new(ORIGIN);
    for event in [
        json!({"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "m"}}}),
        json!({"type": "error", "code": "c", "message": "m", "param": null, "sequence_number": 3}),
        json!({"type": "error", "error": {"code": "c", "message": "m"}}),
        json!({"error": {"code": "c", "message": "m"}}),
    ] {
        let event = Event {
            name: None,
            id: None,
            data: Bytes::from(event.to_string()),
            raw: None,
        };
        let relayed = relay.pass(&event).unwrap();
        assert_eq!((relayed.kind, relayed.bytes), (EventKind::Error, None));
        let told: Value = serde_json::from_slice(&relayed.failure.unwrap()).unwrap();
        assert_eq!(told["error"]["code"], "c");
    }
}

#[test]
fn a_report_that_is_missing_is_what_was_counted() {
    for usage_member in ["", r#""usage":null,"#, r#""usage":{"input_tokens":1,"x":1.50},"#] {
        let data = format!(
            r#"{{"type":"response.completed","response":{{{usage_member}"output":[],"id":"a"}},"sequence_number":41}}"#
        );
        let event = crate::sse::write_event(Some(b"response.completed"), data.as_bytes());
        assert_eq!(sequence_number(&event), Some(41));
        let dressed = dress_event(&event, &identity(), Some((&usage(), Credits::ZERO)));
        let response = &events_of(&dressed)[0]["response"];
        assert_eq!(response["usage"]["cost"], "0", "{response}");
        let has_report = usage_member.contains("input_tokens");
        assert_eq!(response["usage"]["input_tokens"], if has_report { 1 } else { 3 });
        assert_eq!(response["id"], identity().id());
        assert_eq!(response["store"], true);
        assert_eq!(response["previous_response_id"], "resp_before");
    }
}

#[test]
fn items_take_the_place_of_the_input() {
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
        let told = with_items(&Bytes::from(body), &items).unwrap();
        let head = validate(&told).unwrap();
        assert_eq!(
            (head.items, head.previous_response_id.as_deref()),
            (2, None),
            "{body}"
        );
        assert_eq!(input_items(&told).unwrap(), items);
        assert_eq!(body.contains("1.50"), told.windows(4).any(|text| text == b"1.50"));
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
