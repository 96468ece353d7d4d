//! Answers, whole and streamed, compared with OpenAI's format.

use serde_json::{Value, json};

use super::super::answer::tokens_of;
use super::super::{Answer, FakeUpstream, Reply, Usage, UsagePosition, vector};
use super::client::{Client, Response, post};
use super::{Ended, request, respond, streamed_text};
use crate::upstream::event_stream::EVENT_STREAM;
use crate::upstream::schema;

#[tokio::test]
async fn answers_a_completion_with_its_usage() {
    let response = respond(Reply::text("Good day to you").header("x-extra", "1"), json!({})).await;
    assert_eq!((response.status, response.ended.clone()), (200, Ended::Whole));
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("x-extra"), Some("1"));
    let body = response.json();
    assert_eq!(body["object"], "chat.completion");
    assert_eq!(body["model"], "fake-model");
    let message =
        json!({"role": "assistant", "content": "Good day to you", "refusal": null, "annotations": []});
    assert_eq!(
        body["choices"],
        json!([{"index": 0, "message": message, "logprobs": null, "finish_reason": "stop"}])
    );
    let usage = &body["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"]),
        (&json!(2), &json!(4))
    );
    assert_eq!(usage["total_tokens"], 6);
}

#[tokio::test]
async fn echoes_without_a_script() {
    let body = respond(Reply::answer(Answer::default()), json!({})).await.json();
    assert_eq!(body["choices"][0]["message"]["content"], "You said: Hi there");
}

#[tokio::test]
async fn streams_by_the_rules() {
    let members = json!({"stream": true, "stream_options": {"include_usage": true}});
    let response = respond(Reply::words(3), members).await;
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert_eq!(response.events().last().map(String::as_str), Some("[DONE]"));
    let chunks = response.chunks();
    assert_eq!(chunks.len(), 1 + 3 + 1 + 1);
    for name in ["id", "created", "model", "object"] {
        assert!(
            chunks
                .iter()
                .all(|chunk| chunk[name] == chunks[0][name] && !chunk[name].is_null()),
            "{name}"
        );
    }
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    assert_eq!(
        chunks[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": "", "refusal": null})
    );
    assert_eq!(streamed_text(&chunks), "w1 w2 w3");
    let finish = json!([{"index": 0, "delta": {}, "logprobs": null, "finish_reason": "stop"}]);
    assert_eq!(chunks[4]["choices"], finish);
    assert_eq!(chunks[5]["choices"], json!([]));
    assert_eq!(chunks[5]["usage"]["completion_tokens"], 3);
    assert!(
        chunks[..5]
            .iter()
            .all(|chunk| chunk.get("usage") == Some(&Value::Null))
    );
    assert!(chunks[1].get("obfuscation").is_some() && chunks[4].get("obfuscation").is_none());
}

#[tokio::test]
async fn streams_have_no_usage_or_padding_unless_requested() {
    let members = json!({"stream": true, "stream_options": {"include_obfuscation": false}});
    let chunks = respond(Reply::words(3), members).await.chunks();
    assert_eq!(chunks.len(), 1 + 3 + 1);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk.get("usage").is_none() && chunk.get("obfuscation").is_none())
    );
}

#[tokio::test]
async fn answers_several_choices() {
    let body = respond(Reply::words(3), json!({"n": 2})).await.json();
    assert_eq!(body["choices"][1]["message"]["content"], "w1 w2 w3");
    assert_eq!(body["usage"]["completion_tokens"], 6);

    let chunks = respond(Reply::words(3), json!({"n": 2, "stream": true}))
        .await
        .chunks();
    let of = |index: u64| {
        chunks
            .iter()
            .filter(move |chunk| chunk["choices"][0]["index"] == index)
    };
    assert_eq!((of(0).count(), of(1).count()), (5, 5));
    assert_eq!(of(1).next_back().unwrap()["choices"][0]["finish_reason"], "stop");
}

