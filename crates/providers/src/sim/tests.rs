//! Tests of the simulator's behaviour, as a table of prompts.

use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tollgate_formats::openai_chat::{StreamEncoder, decode_response, encode_response};
use tollgate_types::generate::{Choice, FinishReason, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{RequestId, Retry, Unit};
use tollgate_upstream::{ChunkKind, Permit, TextChunk};

use tollgate_upstream::{UpstreamCause, UpstreamErrorKind};

use super::*;

pub(super) fn context() -> CallContext {
    CallContext {
        request: RequestId::from_u128(7),
        permit: Permit::Free("test"),
        header_timeout: Duration::from_secs(60),
        idle_timeout: Duration::from_secs(60),
        inspected: false,
    }
}

fn request(user_text: &str, extra: Value) -> Value {
    let mut body = json!({"model": "sim/chat", "messages": [{"role": "user", "content": user_text}]});
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

fn call(body: &Value, stream: bool) -> TextCall {
    TextCall {
        upstream_model: "chat".into(),
        stream,
        output_cap: 4_096,
        ..TextCall::new(
            Format::ChatCompletions,
            "sim/chat".into(),
            Bytes::from(body.to_string()),
        )
    }
}

async fn generate(call: &TextCall) -> Result<TextReply, UpstreamError> {
    Simulator::new("sim".into()).generate(&context(), call).await
}

async fn answer(body: &Value) -> Result<GenerateResponse, UpstreamError> {
    match generate(&call(body, false)).await? {
        TextReply::Whole(TextAnswer {
            payload: Payload::Common(response),
            usage,
            ..
        }) => {
            assert_eq!(response.usage, usage);
            Ok(*response)
        }
        _ => panic!("a whole answer in the common form"),
    }
}

async fn say(user_text: &str, extra: Value) -> GenerateResponse {
    answer(&request(user_text, extra)).await.unwrap()
}

async fn stream(body: &Value) -> (Vec<TextChunk>, Option<UpstreamError>) {
    let TextReply::Stream(mut stream) = generate(&call(body, true)).await.unwrap() else {
        panic!("a stream");
    };
    let mut chunks = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => {
                assert!(stream.next().await.is_none());
                return (chunks, Some(error));
            }
        }
    }
    (chunks, None)
}

fn events(chunks: &[TextChunk]) -> Vec<StreamEvent> {
    let payloads = chunks.iter().filter_map(|chunk| chunk.payload.as_ref());
    payloads
        .map(|payload| match payload {
            Payload::Common(event) => (**event).clone(),
            Payload::Raw(..) => panic!("the common form"),
        })
        .collect()
}

fn text(choice: &Choice) -> &str {
    choice
        .parts
        .iter()
        .find_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .unwrap_or_default()
}

fn output(response: &GenerateResponse) -> u64 {
    response.usage.unwrap().get(Unit::Output)
}

#[tokio::test]
async fn without_a_script_it_echoes() {
    for user_text in ["hello", "two words", "ä 漢字 😀  and\nmore", "[[simple]]"] {
        let response = say(user_text, json!({})).await;
        assert_eq!(text(&response.choices[0]), user_text);
        assert_eq!(response.choices[0].finish, FinishReason::Stop);
        let words = user_text.split_whitespace().count() as u64;
        let usage = response.usage.unwrap();
        assert_eq!(
            (usage.get(Unit::Input), usage.get(Unit::Output)),
            (words, words),
            "{user_text}"
        );
    }
    let response = say("[[sim delay=1]] what remains", json!({})).await;
    assert_eq!(text(&response.choices[0]), "what remains");
}

