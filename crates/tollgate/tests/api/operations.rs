//! What operators look at, and what the gateway does when something under it is gone.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tollgate_testkit::gateway::http::{Client, Request};
use tollgate_testkit::gateway::{Gateway, Options, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{BINARY, Scene, assert_any_error, hello, saying};

#[tokio::test]
async fn metrics_are_on_the_admin_listener() {
    // A port that was free a moment ago; should it be taken now, the gateway says which it took instead.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let scene = Scene::start_with(&format!("[server]\nadmin = \"{free}\"\n")).await;
    let log = scene.gateway.log();
    assert!(!log.contains("is taken"), "{log}");
    scene.chat(&hello(json!({}))).await;
    scene.chat(&hello(json!({"n": 0}))).await;
    scene.upstream.push(Reply::error(400, "x", "no"));
    scene.chat(&hello(json!({"stream": true}))).await;
    let metrics = Client::new(free).send(&Request::get("/metrics")).await;
    assert_eq!(metrics.status, 200);
    let text = metrics.text();
    for line in [
        "tollgate_calls_total{outcome=\"ok\"} 1",
        "tollgate_calls_total{outcome=\"upstream_error\"} 1",
        "tollgate_http_responses_total{class=\"2xx\"} 1",
        "tollgate_http_responses_total{class=\"4xx\"} 2",
        "tollgate_panics_total 0",
    ] {
        assert!(text.contains(line), "{line} in:\n{text}");
    }
    for secret in [scene.key.secret.as_str(), scene.account.as_str(), "Hi there"] {
        assert!(!text.contains(secret), "{secret} is in the metrics");
    }
    assert_eq!(
        Client::new(free).send(&Request::get("/healthz")).await.status,
        200
    );
    assert_eq!(
        Client::new(free).send(&Request::get("/v1/models")).await.status,
        404,
        "the API is not there"
    );
    scene.finish().await;
}

#[tokio::test]
async fn without_its_database_it_is_not_ready_and_comes_back_by_itself() {
    let scene = Scene::start_on(Storage::Postgres, "").await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    let gate = Gate::new();
    scene.upstream.push(Reply::words(5).hold_event(3, &gate));
    let mut running = scene.open(&saying("Hi there", true)).await;
    running.next_json().await;
    let database = scene.gateway.database().unwrap();
    database.set_reachable(false).await;

    let client = scene.client();
    assert_eq!(
        client.send(&Request::get("/healthz")).await.status,
        200,
        "the process is well"
    );
    eventually("it is not ready", async || {
        client.send(&Request::get("/readyz")).await.status == 503
    })
    .await;
    let sent = scene.upstream.request_count();
    let refused = scene.chat(&hello(json!({}))).await;
    let error = assert_any_error("no database", &refused);
    assert_eq!(
        (refused.status, error.code.as_str()),
        (503, "overloaded"),
        "{error:?}"
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(scene.upstream.request_count(), sent, "no hold, no call");
    // A call that runs is finished for its caller.
    gate.open();
    let rest = running.rest().await;
    assert!(rest.events().last().unwrap().is_done(), "{}", rest.text());

    database.set_reachable(true).await;
    eventually("it is ready again", async || {
        client.send(&Request::get("/readyz")).await.status == 200
    })
    .await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    // What could not be settled is still held; it is released when it is due, and costs nothing.
    let check = scene.gateway.ledger_check().await;
    assert!(check.clean, "{check:?}");
    assert!(check.open_holds <= 1, "{check:?}");
    drop(scene);
}

#[tokio::test]
async fn callers_may_ask_before_they_send() {
    let scene = Scene::start().await;
    let request = scene.request(&hello(json!({}))).header("expect", "100-continue");
    let (head, whole) = (request.head_bytes(), request.bytes());
    let mut connection = scene.client().connect().await;
    connection.write(&head).await.unwrap();
    connection.write(&whole[head.len()..]).await.unwrap();
    assert_eq!(
        connection.read().await.status,
        200,
        "100 Continue, then the answer"
    );
    // What would be refused anyway need not be sent.
    let large = Request::new("POST", crate::scene::CHAT)
        .key(&scene.key.secret)
        .header("content-length", "40000000")
        .header("expect", "100-continue");
    let mut connection = scene.client().connect().await;
    connection.write(&large.head_bytes()).await.unwrap();
    assert_eq!(connection.read().await.status, 413);
    scene.finish().await;
}

#[tokio::test]
async fn a_first_start_that_is_killed_can_be_done_again() {
    let mut gateway = Gateway::start(BINARY, Options::default()).await;
    gateway.kill().await;
    for wait in [0, 5, 10, 20, 30, 45, 60, 90, 120, 200] {
        std::fs::remove_dir_all(gateway.data()).unwrap();
        let mut process = tokio::process::Command::new(BINARY)
            .env_clear()
            .arg("--data")
            .arg(gateway.data())
            .arg("--config")
            .arg(gateway.folder().join("tollgate.toml"))
            .arg("serve")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        process.kill().await.unwrap();
        // Folder and secrets may be there or not, the database made by half: it starts, and works.
        std::fs::create_dir_all(gateway.data()).unwrap();
        gateway.restart().await;
        let account = gateway.account().await;
        let key = gateway.key(&account).await.secret;
        gateway.grant(&account, "1").await;
        let body = json!({"model": "sim/chat", "messages": [{"role": "user", "content": "Hi"}]});
        let response = gateway.client().post_json(crate::scene::CHAT, &key, &body).await;
        assert_eq!(
            response.status,
            200,
            "killed after {wait} ms: {}",
            response.text()
        );
        gateway.kill().await;
    }
    gateway.finish().await;
}
