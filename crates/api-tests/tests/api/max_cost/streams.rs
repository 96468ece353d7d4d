//! Upstreams that ignore the output cap: the stream ends at the paid length, with the finish reason
//! for length.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;
use tollgate_testkit::gateway::{Storage, nanos};
use tollgate_testkit::upstream::{Answer, End, Reply};

use super::{CONTENT, MESSAGES, PRICE, RESPONSES, TEXTS, scene, send};
use crate::scene::{CHAT, PLAIN, flat_bound};

/// A streaming request, and a function that reads the finish reason of its response.
struct StreamRequest {
    path: String,
    body: Value,
    reason: fn(&Response) -> Value,
}

fn asked() -> Vec<StreamRequest> {
    let said = |model: &str| json!({"model": model, "messages": [{"role": "user", "content": "Hi there"}], "max_tokens": 900, "stream": true});
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "Hi there"}]}]});
    let input = |model: &str| json!({"model": model, "input": "Hi there", "store": false, "stream": true});
    let mut all = Vec::new();
    for model in [PLAIN, MESSAGES, RESPONSES, CONTENT] {
        let mut ask = |path: &str, body: Value, reason| {
            let path = path.to_owned();
            all.push(StreamRequest { path, body, reason });
        };
        ask(CHAT, said(model), chat_reason);
        ask("/v1/messages", said(model), messages_reason);
        ask("/v1/responses", input(model), responses_reason);
        let path = format!("/v1/models/{model}:streamGenerateContent?alt=sse");
        ask(&path, contents.clone(), content_reason);
    }
    let prompt = json!({"model": TEXTS, "prompt": "Hi there", "max_tokens": 900, "stream": true});
    all.push(StreamRequest {
        path: "/v1/completions".to_owned(),
        body: prompt,
        reason: chat_reason,
    });
    all
}

fn events(response: &Response) -> Vec<Value> {
    let text = response.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = data.filter(|data| *data != "[DONE]");
    chunks.map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn chat_reason(response: &Response) -> Value {
    assert!(
        response.text().ends_with("data: [DONE]\n\n"),
        "{}",
        response.text()
    );
    events(response).last().unwrap()["choices"][0]["finish_reason"].clone()
}

fn messages_reason(response: &Response) -> Value {
    let events = events(response);
    let [.., delta, stop] = &*events else {
        panic!("{events:?}")
    };
    assert_eq!(stop["type"], "message_stop");
    delta["delta"]["stop_reason"].clone()
}

fn responses_reason(response: &Response) -> Value {
    let last = events(response).pop().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    last["response"]["incomplete_details"]["reason"].clone()
}

fn content_reason(response: &Response) -> Value {
    events(response).pop().unwrap()["candidates"][0]["finishReason"].clone()
}

#[tokio::test]
async fn an_endless_stream_ends_at_the_paid_length() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage, "").await;
        for (number, asked) in asked().into_iter().enumerate() {
            let what = format!("{} {}", asked.path, asked.body["model"]);
            let limit = (300 + 40) * PRICE;
            scene.upstream.push(Reply::answer(Answer::words(3)).endless());
            let response = send(&scene, &asked.path, &asked.body, limit).await;
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            assert!(response.whole, "{what}: {}", response.text());
            let lengths = ["length", "max_tokens", "max_output_tokens", "MAX_TOKENS"];
            let reason = (asked.reason)(&response);
            assert!(lengths.iter().any(|length| reason == *length), "{what}: {reason}");
            let row = scene.row(response.request_id()).await;
            let cost = nanos(&row["cost"]);
            assert!(cost > 0 && cost <= limit, "{what}: {row}");
            assert_eq!(row["outcome"], "ok", "{what}: {row}");
            assert_eq!(row["estimated"], true, "{what}: {row}");
            // The gateway closes the upstream connection.
            let hung_up = |place: usize| {
                move |upstream: &tollgate_testkit::upstream::FakeUpstream| {
                    upstream
                        .served()
                        .get(place)
                        .is_some_and(|served| served.end == End::ClientGone)
                }
            };
            scene
                .upstream
                .wait_until("the upstream connection is closed", hung_up(number))
                .await;
        }
        assert_eq!(scene.settled().await.held, 0);
        scene.finish().await;
    }
}

/// Each of several answers has a finish reason.
#[tokio::test]
async fn several_answers_end_together() {
    let scene = scene(Storage::Sqlite, "").await;
    let body = json!({
        "model": PLAIN, "messages": [{"role": "user", "content": "Hi there"}], "n": 2, "stream": true,
        "stream_options": {"include_usage": true}
    });
    scene.upstream.push(Reply::answer(Answer::words(200)));
    let limit = flat_bound(&body, PRICE, 2 * 16);
    let response = send(&scene, CHAT, &body, limit).await;
    let events = events(&response);
    let (report, chunks) = events.split_last().unwrap();
    for choice in 0..2 {
        let of_choice = chunks
            .iter()
            .flat_map(|event| event["choices"].as_array().unwrap());
        let mut of_choice = of_choice.filter(|one| one["index"] == choice);
        let last = of_choice.next_back().unwrap();
        assert_eq!(last["finish_reason"], "length", "{}", response.text());
        assert!(of_choice.all(|one| one["finish_reason"].is_null()));
    }
    let cost = nanos(&report["usage"]["cost"]);
    assert!(cost > 0 && cost <= limit, "{report}");
    let row = scene.row(response.request_id()).await;
    assert_eq!(nanos(&row["cost"]), cost);
    scene.finish().await;
}

/// The answer of an upstream that obeys the cap is never cut off, not even at its last token.
#[tokio::test]
async fn an_answer_within_its_cap_is_complete() {
    let scene = scene(Storage::Sqlite, "").await;
    for asked in asked() {
        let what = format!("{} {}", asked.path, asked.body["model"]);
        let words = 30;
        scene
            .upstream
            .push(Reply::answer(Answer::words(words).finish_reason("length")));
        let quote = json!({"endpoint": asked.path.trim_end_matches("?alt=sse"), "request": asked.body});
        let quote = scene
            .client()
            .post_json("/v1/quote", &scene.key.secret, &quote)
            .await
            .json();
        let cap = quote["output_cap"].as_i64().unwrap_or_else(|| panic!("{quote}"));
        let limit = nanos(&quote["most"]) - (cap - 30) * PRICE;
        let response = send(&scene, &asked.path, &asked.body, limit).await;
        assert_eq!(response.status, 200, "{what}: {}", response.text());
        assert!(response.text().contains("w30"), "{what}: {}", response.text());
        let row = scene.row(response.request_id()).await;
        assert_eq!(row["estimated"], false, "{what}: {row}");
        assert!(nanos(&row["cost"]) <= limit, "{what}: {row}");
    }
    scene.finish().await;
}