#[tokio::test]
async fn streams_equal_whole_answers() {
    for (user_text, extra) in [
        ("hello", json!({})),
        ("[[sim tokens=25 reason=4]]", json!({"n": 3})),
        ("[[sim refuse]]", json!({})),
        ("[[sim tool=a:{\"x\":1} tool=b]]", json!({})),
        ("[[sim tokens=9]]", json!({"logprobs": true, "top_logprobs": 2})),
        ("[[sim tokens=9]]", json!({"max_tokens": 4})),
        ("go", json!({"response_format": {"type": "json_object"}})),
    ] {
        let body = request(user_text, extra);
        let whole = answer(&body).await.unwrap();
        let (chunks, error) = stream(&body).await;
        assert!(error.is_none());
        assert_eq!(chunks[0].kind, ChunkKind::Preamble);
        assert_eq!(chunks.last().unwrap().kind, ChunkKind::End);
        let count = chunks
            .iter()
            .filter(|chunk| matches!(chunk.kind, ChunkKind::Content | ChunkKind::Finish))
            .count();
        assert!(count >= 3, "{user_text}: {count}");
        for choice in &whole.choices {
            let streamed: String = events(&chunks)
                .iter()
                .filter_map(|event| match event {
                    StreamEvent::Text {
                        choice: index, text, ..
                    } if *index == choice.index => Some(text.as_str()),
                    _ => None,
                })
                .collect();
            assert_eq!(streamed, text(choice), "{user_text}");
        }
        let reported = chunks.iter().find_map(|chunk| chunk.usage);
        assert_eq!(reported, whole.usage, "{user_text}");
        let TextReply::Whole(answer) = generate(&call(&body, false)).await.unwrap() else {
            panic!("whole");
        };
        let bytes: u64 = chunks.iter().map(|chunk| chunk.output_bytes).sum();
        assert_eq!(bytes, answer.output_bytes, "{user_text}");
    }
}

#[tokio::test]
async fn answers_follow_the_format() {
    let body = request(
        "[[sim tokens=5 reason=3 tool=look_up:{\"a\":1}]]",
        json!({"n": 2, "logprobs": true}),
    );
    let whole = answer(&body).await.unwrap();
    let encoded = encode_response(&whole, "sim/chat", None);
    let decoded = decode_response(&encoded).unwrap();
    assert_eq!(decoded.choices, whole.choices);
    let (chunks, _) = stream(&body).await;
    let mut encoder = StreamEncoder::new("sim/chat", true);
    let sent: Vec<Bytes> = events(&chunks)
        .iter()
        .filter_map(|event| encoder.encode(event, None))
        .collect();
    assert!(sent.len() >= chunks.len() - 1);
}

#[tokio::test]
async fn the_same_request_has_the_same_answer() {
    let body = request("[[sim tokens=7 reason=2 tool=a]]", json!({"n": 2}));
    assert_eq!(answer(&body).await.unwrap(), answer(&body).await.unwrap());
    let other = request("[[sim tokens=7 reason=2 tool=a]] ", json!({"n": 2}));
    assert_ne!(answer(&body).await.unwrap().id, answer(&other).await.unwrap().id);
}

#[tokio::test]
async fn tokens_are_exact() {
    for (user_text, extra, expected, finish) in [
        ("[[sim tokens=20]]", json!({}), 20, FinishReason::Stop),
        ("[[sim tokens=0]]", json!({}), 0, FinishReason::Stop),
        (
            "[[sim tokens=20]]",
            json!({"max_tokens": 20}),
            20,
            FinishReason::Stop,
        ),
        (
            "[[sim tokens=20]]",
            json!({"max_tokens": 5}),
            5,
            FinishReason::Length,
        ),
        (
            "[[sim tokens=20]]",
            json!({"max_completion_tokens": 1}),
            1,
            FinishReason::Length,
        ),
        ("[[sim tokens=20]]", json!({"n": 4}), 80, FinishReason::Stop),
        (
            "[[sim tokens=99999999999]]",
            json!({}),
            65_536,
            FinishReason::Length,
        ),
        (
            "[[sim tokens=5000]]",
            json!({"n": 128}),
            262_144,
            FinishReason::Length,
        ),
        ("[[sim]]", json!({}), 16, FinishReason::Stop),
        ("a b c d e", json!({"max_tokens": 3}), 3, FinishReason::Length),
        (
            "[[sim tokens=6]]",
            json!({"stop": "simulator"}),
            1,
            FinishReason::StopSequence,
        ),
        (
            "one two STOP three",
            json!({"stop": ["nothing", "STOP"]}),
            2,
            FinishReason::StopSequence,
        ),
        (
            "one two STOP three",
            json!({"stop": ["STOP"], "max_tokens": 1}),
            1,
            FinishReason::Length,
        ),
    ] {
        let response = say(user_text, extra.clone()).await;
        assert_eq!(output(&response), expected, "{user_text} {extra}");
        let counted: usize = response
            .choices
            .iter()
            .map(|choice| text(choice).split_whitespace().count())
            .sum();
        assert_eq!(counted as u64, expected, "{user_text} {extra}");
        assert!(
            response.choices.iter().all(|choice| choice.finish == finish),
            "{user_text} {extra}"
        );
    }
}

