//! `Idempotency-Key`: repeated requests are executed once.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Client, Request, Response};
use tollgate_testkit::gateway::{Balance, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{CHAT, GRANTED, MODEL, Scene, assert_error, hello, saying};

const KEY: &str = "idempotency-key";

fn keyed(scene: &Scene, key: &str, body: &Value) -> Request {
    scene.request(body).header(KEY, key)
}

async fn send(scene: &Scene, key: &str, body: &Value) -> Response {
    scene.client().send(&keyed(scene, key, body)).await
}

/// Asserts that `again` is a free replay of `first`.
fn assert_replayed(first: &Response, again: &Response) {
    assert_eq!(
        again.header("idempotency-replayed"),
        Some("true"),
        "{}",
        again.text()
    );
    assert_eq!(
        (again.status, again.header("content-type"), again.body()),
        (first.status, first.header("content-type"), first.body())
    );
    assert_eq!(
        again.header("x-tollgate-original-request-id"),
        Some(first.request_id())
    );
    assert_ne!(again.request_id(), first.request_id());
    assert_eq!(again.header("x-tollgate-cost"), Some("0"));
}

#[tokio::test]
async fn repeated_requests_are_replayed_and_charged_once() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        for (key, body) in [("whole", hello(json!({}))), ("streamed", saying("Hi", true))] {
            let first = send(&scene, key, &body).await;
            assert_eq!(first.status, 200, "{}", first.text());
            assert_eq!(first.header("idempotency-replayed"), None);
            let (balance, requests) = (scene.settled().await, scene.upstream.request_count());
            for _ in 0..2 {
                assert_replayed(&first, &send(&scene, key, &body).await);
            }
            assert_eq!(scene.balance().await, balance);
            assert_eq!(scene.upstream.request_count(), requests);
        }
        assert_eq!(scene.rows().await.len(), 2);
        // A request without a key or with another key is executed separately.
        for request in [
            scene.request(&hello(json!({}))),
            keyed(&scene, "other", &hello(json!({}))),
        ] {
            assert_eq!(scene.client().send(&request).await.status, 200);
        }
        assert_eq!(scene.upstream.request_count(), 4);
        scene.finish().await;
    }
}

