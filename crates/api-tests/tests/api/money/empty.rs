//! Calls that complete without output: their input is charged and counted like that of other calls.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, Reply, Usage, UsagePosition};

use crate::scene::{CHAT, Classes, GRANTED, MODEL, PRICES, Scene, saying, with};

/// Input tokens that the upstream reports.
const REPORTED: u64 = 100_000;

/// Returns a prompt that is long enough for its hold to cover the report.
fn long_prompt() -> String {
    "word ".repeat(30_000)
}

async fn send(scene: &Scene, path: &str, body: &Value) -> Response {
    let request = Request::json(path, body).key(&scene.key.secret);
    scene.client().send(&request).await
}

#[tokio::test]
async fn a_report_without_output_is_charged() {
    let scene = Scene::start().await;
    let messages = json!([{"role": "user", "content": [
        {"type": "text", "text": long_prompt(), "cache_control": {"type": "ephemeral"}}
    ]}]);
    let generate = json!({"contents": [{"parts": [{"text": long_prompt()}]}]});
    let cases = [
        (CHAT.to_owned(), saying(&long_prompt(), false)),
        (CHAT.to_owned(), saying(&long_prompt(), true)),
        (
            "/v1/messages".to_owned(),
            json!({"model": MODEL, "max_tokens": 5, "messages": messages}),
        ),
        (
            "/v1/messages".to_owned(),
            json!({"model": MODEL, "max_tokens": 5, "stream": true, "messages": messages}),
        ),
        (format!("/v1/models/{MODEL}:generateContent"), generate.clone()),
        (
            format!("/v1/models/{MODEL}:streamGenerateContent?alt=sse"),
            generate,
        ),
        (
            "/v1/responses".to_owned(),
            json!({"model": MODEL, "input": long_prompt()}),
        ),
    ];
    let expected = Classes {
        input: 60_000,
        cache_read: 40_000,
        ..Classes::default()
    };
    let mut paid = 0;
    for (path, body) in cases {
        let empty = Answer::deltas::<&str>([])
            .usage(Usage::Fixed {
                prompt: REPORTED,
                completion: 0,
            })
            .cached_tokens(40_000)
            .usage_position(UsagePosition::Always);
        scene.upstream.push(Reply::answer(empty));
        let response = send(&scene, &path, &body).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        paid += expected.at(PRICES);
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), expected, "{path}: {row}");
        assert_eq!(
            (nanos(&row["cost"]), &row["outcome"], &row["estimated"]),
            (expected.at(PRICES), &json!("ok"), &json!(false)),
            "{path}"
        );
        assert_eq!(scene.settled().await.credits, GRANTED - paid, "{path}");
    }
    assert_eq!(scene.finish().await.revenue, paid);
}

#[tokio::test]
async fn without_a_report_the_input_is_estimated() {
    let scene = Scene::start().await;
    for stream in [false, true] {
        let silent = Answer::deltas::<&str>([]).usage(Usage::Missing);
        scene.upstream.push(Reply::answer(silent));
        let body = saying(&long_prompt(), stream);
        let response = scene.chat(&body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let row = scene.row(response.request_id()).await;
        let expected = Classes {
            input: i64::try_from(body.to_string().len().div_ceil(4)).unwrap(),
            ..Classes::default()
        };
        assert_eq!(Classes::of_row(&row), expected, "{row}");
        assert_eq!(row["estimated"], true, "{row}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn input_without_output_counts_in_tokens_per_minute() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 100, 250_000).await;
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let empty = Answer::deltas::<&str>([]).usage(Usage::Fixed {
            prompt: REPORTED,
            completion: 0,
        });
        scene.upstream.push(Reply::answer(empty));
        let body = with(saying(&long_prompt(), false), json!({"max_tokens": 10}));
        statuses.push(scene.chat(&body).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    scene.finish().await;
}

#[tokio::test]
async fn the_simulator_charges_its_input_for_any_answer_length() {
    const SIM: &str = "sim/chat";
    let scene = Scene::start().await;
    let messages = json!([{"role": "user", "content": "hello there, old friend"}]);
    let generate = json!({
        "contents": [{"parts": [{"text": "hello there, old friend"}]}],
        "generationConfig": {"stopSequences": ["h"]},
    });
    let usage_asked = json!({"include_usage": true});
    // The path, the body, and the place of the input tokens in a whole response.
    let cases = [
        (
            CHAT.to_owned(),
            json!({"model": SIM, "messages": messages, "stop": ["h"]}),
            Some("/usage/prompt_tokens"),
        ),
        (
            CHAT.to_owned(),
            json!({"model": SIM, "messages": messages, "stop": ["h"], "stream": true, "stream_options": usage_asked}),
            None,
        ),
        (
            "/v1/messages".to_owned(),
            json!({"model": SIM, "messages": messages, "max_tokens": 9, "stop_sequences": ["h"]}),
            Some("/usage/input_tokens"),
        ),
        (
            "/v1/messages".to_owned(),
            json!({"model": SIM, "messages": messages, "max_tokens": 9, "stop_sequences": ["h"], "stream": true}),
            None,
        ),
        (
            "/v1/messages".to_owned(),
            json!({"model": SIM, "messages": messages, "max_tokens": 0}),
            Some("/usage/input_tokens"),
        ),
        (
            format!("/v1/models/{SIM}:generateContent"),
            generate.clone(),
            Some("/usageMetadata/promptTokenCount"),
        ),
        (
            format!("/v1/models/{SIM}:streamGenerateContent?alt=sse"),
            generate,
            None,
        ),
        (
            "/v1/completions".to_owned(),
            json!({"model": SIM, "prompt": "hello there, old friend", "stop": "h"}),
            Some("/usage/prompt_tokens"),
        ),
    ];
    for (path, body, place) in cases {
        let response = send(&scene, &path, &body).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        let row = scene.row(response.request_id()).await;
        let classes = Classes::of_row(&row);
        assert!(classes.input > 0 && classes.output == 0, "{path} {body}: {row}");
        assert!(nanos(&row["cost"]) > 0, "{path} {body}: {row}");
        if let Some(place) = place {
            let answer = response.json();
            assert_eq!(
                answer.pointer(place),
                Some(&json!(classes.input)),
                "{path}: {answer}"
            );
            assert_eq!(response.header("x-tollgate-cost"), row["cost"].as_str(), "{path}");
        }
    }
    scene.finish().await;
}