#[tokio::test]
async fn a_clamp_is_a_cap_and_the_smaller_one_holds() {
    let capped = |max: u64| json!({"max_tokens": max});
    for (extra, expected) in [(json!({}), 3), (capped(4), 3), (capped(2), 2)] {
        let mut call = call(&request("[[sim tokens=9]]", extra), false);
        call.clamp_output = Some(3);
        let TextReply::Whole(answer) = generate(&call).await.unwrap() else {
            panic!("whole");
        };
        assert_eq!(answer.usage.unwrap().get(Unit::Output), expected);
    }
}

#[tokio::test]
async fn reasoning_counts_and_uses_up_the_cap() {
    let usage = |response: GenerateResponse| {
        let usage = response.usage.unwrap();
        (
            usage.get(Unit::Reasoning),
            usage.get(Unit::Output),
            response.choices[0].finish,
        )
    };
    let both = say("[[sim tokens=5 reason=8]]", json!({})).await;
    assert!(matches!(both.choices[0].parts[0], Part::Reasoning(_)));
    assert_eq!(usage(both), (8, 5, FinishReason::Stop));
    let cut = say("[[sim tokens=5 reason=8]]", json!({"max_tokens": 10})).await;
    assert_eq!(usage(cut), (8, 2, FinishReason::Length));
    let starved = say("[[sim tokens=5 reason=8]]", json!({"max_tokens": 6})).await;
    assert_eq!(usage(starved), (6, 0, FinishReason::Length));
}

#[tokio::test]
async fn refusals_are_refusals() {
    let response = say("[[sim refuse]]", json!({})).await;
    let parts = &response.choices[0].parts;
    assert!(
        matches!(&parts[..], [Part::Refusal(text)] if text.split_whitespace().count() as u64 == output(&response))
    );
    let (chunks, _) = stream(&request("[[sim refuse]]", json!({}))).await;
    assert!(
        events(&chunks)
            .iter()
            .any(|event| matches!(event, StreamEvent::Refusal { .. }))
    );
}

fn tools() -> Value {
    let schema = json!({"type": "object", "required": ["city", "days"], "additionalProperties": false,
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}});
    json!([
        {"type": "function", "function": {"name": "weather", "parameters": schema}},
        {"type": "function", "function": {"name": "news"}},
        {"type": "custom", "custom": {"name": "shell"}},
    ])
}

#[tokio::test]
async fn tools_are_called_when_scripted_or_required() {
    let named = |name: &str| json!({"type": "function", "function": {"name": name}});
    let cases = [
        (
            "[[sim tool=weather:{\"city\": \"Bonn\"}]]",
            json!({}),
            "weather={\"city\": \"Bonn\"}",
        ),
        (
            "[[sim tool=weather]]",
            json!({}),
            "weather={\"city\":\"text\",\"days\":1}",
        ),
        ("[[sim tool=unknown]]", json!({}), "unknown={}"),
        ("[[sim tool=shell]]", json!({}), "shell=simulated input"),
        (
            "[[sim tool=news tool=weather:{}]]",
            json!({}),
            "news={} weather={}",
        ),
        (
            "[[sim tool=news tool=weather:{}]]",
            json!({"parallel_tool_calls": false}),
            "news={}",
        ),
        ("[[sim tool=news]]", json!({"tool_choice": "none"}), ""),
        ("hello", json!({"tool_choice": "auto"}), ""),
        (
            "hello",
            json!({"tool_choice": "required"}),
            "weather={\"city\":\"text\",\"days\":1}",
        ),
        ("hello", json!({"tool_choice": named("news")}), "news={}"),
    ];
    for (user_text, extra, expected) in cases {
        let mut body = request(user_text, extra.clone());
        body["tools"] = tools();
        let response = answer(&body).await.unwrap();
        let choice = &response.choices[0];
        let calls: Vec<String> = choice
            .tool_calls
            .iter()
            .map(|call| format!("{}={}", call.name, call.arguments))
            .collect();
        assert_eq!(calls.join(" "), expected, "{user_text} {extra}");
        let finish = if calls.is_empty() {
            FinishReason::Stop
        } else {
            FinishReason::ToolCalls
        };
        assert_eq!(choice.finish, finish, "{user_text} {extra}");
        assert_eq!(text(choice).is_empty(), !calls.is_empty(), "{user_text} {extra}");
        assert!(output(&response) > 0);
    }
}

