//! Streams: the rules of the format for each event, from an upstream of the same format and from
//! the simulator.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{End, Event, Request, Response};
use tollgate_testkit::upstream::{Answer, At, Framing, Gate, How, LineEnd, Reply, Writes};

use crate::scene::{MODEL, Scene, assert_request_id, hello, saying, with};

const USAGE: fn() -> Value = || json!({"stream": true, "stream_options": {"include_usage": true}});

/// Asserts the headers of a stream and that every chunk is one event. Returns the events before
/// `[DONE]`.
fn chunks(what: &str, response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8"),
        "{what}"
    );
    assert_eq!(response.header("cache-control"), Some("no-cache"), "{what}");
    assert_eq!(response.header("x-accel-buffering"), Some("no"), "{what}");
    assert_request_id(what, response);
    assert!(response.whole, "{what}");
    let mut events: Vec<Event> = response.chunks.iter().map(|chunk| Event::parse(chunk)).collect();
    assert!(
        events.pop().is_some_and(|last| last.is_done()),
        "{what}: {}",
        response.text()
    );
    events
        .iter()
        .filter(|event| event.data.is_some())
        .map(Event::json)
        .collect()
}

/// Asserts the rules of the format for the chunks of `choices` answers.
fn assert_chunk_rules(what: &str, chunks: &[Value], choices: u64, with_usage: bool) {
    let first = &chunks[0];
    for name in ["id", "created", "model", "object"] {
        assert!(
            chunks.iter().all(|chunk| chunk[name] == first[name]),
            "{what}: {name} is the same on all"
        );
    }
    assert_eq!(
        (&first["object"], first["id"].is_string()),
        (&json!("chat.completion.chunk"), true),
        "{what}"
    );
    let (last, rest) = chunks.split_last().unwrap();
    let said = if with_usage {
        assert_eq!(last["choices"], json!([]), "{what}: {last}");
        assert!(last["usage"]["completion_tokens"].is_u64(), "{what}: {last}");
        assert!(
            rest.iter().all(|chunk| chunk.get("usage") == Some(&Value::Null)),
            "{what}: usage is null before"
        );
        rest
    } else {
        assert!(
            chunks.iter().all(|chunk| chunk.get("usage").is_none()),
            "{what}: usage was not requested"
        );
        chunks
    };
    for choice in 0..choices {
        let of_choice: Vec<&Value> = said
            .iter()
            .flat_map(|chunk| chunk["choices"].as_array().unwrap())
            .filter(|one| one["index"] == choice)
            .collect();
        let (finish, before) = of_choice.split_last().unwrap();
        assert_eq!(of_choice[0]["delta"]["role"], "assistant", "{what}: {choice}");
        assert!(
            before
                .iter()
                .skip(1)
                .all(|one| one["delta"].get("role").is_none()),
            "{what}: the role comes once"
        );
        assert!(before.iter().all(|one| one["finish_reason"].is_null()), "{what}");
        assert!(
            finish["finish_reason"].is_string() && finish["delta"] == json!({}),
            "{what}: {finish}"
        );
    }
    assert!(
        said.iter()
            .all(|chunk| chunk["choices"].as_array().is_some_and(|all| !all.is_empty())),
        "{what}"
    );
}

