//! Providers with the endpoint: requests are forwarded and responses are relayed.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Balance, Storage, nanos};
use tollgate_testkit::upstream::{Answer, At, How, Reply, Usage};

use super::{COMPLETIONS, NATIVE, continuing, scene, scene_on, send, text_of};
use crate::scene::{Classes, GRANTED, PRICES, assert_error, credits};

#[tokio::test]
async fn requests_are_forwarded_with_the_default_cap() {
    let scene = scene().await;
    let body = json!({
        "prompt": [[1, 2, 3], [4]], "n": 2, "echo": true, "logprobs": 2, "logit_bias": {"7": -3}, "stop": ["x"],
        "min_p": 0.1, "store": true, "user": "u",
    });
    let response = send(&scene, &continuing(NATIVE, body.clone())).await;
    assert_eq!(response.status, 200, "{}", response.text());
    // The upstream's response has no probabilities, so `logprobs` is reported as ignored.
    assert_eq!(response.header("x-tollgate-ignored"), Some("store,logprobs"));
    assert_eq!(
        response.json()["choices"].as_array().unwrap().len(),
        4,
        "two for each prompt"
    );
    let received = scene.upstream.requests().remove(0);
    assert_eq!(received.path, "/v1/completions");
    let mut expected = body;
    expected["model"] = json!("texts-v1");
    expected["max_tokens"] = json!(16);
    expected.as_object_mut().unwrap().remove("store");
    let forwarded: Value = serde_json::from_slice(&received.body).unwrap();
    assert_eq!(forwarded, expected);
    scene.finish().await;
}

#[tokio::test]
async fn every_token_class_is_charged_and_reported_consistently() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage).await;
        let mut paid = 0;
        for (stream, asked) in [(false, false), (true, true), (true, false)] {
            let what = format!("stream {stream} asked {asked}");
            let answer = Answer::words(3).cached_tokens(4).usage(Usage::Fixed {
                prompt: 14,
                completion: 3,
            });
            scene.upstream.push(Reply::answer(answer));
            let mut members = json!({"stream": stream});
            if asked {
                members["stream_options"] = json!({"include_usage": true});
            }
            let response = send(&scene, &continuing(NATIVE, members)).await;
            assert!(!text_of(&what, &response, NATIVE).is_empty());
            let expected = Classes {
                input: 10,
                cache_read: 4,
                output: 3,
                ..Classes::default()
            };
            let cost = expected.at(PRICES);
            paid += cost;
            let row = scene.row(response.request_id()).await;
            assert_eq!(Classes::of_row(&row), expected, "{what}: {row}");
            assert_eq!(
                (nanos(&row["cost"]), &row["endpoint"]),
                (cost, &json!(COMPLETIONS)),
                "{what}"
            );
            let reported = match stream {
                false => Some(response.json()["usage"]["cost"].clone()),
                true => response
                    .events()
                    .iter()
                    .filter(|event| !event.is_done())
                    .map(|event| event.json()["usage"]["cost"].clone())
                    .find(|cost| !cost.is_null()),
            };
            assert_eq!(
                reported.map(|cost| nanos(&cost)),
                (!stream || asked).then_some(cost),
                "{what}"
            );
            let balance = Balance {
                credits: GRANTED - paid,
                held: 0,
            };
            assert_eq!(scene.settled().await, balance, "{what}");
        }
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue, check.overrun), (3, paid, 0));
    }
}

/// Prompts and answers multiply the hold. A balance that is one nano-credit short is refused.
#[tokio::test]
async fn the_hold_covers_every_answer_to_every_prompt() {
    let cases = [
        // Members, number of prompts, tokens, bytes of the token lists, and number of answers for
        // which output is held.
        (json!({}), 1, 0, 0, 1),
        (json!({"n": 3}), 1, 0, 0, 3),
        (json!({"prompt": ["a", "bc"], "n": 2}), 2, 0, 0, 4),
        (json!({"prompt": [1, 22, 333]}), 1, 3, "[1,22,333]".len(), 1),
        (
            json!({"prompt": [[1, 2], [3]], "max_tokens": 5}),
            2,
            3,
            "[[1,2],[3]]".len(),
            2,
        ),
        (json!({"max_tokens": 0, "echo": true}), 1, 0, 0, 1),
    ];
    for (members, prompts, tokens, token_bytes, answers) in cases {
        let scene = scene().await;
        let body = continuing(NATIVE, members.clone());
        let cap = body["max_tokens"].as_i64().unwrap_or(16);
        let text = i64::try_from(body.to_string().len() - token_bytes).unwrap();
        let bound = (text + tokens + 8 * prompts) * 1_500 + cap * answers * 3_000;
        for (missing, status) in [(1, 402), (0, 200)] {
            let account = scene.gateway.account().await;
            let key = scene.gateway.key(&account).await;
            scene.gateway.grant(&account, &credits(bound - missing)).await;
            let response = scene.client().post_json(COMPLETIONS, &key.secret, &body).await;
            assert_eq!(response.status, status, "{members}: {}", response.text());
        }
        assert_eq!(scene.upstream.request_count(), 1, "{members}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn upstream_faults_cost_nothing_and_are_reported() {
    let cases: Vec<(Reply, &str)> = vec![
        (Reply::html(200), "upstream_error"),
        (Reply::html(502), "upstream_error"),
        (Reply::reset(), "upstream_error"),
        (
            Reply::error(500, "server_error", "The server had an error"),
            "upstream_error",
        ),
        (
            Reply::error(429, "rate_limit_exceeded", "slow down"),
            "model_unavailable",
        ),
        (
            Reply::error(400, "context_length_exceeded", "too long"),
            "context_length_exceeded",
        ),
        (
            Reply::body(200, "application/json", "{\"choices\":[]}"),
            "upstream_error",
        ),
        (Reply::body(200, "application/json", "{\"choi"), "upstream_error"),
    ];
    for stream in [false, true] {
        for (reply, code) in &cases {
            let scene = scene().await;
            scene.upstream.set_default(reply.clone());
            let response = send(&scene, &continuing(NATIVE, json!({"stream": stream}))).await;
            let param = (*code == "context_length_exceeded").then_some("prompt");
            assert_error(&format!("{reply:?} stream {stream}"), &response, code, param);
            assert_eq!(scene.settled().await.credits, GRANTED);
            scene.finish().await;
        }
    }
}

#[tokio::test]
async fn a_broken_stream_ends_with_an_error() {
    let scene = scene().await;
    let broken = [
        Reply::words(5).cut(At::Events(3), How::Close),
        Reply::words(5).error_after(3, "server_error", "The server had an error"),
        Reply::words(5).cut(At::Events(3), How::Reset),
    ];
    for reply in broken {
        let what = format!("{reply:?}");
        scene.upstream.push(reply);
        let response = send(&scene, &continuing(NATIVE, json!({"stream": true}))).await;
        let events = response.events();
        let last = events.last().unwrap();
        assert!(!last.is_done() && events.len() > 1, "{what}");
        assert_eq!(last.json()["error"]["code"], "upstream_error", "{what}");
        assert_eq!(scene.settled().await.credits, GRANTED, "{what}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_stream_may_omit_done_after_the_last_finish_reason() {
    let scene = scene().await;
    scene.upstream.push(Reply::words(2).without_done());
    let response = send(
        &scene,
        &continuing(NATIVE, json!({"stream": true, "prompt": ["a", "b"]})),
    )
    .await;
    assert!(!text_of("no end", &response, NATIVE).is_empty());
    scene.finish().await;
}
