//! A provider that uses this format, for callers of any format: requests, responses and charges.

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, Reply, Usage};

use super::{NATIVE, ask, assert_refused, assert_status, chunks_of, parts_of, saying, scene};
use crate::lenient::set_compat;
use crate::scene::{PLAIN, with};

#[tokio::test]
async fn reported_tokens_are_charged() {
    let scene = scene().await;
    let mut paid = 0;
    for action in [
        "generateContent",
        "streamGenerateContent?alt=sse",
        "streamGenerateContent",
    ] {
        let answer = Answer::words(5).reasoning(3).cached_tokens(2);
        scene.upstream.push(Reply::answer(answer));
        let body = saying("a question of forty bytes, more or less.", json!({}));
        let response = ask(&scene, &format!("{NATIVE}:{action}"), &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        // The input is 10 tokens, 2 of them cached. The output is 5 tokens and 3 thought tokens.
        let cost = 8 * 1_000 + 2 * 100 + 5 * 2_000 + 3 * 3_000;
        paid += cost;
        let chunks: Vec<Value> = match action {
            "generateContent" => vec![response.json()],
            "streamGenerateContent" => serde_json::from_str(&response.text()).unwrap(),
            _ => chunks_of(&response),
        };
        let last = chunks.last().unwrap();
        let usage = &last["usageMetadata"];
        assert_eq!(nanos(&usage["cost"]), cost, "{action}: {usage}");
        assert_eq!(
            (&usage["candidatesTokenCount"], &usage["thoughtsTokenCount"]),
            (&json!(5), &json!(3))
        );
        assert!(
            chunks.iter().all(|chunk| chunk["modelVersion"] == NATIVE),
            "{action}"
        );
        let row = scene.row(response.request_id()).await;
        assert_eq!(row["model"], NATIVE, "{row}");
    }
    assert_eq!(scene.finish().await.revenue, paid);
}

#[tokio::test]
async fn a_request_is_forwarded_unchanged() {
    let scene = scene().await;
    let body = json!({
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [{"role": "user", "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
            {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/a.png"}},
            {"text": "look", "vendor": 1.50},
        ]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
        "generationConfig": {"top_k": 40.0, "thinkingConfig": {"thinkingBudget": 0}, "maxOutputTokens": 9},
        "safetySettings": [{"category": "C", "threshold": "T"}],
    });
    let response = ask(
        &scene,
        &format!("{NATIVE}:generateContent"),
        &with(body.clone(), json!({"labels": {"a": "b"}})),
    )
    .await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.header("x-tollgate-ignored"), Some("labels"));
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(sent.json().unwrap(), body);
    assert!(
        sent.body
            .windows(4)
            .any(|bytes| bytes == b"1.5}" || bytes == b"1.50")
    );
    assert_eq!(sent.path, "/v1/models/content-v1:generateContent");
    scene.finish().await;
}

#[tokio::test]
async fn chat_requests_are_converted_to_this_format() {
    let scene = scene().await;
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    scene
        .upstream
        .push(Reply::answer(Answer::calling("f", &json!({"x": 1})).reasoning(2)));
    let body = json!({"model": NATIVE, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "go"}],
        "tools": tools, "reasoning_effort": "low"});
    let response = scene
        .client()
        .post_json("/v1/chat/completions", &scene.key.secret, &body)
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let message = response.json()["choices"][0]["message"].clone();
    assert_eq!(response.json()["choices"][0]["finish_reason"], "tool_calls");
    let call = &message["tool_calls"][0];
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(sent["systemInstruction"]["parts"][0]["text"], "s");
    assert_eq!(
        sent["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"],
        json!({"type": "object"})
    );

    let body = json!({"model": NATIVE, "tools": tools, "messages": [{"role": "user", "content": "go"}, message,
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"}]});
    let response = scene
        .client()
        .post_json("/v1/chat/completions", &scene.key.secret, &body)
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    let result = &sent["contents"][2]["parts"][0]["functionResponse"];
    assert_eq!(
        (&result["name"], &result["response"]),
        (&json!("f"), &json!({"result": "fine"})),
        "{sent}"
    );

    set_compat(&scene, &scene.key.id, "strict").await;
    for (members, param) in [
        (json!({"n": 9}), "n"),
        (
            json!({"parallel_tool_calls": false, "tools": tools}),
            "parallel_tool_calls",
        ),
        (
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
            "messages[1].role",
        ),
    ] {
        let body = with(
            json!({"model": NATIVE, "messages": [{"role": "user", "content": "go"}]}),
            members,
        );
        let response = scene
            .client()
            .post_json("/v1/chat/completions", &scene.key.secret, &body)
            .await;
        assert_eq!(
            (response.status, response.error().param.as_deref()),
            (400, Some(param)),
            "{}",
            response.text()
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn requests_are_converted_for_other_providers() {
    let scene = scene().await;
    let body = saying(
        "hi",
        json!({
            "systemInstruction": {"parts": [{"text": "s"}]},
            "generationConfig": {"maxOutputTokens": 9, "stopSequences": ["x"], "temperature": 1.5},
            "safetySettings": [{"category": "C", "threshold": "T"}],
        }),
    );
    for action in ["generateContent", "streamGenerateContent?alt=sse"] {
        let response = ask(&scene, &format!("{PLAIN}:{action}"), &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("x-tollgate-ignored"), Some("safetySettings"));
        let chunks = match action {
            "generateContent" => vec![response.json()],
            _ => chunks_of(&response),
        };
        assert_eq!(parts_of(&chunks), [json!({"text": "You said: hi"})]);
        assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP");
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(sent["messages"][0], json!({"role": "system", "content": "s"}));
        assert_eq!((&sent["stop"], &sent["temperature"]), (&json!("x"), &json!(1.5)));
    }
    for (members, param) in [
        (json!({"generationConfig": {"topK": 5}}), "generationConfig.topK"),
        (
            json!({"generationConfig": {"stopSequences": ["a", "b", "c", "d", "e"]}}),
            "generationConfig.stopSequences",
        ),
    ] {
        let response = ask(
            &scene,
            &format!("{PLAIN}:generateContent"),
            &saying("hi", members),
        )
        .await;
        assert_refused(param, &response, "unsupported_parameter", Some(param));
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_blocked_prompt_fails_and_costs_nothing() {
    let scene = scene().await;
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}});
    for (action, reply) in [
        (
            "generateContent",
            Reply::body(200, "application/json", blocked.to_string()),
        ),
        (
            "streamGenerateContent?alt=sse",
            Reply::events([blocked.to_string()]),
        ),
    ] {
        scene.upstream.push(reply);
        let response = ask(&scene, &format!("{NATIVE}:{action}"), &saying("bad", json!({}))).await;
        assert_refused(action, &response, "content_policy_violation", None);
    }
    assert_eq!(scene.finish().await.revenue, 0);
}

#[tokio::test]
async fn a_truncated_stream_ends_with_an_error_and_costs_nothing() {
    let scene = scene().await;
    let chunk = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}});
    scene.upstream.push(Reply::events([chunk.to_string()]));
    let stream = ask(
        &scene,
        &format!("{NATIVE}:streamGenerateContent?alt=sse"),
        &saying("hi", json!({})),
    )
    .await;
    let chunks = chunks_of(&stream);
    assert_eq!(chunks.len(), 2, "{chunks:?}");
    assert_status("the last event", &chunks[1], "upstream_error", None);
    assert_eq!(scene.finish().await.revenue, 0);
}

#[tokio::test]
async fn a_response_without_usage_is_estimated() {
    let scene = scene().await;
    for action in ["generateContent", "streamGenerateContent?alt=sse"] {
        scene
            .upstream
            .push(Reply::answer(Answer::words(3).usage(Usage::Missing)));
        let response = ask(&scene, &format!("{NATIVE}:{action}"), &saying("hi", json!({}))).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let row = scene.row(response.request_id()).await;
        assert_eq!(row["estimated"], true, "{row}");
    }
    assert!(scene.finish().await.revenue > 0);
}