#[tokio::test]
async fn concurrent_requests_with_one_key_are_executed_once() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        scene.gateway.set_limits(&scene.account, 1_000, 10_000_000).await;
        let gate = Gate::new();
        scene.upstream.set_default(Reply::words(3).hold_head(&gate));
        let request = keyed(&scene, "one", &hello(json!({})));
        let mut calls: Vec<_> = (0..64)
            .map(|_| {
                let (client, request): (Client, Request) = (scene.client(), request.clone());
                tokio::spawn(async move { client.send(&request).await })
            })
            .collect();
        scene.upstream.wait_for_requests(1).await;
        // All requests except one are refused with `idempotency_in_progress`.
        eventually("the others are refused", async || {
            calls.iter().filter(|call| call.is_finished()).count() == 63
        })
        .await;
        gate.open();
        let mut answers = Vec::new();
        for call in calls.drain(..) {
            answers.push(call.await.unwrap());
        }
        let (served, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.status == 200);
        assert_eq!((served.len(), refused.len()), (1, 63));
        for answer in refused {
            assert_error("while it runs", answer, "idempotency_in_progress", None);
            assert!(answer.header("retry-after").is_some());
        }
        let again = scene.client().send(&request).await;
        assert_replayed(served[0], &again);
        assert_eq!(scene.upstream.request_count(), 1);
        assert_eq!(scene.rows().await.len(), 1);
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_key_cannot_be_reused_for_another_request() {
    let scene = Scene::start().await;
    let body = hello(json!({}));
    assert_eq!(send(&scene, "k", &body).await.status, 200);
    let other = send(&scene, "k", &hello(json!({"temperature": 1}))).await;
    assert_error(
        "another body",
        &other,
        "idempotency_key_reused",
        Some("Idempotency-Key"),
    );
    // The same value on another path or of another account is a different key.
    let messages = json!({"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]});
    let request = Request::json("/v1/messages", &messages)
        .key(&scene.key.secret)
        .header(KEY, "k");
    assert_eq!(scene.client().send(&request).await.status, 200);
    let account = scene.gateway.account().await;
    scene.gateway.grant(&account, "1").await;
    let stranger = scene.gateway.key(&account).await.secret;
    let request = Request::json(CHAT, &hello(json!({"temperature": 0})))
        .key(&stranger)
        .header(KEY, "k");
    let served = scene.client().send(&request).await;
    assert_eq!(
        (served.status, served.header("idempotency-replayed")),
        (200, None)
    );
    // All API keys of an account share its idempotency keys.
    let second = scene.gateway.key(&scene.account).await.secret;
    let request = Request::json(CHAT, &body).key(&second).header(KEY, "k");
    let again = scene.client().send(&request).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    scene.finish().await;
}

#[tokio::test]
async fn failed_requests_release_their_key() {
    let scene = Scene::start_with("[retries]\nextra_attempts = 0\n").await;
    let invalid = send(&scene, "k", &hello(json!({"temperature": 9}))).await;
    assert_error("invalid", &invalid, "invalid_parameter", Some("temperature"));
    scene.upstream.push(Reply::error(500, "server_error", "broken"));
    let failed = send(&scene, "k", &hello(json!({}))).await;
    assert_error("upstream", &failed, "upstream_error", None);
    assert_eq!(
        scene.settled().await,
        Balance {
            credits: GRANTED,
            held: 0
        }
    );
    let served = send(&scene, "k", &hello(json!({"temperature": 1}))).await;
    assert_eq!(
        (served.status, served.header("idempotency-replayed")),
        (200, None)
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_disconnected_caller_can_fetch_the_response_later() {
    for stream in [false, true] {
        let scene = Scene::start().await;
        let gate = Gate::new();
        let reply = Reply::words(40);
        scene.upstream.push(match stream {
            true => reply.hold_event(3, &gate),
            false => reply.hold_head(&gate),
        });
        let body = saying("Hi", stream);
        let request = keyed(&scene, "k", &body);
        if stream {
            let mut answer = scene.client().open(&request).await;
            assert!(answer.next_chunk().await.is_some());
            answer.into_connection().reset();
        } else {
            let mut connection = scene.client().connect().await;
            connection.write(&request.bytes()).await.unwrap();
            scene.upstream.wait_for_requests(1).await;
            connection.reset();
        }
        gate.open();
        let mut answer = None;
        eventually("the answer is stored", async || {
            let again = scene.client().send(&request).await;
            answer.insert(again).status == 200
        })
        .await;
        let answer = answer.unwrap();
        assert_eq!(answer.header("idempotency-replayed"), Some("true"));
        if stream {
            assert!(answer.text().trim_end().ends_with("[DONE]"), "{}", answer.text());
        }
        assert_eq!(scene.upstream.request_count(), 1);
        let row = scene
            .row(answer.header("x-tollgate-original-request-id").unwrap())
            .await;
        assert_eq!(row["outcome"], "ok", "{row}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn responses_survive_a_crash_and_running_claims_do_not() {
    let mut scene = Scene::start().await;
    let body = hello(json!({}));
    let first = send(&scene, "answered", &body).await;
    scene.gateway.stop().await;
    scene.gateway.restart().await;
    assert_replayed(&first, &send(&scene, "answered", &body).await);
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let mut connection = scene.client().connect().await;
    connection
        .write(&keyed(&scene, "running", &body).bytes())
        .await
        .unwrap();
    scene.upstream.wait_for_requests(2).await;
    scene.gateway.kill().await;
    scene.gateway.restart().await;
    let served = send(&scene, "running", &body).await;
    assert_eq!(
        (served.status, served.header("idempotency-replayed")),
        (200, None)
    );
    assert_replayed(&first, &send(&scene, "answered", &body).await);
    scene.finish().await;
}

#[tokio::test]
async fn nodes_share_idempotency_keys() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    let options = Scene::options(&scene.upstream, Storage::Postgres, "");
    let second = scene.gateway.start_node(options).await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(3).hold_head(&gate));
    let request = keyed(&scene, "k", &hello(json!({})));
    let (client, first) = (scene.client(), request.clone());
    let first = tokio::spawn(async move { client.send(&first).await });
    scene.upstream.wait_for_requests(1).await;
    let there = second.client().send(&request).await;
    assert_error("on the other node", &there, "idempotency_in_progress", None);
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status, 200);
    let again = second.client().send(&request).await;
    // Every node has the secret that decrypts the stored response.
    assert_replayed(&first, &again);
    scene
        .gateway
        .command_line()
        .run(&["keys", "revoke", &scene.key.id])
        .await;
    eventually("a revoked key finds nothing", async || {
        second.client().send(&request).await.status == 401
    })
    .await;
    second.finish().await;
    scene.gateway.finish().await;
}

#[tokio::test]
async fn invalid_keys_are_refused_before_execution() {
    let scene = Scene::start().await;
    let longest = "k".repeat(255);
    assert_eq!(send(&scene, &longest, &hello(json!({}))).await.status, 200);
    let requests = scene.upstream.request_count();
    let too_long = "k".repeat(256);
    for (what, keys) in [
        ("empty", vec![""]),
        ("too long", vec![too_long.as_str()]),
        ("not ASCII", vec!["schlüssel"]),
        ("two", vec!["a", "b"]),
    ] {
        let request = scene.request(&hello(json!({})));
        let request = keys
            .iter()
            .fold(request, |request, key| request.header(KEY, *key));
        let refused = scene.client().send(&request).await;
        assert_error(what, &refused, "invalid_parameter", Some("Idempotency-Key"));
    }
    let anonymous = Request::json(CHAT, &hello(json!({}))).header(KEY, "");
    assert_error(
        "no key of the service",
        &scene.client().send(&anonymous).await,
        "missing_api_key",
        None,
    );
    assert_eq!(scene.upstream.request_count(), requests);
    scene.finish().await;
}

#[tokio::test]
async fn stored_responses_are_encrypted() {
    let mut scene = Scene::start().await;
    let body = saying("the quick brown secret", false);
    scene.upstream.push(Reply::text("an unmistakable answer"));
    assert_eq!(send(&scene, "k", &body).await.status, 200);
    scene.gateway.stop().await;
    let canary = b"unmistakable";
    for entry in std::fs::read_dir(scene.gateway.data()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let shows = bytes.windows(canary.len()).any(|part| part == canary);
            assert!(!shows, "{}", path.display());
        }
    }
    scene.gateway.restart().await;
    let again = send(&scene, "k", &body).await;
    assert!(again.text().contains("unmistakable"));
    scene.finish().await;
}
