//! Completion requests that are refused before the upstream is called, with the parameter at fault.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{BOTH, COMPLETIONS, NATIVE, continuing, scene, send};
use crate::scene::assert_error;

#[tokio::test]
async fn every_invalid_field_has_its_code_and_parameter() {
    let scene = scene().await;
    let invalid = "invalid_parameter";
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!({"model": ""}), invalid, "model"),
        (json!({"model": "acme/none"}), "model_not_found", "model"),
        (
            json!({"model": "sim/embeddings"}),
            "unsupported_endpoint",
            "model",
        ),
        (json!({"prompt": null}), invalid, "prompt"),
        (json!({"prompt": [""]}), invalid, "prompt[0]"),
        (json!({"prompt": ["a", [1]]}), invalid, "prompt[1]"),
        (json!({"max_tokens": -1}), invalid, "max_tokens"),
        (
            json!({"max_tokens": 4_097}),
            "parameter_out_of_range",
            "max_tokens",
        ),
        (json!({"n": 129}), invalid, "n"),
        (json!({"n": 2, "best_of": 1}), invalid, "best_of"),
        (json!({"best_of": 21}), invalid, "best_of"),
        (json!({"best_of": 2, "stream": true}), invalid, "best_of"),
        (json!({"logprobs": 6}), invalid, "logprobs"),
        (json!({"temperature": 2.5}), invalid, "temperature"),
        (json!({"stop": ["1", "2", "3", "4", "5"]}), invalid, "stop"),
        (json!({"stream_options": {}}), invalid, "stream_options"),
        (json!({"messages": []}), "unknown_parameter", "messages"),
        (json!({"tools": []}), "unknown_parameter", "tools"),
    ];
    for model in BOTH {
        for (members, code, param) in &cases {
            let response = send(&scene, &continuing(model, members.clone())).await;
            assert_error(&format!("{model} {members}"), &response, code, Some(param));
        }
        let without = json!({"model": model});
        let response = send(&scene, &without).await;
        assert_error(
            "no prompt",
            &response,
            "missing_required_parameter",
            Some("prompt"),
        );
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn common_request_checks_apply() {
    let scene = scene().await;
    let secret = &scene.key.secret;
    let client = scene.client();
    let body = continuing(NATIVE, json!({}));
    let response = client.send(&Request::json(COMPLETIONS, &body)).await;
    assert_error("no key", &response, "missing_api_key", None);
    let response = client
        .send(&Request::json(COMPLETIONS, &body).key("sk-service-none"))
        .await;
    assert_error("bad key", &response, "invalid_api_key", None);
    let response = client.get(COMPLETIONS, secret).await;
    assert_error("GET", &response, "method_not_allowed", None);
    assert_eq!(response.header("allow"), Some("POST"));
    let post = |text: &str| Request::post(COMPLETIONS, text).key(secret);
    let json = "application/json";
    let response = client.send(&post("{").header("content-type", json)).await;
    assert_error("half", &response, "invalid_json", None);
    let response = client
        .send(&post("{}").header("content-type", "text/plain"))
        .await;
    assert_error("type", &response, "unsupported_media_type", None);
    let long = continuing(NATIVE, json!({"prompt": "x".repeat(8 << 20)}));
    let response = send(&scene, &long).await;
    assert_error("size", &response, "request_too_large", None);
    scene.nothing_happened().await;
    scene.finish().await;
}
