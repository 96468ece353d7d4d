//! Test keys: only simulated models, no charges, and all other rules apply.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{CHAT, GRANTED, MODEL, Scene, assert_error, meaning};

const SIMULATED: &str = "sim/chat";
/// A simulated model with another name, and one that falls back to a real provider.
const CONFIG: &str = "[models.\"acme/trial\"]\ntargets = [\"sim/chat\"]\nprices = { input = \"1\", output = \"1\" }\n\n\
                      [models.\"acme/half\"]\ntargets = [\"sim/chat\", \"northwind/able-v1\"]\n\
                      prices = { input = \"1\", output = \"1\" }\n";
/// Every error code of a call that fails before any charge.
const CODES: &[&str] = &[
    "invalid_json",
    "missing_required_parameter",
    "invalid_parameter",
    "unknown_parameter",
    "unsupported_parameter",
    "unsupported_endpoint",
    "content_policy_violation",
    "context_length_exceeded",
    "missing_api_key",
    "invalid_api_key",
    "insufficient_credits",
    "permission_denied",
    "not_found",
    "model_not_found",
    "method_not_allowed",
    "request_timeout",
    "conflict",
    "request_too_large",
    "unsupported_media_type",
    "parameter_out_of_range",
    "output_blocked",
    "rate_limit_exceeded",
    "internal_error",
    "upstream_error",
    "upstream_timeout",
    "model_unavailable",
    "overloaded",
];

/// Starts a scene and creates a test key of its account. Also returns the secret of the key.
async fn scene(storage: Storage, config: &str) -> (Scene, String) {
    let scene = Scene::start_on(storage, config).await;
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let created = scene.gateway.command_line().run(&create).await;
    let secret = created["key"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("sk-service-test-"), "{secret}");
    (scene, secret)
}

async fn chat(scene: &Scene, key: &str, model: &str, text: &str) -> Response {
    let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
    let request = Request::json(CHAT, &body).key(key);
    scene.client().send(&request).await
}

async fn a_call_is_served_and_costs_nothing(storage: Storage) {
    let (scene, key) = scene(storage, CONFIG).await;
    for model in [SIMULATED, "acme/trial"] {
        let response = chat(&scene, &key, model, "[[sim tokens=12]]").await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("x-tollgate-cost"), Some("0"));
        assert_eq!(response.json()["usage"]["completion_tokens"], 12);
        let row = scene.row(response.header("x-request-id").unwrap()).await;
        assert_eq!(
            (&row["cost"], &row["outcome"]),
            (&json!("0"), &json!("ok")),
            "{row}"
        );
    }
    // The same call with a live key is charged.
    let live = chat(&scene, &scene.key.secret, SIMULATED, "[[sim tokens=12]]").await;
    assert_ne!(live.header("x-tollgate-cost"), Some("0"));
    assert_ne!(scene.settled().await.credits, GRANTED);
    let check = scene
        .gateway
        .command_line()
        .run(&["ledger", "check", "--reprice"])
        .await;
    assert_eq!(check["clean"], true, "{check}");
    scene.finish().await;
}

#[tokio::test]
async fn a_call_is_served_and_costs_nothing_on_sqlite() {
    a_call_is_served_and_costs_nothing(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_call_is_served_and_costs_nothing_on_postgres() {
    a_call_is_served_and_costs_nothing(Storage::Postgres).await;
}

#[tokio::test]
async fn real_models_are_refused() {
    let (scene, key) = scene(Storage::Sqlite, CONFIG).await;
    for model in [MODEL, "acme/half"] {
        let refused = chat(&scene, &key, model, "Hi").await;
        let error = assert_error(model, &refused, "model_not_found", Some("model"));
        assert!(error.message.contains("Test keys"), "{}", error.message);
    }
    let unknown = chat(&scene, &key, "nobody/knows", "Hi").await;
    let error = assert_error("unknown", &unknown, "model_not_found", Some("model"));
    assert!(!error.message.contains("Test keys"), "{}", error.message);
    for (path, body) in [
        (
            "/v1/messages",
            json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}),
        ),
        (
            "/v1/messages/count_tokens",
            json!({"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}),
        ),
        ("/v1/responses", json!({"model": MODEL, "input": "Hi"})),
        (
            "/v1/responses/input_tokens",
            json!({"model": MODEL, "input": "Hi"}),
        ),
        ("/v1/completions", json!({"model": MODEL, "prompt": "Hi"})),
        ("/v1/embeddings", json!({"model": MODEL, "input": "Hi"})),
        ("/v1/moderations", json!({"model": MODEL, "input": "Hi"})),
    ] {
        let refused = scene.client().send(&Request::json(path, &body).key(&key)).await;
        assert_eq!((path, refused.status), (path, 404), "{}", refused.text());
    }
    let path = format!("/v1beta/models/{MODEL}:generateContent");
    let body = json!({"contents": [{"parts": [{"text": "Hi"}]}]});
    let refused = scene.client().send(&Request::json(&path, &body).key(&key)).await;
    assert_eq!(refused.status, 404, "{}", refused.text());
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_list_shows_the_available_models() {
    let (scene, key) = scene(Storage::Sqlite, CONFIG).await;
    let get = async |path: &str| scene.client().send(&Request::get(path).key(&key)).await;
    let list = get("/v1/models").await.json();
    let models = list["data"].as_array().unwrap();
    assert!(!models.is_empty());
    assert!(models.iter().all(|model| model["simulated"] == true), "{list}");
    assert!(models.iter().any(|model| model["id"] == SIMULATED), "{list}");
    assert_eq!(get("/v1/models/acme/trial").await.status, 200);
    assert_eq!(get(&format!("/v1/models/{MODEL}")).await.status, 404);
    assert_eq!(get("/v1beta/models/sim/chat").await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn every_error_can_be_simulated() {
    let (scene, key) = scene(Storage::Sqlite, "").await;
    for code in CODES {
        let response = chat(&scene, &key, SIMULATED, &format!("[[sim error={code}]]")).await;
        let body = response.json();
        let found = (response.status, &body["error"]["type"], &body["error"]["code"]);
        let (status, kind) = meaning(code);
        assert_eq!(found, (status, &json!(kind), &json!(code)), "{body}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn limits_and_revocation_hold() {
    let (scene, key) = scene(Storage::Sqlite, "").await;
    scene.gateway.set_limits(&scene.account, 2, 1_000_000).await;
    let statuses = [
        chat(&scene, &key, SIMULATED, "one").await.status,
        // The rate limit is shared by all keys of the account.
        chat(&scene, &scene.key.secret, SIMULATED, "two").await.status,
        chat(&scene, &key, SIMULATED, "three").await.status,
    ];
    assert_eq!(statuses, [200, 200, 429]);
    let list = ["keys", "list", "--account", &scene.account];
    let keys: Value = scene.gateway.command_line().run(&list).await;
    let test = keys.as_array().unwrap().iter().find(|key| key["mode"] == "test");
    let id = test.and_then(|key| key["id"].as_str()).unwrap();
    scene.gateway.command_line().run(&["keys", "revoke", id]).await;
    let refused = chat(&scene, &key, SIMULATED, "four").await;
    assert_error("revoked", &refused, "invalid_api_key", None);
    scene.finish().await;
}
