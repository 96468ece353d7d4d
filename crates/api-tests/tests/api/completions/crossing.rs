//! Providers with chat only, and the simulator: the prompt becomes one user message.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{Answer, Reply, Usage};

use super::{NATIVE, continuing, scene, send, text_of};
use crate::scene::{Classes, MODEL, PRICES, assert_error};

#[tokio::test]
async fn the_prompt_becomes_a_user_message() {
    let scene = scene().await;
    for stream in [false, true] {
        let what = format!("stream {stream}");
        let answer = Answer::deltas(["Once upon", " a time"])
            .reasoning(2)
            .usage(Usage::Fixed {
                prompt: 11,
                completion: 4,
            });
        scene.upstream.push(Reply::answer(answer));
        let members = json!({
            "prompt": ["Once upon"], "stream": stream, "n": 1, "temperature": 0.5, "stop": "END", "best_of": 1,
            "logit_bias": {"7": 1}, "echo": false,
        });
        let response = send(&scene, &continuing(MODEL, members)).await;
        assert_eq!(text_of(&what, &response, MODEL), "Once upon a time");
        let received = scene.upstream.requests().pop().unwrap();
        assert_eq!(received.path, "/v1/chat/completions", "{what}");
        let sent: Value = serde_json::from_slice(&received.body).unwrap();
        assert_eq!(
            sent["messages"],
            json!([{"role": "user", "content": "Once upon"}]),
            "{what}"
        );
        assert_eq!(sent["max_tokens"], 16, "{what}: {sent}");
        assert_eq!(
            (&sent["stop"], &sent["logit_bias"]),
            (&json!("END"), &json!({"7": 1}))
        );
        assert!(sent.get("prompt").is_none() && sent.get("best_of").is_none() && sent.get("echo").is_none());
        let row = scene.row(response.request_id()).await;
        let expected = Classes {
            input: 11,
            output: 2,
            reasoning: 2,
            ..Classes::default()
        };
        assert_eq!(Classes::of_row(&row), expected, "{what}: {row}");
        assert_eq!(
            tollgate_testkit::gateway::nanos(&row["cost"]),
            expected.at(PRICES),
            "{what}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn completion_only_parameters_are_refused_by_name() {
    let scene = scene().await;
    for model in [MODEL, "sim/chat"] {
        for (members, param) in [
            (json!({"prompt": ["a", "b"]}), "prompt"),
            (json!({"prompt": [1, 2]}), "prompt"),
            (json!({"prompt": [[1], [2]]}), "prompt"),
            (json!({"suffix": "x"}), "suffix"),
            (json!({"best_of": 2}), "best_of"),
            (json!({"echo": true}), "echo"),
            (json!({"logprobs": 1}), "logprobs"),
        ] {
            let response = send(&scene, &continuing(model, members.clone())).await;
            assert_error(
                &format!("{model} {members}"),
                &response,
                "unsupported_parameter",
                Some(param),
            );
        }
    }
    // A provider with the endpoint may not support all of its parameters.
    for (members, param) in [
        (json!({"suffix": "x"}), "suffix"),
        (json!({"best_of": 2}), "best_of"),
    ] {
        let response = send(&scene, &continuing(NATIVE, members)).await;
        assert_error(param, &response, "unsupported_parameter", Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn requests_go_to_a_candidate_that_supports_them() {
    let scene = scene().await;
    for (members, path) in [
        (json!({}), "/v1/chat/completions"),
        (json!({"echo": true}), "/v1/completions"),
        (json!({"prompt": [1, 2]}), "/v1/completions"),
    ] {
        let response = send(&scene, &continuing("acme/either", members.clone())).await;
        assert_eq!(response.status, 200, "{members}: {}", response.text());
        assert_eq!(scene.upstream.requests().pop().unwrap().path, path, "{members}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn structured_output_uses_the_chat_endpoint() {
    let scene = scene().await;
    let body = |model: &str| {
        let format = json!({"type": "json_object"});
        continuing(model, json!({"response_format": format, "max_tokens": 200}))
    };
    let response = send(&scene, &body("acme/either")).await;
    assert_error(
        "none",
        &response,
        "unsupported_parameter",
        Some("response_format"),
    );
    scene.nothing_happened().await;
    for model in [NATIVE, MODEL, "sim/chat"] {
        let response = send(&scene, &body(model)).await;
        let text = text_of(model, &response, model);
        assert!(
            serde_json::from_str::<Value>(&text).unwrap().is_object(),
            "{model}: {text}"
        );
    }
    for request in scene.upstream.requests() {
        assert_eq!(request.path, "/v1/chat/completions");
        assert_eq!(
            request.json().unwrap()["response_format"],
            json!({"type": "json_object"})
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_simulator_follows_its_script() {
    let scene = scene().await;
    for stream in [false, true] {
        let body = |prompt: &str| {
            continuing(
                "sim/chat",
                json!({"prompt": prompt, "stream": stream, "max_tokens": 100}),
            )
        };
        let response = send(&scene, &body("Hello there")).await;
        assert!(text_of("echo", &response, "sim/chat").contains("Hello there"));
        for (code, param) in [("context_length_exceeded", None), ("rate_limit_exceeded", None)] {
            let response = send(&scene, &body(&format!("[[sim error={code}]]"))).await;
            assert_error(code, &response, code, param);
        }
        let response = send(&scene, &body("[[sim nonsense]]")).await;
        assert_error("script", &response, "invalid_parameter", Some("prompt"));
    }
    scene.finish().await;
}
