//! Tests of encoded requests, refusals, and decoded responses and events.

use serde_json::{Value, json};
use tollgate_types::generate::{FinishReason, GenerateRequest, Part, Reasoning, Seal, Thinking};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{ErrorCode, Unit, Usage};

use super::*;
use crate::{anthropic_messages, openai_chat};

/// Returns a chat request with these members.
fn chat(members: Value) -> GenerateRequest {
    let mut body = json!({"model": "anthropic.claude-x", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    openai_chat::decode_request(body.to_string().as_bytes()).unwrap()
}

fn user(part: Value) -> Value {
    json!({"messages": [{"role": "user", "content": [part]}]})
}

fn written(request: &GenerateRequest) -> Value {
    serde_json::from_slice(&encode_request(request, &Default::default(), 4_096)).unwrap()
}

#[test]
fn a_conversation_with_tools_is_written() {
    let request = chat(json!({
        "messages": [
            {"role": "system", "content": "be kind"},
            {"role": "developer", "content": [{"type": "text", "text": "and brief"}]},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,BBBB", "filename": "a_b.v1.pdf"}},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 1.50}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "go on"},
        ],
        "max_tokens": 100, "temperature": 0.5, "top_p": 0.9, "stop": ["x"],
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "d", "strict": true,
                "parameters": {"type": "object", "properties": {"x": {"type": "number"}}}}},
            {"type": "function", "function": {"name": "g"}},
        ],
        "tool_choice": "required",
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}}},
    }));
    assert!(
        check_compatible(&request, &Default::default())
            .unwrap()
            .is_empty()
    );
    let text = String::from_utf8(encode_request(&request, &Default::default(), 4_096)).unwrap();
    assert!(
        text.contains(r#""input":{"x": 1.50}"#),
        "the caller's own text: {text}"
    );
    let call = |id: &str, name: &str, input: Value| json!({"toolUse": {"toolUseId": id, "name": name, "input": input}});
    let result = |id: &str, text: &str| json!({"toolResult": {"toolUseId": id, "content": [{"text": text}]}});
    assert_eq!(
        written(&request),
        json!({
            "messages": [
                {"role": "user", "content": [
                    {"text": "look"},
                    {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
                    {"document": {"format": "pdf", "name": "a b v1 pdf 1", "source": {"bytes": "BBBB"}}},
                ]},
                {"role": "assistant", "content": [call("a", "f", json!({"x": 1.5})), call("b", "g", json!({}))]},
                {"role": "user", "content": [result("a", "1"), result("b", "2"), {"text": "go on"}]},
            ],
            "system": [{"text": "be kind"}, {"text": "and brief"}],
            "inferenceConfig": {"maxTokens": 100, "temperature": 0.5, "topP": 0.9, "stopSequences": ["x"]},
            "toolConfig": {
                "tools": [
                    {"toolSpec": {"name": "f", "description": "d", "strict": true, "inputSchema": {"json":
                        {"type": "object", "properties": {"x": {"type": "number"}}}}}},
                    {"toolSpec": {"name": "g", "inputSchema": {"json": {"type": "object", "properties": {}}}}},
                ],
                "toolChoice": {"any": {}},
            },
            "outputConfig": {"textFormat": {"type": "json_schema", "structure": {"jsonSchema":
                {"schema": "{\"type\":\"object\"}", "name": "s"}}}},
        })
    );
}

#[test]
fn minimal_request_gets_the_default_cap() {
    assert_eq!(
        written(&chat(json!({}))),
        json!({
            "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
            "inferenceConfig": {"maxTokens": 4_096},
        })
    );
}

#[test]
fn tool_choice_is_encoded() {
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let tools = json!([function("f"), function("g")]);
    let named = |request: &GenerateRequest| -> Vec<String> {
        let tools = written(request)["toolConfig"]["tools"].clone();
        let tools = tools.as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| tool["toolSpec"]["name"].as_str().unwrap().to_owned();
        tools.iter().map(name).collect()
    };
    for (choice, expected, names) in [
        (json!("auto"), Value::Null, &["f", "g"][..]),
        (json!("required"), json!({"any": {}}), &["f", "g"]),
        (function("g"), json!({"tool": {"name": "g"}}), &["f", "g"]),
        (json!("none"), Value::Null, &[]),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function("g")]}}),
            json!({"any": {}}),
            &["g"],
        ),
    ] {
        let request = chat(json!({"tools": tools, "tool_choice": choice}));
        assert!(
            check_compatible(&request, &Default::default())
                .unwrap()
                .is_empty(),
            "{choice}"
        );
        assert_eq!(
            written(&request)["toolConfig"]["toolChoice"],
            expected,
            "{choice}"
        );
        assert_eq!(named(&request), names, "{choice}");
    }
}

