//! A provider that uses the format: its responses to callers of this and other formats, and their
//! cost.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, At, How, Reply, Usage};

use super::{NATIVE, assert_is_ours, ended, events_of, saying, scene, send};
use crate::scene::{Classes, GRANTED, MODEL, PRICES, assert_error, with};

const EVERY_CLASS: Classes = Classes {
    input: 900,
    cache_read: 234,
    cache_write: 100,
    output: 560,
    reasoning: 7,
};

fn every_class() -> Reply {
    let answer = Answer::words(3).reasoning(7).usage(Usage::Fixed {
        prompt: 1_234,
        completion: 567,
    });
    Reply::answer(answer.cached_tokens(234).cache_write_tokens(100))
}

#[tokio::test]
async fn every_class_is_charged_at_its_price() {
    let scene = scene().await;
    let cost = EVERY_CLASS.at(PRICES);
    let text = "x".repeat(2_000);
    let mut paid = 0;
    for stream in [false, true] {
        scene.upstream.push(every_class());
        let body = saying(
            NATIVE,
            &text,
            json!({"stream": stream, "max_output_tokens": 1_000}),
        );
        let response = send(&scene, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        paid += cost;
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        assert_eq!((nanos(&row["cost"]), &row["estimated"]), (cost, &json!(false)));
        assert_eq!(scene.balance().await.credits, GRANTED - paid);
        let answer = if stream {
            ended(&events_of(&response))
        } else {
            response.json()
        };
        assert_is_ours(&answer, response.request_id());
        assert_eq!(
            (&answer["model"], &answer["top_p"]),
            (&json!(NATIVE), &json!(0.98))
        );
        assert_eq!(nanos(&answer["usage"]["cost"]), cost);
        assert_eq!(answer["usage"]["input_tokens_details"]["cached_tokens"], 234);
        assert!(!response.text().contains("native-v1"));
    }
    // Callers of other formats pay the same.
    for (path, body) in [
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": text}]}),
        ),
        (
            "/v1/messages",
            json!({"max_tokens": 1_000, "messages": [{"role": "user", "content": text}]}),
        ),
    ] {
        for stream in [false, true] {
            scene.upstream.push(every_class());
            let body = with(body.clone(), json!({"model": NATIVE, "stream": stream}));
            let request = Request::json(path, &body).key(&scene.key.secret);
            let response = scene.client().send(&request).await;
            assert_eq!(response.status, 200, "{}", response.text());
            assert!(
                response.text().contains("w3") && response.text().contains("r7"),
                "{}",
                response.text()
            );
            paid += cost;
            let row = scene.row(response.request_id()).await;
            assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        }
    }
    assert_eq!(scene.finish().await.revenue, paid);
}