#[tokio::test]
async fn after_a_result_comes_an_answer() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "news", "arguments": "{}"}});
    let messages = json!([
        {"role": "user", "content": "[[sim tool=news]]"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing new"},
    ]);
    let body =
        json!({"model": "sim/chat", "messages": messages, "tools": tools(), "tool_choice": "required"});
    let response = answer(&body).await.unwrap();
    assert_eq!(text(&response.choices[0]), "nothing new");
    assert!(response.choices[0].tool_calls.is_empty());
}

#[tokio::test]
async fn response_formats_are_honoured() {
    let object = json!({"response_format": {"type": "json_object"}});
    let response = say("hi \"there\"", object).await;
    let value: Value = serde_json::from_str(text(&response.choices[0])).unwrap();
    assert_eq!(value, json!({"text": "hi \"there\""}));
    let schema = json!({"type": "object", "required": ["name", "age"], "additionalProperties": false,
        "properties": {"name": {"type": "string", "minLength": 3}, "age": {"type": "integer", "minimum": 7}}});
    let format = |schema: &Value| json!({"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": true}}});
    let response = say("a person", format(&schema)).await;
    let value: Value = serde_json::from_str(text(&response.choices[0])).unwrap();
    assert!(jsonschema::is_valid(&schema, &value), "{value}");
    let impossible = json!({"type": "object", "required": ["a"], "additionalProperties": false});
    let error = answer(&request("x", format(&impossible))).await.unwrap_err();
    assert_eq!(
        error.kind,
        UpstreamErrorKind::Simulated(ErrorCode::UnsupportedParameter)
    );
    assert_eq!(error.param.as_deref(), Some("response_format.json_schema.schema"));
}

#[tokio::test]
async fn probabilities_are_one_for_each_token() {
    let response = say("[[sim tokens=6]]", json!({"logprobs": true, "top_logprobs": 3})).await;
    let logprobs = response.choices[0].logprobs.as_ref().unwrap();
    let content = logprobs["content"].as_array().unwrap();
    assert_eq!(content.len(), 6);
    let joined: String = content
        .iter()
        .map(|entry| entry["token"].as_str().unwrap())
        .collect();
    assert_eq!(joined, text(&response.choices[0]));
    for entry in content {
        assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 3);
        assert_eq!(
            entry["bytes"].as_array().unwrap().len(),
            entry["token"].as_str().unwrap().len()
        );
    }
    let response = say("[[sim tokens=6]]", json!({})).await;
    assert_eq!(response.choices[0].logprobs, None);
}

#[tokio::test]
async fn every_error_code_can_be_simulated() {
    for code in ErrorCode::ALL {
        for streamed in [false, true] {
            let body = request(&format!("[[sim error={}]]", code.as_str()), json!({}));
            let Err(error) = generate(&call(&body, streamed)).await else {
                panic!("{code:?} did not happen");
            };
            assert_eq!(error.kind, UpstreamErrorKind::Simulated(*code));
            assert_eq!(error.retry, code.default_retry());
            assert_eq!(
                error.retry_after.is_some(),
                error.retry == Retry::Safe,
                "{code:?}"
            );
            assert_eq!(
                error.cause == UpstreamCause::Timeout,
                *code == ErrorCode::UpstreamTimeout
            );
            assert!(error.detail.contains(code.as_str()));
        }
    }
}

