//! Vertex AI with every caller format: its access tokens, its charges, and its errors.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;
use tollgate_testkit::gateway::{Gateway, Key, Storage, nanos};
use tollgate_testkit::upstream::{Answer, At, FakeUpstream, How, Reply};

use crate::scene::{BINARY, CHAT, Classes, GRANTED, PRICES, Scene, assert_error, with};

const MODEL: &str = "acme/vertex";
const VECTORS: &str = "acme/vectors";
/// A model that accepts one text in each call.
const NEWER: &str = "acme/newer-vectors";
/// Paths of the formats in which the model is called.
const PATHS: [&str; 3] = [CHAT, "/v1/messages", "/v1/models/acme/vertex"];
/// The prefix of every access token.
const TOKEN: &str = "ya29";

async fn scene_with(storage: Storage, more: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let config = format!(
        r#"
[providers.cloud]
preset = "vertex"
base_url = "{}"
location = "europe-west4"
credentials_env = "CLOUD_ACCOUNT"

[retries]
extra_attempts = 0
breaker_consecutive = 1000

[models."{MODEL}"]
targets = ["cloud/gemini-3-x"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
tools = true
reasoning = true

[models."{VECTORS}"]
type = "embedding"
targets = ["cloud/gemini-embedding-001"]
prices = {{ input = "1" }}

[models."{NEWER}"]
type = "embedding"
targets = ["cloud/gemini-embedding-2"]
prices = {{ input = "1" }}
{more}"#,
        upstream.base_url()
    );
    let mut options = Scene::options(&upstream, storage, &config);
    options.env.push(("CLOUD_ACCOUNT".to_owned(), key));
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

async fn scene() -> Scene {
    scene_with(Storage::Sqlite, "").await
}

async fn ask(scene: &Scene, path: &str, stream: bool) -> Response {
    let (path, body) = match path {
        CHAT | "/v1/messages" => (
            path.to_owned(),
            json!({"model": MODEL, "max_tokens": 100, "stream": stream,
                "messages": [{"role": "user", "content": "Hi"}]}),
        ),
        path => {
            let action = match stream {
                true => "streamGenerateContent?alt=sse",
                false => "generateContent",
            };
            (
                format!("{path}:{action}"),
                json!({"contents": [{"parts": [{"text": "Hi"}]}], "labels": {"team": "a"}}),
            )
        }
    };
    scene.client().post_json(&path, &scene.key.secret, &body).await
}

/// Stops the gateway; its ledger must be clean, and its log must contain no token and no key.
async fn finish(scene: Scene) {
    let log = scene.gateway.log();
    for secret in [TOKEN, "eyJ", "PRIVATE", "Bearer"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn every_class_is_charged_in_every_format() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_with(storage, "").await;
        let mut paid = 0;
        for path in PATHS {
            for stream in [false, true] {
                let what = format!("{path} {stream}");
                let answer = Answer::text("so it is").reasoning(2).cached_tokens(1);
                scene.upstream.push(Reply::answer(answer));
                let response = ask(&scene, path, stream).await;
                assert_eq!(response.status, 200, "{what}: {}", response.text());
                let request = scene.upstream.requests().pop().unwrap();
                let start =
                    "/v1/projects/acme-project/locations/europe-west4/publishers/google/models/gemini-3-x:";
                assert!(request.path.starts_with(start), "{}", request.path);
                let row = scene.row(response.request_id()).await;
                let classes = Classes::of_row(&row);
                assert_eq!((classes.cache_read, classes.reasoning), (1, 2), "{what}: {row}");
                assert!(classes.output > 0, "{what}: {row}");
                assert_eq!(nanos(&row["cost"]), classes.at(PRICES), "{what}: {row}");
                paid += classes.at(PRICES);
                assert_eq!(scene.settled().await.credits, GRANTED - paid, "{what}");
            }
        }
        assert_eq!(scene.upstream.token_count(), 1);
        finish(scene).await;
    }
}

#[tokio::test]
async fn a_conversation_with_tools_continues_in_every_format() {
    let scene = scene().await;
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let part = |kind: &str, id: &str| {
        let mut part = json!({"id": id, "name": "f"});
        if kind == "functionResponse" {
            part["response"] = json!({"of": id});
        }
        json!({ kind: part })
    };
    let chat = with(
        json!({"model": MODEL, "messages": [
            message("user", json!("Hi")),
            {"role": "assistant", "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "{\"of\":\"b\"}"},
            {"role": "tool", "tool_call_id": "a", "content": "{\"of\":\"a\"}"},
        ]}),
        json!({"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]}),
    );
    let content = json!({"contents": [
        {"parts": [{"text": "Hi"}]},
        {"role": "model", "parts": [part("functionCall", "a"), part("functionCall", "b")]},
        {"role": "user", "parts": [part("functionResponse", "b"), part("functionResponse", "a")]},
    ], "tools": [{"functionDeclarations": [{"name": "f"}]}]});
    for (path, body) in [
        (CHAT.to_owned(), chat),
        (format!("{}:generateContent", PATHS[2]), content),
    ] {
        let response = scene.client().post_json(&path, &scene.key.secret, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        for (index, id) in [(0, "a"), (1, "b")] {
            let result = &sent["contents"][2]["parts"][index]["functionResponse"];
            assert_eq!(
                *result,
                json!({"name": "f", "response": {"of": id}}),
                "{path}: {sent}"
            );
        }
    }
    finish(scene).await;
}

#[tokio::test]
async fn concurrent_calls_wait_for_one_token() {
    let scene = scene().await;
    let all = join_all((0..20).map(|_| ask(&scene, CHAT, false))).await;
    assert!(all.iter().all(|response| response.status == 200));
    assert_eq!(scene.upstream.token_count(), 1);
    // All calls are refused, and one of them renews the token.
    scene.upstream.revoke_tokens();
    let all = join_all((0..20).map(|_| ask(&scene, CHAT, true))).await;
    assert!(all.iter().all(|response| response.status == 200));
    assert_eq!(scene.upstream.token_count(), 2);
    finish(scene).await;
}

#[tokio::test]
async fn without_a_token_nothing_is_sent_or_paid() {
    let scene = scene_with(Storage::Sqlite, "[timeouts]\nheaders_ms = 1000\n").await;
    for (reply, code) in [
        (Reply::html(500), "model_unavailable"),
        (Reply::html(429), "model_unavailable"),
        (Reply::html(200), "model_unavailable"),
        (Reply::html(302), "model_unavailable"),
        (Reply::reset(), "model_unavailable"),
        (Reply::hang(), "model_unavailable"),
        (
            Reply::body(400, "application/json", r#"{"error":"invalid_grant"}"#),
            "upstream_error",
        ),
        (Reply::html(403), "upstream_error"),
    ] {
        scene.upstream.push_for_tokens(reply.clone());
        let response = ask(&scene, CHAT, true).await;
        assert_error(&format!("{reply:?}"), &response, code, None);
    }
    let requests = scene.upstream.requests();
    assert!(requests.iter().all(|request| request.path == "/token"));
    assert_eq!(scene.settled().await.credits, GRANTED);
    // Afterwards the token service is available again.
    assert_eq!(ask(&scene, CHAT, false).await.status, 200);
    finish(scene).await;
}

#[tokio::test]
async fn upstream_faults_become_the_usual_errors() {
    let scene = scene().await;
    let of = |status: u16, word: &str| {
        let body = json!({"error": {"code": status, "message": "secret", "status": word}});
        Reply::body(status, "application/json", body.to_string())
    };
    for (reply, code) in [
        (of(429, "RESOURCE_EXHAUSTED"), "model_unavailable"),
        (of(403, "PERMISSION_DENIED"), "upstream_error"),
        (of(404, "NOT_FOUND"), "upstream_error"),
        (of(400, "INVALID_ARGUMENT"), "invalid_parameter"),
        (of(500, "INTERNAL"), "upstream_error"),
        (of(503, "UNAVAILABLE"), "model_unavailable"),
        (Reply::html(200), "upstream_error"),
        (Reply::reset(), "upstream_error"),
    ] {
        for stream in [false, true] {
            scene.upstream.push(reply.clone());
            let response = ask(&scene, CHAT, stream).await;
            assert_error(&format!("{reply:?}"), &response, code, None);
        }
    }
    assert_eq!(scene.upstream.token_count(), 1, "the token was not at fault");
    for path in PATHS {
        scene
            .upstream
            .push(Reply::words(9).cut(At::Events(3), How::Close));
        let response = ask(&scene, path, true).await;
        let text = response.text();
        assert!(text.contains("upstream_error"), "{path}: {text}");
        assert!(!text.contains(TOKEN), "{path}: {text}");
    }
    scene.upstream.set_default(of(401, "UNAUTHENTICATED"));
    for tokens in [2, 2, 2] {
        let response = ask(&scene, CHAT, true).await;
        assert_error(
            "refused regardless of the token",
            &response,
            "upstream_error",
            None,
        );
        assert_eq!(scene.upstream.token_count(), tokens);
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    finish(scene).await;
}

#[tokio::test]
async fn embeddings_are_created_and_charged() {
    let scene = scene().await;
    let body = json!({"model": VECTORS, "input": ["four", "eight ch"], "dimensions": 3});
    let response = scene
        .client()
        .post_json("/v1/embeddings", &scene.key.secret, &body)
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = response.json();
    assert_eq!(answer["data"][1]["embedding"], json!([0.5, -0.25, 8.0]));
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
    let request = scene.upstream.requests().pop().unwrap();
    assert!(
        request.path.ends_with("/gemini-embedding-001:predict"),
        "{}",
        request.path
    );
    assert_eq!(scene.settled().await.credits, GRANTED - 3_000);

    let one = with(body.clone(), json!({"model": NEWER, "input": "eight ch"}));
    let response = scene
        .client()
        .post_json("/v1/embeddings", &scene.key.secret, &one)
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let request = scene.upstream.requests().pop().unwrap();
    assert!(
        request.path.ends_with("/gemini-embedding-2:embedContent"),
        "{}",
        request.path
    );
    assert_eq!(scene.settled().await.credits, GRANTED - 5_000);
    let two = with(body, json!({"model": NEWER}));
    let response = scene
        .client()
        .post_json("/v1/embeddings", &scene.key.secret, &two)
        .await;
    assert_error("two texts", &response, "invalid_parameter", Some("input"));
    assert_eq!(scene.settled().await.credits, GRANTED - 5_000);
    finish(scene).await;
}

#[tokio::test]
async fn tokens_are_counted_in_every_format() {
    let scene = scene().await;
    let message = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let content = json!({
        "contents": [{"parts": [{"text": "Hi"}]}], "labels": {"team": "a"},
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}, "safetySettings": [],
    });
    for (path, body) in [
        ("/v1/messages/count_tokens", message),
        (
            "/v1/responses/input_tokens",
            json!({"model": MODEL, "input": "Hi", "service_tier": "default"}),
        ),
        ("/v1/models/acme/vertex:countTokens", content),
    ] {
        let response = scene.client().post_json(path, &scene.key.secret, &body).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        let request = scene.upstream.requests().pop().unwrap();
        let end = "/locations/europe-west4/publishers/google/models/gemini-3-x:countTokens";
        assert!(request.path.ends_with(end), "{}", request.path);
        let answer = response.json();
        let tokens = answer.get("input_tokens").or(answer.get("totalTokens"));
        assert_eq!(tokens, Some(&json!(request.body.len())), "{path}: {answer}");
        assert_eq!(answer["counting"], "exact", "{path}");
    }
    assert_eq!(scene.rows().await, Vec::<Value>::new());
    assert_eq!(scene.settled().await.credits, GRANTED);
    finish(scene).await;
}

#[tokio::test]
async fn the_doctor_uses_the_service_account() {
    let scene = scene().await;
    let doctor = async || {
        let ended = scene.gateway.command_line().try_run(&["doctor"]).await;
        let text = format!("{}{}", ended.stdout, ended.stderr);
        assert!(!text.contains(TOKEN) && !text.contains("PRIVATE"), "{text}");
        text
    };
    let page = json!({"publisherModels": [{"name": "publishers/google/models/gemini-3-x"}]});
    scene
        .upstream
        .push_for_models(Reply::body(200, "application/json", page.to_string()));
    let text = doctor().await;
    assert!(text.contains("answers and lists one model"), "{text}");

    let refusal = Reply::body(400, "application/json", r#"{"error":"invalid_grant"}"#);
    scene
        .upstream
        .push_for_tokens(refusal.header("date", "Mon, 21 Sep 2015 13:46:40 GMT"));
    let text = doctor().await;
    for part in [
        "rejects the credentials: the token server at 127.0.0.1:",
        "rejected the service account (400 invalid_grant): the clock of this machine is",
        "ahead of the server's",
        "providers.cloud.credentials_file",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }

    scene.upstream.push_for_tokens(Reply::html(503));
    let text = doctor().await;
    let part = "returned status 503";
    assert!(
        text.contains("the token server at") && text.contains(part),
        "{text}"
    );
    finish(scene).await;
}
