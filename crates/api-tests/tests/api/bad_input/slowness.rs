//! Callers that send slowly, and callers that do not read.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::upstream::{At, End, How, Reply};

use crate::scene::{CHAT, GRANTED, PROVIDER, Scene, assert_error, hello, saying, with};

#[tokio::test]
async fn incomplete_request_heads_time_out() {
    let scene = Scene::start_with("[timeouts]\nrequest_headers_ms = 200\n").await;
    let whole = scene.request(&hello(json!({}))).bytes();
    for (what, keep) in [("a line", 10), ("most of it", 120)] {
        let mut connection = scene.client().connect().await;
        connection.write(&whole[..keep]).await.unwrap();
        assert_error(what, &connection.read().await, "request_timeout", None);
        assert!(connection.closes().await, "{what}");
    }
    // A connection without any bytes is closed without a response.
    let mut silent = scene.client().connect().await;
    assert!(silent.closes().await);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn incomplete_request_bodies_time_out() {
    let scene = Scene::start_with("[timeouts]\nrequest_body_ms = 200\n").await;
    let whole = scene.request(&hello(json!({}))).bytes();
    let chunked = scene.request(&hello(json!({}))).chunked(16).bytes();
    for (what, bytes, keep) in [
        ("half of it", &whole, whole.len() - 20),
        ("half of its chunks", &chunked, chunked.len() - 30),
    ] {
        let mut connection = scene.client().connect().await;
        connection.write(&bytes[..keep]).await.unwrap();
        assert_error(what, &connection.read().await, "request_timeout", None);
    }
    // A request without a key is refused before its body arrives.
    let mut connection = scene.client().connect().await;
    let anonymous = Request::new("POST", CHAT).header("content-length", "100");
    connection.write(&anonymous.bytes()).await.unwrap();
    assert_error("without a key", &connection.read().await, "missing_api_key", None);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_caller_that_does_not_read_is_disconnected() {
    // With this output cap, the socket buffers are full long before the stream reaches its size
    // limit.
    let wide = format!(
        "[timeouts]\nwrite_stall_ms = 200\n[drain]\nbytes = 100000\n[models.\"acme/wide\"]\ntargets = [\"{PROVIDER}/wide\"]\n\
         prices = {{ input = \"1\", output = \"2\" }}\nlimits = {{ context_window = 2000000, max_output_tokens = 1000000 }}\n"
    );
    let scene = Scene::start_with(&wide).await;
    scene.upstream.push(Reply::words(3).endless());
    let mut connection = scene.client().connect().await;
    connection
        .write(
            &scene
                .request(&with(saying("Hi", true), json!({"model": "acme/wide"})))
                .bytes(),
        )
        .await
        .unwrap();
    let head = connection.read_head().await.unwrap();
    let id = head.header("x-request-id").unwrap().to_owned();
    // The socket buffers fill, and then the gateway's write stalls until its timeout.
    scene
        .upstream
        .wait_until("the upstream connection closes", |upstream| {
            upstream.open_connections() == 0
        })
        .await;
    let row = scene.row(&id).await;
    assert_eq!(row["outcome"], "client_gone");
    assert_eq!(row["estimated"], true, "no report came: {row}");
    assert_eq!(scene.upstream.served()[0].end, End::ClientGone);
    let balance = scene.settled().await;
    assert!(balance.credits < GRANTED, "what was generated is charged");
    drop(connection);
    scene.finish().await;
}

#[tokio::test]
async fn a_caller_that_reads_slowly_gets_everything() {
    let scene = Scene::start().await;
    scene.upstream.push(Reply::words(2_000));
    let mut connection = scene.client().connect().await;
    connection
        .write(&scene.request(&saying("Hi", true)).bytes())
        .await
        .unwrap();
    // The test reads nothing until the upstream has started its response.
    scene
        .upstream
        .wait_until("the answer has begun", |upstream| upstream.served_count() == 1)
        .await;
    let response = connection.read().await;
    let events = response.events();
    assert!(events.last().unwrap().is_done());
    assert_eq!(events.len(), 2_003, "role, words, finish, end");
    scene.finish().await;
}

#[tokio::test]
async fn a_half_closed_connection_ends_its_call_once() {
    let scene = Scene::start().await;
    scene.upstream.push(Reply::words(5).cut(At::Events(3), How::Hang));
    let mut connection = scene.client().connect().await;
    connection
        .write(&scene.request(&hello(json!({}))).bytes())
        .await
        .unwrap();
    scene.upstream.wait_for_requests(1).await;
    // Some clients half-close the connection and continue to read; most have disconnected. In both
    // cases, the call ends once.
    connection.end_writing().await.unwrap();
    drop(connection);
    drop(scene.upstream);
    scene.gateway.finish().await;
}
