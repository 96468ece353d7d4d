//! Invalid requests are refused without side effects, and the error names the parameter.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{MESSAGES, NATIVE, assert_refused, saying, scene, send};
use crate::scene::with;

fn user(block: Value) -> Value {
    json!({"messages": [{"role": "user", "content": [block]}]})
}

#[tokio::test]
async fn every_fault_has_its_code_and_parameter() {
    let scene = scene().await;
    let invalid = "invalid_parameter";
    let missing = "missing_required_parameter";
    let unsupported = "unsupported_parameter";
    let source = |source: Value| user(json!({"type": "image", "source": source}));
    let tools = json!([{"name": "f", "input_schema": {}}]);
    let cases: Vec<(Value, &str, &str)> = vec![
        (json!({"model": ""}), invalid, "model"),
        (json!({"model": "acme/none"}), "model_not_found", "model"),
        (json!({"max_tokens": null}), missing, "max_tokens"),
        (json!({"max_tokens": -1}), invalid, "max_tokens"),
        (
            json!({"max_tokens": 5_000}),
            "parameter_out_of_range",
            "max_tokens",
        ),
        (json!({"messages": null}), invalid, "messages"),
        (json!({"messages": []}), invalid, "messages"),
        (
            json!({"messages": [{"content": "x"}]}),
            missing,
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "tool", "content": "x"}]}),
            invalid,
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user"}]}),
            missing,
            "messages[0].content",
        ),
        (
            json!({"messages": [{"role": "user", "content": 7}]}),
            invalid,
            "messages[0].content",
        ),
        (user(json!({"text": "x"})), missing, "messages[0].content[0].type"),
        (
            user(json!({"type": "text"})),
            missing,
            "messages[0].content[0].text",
        ),
        (
            user(json!({"type": "video"})),
            invalid,
            "messages[0].content[0].type",
        ),
        (
            user(json!({"type": "tool_use", "id": "a", "name": "f", "input": {}})),
            invalid,
            "messages[0].content[0].type",
        ),
        (
            user(json!({"type": "web_search_tool_result"})),
            unsupported,
            "messages[0].content[0].type",
        ),
        (
            source(json!({"type": "base64", "data": "AA"})),
            missing,
            "messages[0].content[0].source.media_type",
        ),
        (
            source(json!({"type": "base64", "media_type": "image/bmp", "data": "AA"})),
            invalid,
            "messages[0].content[0].source.media_type",
        ),
        (
            source(json!({"type": "url", "url": "file:///etc/passwd"})),
            invalid,
            "messages[0].content[0].source.url",
        ),
        (
            source(json!({"type": "file"})),
            missing,
            "messages[0].content[0].source.file_id",
        ),
        (
            user(
                json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}, "context": "c"}),
            ),
            unsupported,
            "messages[0].content[0].source.type",
        ),
        (
            user(json!({"type": "tool_result", "tool_use_id": "a"})),
            invalid,
            "messages[0].content[0].tool_use_id",
        ),
        (
            user(json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": "2h"}})),
            invalid,
            "messages[0].content[0].cache_control.ttl",
        ),
        (json!({"system": [{"type": "image"}]}), invalid, "system[0].type"),
        (json!({"temperature": 1.1}), invalid, "temperature"),
        (json!({"top_k": -1}), invalid, "top_k"),
        (json!({"stop_sequences": "x"}), invalid, "stop_sequences"),
        (json!({"stop_sequences": ["a", 7]}), invalid, "stop_sequences[1]"),
        (json!({"tools": [{"input_schema": {}}]}), missing, "tools[0].name"),
        (
            json!({"tools": [{"name": "f"}]}),
            missing,
            "tools[0].input_schema",
        ),
        (
            json!({"tools": [{"name": "f g", "input_schema": {}}]}),
            invalid,
            "tools[0].name",
        ),
        (
            json!({"tools": [{"type": "web_search_20250305", "name": "w"}]}),
            unsupported,
            "tools[0].type",
        ),
        (json!({"tool_choice": {"type": "auto"}}), invalid, "tool_choice"),
        (
            json!({"tools": tools, "tool_choice": {"type": "tool"}}),
            missing,
            "tool_choice.name",
        ),
        (
            json!({"tools": tools, "tool_choice": {"type": "required"}}),
            invalid,
            "tool_choice.type",
        ),
        (
            json!({"thinking": {"type": "enabled"}}),
            missing,
            "thinking.budget_tokens",
        ),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 1_023}}),
            invalid,
            "thinking.budget_tokens",
        ),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
            invalid,
            "thinking.budget_tokens",
        ),
        (
            json!({"thinking": {"type": "adaptive", "more": 1}}),
            "unknown_parameter",
            "thinking.more",
        ),
        (
            json!({"output_config": {"effort": "huge"}}),
            invalid,
            "output_config.effort",
        ),
        (
            json!({"output_config": {"format": {"type": "json_schema"}}}),
            missing,
            "output_config.format.schema",
        ),
        (
            json!({"output_config": {"format": {"type": "json_schema", "schema": {}}}, "response_format": {"type": "text"}}),
            invalid,
            "response_format",
        ),
        (json!({"metadata": {"user_id": 7}}), invalid, "metadata.user_id"),
        (json!({"service_tier": "flex"}), invalid, "service_tier"),
        (json!({"speed": "fast"}), unsupported, "speed"),
        (json!({"inference_geo": "us"}), unsupported, "inference_geo"),
        (json!({"container": "c"}), unsupported, "container"),
        (json!({"mcp_servers": [{}]}), unsupported, "mcp_servers"),
        (
            json!({"max_completion_tokens": 7}),
            "unknown_parameter",
            "max_completion_tokens",
        ),
        (json!({"n": 1}), "unknown_parameter", "n"),
    ];
    for (members, code, param) in cases {
        let body = saying(NATIVE, "hi", members);
        let response = send(&scene, &body).await;
        assert_refused(&body.to_string(), &response, code, Some(param));
    }
    scene
        .gateway
        .set_limits(&scene.account, 10_000, 1_000_000_000)
        .await;
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_thread_is_refused_with_details_for_clients() {
    let scene = scene().await;
    let body = saying(NATIVE, "hi", json!({"thread": {"type": "create"}}));
    let response = send(&scene, &body).await;
    let error = &response.json()["error"];
    assert_eq!(
        (response.status, &error["code"], &error["param"]),
        (400, &json!("unsupported_parameter"), &json!("thread")),
        "{}",
        response.text()
    );
    assert_eq!(
        error["details"],
        json!({"error_code": "thread_unsupported_request", "unsupported": ["thread"]})
    );
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn api_versions_accept_different_members() {
    let scene = scene().await;
    let ask = async |version: Option<&str>, members: Value| {
        let body = saying(NATIVE, "hi", members);
        let request = Request::json(MESSAGES, &body).key(&scene.key.secret);
        let request = match version {
            Some(version) => request.header("anthropic-version", version),
            None => request,
        };
        scene.client().send(&request).await
    };
    for (name, value) in [
        ("temperature", json!(1)),
        ("top_p", json!(0.5)),
        ("top_k", json!(5)),
    ] {
        let members = with(json!({}), json!({name: value}));
        for version in [None, Some("2023-06-01")] {
            let response = ask(version, members.clone()).await;
            assert_eq!(response.status, 200, "{}", response.text());
        }
        let response = ask(Some("2026-10-21"), members).await;
        assert_refused(name, &response, "invalid_parameter", Some(name));
    }
    let response = ask(Some("2026-10-21"), json!({})).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(sent.header("anthropic-version"), Some("2026-10-21"));
    let response = ask(Some("2025-01-01"), json!({})).await;
    assert_refused(
        "an unknown version",
        &response,
        "invalid_parameter",
        Some("anthropic-version"),
    );
    let cited = user(json!({"type": "text", "text": "x", "citations": [{}]}));
    assert_eq!(ask(None, cited.clone()).await.status, 200);
    let response = ask(Some("2026-10-21"), cited).await;
    assert_refused(
        "citations",
        &response,
        "invalid_parameter",
        Some("messages[0].content[0].citations"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn malformed_bodies_are_refused_in_this_formats_shape() {
    let scene = scene().await;
    let client = scene.client();
    let post = |body: &[u8]| Request::post(MESSAGES, body).key(&scene.key.secret);
    for (body, code) in [
        (&b""[..], "invalid_json"),
        (b"{", "invalid_json"),
        (b"[]", "invalid_parameter"),
        (b"{\"model\":1,}", "invalid_json"),
        (b"{\"model\":\"\xff\"}", "invalid_json"),
    ] {
        let response = client.send(&post(body)).await;
        assert_refused(&String::from_utf8_lossy(body), &response, code, None);
    }
    let text = client
        .send(&post(b"{}").header("content-type", "text/plain"))
        .await;
    assert_refused("text", &text, "unsupported_media_type", None);
    let large = client.send(&post(&vec![b' '; 33 << 20])).await;
    assert_refused("33 MiB", &large, "request_too_large", None);
    let poor = scene.gateway.account().await;
    let poor = scene.gateway.key(&poor).await.secret;
    let request = Request::json(MESSAGES, &saying(NATIVE, "hi", json!({}))).key(&poor);
    let response = client.send(&request).await;
    assert_refused("no credits", &response, "insufficient_credits", None);
    assert_eq!(response.header("x-should-retry"), Some("false"));
    scene.nothing_happened().await;
    scene.finish().await;
}
