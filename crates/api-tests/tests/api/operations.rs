//! Endpoints for operators, and the gateway's behavior when its database is lost.

use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tollgate_testkit::gateway::http::{Client, Request};
use tollgate_testkit::gateway::{Gateway, Options, Storage, eventually};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{BINARY, Scene, assert_any_error, hello, saying};

#[tokio::test]
async fn metrics_are_on_the_admin_listener() {
    // The port was free a moment ago. If another process uses it now, the gateway prints its
    // replacement.
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
    assert_eq!(
        metrics.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
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

/// A page in an operator's browser cannot reach the admin listener through another host name.
#[tokio::test]
async fn the_admin_listener_answers_to_its_own_names_alone() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let scene = Scene::start_with(&format!("[server]\nadmin = \"{free}\"\n")).await;
    for (host, status) in [
        ("localhost:9464", 200),
        ("127.0.0.1", 200),
        ("[::1]:9464", 200),
        ("gateway", 200),
        ("rebound.example:9464", 421),
    ] {
        for path in ["/metrics", "/healthz", "/admin/openapi.json"] {
            let request = Request::get(path).without("host").header("host", host);
            let response = Client::new(free).send(&request).await;
            assert_eq!(response.status, status, "{host} {path}");
        }
    }
    scene.finish().await;
}

/// Only a trusted proxy can state that its callers use TLS.
#[tokio::test]
async fn urls_have_the_scheme_of_the_connection_or_trusted_proxy() {
    for (config, expected) in [
        ("", "http://gateway/v1/jobs/"),
        (
            "[server]\ntrusted_proxies = [\"127.0.0.1\"]\n",
            "https://gateway/v1/jobs/",
        ),
        (
            "[server]\npublic_url = \"https://api.example.com/\"\n",
            "https://api.example.com/v1/jobs/",
        ),
    ] {
        let scene = Scene::start_with(config).await;
        let body = json!({"model": "sim/image", "prompt": "a lake", "resolution": "0.5k"});
        let request = Request::json("/v1/images/generations", &body)
            .key(&scene.key.secret)
            .header("x-forwarded-proto", "https");
        let response = scene.client().send(&request).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let url = response.json()["poll_url"].as_str().unwrap().to_owned();
        assert!(url.starts_with(expected), "{config:?}: {url}");
        assert!(response.header("location").unwrap().starts_with(expected));
        scene.settled().await;
        scene.finish().await;
    }
}

#[tokio::test]
async fn without_its_database_the_gateway_is_not_ready_and_recovers() {
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
        "the process is healthy"
    );
    eventually("the gateway is not ready", async || {
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
    // A running call completes for its caller.
    gate.open();
    let rest = running.rest().await;
    assert!(rest.events().last().unwrap().is_done(), "{}", rest.text());

    database.set_reachable(true).await;
    eventually("the gateway is ready again", async || {
        client.send(&Request::get("/readyz")).await.status == 200
    })
    .await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    // The unsettled call is still held. The hold expires later and costs nothing.
    let check = scene.gateway.ledger_check().await;
    assert!(check.clean, "{check:?}");
    assert!(check.open_holds <= 1, "{check:?}");
    drop(scene);
}

#[tokio::test]
async fn callers_may_expect_100_continue() {
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
    // A body that would be refused anyway need not be sent.
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
async fn a_first_start_that_is_killed_can_be_repeated() {
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
        // The gateway starts whether or not the folder and the secrets exist, and also with an
        // incomplete database.
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
