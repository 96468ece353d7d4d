//! Bedrock behind every API format: charges and errors.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Gateway, Key, Storage, nanos};
use tollgate_testkit::upstream::event_stream::{EVENT_STREAM, event, exception};
use tollgate_testkit::upstream::{FakeUpstream, Reply};

use crate::lenient::set_compat;
use crate::scene::{BINARY, CHAT, Classes, GRANTED, PRICES, Scene, assert_error, with};

const MODEL: &str = "acme/bedrock";

async fn scene(storage: Storage) -> Scene {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        r#"
[providers.cloud]
preset = "bedrock"
base_url = "{}"
region = "us-east-1"
access_key_id_env = "CLOUD_ID"
secret_access_key_env = "CLOUD_SECRET"

[models."{MODEL}"]
targets = ["cloud/us.anthropic.claude-x-v1:0"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
input = ["text", "image", "file"]
tools = true
reasoning = true
"#,
        upstream.base_url()
    );
    let mut options = Scene::options(&upstream, storage, &config);
    for (name, value) in [("CLOUD_ID", "AKIDEXAMPLE"), ("CLOUD_SECRET", "s3cr3t-c4n4ry")] {
        options.env.push((name.to_owned(), value.to_owned()));
    }
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key: Key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

const EVERY_CLASS: Classes = Classes {
    input: 9,
    cache_read: 1_000,
    cache_write: 100,
    output: 3,
    reasoning: 0,
};

fn usage() -> Value {
    json!({
        "inputTokens": 9, "outputTokens": 3, "totalTokens": 1_112, "cacheReadInputTokens": 1_000,
        "cacheWriteInputTokens": 100,
    })
}

fn whole() -> Reply {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2lnbmVk"}}},
        {"text": "Hello"},
        {"toolUse": {"toolUseId": "t1", "name": "f", "input": {"x": 1}}},
    ]);
    let body = json!({
        "output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use", "usage": usage(),
    });
    Reply::body(200, "application/json", body.to_string())
}

fn frames() -> Vec<Vec<u8>> {
    let delta = |index: u32, delta: Value| {
        event(
            "contentBlockDelta",
            &json!({"contentBlockIndex": index, "delta": delta}),
        )
    };
    vec![
        event("messageStart", &json!({"role": "assistant"})),
        delta(0, json!({"reasoningContent": {"text": "hm"}})),
        delta(0, json!({"reasoningContent": {"signature": "c2lnbmVk"}})),
        delta(1, json!({"text": "Hello"})),
        event(
            "contentBlockStart",
            &json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": "f"}}}),
        ),
        delta(2, json!({"toolUse": {"input": "{\"x\":1}"}})),
        event("messageStop", &json!({"stopReason": "tool_use"})),
        event("metadata", &json!({ "usage": usage() })),
    ]
}

fn body(path: &str, stream: bool) -> Value {
    let function = json!({"name": "f", "parameters": {"type": "object"}});
    let tools = match path {
        CHAT => json!([{"type": "function", "function": function}]),
        _ => json!([{"name": "f", "input_schema": {"type": "object"}}]),
    };
    json!({
        "model": MODEL, "max_tokens": 100, "stream": stream, "tools": tools,
        "messages": [{"role": "user", "content": "Hi"}],
    })
}

#[tokio::test]
async fn every_token_class_is_charged_in_every_format() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene(storage).await;
        let mut paid = 0;
        for path in [CHAT, "/v1/messages"] {
            for stream in [false, true] {
                let what = format!("{path} {stream}");
                scene.upstream.push(match stream {
                    false => whole(),
                    true => Reply::body(200, EVENT_STREAM, frames().concat()),
                });
                let response = scene
                    .client()
                    .post_json(path, &scene.key.secret, &body(path, stream))
                    .await;
                assert_eq!(response.status, 200, "{what}: {}", response.text());
                let text = response.text();
                for part in ["Hello", "hm", "t1", MODEL] {
                    assert!(text.contains(part), "{what}: {part} in {text}");
                }
                let row = scene.row(response.request_id()).await;
                assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{what}: {row}");
                paid += EVERY_CLASS.at(PRICES);
                assert_eq!(nanos(&row["cost"]), EVERY_CLASS.at(PRICES), "{what}: {row}");
                assert_eq!(scene.settled().await.credits, GRANTED - paid, "{what}");
            }
        }
        let check = scene.finish().await;
        assert_eq!((check.revenue, check.overrun), (paid, 0));
    }
}

