//! Responses whose callers do not wait.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Balance, Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use super::{NATIVE, RESPONSES, saying, scene, send};
use crate::scene::{GRANTED, PLAIN, Scene, assert_error};

const BOTH: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
/// A node that accepts and leaves the rest to others.
const IDLE: &str = "[jobs]\nconcurrency = 0\n";

fn in_background(model: &str, members: Value) -> Value {
    let mut body = saying(model, "hello", members);
    body["background"] = json!(true);
    body
}

/// Accepts a response; answers its id.
async fn accept(scene: &Scene, body: &Value) -> String {
    let response = send(scene, body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let response = response.json();
    assert_eq!(
        (&response["status"], &response["background"], &response["output"]),
        (&json!("queued"), &json!(true), &json!([])),
        "{response}"
    );
    response["id"].as_str().unwrap().to_owned()
}

async fn get(node: &Gateway, key: &str, id: &str) -> Response {
    node.client().get(&format!("{RESPONSES}/{id}"), key).await
}

async fn cancel(scene: &Scene, id: &str) -> Response {
    let request = Request::new("POST", &format!("{RESPONSES}/{id}/cancel")).key(&scene.key.secret);
    scene.client().send(&request).await
}

async fn delete(scene: &Scene, id: &str) -> Response {
    let request = Request::new("DELETE", &format!("{RESPONSES}/{id}")).key(&scene.key.secret);
    scene.client().send(&request).await
}

/// The response once it has this status.
async fn until(node: &Gateway, key: &str, id: &str, status: &str) -> Value {
    let mut seen = Value::Null;
    eventually(&format!("the response is {status}"), async || {
        seen = get(node, key, id).await.json();
        seen["status"] == status
    })
    .await;
    assert_eq!(seen["background"], true, "{seen}");
    seen
}

fn request_id(id: &str) -> String {
    id.replace("resp_", "req_")
}

#[tokio::test]
async fn it_is_there_when_it_is_asked_for() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let (node, key) = (&scene.gateway, &scene.key.secret);
        scene.upstream.push(Reply::words(3));
        let body = in_background(PLAIN, json!({"metadata": {"a": "b"}}));
        let id = accept(&scene, &body).await;
        let done = until(node, key, &id, "completed").await;
        assert_eq!(done["metadata"], json!({"a": "b"}), "{done}");
        assert!(
            !done["output"][0]["content"][0]["text"]
                .as_str()
                .unwrap()
                .is_empty()
        );
        let row = scene.row(&request_id(&id)).await;
        assert_eq!(
            (&row["outcome"], &row["cost"]),
            (&json!("ok"), &done["usage"]["cost"])
        );
        assert_ne!(row["cost"], "0");
        assert_eq!(scene.settled().await.credits, GRANTED - nanos(&row["cost"]));

        let next = send(
            &scene,
            &saying(PLAIN, "and now?", json!({"previous_response_id": id})),
        )
        .await;
        assert_eq!(next.status, 200, "{}", next.text());
        let asked = scene.upstream.requests();
        assert_eq!(
            asked.last().unwrap().json().unwrap()["messages"]
                .as_array()
                .unwrap()
                .len(),
            3
        );

        assert_error(
            "cancelled too late",
            &cancel(&scene, &id).await,
            "invalid_parameter",
            Some("id"),
        );
        assert_eq!(delete(&scene, &id).await.status, 200);
        assert_eq!(get(node, key, &id).await.status, 404);
        let other = scene.gateway.account().await;
        let other = scene.gateway.key(&other).await.secret;
        assert_eq!(
            get(node, &other, next.json()["id"].as_str().unwrap())
                .await
                .status,
            404
        );
        scene.finish().await;
    }
}

/// Where the provider speaks the format, its answer says so too.
#[tokio::test]
async fn a_providers_own_answer_was_made_in_the_background() {
    let scene = scene().await;
    let id = accept(&scene, &in_background(NATIVE, json!({}))).await;
    let done = until(&scene.gateway, &scene.key.secret, &id, "completed").await;
    assert_eq!((&done["id"], &done["store"]), (&json!(id), &json!(true)));
    let asked = scene.upstream.requests().last().unwrap().json().unwrap();
    assert_eq!(
        (&asked["background"], &asked["store"]),
        (&Value::Null, &json!(false)),
        "{asked}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn what_is_not_wanted_any_more_is_cancelled() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "[drain]\ntime_ms = 200\n").await;
        let (node, key) = (&scene.gateway, &scene.key.secret);
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        until(node, key, &id, "in_progress").await;
        eventually("the provider is asked", async || {
            scene.upstream.request_count() > 0
        })
        .await;
        assert_error("it runs", &delete(&scene, &id).await, "conflict", Some("id"));
        let cancelled = cancel(&scene, &id).await;
        assert_eq!(cancelled.json()["status"], "cancelled", "{}", cancelled.text());
        assert_eq!(cancel(&scene, &id).await.json(), cancelled.json());
        gate.open();
        let row = scene.row(&request_id(&id)).await;
        assert_eq!(scene.settled().await.credits, GRANTED - nanos(&row["cost"]));
        scene.finish().await;
    }
}

