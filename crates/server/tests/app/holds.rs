//! Holds for prompt caching.

use std::sync::Arc;

use serde_json::json;
use tollgate_storage::NoFiles;

use crate::app::{MODELS, Scene};

#[tokio::test]
async fn an_hour_in_the_cache_is_held_for_at_its_price() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    // One credit pays for a million uncached tokens, or half a million tokens cached for an hour.
    let text = "x".repeat(600_000);
    let body = |mark: serde_json::Value| {
        let block = json!({"type": "text", "text": text, "cache_control": mark});
        json!({"model": MODELS[1], "max_tokens": 10, "messages": [{"role": "user", "content": [block]}]})
    };
    let tool = |mark: serde_json::Value| {
        let tool = json!({"name": "f", "description": text, "input_schema": {"type": "object"}, "cache_control": mark});
        let messages = json!([{"role": "user", "content": "x"}]);
        json!({"model": MODELS[1], "max_tokens": 10, "messages": messages, "tools": [tool]})
    };
    for (request, status) in [
        (body(json!({"type": "ephemeral"})), 200),
        (body(json!({"type": "ephemeral", "ttl": "5m"})), 200),
        (body(json!({"type": "ephemeral", "ttl": "1h"})), 402),
        (tool(json!({"type": "ephemeral", "ttl": "5m"})), 200),
        (tool(json!({"type": "ephemeral", "ttl": "1h"})), 402),
    ] {
        let tenant = scene.tenant(1).await;
        let calls = scene.upstream.request_count();
        let answer = scene.post(&tenant, "/v1/messages", &request).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_eq!(scene.upstream.request_count() > calls, status == 200);
    }
    let rich = scene.tenant(2).await;
    let request = body(json!({"type": "ephemeral", "ttl": "1h"}));
    assert_eq!(scene.post(&rich, "/v1/messages", &request).await.status, 200);
    assert_eq!(
        scene.sent().unwrap()["messages"][0]["content"][0]["cache_control"]["ttl"],
        "1h"
    );
}