#[test]
fn caches_failures_and_texts_of_messages_are_written() {
    let body = json!({
        "model": "m", "max_tokens": 9,
        "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [
            {"role": "user", "content": [
                {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "abc"}},
                {"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}},
            ]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a", "is_error": true, "content": "broken",
                    "cache_control": {"type": "ephemeral"}},
            ]},
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    });
    let request = anthropic_messages::decode_request(body.to_string().as_bytes()).unwrap();
    assert!(
        check_compatible(&request, &Default::default())
            .unwrap()
            .is_empty()
    );
    let written = written(&request);
    let point = json!({"cachePoint": {"type": "default"}});
    let for_an_hour = json!({"cachePoint": {"type": "default", "ttl": "1h"}});
    assert_eq!(written["system"], json!([{"text": "s"}, for_an_hour]));
    assert_eq!(written["toolConfig"]["tools"][1], for_an_hour);
    assert_eq!(
        written["messages"][0]["content"],
        json!([
            {"document": {"format": "txt", "name": "Notes 1", "source": {"bytes": "YWJj"}}},
            {"text": "q"},
            point,
        ])
    );
    assert_eq!(
        written["messages"][2]["content"],
        json!([
            {"toolResult": {"toolUseId": "a", "content": [{"text": "broken"}], "status": "error"}},
            point,
        ])
    );
}

#[test]
fn only_sealed_reasoning_is_sent_back() {
    let mut request = chat(json!({"messages": [
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"},
    ]}));
    let part = |text: Option<&str>, data: Option<&str>| {
        Part::Reasoning(Reasoning {
            text: text.map(str::to_owned),
            seal: data.map(|data| Seal {
                origin: "o".to_owned(),
                data: data.to_owned(),
            }),
        })
    };
    let parts = &mut request.messages[1].parts;
    parts.insert(0, part(Some("hm"), Some("c2ln")));
    parts.insert(1, part(None, Some("aGlk")));
    parts.insert(2, part(Some("bare"), Some("")));
    parts.insert(3, part(Some("bare"), None));
    assert_eq!(
        written(&request)["messages"][1]["content"],
        json!([
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
            {"reasoningContent": {"redactedContent": "aGlk"}},
            {"text": "b"},
        ])
    );
}

#[test]
fn reasoning_options_follow_the_model_family() {
    let (claude, nova, gpt) = (
        "us.anthropic.claude-x-v1:0",
        "amazon.nova-2-lite-v1:0",
        "openai.gpt-oss-120b-1:0",
    );
    let effort = |effort: &str| (None, Some(effort.to_owned()));
    let thinking = |thinking: Thinking| (Some(thinking), None);
    let nova_at = |level: &str| json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": level}});
    for (model, (thinking, effort), expected) in [
        (claude, (None, None), Value::Null),
        (claude, effort("none"), json!({"thinking": {"type": "disabled"}})),
        (
            claude,
            effort("minimal"),
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}),
        ),
        (
            claude,
            effort("max"),
            json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        ),
        (
            claude,
            thinking(Thinking::Budget(2_000)),
            json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
        ),
        (
            claude,
            thinking(Thinking::Off),
            json!({"thinking": {"type": "disabled"}}),
        ),
        (nova, effort("medium"), nova_at("medium")),
        (nova, thinking(Thinking::Budget(4_095)), nova_at("low")),
        (nova, thinking(Thinking::Budget(4_096)), nova_at("medium")),
        (nova, thinking(Thinking::Budget(16_384)), nova_at("high")),
        (nova, thinking(Thinking::Adaptive), nova_at("medium")),
        (
            nova,
            thinking(Thinking::Off),
            json!({"reasoningConfig": {"type": "disabled"}}),
        ),
        (gpt, effort("xhigh"), json!({"reasoning_effort": "high"})),
        (gpt, effort("none"), Value::Null),
        ("meta.llama-x", effort("none"), Value::Null),
    ] {
        let mut request = chat(json!({ "model": model }));
        (request.thinking, request.reasoning_effort) = (thinking, effort);
        let fields = &written(&request)["additionalModelRequestFields"];
        assert_eq!(
            *fields, expected,
            "{model} {thinking:?} {:?}",
            request.reasoning_effort
        );
    }
    for (model, family) in [
        (claude, Family::Claude),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-x",
            Family::Claude,
        ),
        (
            "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
            Family::Unknown,
        ),
        ("deepseek.r1-v1:0", Family::Unknown),
    ] {
        assert_eq!(Family::of(model), family, "{model}");
    }
}