#[tokio::test]
async fn what_nobody_has_begun_costs_nothing() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, IDLE).await;
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        assert!(scene.balance().await.held > 0);
        let cancelled = cancel(&scene, &id).await.json();
        assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
        let whole = Balance {
            credits: GRANTED,
            held: 0,
        };
        assert_eq!(scene.balance().await, whole);
        assert_eq!(scene.upstream.request_count(), 0);
        scene.finish().await;
    }
}

#[tokio::test]
async fn what_fails_says_why_and_is_not_charged() {
    let scene = Scene::start().await;
    scene.upstream.set_default(Reply::error(400, "bad", "no"));
    let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
    let failed = until(&scene.gateway, &scene.key.secret, &id, "failed").await;
    assert_eq!(failed["error"]["code"], "server_error", "{failed}");
    assert!(!failed["error"]["message"].as_str().unwrap().is_empty());
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_held() {
    let scene = Scene::start().await;
    let refused = async |members: Value, code: &str, param: &str| {
        let response = send(&scene, &in_background(PLAIN, members)).await;
        assert_error(param, &response, code, Some(param));
    };
    refused(json!({"store": false}), "invalid_parameter", "background").await;
    let response = send(&scene, &saying(PLAIN, "hello", json!({"background": 1}))).await;
    assert_error("background", &response, "invalid_parameter", Some("background"));
    let poor = scene.gateway.account().await;
    let poor = scene.gateway.key(&poor).await.secret;
    let request =
        Request::json(RESPONSES, &in_background(PLAIN, json!({"max_output_tokens": 16}))).key(&poor);
    let response = scene.client().send(&request).await;
    assert_error("nothing to pay with", &response, "insufficient_credits", None);
    assert_eq!(get(&scene.gateway, &poor, "resp_1").await.status, 404);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn the_same_request_again_is_the_same_response() {
    let scene = Scene::start().await;
    let request = Request::json(RESPONSES, &in_background(PLAIN, json!({})))
        .key(&scene.key.secret)
        .header("idempotency-key", "once");
    let first = scene.client().send(&request).await.json();
    let id = first["id"].as_str().unwrap();
    until(&scene.gateway, &scene.key.secret, id, "completed").await;
    assert_eq!(scene.client().send(&request).await.json(), first);
    assert_eq!(scene.upstream.request_count(), 1);
    scene.finish().await;
}

/// A process that dies while the provider may be at work asks for nothing twice, and nobody pays.
#[tokio::test]
async fn a_process_that_dies_in_the_middle_asks_nothing_again() {
    for storage in BOTH {
        let mut scene = Scene::start_on(storage, "").await;
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        eventually("the provider is asked", async || {
            scene.upstream.request_count() > 0
        })
        .await;
        scene.gateway.kill().await;
        gate.open();
        if storage == Storage::Postgres {
            // Another process sees it by the end of the lease, which is sooner here than by the clock.
            let database = scene.gateway.database().unwrap();
            database.execute("UPDATE job SET lease_until = 0").await;
        }
        scene.gateway.restart().await;
        let failed = until(&scene.gateway, &scene.key.secret, &id, "failed").await;
        assert_eq!(failed["error"]["code"], "server_error", "{failed}");
        assert_eq!(scene.settled().await.credits, GRANTED);
        assert_eq!(scene.upstream.request_count(), 1);
        scene.finish().await;
    }
}

/// What was accepted is made after the process has died, at the prices of its day.
#[tokio::test]
async fn what_was_accepted_is_made_after_the_process_died() {
    for storage in BOTH {
        let mut scene = Scene::start_on(storage, IDLE).await;
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        scene.gateway.kill().await;
        let options = Scene::options(&scene.upstream, storage, "");
        let dearer = format!("[models.\"{PLAIN}\".prices]\ninput = \"5\"\noutput = \"5\"\n");
        scene.gateway.change_config(&merged(&options.config, &dearer));
        scene.gateway.restart().await;
        let done = until(&scene.gateway, &scene.key.secret, &id, "completed").await;
        let row = scene.row(&request_id(&id)).await;
        assert_eq!(row["cost"], done["usage"]["cost"], "{row}");
        let usage = &done["usage"];
        let tokens = usage["input_tokens"].as_i64().unwrap() + usage["output_tokens"].as_i64().unwrap();
        assert_eq!(
            nanos(&row["cost"]),
            tokens * 1_000,
            "at the prices of before: {row}"
        );
        scene.finish().await;
    }
}

/// The node that accepts need not be the one that makes it.
#[tokio::test]
async fn another_node_makes_it() {
    let scene = Scene::start_on(Storage::Postgres, IDLE).await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let other = scene.gateway.start_node(options).await;
    let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
    for node in [&scene.gateway, &other] {
        until(node, &scene.key.secret, &id, "completed").await;
    }
    assert_eq!(scene.upstream.request_count(), 1);
    other.finish().await;
    scene.finish().await;
}

fn nanos(cost: &Value) -> i64 {
    tollgate_testkit::gateway::nanos(cost)
}

/// Settings with these laid over them.
fn merged(base: &str, over: &str) -> String {
    let mut base: toml::Table = base.parse().unwrap();
    let over: toml::Table = over.parse().unwrap();
    let prices = over["models"][PLAIN]["prices"].clone();
    base["models"][PLAIN]["prices"] = prices;
    base.to_string()
}
