//! Responses name the parameters that were not sent to the provider.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_storage::NoFiles;

use crate::app::{MODELS, Scene};

/// Encrypted reasoning of another provider, in the gateway's wrapper.
const FOREIGN: &str = "gw1.0123456789abcdef.c2VhbA==";

fn messages(thinking: Value) -> Value {
    json!({"model": MODELS[1], "max_tokens": 100, "messages": [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "two"}]},
        {"role": "user", "content": "three"},
    ]})
}

fn responses(reasoning: Value) -> Value {
    json!({"model": MODELS[2], "max_output_tokens": 100, "input": [
        {"role": "user", "content": "one"}, reasoning, {"role": "assistant", "content": "two"},
        {"role": "user", "content": "three"},
    ]})
}

fn contents(thought: Value) -> Value {
    json!({"contents": [
        {"role": "user", "parts": [{"text": "one"}]},
        {"role": "model", "parts": [thought, {"text": "two"}]},
        {"role": "user", "parts": [{"text": "three"}]},
    ]})
}

#[tokio::test]
async fn reasoning_of_another_provider_of_the_same_format() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(1_000).await;
    let contents_path = format!("/v1beta/models/{}:generateContent", MODELS[3]);
    let thinking = |seal: &str| json!({"type": "thinking", "thinking": "hm", "signature": seal});
    let reasoning = |seal: &str| json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": seal});
    let thought =
        |seal: &str| json!({"text": "hm", "thought": true, "thoughtSignature": STANDARD.encode(seal)});
    let text = json!({"type": "text", "text": "hm"});
    let item = json!({"role": "assistant", "content": "hm"});
    for (path, body, ignored) in [
        (
            "/v1/messages",
            messages(thinking(FOREIGN)),
            Some("messages.content.thinking"),
        ),
        (
            "/v1/messages",
            messages(thinking("not through the gateway")),
            None,
        ),
        ("/v1/messages", messages(text), None),
        (
            "/v1/responses",
            responses(reasoning(FOREIGN)),
            Some("input.encrypted_content"),
        ),
        (
            "/v1/responses",
            responses(reasoning("not through the gateway")),
            None,
        ),
        ("/v1/responses", responses(item), None),
        (
            &contents_path,
            contents(thought(FOREIGN)),
            Some("contents.parts.thoughtSignature"),
        ),
        (&contents_path, contents(thought("not through the gateway")), None),
        (&contents_path, contents(json!({"text": "hm"})), None),
    ] {
        let answer = scene.post(&tenant, path, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.ignored.as_deref(), ignored, "{body}");
        let sent = scene.sent().unwrap().to_string();
        assert_eq!(sent.contains("\"hm\""), ignored.is_none(), "{sent}");
    }
}

#[tokio::test]
async fn the_end_user_is_named_as_it_was() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(1_000).await;
    for (name, model, ignored, reported) in [
        ("user", MODELS[3], Some("user"), None),
        ("safety_identifier", MODELS[3], Some("safety_identifier"), None),
        ("user", MODELS[1], None, Some("ada")),
        ("safety_identifier", MODELS[1], None, Some("ada")),
    ] {
        let body = json!({"model": model, "max_output_tokens": 100, "input": "hello", name: "ada"});
        let answer = scene.post(&tenant, "/v1/responses", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.ignored.as_deref(), ignored, "{name} to {model}");
        let sent = scene.sent().unwrap();
        assert_eq!(sent["metadata"]["user_id"].as_str(), reported);
    }
}

#[tokio::test]
async fn a_tier_of_completions_is_what_it_is_in_a_chat() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(1_000).await;
    let chat = |model: &str, tier: &str| json!({"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "x"}], "service_tier": tier});
    let prompt = |model: &str, tier: &str| json!({"model": model, "prompt": "x", "service_tier": tier});
    for (model, tier, status) in [
        (MODELS[1], "flex", 400),
        (MODELS[1], "default", 200),
        (MODELS[2], "flex", 400),
        (MODELS[2], "priority", 400),
        (MODELS[2], "auto", 200),
        (MODELS[1], "golden", 400),
    ] {
        // With every provider, another tier has another price, so both endpoints handle the tier in
        // the same way.
        let both = [
            scene
                .post(&tenant, "/v1/chat/completions", &chat(model, tier))
                .await,
            scene.post(&tenant, "/v1/completions", &prompt(model, tier)).await,
        ];
        for answer in both {
            assert_eq!(
                (answer.status, &answer.ignored),
                (status, &None),
                "{model} {tier}: {}",
                answer.text
            );
            if status == 400 {
                assert_eq!(answer.body["error"]["param"], "service_tier");
            } else if model == MODELS[2] {
                assert_eq!(scene.sent().unwrap()["service_tier"], tier);
            }
        }
    }
}