#[tokio::test]
async fn calls_tools() {
    let answer =
        || Answer::calling("weather", &json!({"city": "Paris"})).tool_call("time", &json!({"zone": "CET"}));
    let body = respond(Reply::answer(answer()), json!({})).await.json();
    let choice = &body["choices"][0];
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );
    let calls = &choice["message"]["tool_calls"];
    assert_eq!(
        calls[0]["function"],
        json!({"name": "weather", "arguments": "{\"city\":\"Paris\"}"})
    );
    assert_ne!(calls[0]["id"], calls[1]["id"]);

    let chunks = respond(Reply::answer(answer()), json!({"stream": true}))
        .await
        .chunks();
    let deltas: Vec<&Value> = chunks
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0"))
        .collect();
    for (index, name) in ["weather", "time"].into_iter().enumerate() {
        let mut own = deltas.iter().filter(|delta| delta["index"] == index);
        let first = own.next().unwrap();
        assert_eq!(
            (&first["id"], &first["type"]),
            (&calls[index]["id"], &json!("function"))
        );
        assert_eq!(first["function"], json!({"name": name, "arguments": ""}));
        let rest: Vec<_> = own.collect();
        assert!(rest.len() > 1 && rest.iter().all(|delta| delta.get("id").is_none()));
        let arguments: String = rest
            .iter()
            .map(|delta| delta["function"]["arguments"].as_str().unwrap())
            .collect();
        assert_eq!(json!(arguments), calls[index]["function"]["arguments"]);
    }
}