#[tokio::test]
async fn a_request_is_forwarded_verbatim() {
    let scene = scene().await;
    let members = json!({
        "input": [
            {"role": "user", "content": [
                {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
                {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "f"},
                {"type": "input_text", "text": "look", "vendor": 1.50},
            ]},
            {"type": "local_shell_call", "call_id": "s", "action": {"type": "exec", "command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "s", "output": "x"},
        ],
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object", "big": 123456789012345678901234567890_f64}},
            {"type": "local_shell"},
            {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]},
        ],
        "instructions": "i", "reasoning": {"effort": "high"}, "truncation": "auto", "service_tier": "default",
        "metadata": {"a": "b"}, "prompt_cache_key": "k", "include": ["reasoning.encrypted_content"],
    });
    let mut body = saying(NATIVE, "", members);
    let hints = json!({"context_management": [], "client_metadata": {}, "store": true});
    let response = send(&scene, &with(body.clone(), hints)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(
        response.header("x-tollgate-ignored"),
        Some("context_management,client_metadata")
    );
    body["model"] = json!("native-v1");
    body["store"] = json!(false);
    body["stream"] = json!(false);
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(sent.json().unwrap(), body);
    assert!(
        sent.body.windows(4).any(|bytes| bytes == b"1.5}"),
        "numbers are as they were written"
    );
    scene.finish().await;
}

#[tokio::test]
async fn reasoning_and_tools_survive_a_loop() {
    let scene = scene().await;
    for stream in [false, true] {
        let answer = Answer::calling("f", &json!({"x": 1}))
            .tool_call("f", &json!({"x": 2}))
            .reasoning(2);
        scene.upstream.push(Reply::answer(answer));
        let tools = json!([{"type": "function", "name": "f", "parameters": {"type": "object"}}]);
        let asked =
            json!({"tools": tools, "stream": stream, "reasoning": {"effort": "low", "summary": "auto"}});
        let first = send(&scene, &saying(NATIVE, "go", asked)).await;
        assert_eq!(first.status, 200, "{}", first.text());
        let answer = match stream {
            true => ended(&events_of(&first)),
            false => first.json(),
        };
        let output = answer["output"].as_array().unwrap();
        let seal = output[0]["encrypted_content"].as_str().unwrap();
        assert!(seal.starts_with("gw1.") && !seal.contains("southwind"), "{seal}");
        assert!(!first.text().contains("\"enc-"), "{}", first.text());
        let mut input = vec![json!({"role": "user", "content": "go"})];
        input.extend(output.iter().cloned());
        for call in &output[1..] {
            input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "1"}));
        }
        let next = json!({"tools": tools, "input": input});
        let second = send(&scene, &saying(NATIVE, "", next.clone())).await;
        assert_eq!(second.status, 200, "{}", second.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert!(
            sent["input"][1]["encrypted_content"]
                .as_str()
                .unwrap()
                .starts_with("enc-")
        );
        // A provider of another format receives no reasoning, and the response header reports this.
        let elsewhere = send(&scene, &saying(MODEL, "", next)).await;
        assert_eq!(elsewhere.status, 200, "{}", elsewhere.text());
        let sent = scene.upstream.requests().pop().unwrap();
        let text = String::from_utf8(sent.body.to_vec()).unwrap();
        assert!(sent.path.ends_with("/chat/completions"));
        assert!(
            !text.contains("enc-") && !text.contains("gw1.") && !text.contains("r1 r2"),
            "{text}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_broken_stream_ends_with_an_error_and_costs_nothing() {
    let scene = scene().await;
    for reply in [
        Reply::words(10).cut(At::Events(6), How::Close),
        Reply::words(10).cut(At::Events(6), How::Reset),
        Reply::words(10).without_done(),
        Reply::words(10).error_after(6, "server_error", "sk-secret"),
    ] {
        scene.upstream.push(reply);
        let response = send(&scene, &saying(NATIVE, "hi", json!({"stream": true}))).await;
        let events = events_of(&response);
        let [.., error_event, failed] = &*events else {
            panic!("{events:?}")
        };
        assert_eq!(error_event["type"], "error", "{}", response.text());
        assert_eq!(
            (&error_event["code"], &error_event["error"]["code"]),
            (&json!("upstream_error"), &json!("upstream_error"))
        );
        assert_eq!(
            (&failed["type"], &failed["response"]["status"]),
            (&json!("response.failed"), &json!("failed"))
        );
        assert_is_ours(&failed["response"], response.request_id());
        assert!(!response.text().contains("response.completed") && !response.text().contains("secret"));
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["cost"], &row["outcome"]),
            (&json!("0"), &json!("upstream_error")),
            "{row}"
        );
    }
    for (reply, code) in [
        (Reply::error(500, "server_error", "busy"), "upstream_error"),
        (Reply::error(401, "invalid_api_key", "no"), "upstream_error"),
        (
            Reply::error(429, "rate_limit_exceeded", "slow"),
            "model_unavailable",
        ),
        (Reply::error(400, "invalid_value", "no"), "invalid_parameter"),
        (Reply::body(200, "text/html", "<html>"), "upstream_error"),
    ] {
        scene.upstream.set_default(reply);
        let response = send(&scene, &saying(NATIVE, "hi", json!({}))).await;
        assert_error(code, &response, code, None);
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert_eq!(scene.finish().await.revenue, 0);
}

#[tokio::test]
async fn usage_without_a_report_is_estimated_and_returned() {
    let scene = scene().await;
    for usage in [Usage::Missing, Usage::Null] {
        for stream in [false, true] {
            scene
                .upstream
                .push(Reply::answer(Answer::words(4).usage(usage.clone())));
            let response = send(&scene, &saying(NATIVE, "hi", json!({"stream": stream}))).await;
            let answer: Value = match stream {
                true => ended(&events_of(&response)),
                false => response.json(),
            };
            let row = scene.row(response.request_id()).await;
            assert_eq!(row["estimated"], true, "{row}");
            assert_eq!(answer["usage"]["cost"], row["cost"]);
            assert!(answer["usage"]["output_tokens"].as_u64().unwrap() > 0, "{answer}");
        }
    }
    scene.finish().await;
}
