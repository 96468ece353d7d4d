//! Keys that are limited to some models and scopes.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::{Client, Request, Response};

use super::browser::Browser;
use super::owner;
use super::people::invited;
use crate::scene::{CHAT, FREE, MODEL, PLAIN, Scene, hello};

const KEYS: &str = "/console/api/v1/keys";

async fn create(browser: &mut Browser, body: Value) -> Value {
    let mut whole = json!({"name": "limited"});
    whole
        .as_object_mut()
        .unwrap()
        .extend(body.as_object().unwrap().clone());
    browser.done("POST", KEYS, &whole).await
}

fn secret(key: &Value) -> &str {
    key["key"].as_str().unwrap()
}

async fn chat(client: &Client, key: &Value, model: &str) -> Response {
    client
        .post_json(CHAT, secret(key), &hello(json!({"model": model})))
        .await
}

/// Returns status, code and parameter of an error.
fn refusal(response: &Response) -> (u16, String, String) {
    let error = response.error();
    (response.status, error.code, error.param.unwrap_or_default())
}

async fn models_limit_the_catalog_and_the_calls(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    // An alias becomes the id of its model.
    let key = create(&mut jo, json!({"models": [PLAIN, "large", "sim/*"]})).await;
    let list = jo.done("GET", KEYS, &Value::Null).await;
    let shown = list["data"].as_array().unwrap().iter();
    let shown = shown.clone().find(|shown| shown["id"] == key["id"]).unwrap();
    assert_eq!(shown["models"], json!([MODEL, PLAIN, "sim/*"]));
    assert_eq!(shown["scopes"], Value::Null);

    for (model, expected) in [(PLAIN, 200), (MODEL, 200), ("large", 200), ("sim/chat", 200)] {
        assert_eq!(chat(&client, &key, model).await.status, expected, "{model}");
    }
    let before = scene.upstream.requests().len();
    for path in [CHAT, "/v1/messages", "/v1/responses", "/v1/quote"] {
        let request =
            json!({"model": FREE, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]});
        let body = match path {
            "/v1/responses" => json!({"model": FREE, "input": "Hi"}),
            "/v1/quote" => json!({"endpoint": CHAT, "request": request}),
            _ => request,
        };
        let response = client.post_json(path, secret(&key), &body).await;
        assert_eq!(response.status, 404, "{path}: {}", response.text());
        assert!(
            response.text().contains("model_not_found"),
            "{path}: {}",
            response.text()
        );
    }
    assert_eq!(scene.upstream.requests().len(), before, "no call was made");

    let list = client.get("/v1/models", secret(&key)).await.json();
    let ids = list["data"].as_array().unwrap().iter();
    let ids: Vec<&str> = ids.map(|model| model["id"].as_str().unwrap()).collect();
    assert!(
        ids.contains(&PLAIN) && ids.contains(&"sim/chat") && !ids.contains(&FREE),
        "{ids:?}"
    );
    for (model, status) in [(MODEL, 200), ("large", 200), (FREE, 404)] {
        let found = client.get(&format!("/v1/models/{model}"), secret(&key)).await;
        assert_eq!(found.status, status, "{model}");
    }

    // A default model is one that the key may use.
    let only_image = create(&mut jo, json!({"models": ["sim/image"]})).await;
    let image = client
        .post_json(
            "/v1/images/generations",
            secret(&only_image),
            &json!({"prompt": "A lake"}),
        )
        .await;
    assert_eq!(image.status, 200, "{}", image.text());
    let no_image = create(&mut jo, json!({"models": ["sim/chat"]})).await;
    let image = client
        .post_json(
            "/v1/images/generations",
            secret(&no_image),
            &json!({"prompt": "A lake"}),
        )
        .await;
    assert_eq!(
        refusal(&image),
        (400, "missing_required_parameter".into(), "model".into())
    );

    // A change applies to the next request.
    let path = format!("{KEYS}/{}", key["id"].as_str().unwrap());
    jo.done("PATCH", &path, &json!({"models": [FREE]})).await;
    assert_eq!(chat(&client, &key, PLAIN).await.status, 404);
    assert_eq!(chat(&client, &key, FREE).await.status, 200);
    let rotated = jo
        .done("POST", &format!("{path}/rotate"), &json!({"overlap_hours": 0}))
        .await;
    assert_eq!(
        chat(&client, &rotated, PLAIN).await.status,
        404,
        "a rotation retains the rights"
    );
    let path = format!("{KEYS}/{}", rotated["id"].as_str().unwrap());
    let changed = jo.done("PATCH", &path, &json!({"models": null})).await;
    assert_eq!(changed["models"], Value::Null);
    assert_eq!(chat(&client, &rotated, PLAIN).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn models_limit_the_catalog_and_the_calls_on_sqlite() {
    models_limit_the_catalog_and_the_calls(Storage::Sqlite).await;
}

#[tokio::test]
async fn models_limit_the_catalog_and_the_calls_on_postgres() {
    models_limit_the_catalog_and_the_calls(Storage::Postgres).await;
}

/// Scope, method and path of requests.
const REQUESTS: &[(&str, &str, &str)] = &[
    ("text", "POST", CHAT),
    ("text", "POST", "/v1/completions"),
    ("text", "POST", "/v1/messages"),
    ("text", "POST", "/v1/messages/count_tokens"),
    ("text", "POST", "/v1/responses"),
    ("text", "GET", "/v1/responses/resp_1"),
    ("text", "POST", "/v1/moderations"),
    ("text", "POST", "/v1/models/acme/large:generateContent"),
    ("text", "POST", "/v1beta/models/large:countTokens"),
    ("embeddings", "POST", "/v1/embeddings"),
    ("embeddings", "POST", "/v1/acme/large:embedContent"),
    ("images", "POST", "/v1/images/generations"),
    ("video", "POST", "/v1/videos"),
    ("video", "POST", "/v1/videos/compose"),
    ("video", "GET", "/v1/videos/job_1/content"),
    ("audio", "POST", "/v1/audio/speech"),
    ("decisions", "POST", "/v1/decisions"),
    ("decisions", "POST", "/v1beta/decisions"),
    ("decisions", "POST", "/v1/systemone"),
    ("files", "GET", "/v1/files"),
    ("files", "GET", "/v1/files/file-1/content"),
    ("batches", "POST", "/v1/batches"),
    ("batches", "GET", "/v1/messages/batches"),
    ("account", "GET", "/v1/account/usage"),
    ("webhooks", "GET", "/v1/account/webhook_secret"),
    ("webhooks", "POST", "/v1/account/webhook_secret/rotate"),
];

#[tokio::test]
async fn scopes_limit_the_endpoints() {
    let scene = Scene::start().await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let denied = (403, "permission_denied".to_owned(), "scope".to_owned());
    for scope in [
        "text",
        "embeddings",
        "images",
        "video",
        "audio",
        "decisions",
        "files",
        "batches",
        "account",
        "webhooks",
        "research",
        "realtime",
        "gpu",
        "agents",
    ] {
        let key = create(&mut jo, json!({"scopes": [scope]})).await;
        for (needed, method, path) in REQUESTS {
            let request = match *method {
                "GET" => Request::get(path),
                _ => Request::json(path, &json!({})),
            };
            let response = client.send(&request.key(secret(&key))).await;
            let is_denied = response.text().contains("does not have the scope");
            assert_eq!(is_denied, *needed != scope, "{scope} {path}: {}", response.text());
            if is_denied && !path.contains("messages") {
                assert_eq!(refusal(&response), denied, "{scope} {path}");
            }
        }
        // Models, templates, quotes and jobs need no scope.
        for path in [
            "/v1/models",
            "/v1/models/acme/large",
            "/v1/templates",
            "/v1/images/templates",
            "/v1/jobs",
        ] {
            assert_eq!(client.get(path, secret(&key)).await.status, 200, "{scope} {path}");
        }
    }

    // A stored response of an idempotent request requires the scope, too.
    let all = create(&mut jo, json!({})).await;
    let limited = create(&mut jo, json!({"scopes": ["files"]})).await;
    let request = |key: &Value| {
        Request::json(CHAT, &hello(json!({"model": PLAIN})))
            .key(secret(key))
            .header("idempotency-key", "once")
    };
    assert_eq!(client.send(&request(&all)).await.status, 200);
    assert_eq!(refusal(&client.send(&request(&limited)).await), denied);

    // A batch also needs the scope of its requests.
    let key = create(&mut jo, json!({"scopes": ["batches"]})).await;
    let batch = json!({"input_file_id": "file-1", "endpoint": CHAT, "completion_window": "24h"});
    let response = client.post_json("/v1/batches", secret(&key), &batch).await;
    assert_eq!(refusal(&response), denied, "{}", response.text());
    scene.finish().await;
}

#[tokio::test]
async fn invalid_rights_are_refused_and_members_cannot_grant_webhooks() {
    let scene = Scene::start().await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let many: Vec<String> = (0..101).map(|_| PLAIN.to_owned()).collect();
    for (body, param) in [
        (json!({"models": []}), "models"),
        (json!({"models": "acme/large"}), "models"),
        (json!({"models": many}), "models"),
        (json!({"models": [PLAIN, "acme/none"]}), "models[1]"),
        (json!({"models": ["acme*"]}), "models[0]"),
        (json!({"models": ["*"]}), "models[0]"),
        (json!({"models": ["none/*"]}), "models[0]"),
        (json!({"scopes": []}), "scopes"),
        (json!({"scopes": ["text", "Text"]}), "scopes[1]"),
        (json!({"scopes": [7]}), "scopes"),
    ] {
        let mut whole = json!({"name": "x"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        let (status, _, found) = jo.refused("POST", KEYS, &whole).await;
        assert_eq!((status, &*found), (400, param), "{body}");
    }
    let hundred: Vec<String> = (0..100).map(|_| PLAIN.to_owned()).collect();
    let key = create(&mut jo, json!({"models": hundred})).await;
    assert_eq!(chat(&client, &key, PLAIN).await.status, 200);

    let mut al = invited(&scene, &mut jo, "al@example.com", "member").await;
    let key = create(&mut al, json!({})).await;
    let secret_path = "/v1/account/webhook_secret";
    assert_eq!(client.get(secret_path, secret(&key)).await.status, 403);
    assert_eq!(client.get("/v1/account/usage", secret(&key)).await.status, 200);
    assert_eq!(chat(&client, &key, PLAIN).await.status, 200);
    let path = format!("{KEYS}/{}", key["id"].as_str().unwrap());
    for (method, path) in [("POST", KEYS), ("PATCH", &path)] {
        let body = json!({"name": "x", "scopes": ["text", "webhooks"]});
        let expected = (403, "permission_denied".to_owned(), "scopes[1]".to_owned());
        assert_eq!(al.refused(method, path, &body).await, expected);
    }
    al.done("PATCH", &path, &json!({"scopes": null})).await;
    assert_eq!(client.get(secret_path, secret(&key)).await.status, 403);
    let rotated = al
        .done("POST", &format!("{path}/rotate"), &json!({"overlap_hours": 0}))
        .await;
    assert_eq!(client.get(secret_path, secret(&rotated)).await.status, 403);
    scene.finish().await;
}

#[tokio::test]
async fn operators_limit_keys() {
    let scene = Scene::start().await;
    let client = scene.client();
    let commands = scene.gateway.command_line();
    let create = [
        "keys",
        "create",
        "--account",
        &scene.account,
        "--model",
        "sim/*",
        "--scope",
        "text",
    ];
    let key = commands.run(&create).await;
    assert_eq!(chat(&client, &key, PLAIN).await.status, 404);
    assert_eq!(chat(&client, &key, "sim/chat").await.status, 200);
    assert_eq!(client.get("/v1/files", secret(&key)).await.status, 403);
    let id = key["id"].as_str().unwrap();
    let changed = commands
        .run(&["keys", "set-rights", id, "--model", PLAIN, "--all-scopes"])
        .await;
    assert_eq!(
        (&changed["models"], &changed["scopes"]),
        (&json!([PLAIN]), &Value::Null)
    );
    assert_eq!(chat(&client, &key, PLAIN).await.status, 200);
    assert_eq!(client.get("/v1/files", secret(&key)).await.status, 200);
    for (arguments, code) in [
        (vec![], 2),
        (vec!["--all-models", "--model", PLAIN], 2),
        (vec!["--scope", "everything"], 2),
        (vec!["--model", "acme/none"], 2),
    ] {
        let finished = commands
            .try_run(&[vec!["keys", "set-rights", id], arguments.clone()].concat())
            .await;
        assert_eq!(finished.code, code, "{arguments:?}: {finished:?}");
    }
    scene.finish().await;
}
