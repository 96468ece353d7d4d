//! Output rules in whole answers and streams.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, At, How, Reply, Usage};

use super::{MESSAGES, NATIVE, RULES, chunks, message, message_stream_text, post, scene, stream_text};
use crate::scene::{CHAT, GRANTED, MODEL, Scene, hello};

const STREAM: fn() -> Value = || json!({"stream": true, "stream_options": {"include_usage": true}});

/// Asserts that the upstream's report is charged: 40 input and 30 output tokens.
async fn assert_charged(scene: &Scene, request_id: &str, output_price: i64) {
    let row = scene.row(request_id).await;
    assert_eq!(
        (&row["usage"]["input_tokens"], &row["usage"]["output_tokens"]),
        (&json!(40), &json!(30)),
        "{row}"
    );
    assert_eq!(nanos(&row["cost"]), 40 * 1_000 + 30 * output_price, "{row}");
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("ok"), &json!(false)),
        "{row}"
    );
}

fn answer(text: &str) -> Answer {
    Answer::text(text).usage(Usage::Fixed {
        prompt: 40,
        completion: 30,
    })
}

#[tokio::test]
async fn a_blocked_answer_is_withheld_and_paid() {
    let scene = scene(RULES).await;
    let called = Answer::calling("f", &json!({"x": "forbidden"})).usage(Usage::Fixed {
        prompt: 40,
        completion: 30,
    });
    for answer in [
        answer("this is Forbidden here"),
        answer("it is key-123456"),
        called,
    ] {
        scene.upstream.push(Reply::answer(answer.clone()));
        let response = scene.chat(&hello(json!({}))).await;
        let body = response.json();
        assert_eq!(body["choices"][0]["finish_reason"], "content_filter", "{body}");
        assert_eq!(body["choices"].as_array().unwrap().len(), 1);
        assert!(
            body["choices"][0]["message"]
                .get("tool_calls")
                .is_none_or(Value::is_null),
            "{body}"
        );
        assert!(!response.text().to_lowercase().contains("forbidden"), "{body}");
        assert_eq!(
            (&body["usage"]["completion_tokens"], &body["model"]),
            (&json!(30), &json!(MODEL))
        );
        assert_charged(&scene, response.request_id(), 2_000).await;

        for model in [MODEL, NATIVE] {
            scene.upstream.push(Reply::answer(answer.clone()));
            let response = post(&scene, MESSAGES, &message(model, "Hi", json!({}))).await;
            let body = response.json();
            assert_eq!(
                (&body["stop_reason"], &body["content"]),
                (&json!("refusal"), &json!([])),
                "{body}"
            );
            assert_eq!(body["stop_details"]["type"], "refusal", "{body}");
            assert_charged(&scene, response.request_id(), 2_000).await;
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn harmless_answers_arrive_whole() {
    let scene = scene(RULES).await;
    let text = "it was forbiddenly, quite badly said; key-12345 ".repeat(12);
    for stream in [false, true] {
        scene.upstream.push(Reply::answer(answer(&text).reasoning(3)));
        let response = scene
            .chat(&hello(if stream { STREAM() } else { json!({}) }))
            .await;
        match stream {
            true => assert_eq!(stream_text(&chunks(&response)), (text.clone(), "stop".to_owned())),
            false => assert_eq!(response.json()["choices"][0]["message"]["content"], text),
        }
        scene.upstream.push(Reply::answer(answer(&text)));
        let response = post(
            &scene,
            MESSAGES,
            &message(NATIVE, "Hi", json!({"stream": stream})),
        )
        .await;
        match stream {
            true => {
                let (said, delta) = message_stream_text(&response);
                assert_eq!((said, &delta["stop_reason"]), (text.clone(), &json!("end_turn")));
            }
            false => assert_eq!(response.json()["content"][0]["text"], text),
        }
        assert_charged(&scene, response.request_id(), 2_000).await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_stream_ends_before_the_forbidden_words() {
    let scene = scene(RULES).await;
    // The words are found wherever the chunks split them, even if only the next chunk completes
    // them.
    let answers = [
        vec!["Well, ", "now: ", "forbidden", " fruit"],
        vec!["Well, ", "now: ", "for", "bid", "den", ". And", " more"],
        vec!["Well, ", "now: ", "it is", "x"],
        vec!["Well, ", "now: ", "quite", " ", "bad"],
        vec!["Well, ", "now: ", "k", "ey-123", "456"],
    ];
    for (at, deltas) in answers.iter().enumerate() {
        let is_harmless = at == 2;
        let reply = || {
            Reply::answer(Answer::deltas(deltas.iter().copied()).usage(Usage::Fixed {
                prompt: 40,
                completion: 30,
            }))
        };
        let expected = match is_harmless {
            true => ("Well, now: it isx".to_owned(), "stop"),
            false => ("Well, now: ".to_owned(), "content_filter"),
        };
        scene.upstream.push(reply());
        let response = scene.chat(&hello(STREAM())).await;
        let chunks = chunks(&response);
        assert_eq!(
            stream_text(&chunks),
            (expected.0.clone(), expected.1.to_owned()),
            "{chunks:?}"
        );
        let usage = &chunks.last().unwrap()["usage"];
        assert_eq!(
            (&usage["prompt_tokens"], &usage["completion_tokens"]),
            (&json!(40), &json!(30))
        );
        assert!(usage["cost"].is_string(), "{usage}");
        assert_charged(&scene, response.request_id(), 2_000).await;

        for model in [MODEL, NATIVE] {
            scene.upstream.push(reply());
            let response = post(&scene, MESSAGES, &message(model, "Hi", json!({"stream": true}))).await;
            let (said, delta) = message_stream_text(&response);
            assert_eq!(said, expected.0, "{model} {chunks:?}");
            assert_eq!(
                delta["stop_reason"],
                if is_harmless { "end_turn" } else { "refusal" }
            );
            assert_eq!(
                delta["stop_details"]["type"] == "refusal",
                !is_harmless,
                "{delta}"
            );
            assert_charged(&scene, response.request_id(), 2_000).await;
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn upstream_faults_after_the_end_are_hidden() {
    let scene = scene(RULES).await;
    for how in [How::Close, How::Reset] {
        let reply = Reply::answer(Answer::deltas(["so ", "forbidden", " a", " b", " c", " d"]));
        scene.upstream.push(reply.cut(At::Events(5), how));
        let response = scene.chat(&hello(STREAM())).await;
        assert_eq!(
            stream_text(&chunks(&response)),
            ("so ".to_owned(), "content_filter".to_owned())
        );
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("ok"), &json!(true)),
            "{row}"
        );
    }
    assert!(scene.settled().await.credits < GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn an_endless_answer_is_cut_off_after_its_end() {
    let scene = scene(&format!("{RULES}\n[drain]\nbytes = 20000\n")).await;
    scene
        .upstream
        .push(Reply::answer(Answer::deltas(["so ", "forbidden", " x"])).endless());
    let response = scene.chat(&hello(STREAM())).await;
    assert_eq!(
        stream_text(&chunks(&response)),
        ("so ".to_owned(), "content_filter".to_owned())
    );
    scene
        .upstream
        .wait_until("the upstream is cut off", |upstream| {
            upstream.open_connections() == 0
        })
        .await;
    let row = scene.row(response.request_id()).await;
    assert_eq!(row["estimated"], true, "{row}");
    scene.finish().await;
}

#[tokio::test]
async fn choices_end_separately() {
    let scene = scene(RULES).await;
    let body =
        json!({"model": "sim/chat", "n": 2, "messages": [{"role": "user", "content": "say forbidden"}]});
    let response = post(&scene, CHAT, &body).await.json();
    for choice in response["choices"].as_array().unwrap() {
        assert_eq!(choice["finish_reason"], "content_filter", "{response}");
    }
    assert_eq!(response["choices"].as_array().unwrap().len(), 2);
    scene.finish().await;
}
