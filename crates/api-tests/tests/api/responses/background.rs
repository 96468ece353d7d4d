//! Background responses.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Balance, Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use super::{NATIVE, RESPONSES, saying, scene, send};
use crate::scene::{GRANTED, PLAIN, Scene, assert_error};

const BOTH: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
/// Settings of a node that accepts jobs and runs none.
const IDLE: &str = "[jobs]\nconcurrency = 0\n";

fn in_background(model: &str, members: Value) -> Value {
    let mut body = saying(model, "hello", members);
    body["background"] = json!(true);
    body
}

/// Submits a background response and returns its id.
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

/// Waits until the response has this status and returns it.
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
async fn a_background_response_can_be_polled() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "").await;
        let (node, key) = (&scene.gateway, &scene.key.secret);
        scene.upstream.push(Reply::words(3));
        let body = in_background(PLAIN, json!({"metadata": {"a": "b"}}));
        let id = accept(&scene, &body).await;
        let done = until(node, key, &id, "completed").await;
        assert_eq!(done["metadata"], json!({"a": "b"}), "{done}");
        let job = format!("/v1/jobs/{}", id.replace("resp_", "job_"));
        let job = node.client().get(&job, key).await;
        assert_eq!(
            (job.status, &job.json()["result"]),
            (200, &Value::Null),
            "{}",
            job.text()
        );
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

/// A provider that uses the format does not receive `background`; its answer is marked as a
/// background response.
#[tokio::test]
async fn a_native_provider_is_called_without_background() {
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
async fn a_running_response_is_cancelled() {
    for storage in BOTH {
        let scene = Scene::start_on(storage, "[drain]\ntime_ms = 200\n").await;
        let (node, key) = (&scene.gateway, &scene.key.secret);
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        until(node, key, &id, "in_progress").await;
        eventually("the provider is called", async || {
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
async fn a_response_cancelled_before_its_start_costs_nothing() {
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
async fn a_failed_response_names_its_error_and_is_not_charged() {
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
async fn invalid_requests_are_refused_before_any_hold() {
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
async fn a_repeated_idempotency_key_returns_the_same_response() {
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

/// A process that dies while the provider may be working repeats no call, and the caller pays
/// nothing.
#[tokio::test]
async fn a_call_is_not_repeated_after_the_process_died() {
    for storage in BOTH {
        let mut scene = Scene::start_on(storage, "").await;
        let gate = Gate::new();
        scene.upstream.push(Reply::words(3).hold_head(&gate));
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        eventually("the provider is called", async || {
            scene.upstream.request_count() > 0
        })
        .await;
        scene.gateway.kill().await;
        gate.open();
        if storage == Storage::Postgres {
            // Another process waits for the end of the lease, which the update ends early.
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

/// An accepted response is generated after the process has died, at the prices of the time of
/// acceptance.
#[tokio::test]
async fn an_accepted_response_is_generated_after_the_process_died() {
    for storage in BOTH {
        let mut scene = Scene::start_on(storage, IDLE).await;
        let id = accept(&scene, &in_background(PLAIN, json!({}))).await;
        scene.gateway.kill().await;
        let options = Scene::options(&scene.upstream, storage, "");
        let expensive = format!("[models.\"{PLAIN}\".prices]\ninput = \"5\"\noutput = \"5\"\n");
        scene.gateway.change_config(&merged(&options.config, &expensive));
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

/// A node other than the accepting one can generate the response.
#[tokio::test]
async fn another_node_generates_the_response() {
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

/// Returns the settings with others merged into them.
fn merged(base: &str, over: &str) -> String {
    let mut base: toml::Table = base.parse().unwrap();
    let over: toml::Table = over.parse().unwrap();
    let prices = over["models"][PLAIN]["prices"].clone();
    base["models"][PLAIN]["prices"] = prices;
    base.to_string()
}