#[test]
fn unsupported_content_is_refused_with_its_path() {
    let image = |url: &str| user(json!({"type": "image_url", "image_url": {"url": url}}));
    let file = |url: &str| user(json!({"type": "file", "file": {"file_data": url}}));
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    for (members, param) in [
        (json!({"n": 2}), "n"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"frequency_penalty": 0.1}), "frequency_penalty"),
        (json!({"presence_penalty": -0.1}), "presence_penalty"),
        (json!({"logit_bias": {"1": 1}}), "logit_bias"),
        (
            json!({"tools": tools, "parallel_tool_calls": false}),
            "parallel_tool_calls",
        ),
        (
            json!({"tools": [{"type": "custom", "custom": {"name": "c"}}]}),
            "tools[0].type",
        ),
        (
            image("data:image/bmp;base64,iVBORw0KGgo="),
            "messages[0].content[0]",
        ),
        (file("data:application/zip;base64,AA"), "messages[0].content[0]"),
        (
            user(json!({"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}})),
            "messages[0].content[0]",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
            "messages[1].role",
        ),
        (
            json!({"messages": [{"role": "assistant", "content": "a"}]}),
            "messages",
        ),
        (
            json!({"messages": [{"role": "system", "content": "a"}]}),
            "messages",
        ),
    ] {
        let error = check_compatible(&chat(members.clone()), &Default::default()).unwrap_err();
        assert_eq!(
            (error.code, error.param.as_deref()),
            (ErrorCode::UnsupportedParameter, Some(param)),
            "{members}"
        );
    }
    let error = check_compatible(&chat(json!({"temperature": 1.1})), &Default::default()).unwrap_err();
    assert_eq!(error.code, ErrorCode::ParameterOutOfRange);
    let hints = chat(
        json!({"seed": 1, "user": "u", "metadata": {"a": "b"}, "temperature": 1, "frequency_penalty": 0}),
    );
    assert_eq!(
        check_compatible(&hints, &Default::default()).unwrap(),
        ["metadata", "seed", "user"]
    );
}

fn answer(members: Value) -> Vec<u8> {
    let mut body = json!({
        "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12},
        "metrics": {"latencyMs": 7},
    });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body.to_string().into_bytes()
}

#[test]
fn answers_are_read() {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
        {"reasoningContent": {"redactedContent": "aGlk"}},
        {"text": "Hi"},
        {"toolUse": {"toolUseId": "a", "name": "f", "input": {"x": 1}}},
        {"somethingNew": {}},
    ]);
    let body = answer(json!({"output": {"message": {"content": content}}, "stopReason": "tool_use"}));
    let read = decode_response(&body, "id", 7, "m").unwrap();
    assert_eq!((&*read.id, read.created, &*read.model), ("id", 7, "m"));
    assert_eq!(read.usage, Some(Usage::tokens(9, 3)));
    let choice = &read.choices[0];
    assert_eq!(choice.finish, FinishReason::ToolCalls);
    assert_eq!(choice.parts.len(), 3);
    assert_eq!(choice.parts[2], Part::Text("Hi".to_owned()));
    let Part::Reasoning(hidden) = &choice.parts[1] else {
        panic!("{:?}", choice.parts);
    };
    assert_eq!(
        (&hidden.text, &*hidden.seal.as_ref().unwrap().data),
        (&None, "aGlk")
    );
    assert_eq!(choice.tool_calls[0].arguments, r#"{"x":1}"#);
    for garbage in [
        "",
        "[]",
        "{}",
        r#"{"message":"denied"}"#,
        r#"{"output":{"message":7}}"#,
    ] {
        assert!(
            decode_response(garbage.as_bytes(), "id", 7, "m").is_err(),
            "{garbage}"
        );
    }
}

#[test]
fn finish_reasons_are_mapped() {
    for (reason, expected) in [
        (json!("end_turn"), FinishReason::Stop),
        (json!("stop_sequence"), FinishReason::Stop),
        (json!("max_tokens"), FinishReason::Length),
        (json!("model_context_window_exceeded"), FinishReason::ContextFull),
        (json!("content_filtered"), FinishReason::ContentFilter),
        (json!("guardrail_intervened"), FinishReason::ContentFilter),
        (json!("tool_use"), FinishReason::ToolCalls),
        (json!("malformed_model_output"), FinishReason::Stop),
        (Value::Null, FinishReason::Stop),
    ] {
        let read = decode_response(&answer(json!({ "stopReason": reason })), "id", 7, "m").unwrap();
        assert_eq!(read.choices[0].finish, expected, "{reason}");
    }
}

