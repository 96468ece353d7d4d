//! A policy with a classifier model.

use serde_json::json;
use tollgate_testkit::upstream::{Answer, Reply};

use super::{EMBEDDINGS, MESSAGES, VECTORS, chunks, message, message_stream_text, post, scene, stream_text};
use crate::scene::{MODEL, assert_error, hello};

fn policy(more: &str) -> String {
    format!(
        "\n[policy.classifier]\nurl = \"UPSTREAM/moderations\"\napi_key_env = \"PROVIDER_KEY\"\nmodel = \"judge-1\"\n{more}\n"
    )
}

fn saying(text: &str) -> serde_json::Value {
    hello(json!({"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": text}]}))
}

#[tokio::test]
async fn flagged_input_is_refused() {
    let scene = scene(&policy("apply = \"input\"")).await;
    let response = scene.chat(&saying("a violent plan")).await;
    assert_error("violent", &response, "content_policy_violation", None);
    let response = post(&scene, MESSAGES, &message(MODEL, "violent", json!({}))).await;
    assert_eq!(response.message_error().code, "content_policy_violation");
    let response = post(
        &scene,
        EMBEDDINGS,
        &json!({"model": VECTORS, "input": ["a", "violent"]}),
    )
    .await;
    assert_error("violent", &response, "content_policy_violation", None);
    let asked = scene.upstream.requests();
    assert!(
        asked.iter().all(|request| request.path.ends_with("/moderations")),
        "nothing else was sent"
    );
    let first = asked[0].json().unwrap();
    assert_eq!(
        first,
        json!({"model": "judge-1", "input": ["be kind", "a violent plan"]})
    );
    assert_eq!(scene.rows().await.len(), 0);
    assert_eq!(scene.chat(&saying("a quiet plan")).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn thresholds_decide_instead_of_its_flag() {
    for (thresholds, status) in [
        ("thresholds = { violence = 0.95 }", 200),
        ("thresholds = { violence = 0.9 }", 400),
        ("thresholds = { harassment = 0.02 }", 200),
        ("thresholds = { harassment = 0.01 }", 400),
    ] {
        let scene = scene(&policy(thresholds)).await;
        let response = scene.chat(&saying("a violent plan")).await;
        assert_eq!(response.status, status, "{thresholds}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_classifier_that_fails_is_fatal_or_not_as_configured() {
    let faults = || {
        [
            Reply::error(500, "server_error", "fake"),
            Reply::error(429, "rate_limit", "fake"),
            Reply::reset(),
            Reply::hang(),
            Reply::html(200),
            Reply::body(
                200,
                "application/json",
                json!({"id": "x", "results": []}).to_string(),
            ),
        ]
    };
    for (on_error, allows) in [("refuse", false), ("allow", true)] {
        let scene = scene(&policy(&format!(
            "on_error = \"{on_error}\"\ntimeout_ms = 300\napply = \"input\""
        )))
        .await;
        for fault in faults() {
            scene.upstream.push_for_moderations(fault);
            let response = scene.chat(&saying("a violent plan")).await;
            if allows {
                assert_eq!(response.status, 200, "{}", response.text());
            } else {
                assert_error("unchecked", &response, "overloaded", None);
                assert_eq!(response.header("retry-after"), Some("5"));
            }
        }
        assert_eq!(scene.rows().await.len(), if allows { faults().len() } else { 0 });
        scene.finish().await;
    }
}

#[tokio::test]
async fn answers_are_classified_too() {
    let scene = scene(&policy("apply = \"output\"")).await;
    let calm = "All is calm here and will be so. ".repeat(20);
    let text = format!("{calm}But then it gets violent. {calm}");
    scene.upstream.push(Reply::answer(Answer::text(&text)));
    let body = scene.chat(&saying("violent questions may be asked")).await.json();
    assert_eq!(body["choices"][0]["finish_reason"], "content_filter", "{body}");

    scene.upstream.push(Reply::answer(Answer::text(&text)));
    let response = scene.chat(&hello(json!({"stream": true}))).await;
    let (said, reason) = stream_text(&chunks(&response));
    assert_eq!(reason, "content_filter");
    assert!(text.starts_with(&said) && !said.is_empty(), "{said}");
    assert!(!said.contains("violent"), "{said}");

    scene.upstream.push(Reply::answer(Answer::text(&calm)));
    let response = post(&scene, MESSAGES, &message(MODEL, "Hi", json!({"stream": true}))).await;
    let (said, delta) = message_stream_text(&response);
    assert_eq!((said, &delta["stop_reason"]), (calm, &json!("end_turn")));
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_that_cannot_be_classified_is_withheld_by_default() {
    for (on_error, allows) in [("refuse", false), ("allow", true)] {
        let scene = scene(&policy(&format!("on_error = \"{on_error}\"\napply = \"output\""))).await;
        for stream in [false, true] {
            scene
                .upstream
                .push_for_moderations(Reply::error(500, "server_error", "fake"));
            scene.upstream.push(Reply::text("calm"));
            let response = scene.chat(&hello(json!({"stream": stream}))).await;
            let (said, reason) = match stream {
                true => stream_text(&chunks(&response)),
                false => {
                    let choice = response.json()["choices"][0].clone();
                    let text = choice["message"]["content"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned();
                    (text, choice["finish_reason"].as_str().unwrap().to_owned())
                }
            };
            let expected = if allows {
                ("calm", "stop")
            } else {
                ("", "content_filter")
            };
            assert_eq!((said.as_str(), reason.as_str()), expected);
            let row = scene.row(response.request_id()).await;
            assert_ne!(row["usage"]["output_tokens"], 0, "{row}");
        }
        scene.finish().await;
    }
}