#[tokio::test]
async fn refuses_and_reasons() {
    let answer = || Answer::refusal("I will not do that").reasoning(2);
    let body = respond(Reply::answer(answer()), json!({})).await.json();
    let message = &body["choices"][0]["message"];
    assert_eq!(
        (&message["content"], &message["refusal"]),
        (&Value::Null, &json!("I will not do that"))
    );
    assert_eq!(message["reasoning_content"], "r1 r2 ");
    assert_eq!(body["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);

    let chunks = respond(Reply::answer(answer()), json!({"stream": true}))
        .await
        .chunks();
    let joined = |name: &str| -> String {
        let path = format!("/choices/0/delta/{name}");
        chunks
            .iter()
            .filter_map(|chunk| chunk.pointer(&path).and_then(Value::as_str))
            .collect()
    };
    assert_eq!(
        (joined("refusal"), joined("reasoning_content")),
        ("I will not do that".into(), "r1 r2 ".into())
    );
}

#[tokio::test]
async fn returns_logprobs_when_requested() {
    let members = json!({"logprobs": true, "top_logprobs": 2});
    let body = respond(Reply::words(2), members.clone()).await.json();
    let content = body["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(content.len(), 2);
    assert_eq!(content[1]["token"], " w2");
    assert_eq!(content[1]["bytes"], json!(b" w2"));
    assert_eq!(content[1]["top_logprobs"].as_array().unwrap().len(), 2);

    let mut streamed = members;
    streamed["stream"] = json!(true);
    let chunks = respond(Reply::words(2), streamed).await.chunks();
    assert_eq!(
        chunks[2]["choices"][0]["logprobs"]["content"],
        json!([content[1]])
    );
}

#[tokio::test]
async fn honours_stop_and_max_tokens() {
    let cases = [
        (json!({"stop": " w3"}), "w1 w2", "stop", 2),
        (json!({"stop": ["never", "2"]}), "w1 w", "stop", 2),
        (json!({"max_tokens": 2}), "w1 w2", "length", 2),
        (
            json!({"max_completion_tokens": 1, "max_tokens": 4}),
            "w1",
            "length",
            1,
        ),
        (json!({"max_tokens": 4}), "w1 w2 w3 w4", "stop", 4),
    ];
    for (members, text, reason, tokens) in cases {
        let body = respond(Reply::words(4), members.clone()).await.json();
        let choice = &body["choices"][0];
        assert_eq!(
            (
                choice["message"]["content"].as_str(),
                choice["finish_reason"].as_str()
            ),
            (Some(text), Some(reason))
        );
        assert_eq!(body["usage"]["completion_tokens"], tokens, "{members}");
    }
}

#[tokio::test]
async fn reports_the_usage_that_the_script_wants() {
    let cases = [
        (
            Usage::Fixed {
                prompt: 0,
                completion: 0,
            },
            r#""usage":{"prompt_tokens":0,"completion_tokens":0,"#,
        ),
        (Usage::Null, r#""usage":null}"#),
        (
            Usage::Raw(r#"{"prompt_tokens":99999999999999999999}"#.into()),
            r#""usage":{"prompt_tokens":99999999999999999999}}"#,
        ),
    ];
    for (usage, text) in cases {
        let whole = respond(Reply::answer(Answer::words(2).usage(usage.clone())), json!({}))
            .await
            .text();
        assert!(whole.contains(text), "{whole}");
        let answer = Answer::words(2)
            .usage(usage)
            .usage_position(UsagePosition::Always);
        let streamed = respond(Reply::answer(answer), json!({"stream": true}))
            .await
            .text();
        assert!(streamed.contains(text), "{streamed}");
    }
    let missing = || Reply::answer(Answer::words(2).usage(Usage::Missing));
    assert!(respond(missing(), json!({})).await.json().get("usage").is_none());
    let members = json!({"stream": true, "stream_options": {"include_usage": true}});
    assert!(
        respond(missing(), members)
            .await
            .chunks()
            .iter()
            .all(|chunk| chunk.get("usage").is_none())
    );
}

#[tokio::test]
async fn reports_the_usage_where_the_script_wants() {
    let cases = [
        (UsagePosition::WhenRequested, vec![]),
        (UsagePosition::Always, vec![4]),
        (UsagePosition::WithFinish, vec![4]),
        (UsagePosition::EveryChunk, vec![0, 1, 2, 3, 4, 4, 4]),
        (UsagePosition::Twice, vec![2, 4]),
    ];
    for (position, reports) in cases {
        let answer = Answer::words(4)
            .cached_tokens(1)
            .cache_write_tokens(1)
            .usage_position(position);
        let chunks = respond(Reply::answer(answer), json!({"stream": true}))
            .await
            .chunks();
        let usages: Vec<&Value> = chunks.iter().filter_map(|chunk| chunk.get("usage")).collect();
        let completions: Vec<u64> = usages
            .iter()
            .map(|usage| usage["completion_tokens"].as_u64().unwrap())
            .collect();
        assert_eq!(completions, reports, "{position:?}");
        for usage in usages {
            let details = &usage["prompt_tokens_details"];
            assert_eq!(
                (&details["cached_tokens"], &details["cache_write_tokens"]),
                (&json!(1), &json!(1))
            );
        }
    }
}

#[tokio::test]
async fn fits_structured_output() {
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"}, "kind": {"enum": ["a", "b"]}, "sizes": {"type": "array", "items": {"type": "integer"}},
            "next": {"anyOf": [{"$ref": "#/$defs/part"}, {"type": "null"}]},
        },
        "$defs": {"part": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
    });
    let expected = json!({"name": "sample", "kind": "a", "sizes": [1], "next": {"ok": true}});
    assert_eq!(schema::sample(&schema), expected);
    let format = json!({"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}});
    let echo = || Reply::answer(Answer::default());
    let chunks = respond(echo(), json!({"response_format": format, "stream": true}))
        .await
        .chunks();
    assert_eq!(
        serde_json::from_str::<Value>(&streamed_text(&chunks)).unwrap(),
        expected
    );

    let body = respond(echo(), json!({"response_format": {"type": "json_object"}}))
        .await
        .json();
    let content = body["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(content).unwrap(),
        json!({"echo": "Hi there"})
    );
}

#[tokio::test]
async fn names_another_model_and_reason() {
    let answer = Answer::text("x")
        .as_model("fake-model-2026-01-01")
        .finish_reason("content_filter");
    let body = respond(Reply::answer(answer), json!({})).await.json();
    assert_eq!(body["model"], "fake-model-2026-01-01");
    assert_eq!(body["choices"][0]["finish_reason"], "content_filter");
}

#[tokio::test]
async fn rejects_what_is_no_chat_request() {
    for body in [
        request(json!({"messages": []})),
        request(json!({"model": 5})),
        json!([]),
    ] {
        let upstream = super::FakeUpstream::start().await;
        let response = super::Client::to(&upstream).await.chat(&body).await;
        assert_eq!(response.status, 400);
        assert_eq!(response.json()["error"]["type"], "invalid_request_error");
        assert!(upstream.served().is_empty());
    }
}

#[test]
fn tokens_join_to_the_text() {
    for text in [
        "",
        "one",
        "one two",
        "  lead and trail  ",
        "überlängenwörter 中文字",
        "a\nb\t\tc",
        "{\"city\":\"Paris\"}",
    ] {
        let tokens = tokens_of(text);
        assert_eq!(tokens.concat(), text);
        assert!(
            tokens
                .iter()
                .all(|token| (1..=8).contains(&token.chars().count())),
            "{tokens:?}"
        );
    }
    assert_eq!(tokens_of("Good day to you"), ["Good", " day", " to", " you"]);
}

async fn embeddings(upstream: &FakeUpstream, body: &Value) -> Response {
    posted(upstream, "/v1/embeddings", body).await
}

async fn posted(upstream: &FakeUpstream, path: &str, body: &Value) -> Response {
    let mut client = Client::to(upstream).await;
    client.send(&post(path, &body.to_string())).await;
    client.read().await
}

#[tokio::test]
async fn answers_embeddings_with_vectors_that_can_be_worked_out() {
    let upstream = FakeUpstream::start().await;
    upstream.push(Reply::answer(Answer::words(9).as_model("v-1")));
    let body = json!({"model": "v", "input": ["four", "eight-by"], "dimensions": 3});
    let response = embeddings(&upstream, &body).await;
    assert_eq!((response.status, response.ended.clone()), (200, Ended::Whole));
    let body = response.json();
    assert_eq!((&body["object"], &body["model"]), (&json!("list"), &json!("v-1")));
    assert_eq!(body["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
    for (index, item) in body["data"].as_array().unwrap().iter().enumerate() {
        assert_eq!(item["embedding"], json!(vector(index, 3)));
        assert_eq!(item["index"], index);
    }
    let packed =
        json!({"model": "v", "input": [[1, 2], [3]], "encoding_format": "base64", "output_dimension": 1});
    let response = embeddings(&upstream, &packed).await.json();
    assert_eq!(response["usage"]["prompt_tokens"], 3);
    // The number 1/3, lowest byte first.
    assert_eq!(response["data"][0]["embedding"], "q6qqPg==");
    let fault = json!({"model": "v", "input": "[[status=503 error=overloaded]]"});
    assert_eq!(embeddings(&upstream, &fault).await.status, 503);
    assert_eq!(upstream.served().len(), 2);
    assert_eq!(
        upstream.served()[0].used.completion,
        0,
        "vectors are no completion"
    );
}

#[tokio::test]
async fn converses_in_frames() {
    let upstream = FakeUpstream::start().await;
    upstream.echo_plainly();
    let request_with = |text: &str| json!({"messages": [{"role": "user", "content": [{"text": text}]}]});
    let response = posted(&upstream, "/model/a%3Ab/converse", &request_with("Hi there")).await;
    let body = response.json();
    assert_eq!(
        body["output"]["message"]["content"],
        json!([{"text": "Hi there"}])
    );
    assert_eq!(
        (&body["stopReason"], &body["usage"]["outputTokens"]),
        (&json!("end_turn"), &json!(2))
    );
    let prompt = r#"[[reason=1 tool=f:{"x":1}]]"#;
    let response = posted(&upstream, "/model/a%3Ab/converse-stream", &request_with(prompt)).await;
    assert_eq!(response.header("content-type"), Some(EVENT_STREAM));
    let frames = event_names(&response.body);
    let kinds: Vec<&str> = frames.iter().map(String::as_str).collect();
    let (first, last) = (kinds[0], &kinds[kinds.len() - 2..]);
    assert_eq!((first, last), ("messageStart", &["messageStop", "metadata"][..]));
    assert!(kinds.contains(&"contentBlockStart"), "{kinds:?}");
    let models: Vec<String> = upstream.served().into_iter().map(|served| served.model).collect();
    assert_eq!(models, ["a:b", "a:b"]);
}

/// Returns the event names of an event stream, split into frames by their lengths.
fn event_names(mut bytes: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(length) = bytes.first_chunk::<4>() {
        let (frame, rest) = bytes.split_at(u32::from_be_bytes(*length) as usize);
        let size = usize::from(u16::from_be_bytes([frame[25], frame[26]]));
        names.push(String::from_utf8(frame[27..27 + size].to_vec()).unwrap());
        bytes = rest;
    }
    names
}