#[tokio::test]
async fn invalid_scripts_are_reported() {
    let error = answer(&request("[[sim tokens=many]]", json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        error.kind,
        UpstreamErrorKind::Simulated(ErrorCode::InvalidParameter)
    );
    assert_eq!(error.param.as_deref(), Some("messages"));
}

#[tokio::test]
async fn streams_are_cut_where_scripted() {
    // Ten words are 14 events: the start, ten chunks, the finish, the usage and the end.
    let cases = [
        ("cut=0", 0, ErrorCode::UpstreamError),
        ("cut=1", 1, ErrorCode::UpstreamError),
        ("cut=start", 1, ErrorCode::UpstreamError),
        ("cut=5", 5, ErrorCode::UpstreamError),
        ("cut=usage", 12, ErrorCode::UpstreamError),
        ("cut=end", 13, ErrorCode::UpstreamError),
        ("cut=999", 13, ErrorCode::UpstreamError),
        ("cut=3 error=upstream_timeout", 3, ErrorCode::UpstreamTimeout),
    ];
    for (script, expected, code) in cases {
        let body = request(&format!("[[sim tokens=10 {script}]]"), json!({}));
        let (chunks, error) = stream(&body).await;
        assert_eq!(chunks.len(), expected, "{script}");
        let error = error.expect(script);
        assert_eq!(error.kind, UpstreamErrorKind::Simulated(code), "{script}");
        assert!(chunks.iter().all(|chunk| chunk.kind != ChunkKind::End));
        assert!(
            answer(&body).await.is_err(),
            "a whole answer fails as a whole: {script}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn scripted_delays_are_applied() {
    let clock = tokio::time::Instant::now;
    let body = request("[[sim tokens=5 delay=70 pace=10]]", json!({}));
    let start = clock();
    let (chunks, _) = stream(&body).await;
    assert_eq!(chunks.len(), 9);
    assert_eq!(start.elapsed().as_millis(), 70 + 4 * 10);
    let start = clock();
    answer(&body).await.unwrap();
    assert_eq!(start.elapsed().as_millis(), 70 + 4 * 10);
    let start = clock();
    let error = answer(&request("[[sim delay=99999999]]", json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        error.kind,
        UpstreamErrorKind::Simulated(ErrorCode::UpstreamTimeout)
    );
    assert_eq!(start.elapsed(), context().header_timeout);
}

#[tokio::test]
async fn usage_is_metered_and_hidden_unless_requested() {
    let mut call = call(&request("hello", json!({})), true);
    call.include_usage = false;
    let TextReply::Stream(stream) = generate(&call).await.unwrap() else {
        panic!("a stream");
    };
    let chunks: Vec<TextChunk> = stream.map(Result::unwrap).collect().await;
    let usage = chunks
        .iter()
        .find(|chunk| chunk.kind == ChunkKind::Usage)
        .unwrap();
    assert!(usage.payload.is_none() && usage.usage.is_some());
}

#[tokio::test]
async fn input_is_never_more_tokens_than_bytes() {
    let parts =
        json!([{"type": "text", "text": "a b c"}, {"type": "image_url", "image_url": {"url": "http://x/y"}}]);
    let body = json!({"model": "sim/chat", "messages": [{"role": "system", "content": "be brief"},
        {"role": "user", "content": parts}], "tools": tools()});
    let response = answer(&body).await.unwrap();
    // Tokens of "be brief", of "a b c", of the image, and of three tools.
    assert_eq!(response.usage.unwrap().get(Unit::Input), 2 + 3 + 1 + 3);
    assert_eq!(text(&response.choices[0]), "a b c");
}

#[tokio::test]
async fn a_message_without_words_still_gets_some() {
    let parts = json!([{"type": "image_url", "image_url": {"url": "http://x/y"}}]);
    let body = json!({"model": "sim/chat", "messages": [{"role": "user", "content": parts}]});
    assert_eq!(output(&answer(&body).await.unwrap()), 16);
}

#[tokio::test]
async fn an_echo_is_bounded() {
    let user_text = "ä".repeat(700_000);
    let response = say(&user_text, json!({"n": 2})).await;
    for choice in &response.choices {
        assert!(text(choice).len() <= 1 << 19 && user_text.starts_with(text(choice)));
        assert_eq!(choice.finish, FinishReason::Length);
    }
}