#[test]
fn classes_of_usage_do_not_overlap() {
    let cached = json!({
        "inputTokens": 5, "outputTokens": 7, "totalTokens": 1_012, "cacheReadInputTokens": 900,
        "cacheWriteInputTokens": 100,
    });
    let expected = Usage::tokens(5, 7)
        .with(Unit::CacheRead, 900)
        .with(Unit::CacheWrite, 100);
    assert_eq!(read_usage(&cached), Some(expected));
    assert_eq!(expected.total(), 1_012);
    let mut for_an_hour = cached.clone();
    for_an_hour["cacheDetails"] = json!([{"ttl": "1h", "inputTokens": 60}, {"ttl": "5m", "inputTokens": 40}]);
    let split = expected.with(Unit::CacheWrite, 40).with(Unit::CacheWriteHour, 60);
    assert_eq!(read_usage(&for_an_hour), Some(split));
    for malformed in [
        json!(null),
        json!({}),
        json!({"inputTokens": 5}),
        json!({"inputTokens": -5, "outputTokens": 7}),
        json!({"inputTokens": "5", "outputTokens": 7}),
        json!({"inputTokens": 5, "outputTokens": 1.5}),
        json!({"inputTokens": u64::MAX, "outputTokens": 7}),
    ] {
        assert_eq!(read_usage(&malformed), None, "{malformed}");
    }
}

#[test]
fn events_are_read() {
    let delta = |delta: Value| {
        (
            "contentBlockDelta",
            json!({"contentBlockIndex": 0, "delta": delta, "p": "abcd"}),
        )
    };
    let stream = [
        ("messageStart", json!({"role": "assistant"})),
        delta(json!({"reasoningContent": {"text": "hm"}})),
        delta(json!({"reasoningContent": {"signature": "c2ln"}})),
        delta(json!({"reasoningContent": {"redactedContent": "aGlk"}})),
        delta(json!({"text": "Hi"})),
        delta(json!({"text": ""})),
        ("contentBlockStop", json!({"contentBlockIndex": 0})),
        (
            "contentBlockStart",
            json!({"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "a", "name": "f"}}}),
        ),
        delta(json!({"toolUse": {"input": "{\"x\":1}"}})),
        ("somethingNew", json!({"text": "?"})),
        ("messageStop", json!({"stopReason": "tool_use"})),
        (
            "metadata",
            json!({"usage": {"inputTokens": 9, "outputTokens": 3, "totalTokens": 12}}),
        ),
    ];
    let mut decoder = StreamDecoder::new("id", 7, "m");
    let read: Vec<StreamEvent> = stream
        .iter()
        .flat_map(|(name, event)| decoder.decode(name, event))
        .collect();
    let seal = |data: &str, hidden: bool| StreamEvent::ReasoningSeal {
        choice: 0,
        seal: Seal {
            origin: String::new(),
            data: data.to_owned(),
        },
        hidden,
    };
    assert_eq!(
        read,
        [
            StreamEvent::Start {
                id: "id".to_owned(),
                created: 7,
                model: "m".to_owned(),
            },
            StreamEvent::Reasoning {
                choice: 0,
                text: "hm".to_owned(),
            },
            seal("c2ln", false),
            seal("aGlk", true),
            StreamEvent::Text {
                choice: 0,
                text: "Hi".to_owned(),
                logprobs: None,
            },
            StreamEvent::ToolCallStart {
                choice: 0,
                call: 0,
                id: "a".to_owned(),
                name: "f".to_owned(),
            },
            StreamEvent::ToolCallArguments {
                choice: 0,
                call: 0,
                arguments: "{\"x\":1}".to_owned(),
            },
            StreamEvent::Finish {
                choice: 0,
                reason: FinishReason::ToolCalls,
                stop_sequence: None,
            },
            StreamEvent::Usage(Usage::tokens(9, 3)),
        ]
    );
    let kinds: Vec<(EventKind, u64)> = stream
        .iter()
        .map(|(name, event)| inspect_event(name, event))
        .map(|(kind, _, bytes)| (kind, bytes))
        .filter(|(kind, _)| *kind != EventKind::Preamble)
        .collect();
    assert_eq!(
        kinds,
        [
            (EventKind::Content, 2),
            (EventKind::Content, 2),
            (EventKind::Content, 0),
            (EventKind::Content, 7),
            (EventKind::Finish, 0),
            (EventKind::Usage, 0),
        ]
    );
}
