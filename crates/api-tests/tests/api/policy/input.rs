//! Input rules in every request format.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;

use super::{EMBEDDINGS, MESSAGES, NATIVE, RULES, VECTORS, message, post, scene};
use crate::scene::{CHAT, MODEL, assert_error, assert_hides_provider, hello, with};

/// Returns paths and bodies with the text in every place that a policy checks.
fn requests(text: &str) -> Vec<(&'static str, Value)> {
    let said = |messages: Value| json!({"model": MODEL, "messages": messages});
    let user = json!({"role": "user", "content": "Hi"});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": json!({"x": text}).to_string()}}]});
    let tool = json!({"type": "function", "function": {"name": "f", "description": text}});
    let chats = [
        said(json!([{"role": "user", "content": text}])),
        said(json!([{"role": "system", "content": text}, user])),
        said(
            json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": text}]}]),
        ),
        said(json!([user, call, {"role": "tool", "tool_call_id": "a", "content": "1"}])),
        said(
            json!([user, {"role": "assistant", "content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": text}]),
        ),
        with(
            said(json!([{"role": "user", "content": text}])),
            json!({"stream": true}),
        ),
        with(
            said(json!([{"role": "user", "content": text}])),
            json!({"model": "sim/chat"}),
        ),
        with(said(json!([user])), json!({"tools": [tool]})),
    ];
    let messages = [
        message(MODEL, text, json!({})),
        message(NATIVE, text, json!({"stream": true})),
        message(NATIVE, "Hi", json!({"system": [{"type": "text", "text": text}]})),
    ];
    let embeddings = [
        json!({"model": VECTORS, "input": text}),
        json!({"model": VECTORS, "input": ["a", text]}),
    ];
    let of = |path: &'static str| move |body: Value| (path, body);
    let all = chats.into_iter().map(of(CHAT));
    let all = all.chain(messages.into_iter().map(of(MESSAGES)));
    all.chain(embeddings.into_iter().map(of(EMBEDDINGS))).collect()
}

fn assert_blocked(what: &str, path: &str, response: &Response) {
    if path == MESSAGES {
        let error = response.message_error();
        assert_eq!(
            (response.status, error.code.as_str(), error.kind.as_str()),
            (400, "content_policy_violation", "invalid_request_error"),
            "{what}"
        );
        assert_hides_provider(what, &error.message);
    } else {
        assert_error(what, response, "content_policy_violation", None);
    }
    for hidden in ["thermite", "going-in", "key-123456", "secrets"] {
        assert!(!response.text().contains(hidden), "{what}: {}", response.text());
    }
}

#[tokio::test]
async fn input_that_a_rule_matches_is_refused_without_side_effects() {
    let scene = scene(RULES).await;
    for text in ["about Thermite, please", "two  WORDS", "key-123456"] {
        for (path, body) in requests(text) {
            let response = post(&scene, path, &body).await;
            assert_blocked(&format!("{path} {body}"), path, &response);
            assert_eq!(response.header("x-tollgate-cost"), None);
        }
    }
    scene.nothing_happened().await;
    let log = scene.gateway.log();
    assert!(log.contains("going-in"), "the log names the rule: {log}");
    assert!(!log.contains("about Thermite"), "and not the text: {log}");
    scene.finish().await;
}

#[tokio::test]
async fn input_that_no_rule_matches_is_served() {
    let scene = scene(RULES).await;
    for text in ["hypothermitely", "two, words", "key-1234567", "forbidden"] {
        for (path, body) in requests(text) {
            let response = post(&scene, path, &body).await;
            assert_eq!(response.status, 200, "{path} {body}: {}", response.text());
        }
    }
    let tokens = json!({"model": VECTORS, "input": [1, 2, 3]});
    let response = post(&scene, EMBEDDINGS, &tokens).await;
    assert_error(
        "tokens are no text",
        &response,
        "unsupported_parameter",
        Some("input"),
    );
    let sent = scene.upstream.requests();
    let first = sent[0].json().unwrap();
    assert_eq!(
        first["messages"],
        json!([{"role": "user", "content": "hypothermitely"}])
    );
    scene.settled().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_policy_follows_the_settings() {
    let mut scene = scene("").await;
    let body = hello(json!({"messages": [{"role": "user", "content": "about thermite"}]}));
    assert_eq!(scene.chat(&body).await.status, 200);
    let file = scene.gateway.folder().join("words.txt");
    std::fs::write(&file, "# a list\nother\n\nThermite\n").unwrap();
    let rule = format!("\n[policy.rules.listed]\nwords_file = \"{}\"\n", file.display());
    scene
        .gateway
        .change_config(&(crate::scene::settings(&scene.upstream) + &rule));
    scene.gateway.wait_for_log("settings reloaded", 0).await;
    assert_error(
        "listed",
        &scene.chat(&body).await,
        "content_policy_violation",
        None,
    );
    // Invalid rules leave the previous rules in effect.
    let broken = "\n[policy.rules.listed]\npatterns = [\"(\"]\n";
    scene
        .gateway
        .change_config(&(crate::scene::settings(&scene.upstream) + broken));
    scene.gateway.wait_for_log("policy.rules.listed", 0).await;
    assert_error(
        "listed",
        &scene.chat(&body).await,
        "content_policy_violation",
        None,
    );
    scene
        .gateway
        .change_config(&crate::scene::settings(&scene.upstream));
    scene.gateway.wait_for_log("settings reloaded", 1).await;
    assert_eq!(scene.chat(&body).await.status, 200);
    scene.finish().await;
}
