//! The output cap in every format of callers, for upstreams of every format.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, nanos};

use super::{CONTENT, MESSAGES, PRICE, RESPONSES, TEXTS, last_sent, scene, send};
use crate::scene::{CHAT, PLAIN, Scene, with};

/// Returns the highest input cost of a request in nano-credits: its quote less `output` tokens.
async fn input_of(scene: &Scene, path: &str, body: &Value, output: i64) -> i64 {
    let quote = json!({"endpoint": path, "request": body});
    let answer = scene
        .client()
        .post_json("/v1/quote", &scene.key.secret, &quote)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    nanos(&answer.json()["most"]) - output * PRICE
}

fn chat(model: &str, members: Value) -> Value {
    let body = json!({"model": model, "messages": [{"role": "user", "content": "Hi there"}]});
    with(body, members)
}

fn contents(config: Value) -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Hi there"}]}], "generationConfig": config})
}

fn input(members: Value) -> Value {
    with(
        json!({"model": RESPONSES, "input": "Hi there", "store": false}),
        members,
    )
}

fn prompt(members: Value) -> Value {
    with(json!({"model": TEXTS, "prompt": "Hi there"}), members)
}

/// Finds the output cap in a body that an upstream received.
fn cap_of(sent: &Value) -> Option<i64> {
    let names = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let found = names.iter().find_map(|name| sent[name].as_i64());
    let config = &sent["generationConfig"];
    let of_config = || {
        config["maxOutputTokens"]
            .as_i64()
            .or(config["max_output_tokens"].as_i64())
    };
    found.or_else(of_config)
}

#[tokio::test]
async fn a_larger_cap_of_the_caller_is_lowered() {
    let scene = scene(Storage::Sqlite, "").await;
    let generate = format!("/v1/models/{CONTENT}:generateContent");
    let stream = format!("/v1/models/{CONTENT}:streamGenerateContent");
    let responses = "/v1/responses";
    // Path, request, effective cap, number of answers. The cap is 4,096 if the request has none.
    let cases: Vec<(&str, Value, i64, i64)> = vec![
        (CHAT, chat(PLAIN, json!({})), 4_096, 1),
        (CHAT, chat(PLAIN, json!({"max_tokens": 500})), 500, 1),
        (CHAT, chat(PLAIN, json!({"max_tokens": 20})), 20, 1),
        (
            CHAT,
            chat(PLAIN, json!({"max_completion_tokens": 500, "stream": true})),
            500,
            1,
        ),
        (
            CHAT,
            chat(PLAIN, json!({"max_completion_tokens": 500, "n": 3})),
            500,
            3,
        ),
        (CHAT, chat(PLAIN, json!({"n": 2})), 4_096, 2),
        ("/v1/completions", prompt(json!({"max_tokens": 500})), 500, 1),
        ("/v1/completions", prompt(json!({"max_tokens": 20})), 20, 1),
        (
            "/v1/completions",
            prompt(json!({"max_tokens": 500, "n": 2, "stream": true})),
            500,
            2,
        ),
        ("/v1/messages", chat(MESSAGES, json!({"max_tokens": 500})), 500, 1),
        ("/v1/messages", chat(MESSAGES, json!({"max_tokens": 20})), 20, 1),
        (
            "/v1/messages",
            chat(MESSAGES, json!({"max_tokens": 500, "stream": true})),
            500,
            1,
        ),
        (responses, input(json!({})), 4_096, 1),
        (responses, input(json!({"max_output_tokens": 500})), 500, 1),
        (
            responses,
            input(json!({"max_output_tokens": 20, "stream": true})),
            20,
            1,
        ),
        (&generate, contents(json!({})), 4_096, 1),
        (
            &generate,
            contents(json!({"maxOutputTokens": 500, "topP": 0.5})),
            500,
            1,
        ),
        (&generate, contents(json!({"maxOutputTokens": 20})), 20, 1),
        (&stream, contents(json!({"max_output_tokens": 500})), 500, 1),
        // These requests are converted through the common format.
        (CHAT, chat(MESSAGES, json!({"max_tokens": 500})), 500, 1),
        (CHAT, chat(MESSAGES, json!({})), 4_096, 1),
        (CHAT, chat(RESPONSES, json!({"max_tokens": 500})), 500, 1),
        (
            CHAT,
            chat(CONTENT, json!({"max_tokens": 500, "stream": true})),
            500,
            1,
        ),
        ("/v1/messages", chat(PLAIN, json!({"max_tokens": 500})), 500, 1),
        (
            responses,
            with(input(json!({})), json!({"model": PLAIN})),
            4_096,
            1,
        ),
        (
            "/v1/completions",
            with(prompt(json!({"max_tokens": 500})), json!({"model": PLAIN})),
            500,
            1,
        ),
    ];
    for (path, body, cap, n) in cases {
        let what = format!("{path} {body}");
        let input = input_of(&scene, path, &body, cap * n).await;
        for (allowed, expected) in [(16, 16), (19, cap.min(19)), (cap, cap), (cap + 1, cap)] {
            let limit = input + allowed * n * PRICE;
            let response = send(&scene, path, &body, limit).await;
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            let sent = last_sent(&scene);
            // The gateway may omit a cap that equals the model's maximum.
            let sent_cap = cap_of(&sent).unwrap_or(4_096);
            assert_eq!(sent_cap, expected, "{what}: {sent}");
            let row = scene.row(response.request_id()).await;
            assert!(nanos(&row["cost"]) <= limit, "{row}");
        }
        let refused = send(&scene, path, &body, input + 16 * n * PRICE - 1).await;
        assert_eq!(refused.status, 422, "{what}: {}", refused.text());
        assert!(refused.text().contains("x-max-cost"), "{}", refused.text());
    }
    scene.finish().await;
}

/// The shortest answer includes the reasoning budget, because the provider would refuse a smaller
/// cap.
#[tokio::test]
async fn the_shortest_answer_includes_the_reasoning_budget() {
    let scene = scene(Storage::Sqlite, "").await;
    let thinking = json!({"max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 1_500}});
    let body = chat(MESSAGES, thinking);
    let input = input_of(&scene, "/v1/messages", &body, 2_000).await;
    let served = send(&scene, "/v1/messages", &body, input + 1_501 * PRICE).await;
    assert_eq!(served.status, 200, "{}", served.text());
    assert_eq!(last_sent(&scene)["max_tokens"], 1_501);
    let refused = send(&scene, "/v1/messages", &body, input + 1_501 * PRICE - 1).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    scene.finish().await;
}