#[tokio::test]
async fn chunks_follow_the_rules_of_the_format() {
    let scene = Scene::start().await;
    let sim = |script: &str, members: Value| {
        let said = json!({"model": "sim/chat", "messages": [{"role": "user", "content": script}]});
        with(with(said, json!({"stream": true})), members)
    };
    let tool = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
    let cases = [
        ("relayed", hello(json!({"stream": true})), 1),
        ("relayed with usage", hello(USAGE()), 1),
        ("relayed twice", hello(json!({"stream": true, "n": 2})), 2),
        ("simulated", sim("Hello you", json!({})), 1),
        ("simulated with usage", sim("Hello you", USAGE()), 1),
        (
            "simulated thrice",
            sim("[[sim tokens=4]]", with(USAGE(), json!({"n": 3}))),
            3,
        ),
        (
            "simulated reasoning",
            sim("[[sim tokens=4 reason=3]]", USAGE()),
            1,
        ),
        (
            "simulated tool",
            sim(r#"[[sim tool=f:{"a":[1,2]}]]"#, with(tool, USAGE())),
            1,
        ),
        ("simulated refusal", sim("[[sim refuse]]", USAGE()), 1),
        (
            "simulated and cut by its cap",
            sim("[[sim tokens=40]]", json!({"max_tokens": 5})),
            1,
        ),
    ];
    for (what, body, choices) in cases {
        let chunks = chunks(what, &scene.chat(&body).await);
        assert_chunk_rules(what, &chunks, choices, body.get("stream_options").is_some());
        assert_eq!(chunks[0]["model"], body["model"], "{what}");
        assert!(chunks.len() >= 4, "{what}: a role, several chunks, a reason");
    }
    scene.finish().await;
}

#[tokio::test]
async fn every_event_is_relayed_immediately() {
    let scene = Scene::start().await;
    let gates: Vec<Gate> = (0..5).map(|_| Gate::new()).collect();
    let mut reply = Reply::words(5);
    for (place, gate) in gates.iter().enumerate() {
        reply = reply.hold_event(place + 2, gate);
    }
    scene.upstream.push(reply);
    let mut answer = scene.open(&saying("Hi", true)).await;
    assert_eq!(
        answer.next_json().await["choices"][0]["delta"]["role"],
        "assistant"
    );
    assert_eq!(answer.next_json().await["choices"][0]["delta"]["content"], "w1");
    for (place, gate) in gates.iter().enumerate() {
        // The next event can arrive only now.
        gate.open();
        let chunk = answer.next_json().await;
        let delta = &chunk["choices"][0]["delta"];
        match place {
            4 => assert_eq!(chunk["choices"][0]["finish_reason"], "stop"),
            _ => assert_eq!(delta["content"], format!(" w{}", place + 2)),
        }
    }
    assert!(answer.next_event().await.unwrap().is_done());
    assert_eq!(
        (answer.next_chunk().await, answer.end()),
        (None, Some(End::Whole))
    );
    scene.finish().await;
}

#[tokio::test]
async fn one_chunk_is_one_event_for_any_upstream_writes() {
    let scene = Scene::start().await;
    let parts = |bytes| Writes::Chunks {
        bytes,
        pause: Duration::ZERO,
    };
    let replies = [
        ("one by one", Reply::words(6)),
        ("all at once", Reply::words(6).writes(Writes::Whole)),
        ("byte by byte", Reply::words(2).writes(parts(1))),
        ("by seven", Reply::words(6).writes(parts(7))),
        (
            "in two",
            Reply::words(6).writes(Writes::SplitAt {
                offset: 333,
                pause: Duration::from_millis(5),
            }),
        ),
        ("until the end", Reply::words(6).framing(Framing::UntilClose)),
        ("counted", Reply::words(6).framing(Framing::ContentLength)),
        ("other line ends", Reply::words(6).line_end(LineEnd::CrLf)),
        ("old line ends", Reply::words(6).line_end(LineEnd::Cr)),
        ("comments", Reply::words(6).comments()),
        ("named events", Reply::words(6).event_lines()),
        ("no space", Reply::words(6).no_space()),
        ("several lines", Reply::words(6).several_lines()),
        ("a mark", Reply::words(6).byte_order_mark()),
        ("no end", Reply::words(6).without_done()),
    ];
    for (what, reply) in replies {
        scene.upstream.push(reply);
        let chunks = chunks(what, &scene.chat(&saying("Hi", true)).await);
        assert_chunk_rules(what, &chunks, 1, false);
    }
    scene.finish().await;
}

#[tokio::test]
async fn unchanged_events_are_relayed_byte_for_byte() {
    let scene = Scene::start().await;
    // Unusual spacing, escapes, numbers that a float cannot represent, unknown members.
    let payload = |delta: &str| {
        format!(
            r#"{{ "id":"a\u0062c" ,"object":"chat.completion.chunk","created":1, "model":"large-v1", "vendor":{{"pi":3.14159265358979323846264338327950288,"n":1e2}}, "choices":[{{"index":0,"delta":{delta},"finish_reason":null,"x_score":-0.0}}]}}"#
        )
    };
    let finish = r#"{"id":"abc","object":"chat.completion.chunk","created":1,"model":"large-v1","choices":[{"index":0,"delta":{},"finish_reason":"stop","stop_reason":128009}],"prompt_filter_results":[]}"#;
    let events = [
        payload(r#"{"role":"assistant","content":""}"#),
        payload(r#"{"content":"\u00e9\/ \ud83d\ude00 caf\u00e9"}"#),
        payload(r#"{"content":"é\t","reasoning_content":"hm","annotations":[{"a":[]}]}"#),
        finish.to_owned(),
    ];
    scene
        .upstream
        .push(Reply::events(events.iter().cloned().chain(["[DONE]".to_owned()])));
    let response = scene.chat(&saying("Hi", true)).await;
    let model = format!("\"{MODEL}\"");
    let mut expected: Vec<String> = events
        .iter()
        .map(|event| event.replace("\"large-v1\"", &model))
        .collect();
    expected.push("[DONE]".to_owned());
    let got: Vec<String> = response
        .events()
        .into_iter()
        .filter_map(|event| event.data)
        .collect();
    assert_eq!(got, expected);

    // A whole answer is also relayed byte for byte, except its model and the cost in its usage.
    let whole = r#"{"id" : "x",  "object":"chat.completion","created":1,"model":"large-v1","choices":[ {"index":0,"message":{"role":"assistant","content":"caf\u00e9 é","x":[1.10,2E+2]},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"queue_time":0.0010},"vendor":null }"#;
    scene.upstream.push(Reply::body(200, "application/json", whole));
    let response = scene.chat(&saying("Hi", false)).await;
    let expected = whole
        .replace("\"large-v1\"", &model)
        .replace("0.0010}", "0.0010,\"cost\":\"0.000004\"}");
    assert_eq!(response.text(), expected);
    scene.finish().await;
}

#[tokio::test]
async fn requests_are_forwarded_byte_for_byte() {
    let scene = Scene::start().await;
    let body = r#" { "temperature" : 1.0e0, "messages":[ {"role":"user","content":"caf\u00e9 \/ é", "x_vendor":[1.10] } ],
        "model":"acme/large" , "top_k":40,"metadata":{"a":"b"},"seed":9007199254740993 } "#;
    let request = |body: String| {
        let plain = tollgate_testkit::gateway::http::Request::post(crate::scene::CHAT, body);
        plain
            .header("content-type", "application/json")
            .key(&scene.key.secret)
    };
    assert_eq!(scene.client().send(&request(body.to_owned())).await.status, 200);
    let sent = |place: usize| String::from_utf8(scene.upstream.requests()[place].body.to_vec()).unwrap();
    assert_eq!(sent(0), body.replace("acme/large", "large-v1"));
    // A stream always requests usage upstream; the gateway removes it for callers that did not
    // request it.
    let streamed = body.replace("\"top_k\":40", "\"stream\":true");
    let response = scene.client().send(&request(streamed)).await;
    assert!(!response.text().contains("\"usage\""), "{}", response.text());
    let value: Value = serde_json::from_str(&sent(1)).unwrap();
    assert_eq!(value["stream_options"], json!({"include_usage": true}));
    assert!(
        sent(1).contains(r#"caf\u00e9 \/ é"#) && sent(1).contains("9007199254740993"),
        "{}",
        sent(1)
    );
    assert_eq!(
        scene.upstream.requests()[0].header("content-type"),
        Some("application/json")
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_stream_that_breaks_has_an_error_and_no_end() {
    let scene = Scene::start().await;
    let sim = |script: &str| json!({"model": "sim/chat", "stream": true, "messages": [{"role": "user", "content": script}]});
    let cases = [
        (
            "an error",
            saying("Hi", true),
            Reply::words(9).error_after(4, "server_error", "The server had an error."),
        ),
        (
            "a cut",
            saying("Hi", true),
            Reply::words(9).cut(At::Events(4), How::Close),
        ),
        (
            "a reset",
            saying("Hi", true),
            Reply::words(9).cut(At::InsideEvent(4), How::Reset),
        ),
        (
            "the simulator's cut",
            sim("[[sim tokens=9 cut=4]]"),
            Reply::words(1),
        ),
        (
            "the simulator's error",
            sim("[[sim tokens=9 cut=4 error=upstream_error]]"),
            Reply::words(1),
        ),
        (
            "the simulator's last moment",
            sim("[[sim tokens=9 cut=usage]]"),
            Reply::words(1),
        ),
    ];
    for (what, body, reply) in cases {
        if body["model"] == MODEL {
            scene.upstream.push(reply);
        }
        let mut answer = scene.open(&body).await;
        assert_eq!(answer.head.status, 200, "{what}");
        let mut events = Vec::new();
        while let Some(event) = answer.next_event().await {
            events.push(event);
        }
        assert_eq!(
            answer.end(),
            Some(End::Whole),
            "{what}: the error is the last of a whole body"
        );
        let last = events.pop().unwrap().json();
        let error = tollgate_testkit::gateway::http::ErrorObject::of(&last);
        assert_eq!(
            (error.code.as_str(), error.kind.as_str()),
            ("upstream_error", "upstream_error"),
            "{what}"
        );
        assert!(
            events.len() >= 3 && events.iter().all(|event| !event.is_done()),
            "{what}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn quiet_streams_send_keep_alives() {
    let scene = Scene::start_with("[timeouts]\nping_ms = 100\ncommit_ms = 100\n").await;
    // While the upstream is silent, in the middle or before the first word, the gateway sends the
    // headers and keep-alives, so that callers do not time out.
    for place in [3, 1] {
        let gate = Gate::new();
        scene.upstream.push(Reply::words(4).hold_event(place, &gate));
        let mut answer = scene.open(&saying("Hi", true)).await;
        let (mut pings, mut data) = (0, 0);
        while let Some(event) = answer.next_event().await {
            match &event.data {
                Some(_) => data += 1,
                None => {
                    assert_eq!(event.raw, b": ping\n\n");
                    pings += 1;
                }
            }
            if pings == 3 {
                gate.open();
            }
        }
        assert!(pings >= 3 && data == 7, "{pings} pings, {data} events");
        assert_eq!(answer.end(), Some(End::Whole));
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_text_of_an_answer_arrives_complete() {
    let scene = Scene::start().await;
    let arguments = json!({"city": "Köln", "days": [1, 2, 3]});
    let tools = json!({"stream": true, "tools": [{"type": "function", "function": {"name": "weather"}}]});
    scene.upstream.push(Reply::answer(
        Answer::calling("weather", &arguments).tool_call("time", &json!({})),
    ));
    let called = chunks("tools", &scene.chat(&hello(tools)).await);
    let calls: Vec<&Value> = called
        .iter()
        .filter_map(|chunk| chunk.pointer("/choices/0/delta/tool_calls/0"))
        .collect();
    let of = |index: u64, name: &str| -> String {
        let parts = calls.iter().filter(|call| call["index"] == index);
        parts.filter_map(|call| call["function"][name].as_str()).collect()
    };
    assert_eq!(
        (of(0, "name"), of(0, "arguments")),
        ("weather".to_owned(), arguments.to_string())
    );
    assert_eq!(
        (of(1, "name"), of(1, "arguments")),
        ("time".to_owned(), "{}".to_owned())
    );
    assert_eq!(
        called.last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls"
    );

    scene.upstream.push(Reply::answer(Answer::words(3).reasoning(2)));
    let body = hello(json!({"stream": true, "logprobs": true, "top_logprobs": 2}));
    let reasoned = chunks("reasoning", &scene.chat(&body).await);
    let said = |name: &str| -> String {
        let parts = reasoned
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"][name].as_str());
        parts.collect()
    };
    assert_eq!(
        (said("reasoning_content"), said("content")),
        ("r1 r2 ".to_owned(), "w1 w2 w3".to_owned())
    );
    let scored = reasoned
        .iter()
        .filter(|chunk| chunk["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1].is_object());
    assert_eq!(scored.count(), 3);
    scene.finish().await;
}

#[tokio::test]
async fn concurrent_answers_are_never_mixed_up() {
    let scene = Scene::start().await;
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let said = format!("caller {number} {}", "x".repeat(number));
        let model = if number % 4 < 2 { MODEL } else { "sim/chat" };
        let body = with(saying(&said, number % 2 == 0), json!({"model": model}));
        let (client, request) = (scene.client(), scene.request(&body));
        calls.spawn(async move { (said, number % 2 == 0, client.send(&request).await) });
    }
    let mut ids = std::collections::HashSet::new();
    for (said, streamed, response) in calls.join_all().await {
        assert_eq!(response.status, 200, "{}", response.text());
        let text: String = if streamed {
            let chunks = chunks(&said, &response);
            let parts = chunks
                .iter()
                .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
            parts.collect()
        } else {
            response.json()["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert!(text.ends_with(&said), "{said}: {text}");
        assert!(
            ids.insert(response.request_id().to_owned()),
            "every request has an id of its own"
        );
        let overhead: u64 = response
            .header("x-tollgate-overhead-us")
            .unwrap()
            .parse()
            .unwrap();
        assert!(overhead < 60_000_000, "{overhead}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn requested_usage_is_sent_without_a_report_of_the_upstream() {
    let scene = Scene::start().await;
    let silent = || Reply::answer(Answer::words(4).usage(tollgate_testkit::upstream::Usage::Missing));
    scene.upstream.push(silent());
    let response = scene.chat(&hello(USAGE())).await;
    let chunks = chunks("no report", &response);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"], json!([]), "{last}");
    assert_eq!(
        (&last["id"], &last["created"], &last["model"]),
        (&chunks[0]["id"], &chunks[0]["created"], &json!(MODEL))
    );
    let row = scene.row(response.request_id()).await;
    assert_eq!(
        (&row["estimated"], &last["usage"]["cost"]),
        (&json!(true), &row["cost"])
    );
    assert_eq!(last["usage"]["total_tokens"], row["usage"]["total_tokens"]);
    scene.upstream.push(silent());
    let response = scene.chat(&hello(json!({}))).await;
    let cost = response.header("x-tollgate-cost").unwrap().to_owned();
    assert_eq!(scene.row(response.request_id()).await["cost"], cost);
    scene.finish().await;
}

/// The simulator produces output only as fast as its caller reads it.
#[tokio::test]
async fn unread_answers_take_no_memory() {
    let scene = Scene::start_with("[limits]\nrpm = 100000\n").await;
    let body = with(saying("[[sim tokens=60000]]", true), json!({"model": "sim/chat"}));
    let request = Request::json("/v1/chat/completions", &body).key(&scene.key.secret);
    let mut unread = Vec::new();
    for _ in 0..100 {
        let answer = scene.client().open(&request).await;
        assert_eq!(answer.head.status, 200);
        unread.push(answer);
    }
    let peak = scene.gateway.peak_memory();
    assert!(peak < 300 << 20, "{} MiB", peak >> 20);
    drop(unread);
    scene.settled().await;
    scene.finish().await;
}