#[tokio::test]
async fn reasoning_is_returned_to_bedrock_with_its_signature() {
    let scene = scene(Storage::Sqlite).await;
    scene.upstream.push(whole());
    let first = body("/v1/messages", false);
    let response = scene
        .client()
        .post_json("/v1/messages", &scene.key.secret, &first)
        .await;
    let content = response.json()["content"].clone();
    let sealed = content[0]["signature"].as_str().unwrap();
    assert!(
        sealed.starts_with("gw1.") && sealed.ends_with(".c2lnbmVk"),
        "{content}"
    );
    scene.upstream.push(whole());
    let result = json!([{"type": "tool_result", "tool_use_id": "t1", "content": "1"}]);
    let next = with(
        first,
        json!({"messages": [
            {"role": "user", "content": "Hi"}, {"role": "assistant", "content": content},
            {"role": "user", "content": result},
        ]}),
    );
    let response = scene
        .client()
        .post_json("/v1/messages", &scene.key.secret, &next)
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(
        sent["messages"][1]["content"][0],
        json!({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2lnbmVk"}}})
    );
    assert_eq!(sent["messages"][2]["content"][0]["toolResult"]["toolUseId"], "t1");
    scene.finish().await;
}

#[tokio::test]
async fn failures_cost_nothing_and_do_not_name_the_provider() {
    let scene = scene(Storage::Sqlite).await;
    let refusal = |status: u16, name: &str| {
        Reply::body(
            status,
            "application/json",
            r#"{"message":"The server had an error"}"#,
        )
        .header("x-amzn-errortype", name)
    };
    let all = frames();
    let stream = |bytes: Vec<u8>| Reply::body(200, EVENT_STREAM, bytes);
    for (reply, code) in [
        (refusal(429, "ThrottlingException"), "model_unavailable"),
        (refusal(403, "AccessDeniedException"), "upstream_error"),
        (refusal(400, "ValidationException"), "invalid_parameter"),
        (refusal(500, "InternalServerException"), "upstream_error"),
        (Reply::html(200), "upstream_error"),
        (stream(exception("throttlingException")), "model_unavailable"),
        (
            stream([all[0].clone(), exception("modelStreamErrorException")].concat()),
            "upstream_error",
        ),
        (stream(all[0].clone()), "upstream_error"),
    ] {
        scene.upstream.set_default(reply.clone());
        let response = scene.chat(&body(CHAT, true)).await;
        assert_error(&format!("{reply:?}"), &response, code, None);
    }
    for (bytes, what) in [
        (
            [all[..4].concat(), exception("throttlingException")].concat(),
            "exception",
        ),
        (all[..5].concat(), "cut"),
        ([all[..4].concat(), vec![0; 64]].concat(), "garbage"),
    ] {
        scene.upstream.set_default(stream(bytes));
        let response = scene.chat(&body(CHAT, true)).await;
        let events = response.events();
        let last = events.last().unwrap();
        assert!(!last.is_done(), "{what}");
        assert_eq!(last.json()["error"]["code"], "upstream_error", "{what}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn unsupported_parameters_are_refused_before_the_upstream_is_called() {
    let scene = scene(Storage::Sqlite).await;
    set_compat(&scene, &scene.key.id, "strict").await;
    let image = json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/bmp;base64,Qk0eAAAAAAAAABoAAAA="}},
    ]}]);
    for (members, param) in [
        (json!({"n": 2}), "n"),
        (json!({"logit_bias": {"1": 1}}), "logit_bias"),
        (json!({"parallel_tool_calls": false}), "parallel_tool_calls"),
        (json!({"messages": image}), "messages[0].content[0]"),
    ] {
        let response = scene.chat(&with(body(CHAT, false), members)).await;
        assert_error(param, &response, "unsupported_parameter", Some(param));
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
