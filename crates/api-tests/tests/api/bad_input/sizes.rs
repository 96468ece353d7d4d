//! Bodies at and beyond the size limit.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::upstream::Reply;

use crate::scene::{CHAT, MODEL, Scene, assert_error, hello};

/// Maximum body size of an endpoint that accepts inline media, in bytes.
const MAX_BODY_BYTES: usize = 32 << 20;

/// Builds a valid request of exactly this size. A JSON library would take seconds for so much text.
fn request_of(bytes: usize, model: &str) -> Vec<u8> {
    let mut body = format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":""#).into_bytes();
    let end = br#""}]}"#;
    body.resize(bytes - end.len(), b'x');
    body.extend_from_slice(end);
    body
}

fn json_post(scene: &Scene, body: Vec<u8>) -> Request {
    Request::post(CHAT, body)
        .header("content-type", "application/json")
        .key(&scene.key.secret)
}

#[tokio::test]
async fn bodies_beyond_the_size_limit_are_refused() {
    let scene = Scene::start().await;
    let cases = [
        (
            "one byte more",
            json_post(&scene, request_of(MAX_BODY_BYTES + 1, MODEL)),
        ),
        ("33 MiB", json_post(&scene, request_of(33 << 20, MODEL))),
        (
            "33 MiB in chunks",
            json_post(&scene, request_of(33 << 20, MODEL)).chunked(1 << 16),
        ),
        (
            "one byte more in chunks",
            json_post(&scene, request_of(MAX_BODY_BYTES + 1, MODEL)).chunked(1 << 20),
        ),
        ("33 MiB of white space", json_post(&scene, vec![b' '; 33 << 20])),
    ];
    for (what, request) in cases {
        assert_error(
            what,
            &scene.client().send(&request).await,
            "request_too_large",
            None,
        );
    }
    // The announced length is refused before any byte of the body is sent.
    let announced = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .key(&scene.key.secret);
    let response = scene
        .client()
        .send(&announced.header("content-length", (1_u64 << 40).to_string()))
        .await;
    assert_error("a TiB announced", &response, "request_too_large", None);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn a_body_of_exactly_the_size_limit_is_accepted() {
    let scene = Scene::start().await;
    scene.upstream.set_default(Reply::words(2));
    let request = json_post(&scene, request_of(MAX_BODY_BYTES, MODEL));
    let response = scene.client().send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["choices"][0]["message"]["content"], "w1 w2");
    let received = scene.upstream.requests();
    assert_eq!(
        received[0].body.len(),
        MAX_BODY_BYTES - MODEL.len() + "large-v1".len()
    );
    // A chunked body of this size is accepted, too. The gateway reads all of it and then reports
    // the unknown model.
    let chunked = json_post(&scene, request_of(MAX_BODY_BYTES, "none")).chunked(1 << 20);
    assert_error(
        "in chunks",
        &scene.client().send(&chunked).await,
        "model_not_found",
        Some("model"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn other_content_types_and_encodings_are_refused() {
    let scene = Scene::start().await;
    let body = hello(json!({})).to_string();
    let plain = || Request::post(CHAT, body.as_str()).key(&scene.key.secret);
    let typed = |content_type: &str| plain().header("content-type", content_type);
    let encoded =
        |encoding: &str, body: Vec<u8>| json_post(&scene, body).header("content-encoding", encoding);
    let cases = [
        ("text", typed("text/plain")),
        ("a form", typed("application/x-www-form-urlencoded")),
        ("several parts", typed("multipart/form-data; boundary=x")),
        ("events", typed("text/event-stream")),
        ("almost JSON", typed("application/jsonp")),
        ("gzip", encoded("gzip", bomb())),
        ("a gzip bomb that says nothing", encoded("GZIP", vec![0; 1 << 20])),
        ("brotli", encoded("br", body.clone().into_bytes())),
        ("twice", encoded("gzip, identity", body.clone().into_bytes())),
    ];
    for (what, request) in cases {
        assert_error(
            what,
            &scene.client().send(&request).await,
            "unsupported_media_type",
            None,
        );
    }
    // A compressed body without `content-encoding` is invalid JSON.
    assert_error(
        "silent gzip",
        &scene.client().send(&json_post(&scene, bomb())).await,
        "invalid_json",
        None,
    );
    scene.nothing_happened().await;
    for content_type in ["application/json", "Application/JSON; charset=utf-8"] {
        let response = scene.client().send(&typed(content_type)).await;
        assert_eq!(response.status, 200, "{content_type}: {}", response.text());
    }
    assert_eq!(
        scene.client().send(&plain()).await.status,
        200,
        "without a type it is taken for JSON"
    );
    let identity = encoded("identity", body.clone().into_bytes());
    assert_eq!(scene.client().send(&identity).await.status, 200);
    scene.finish().await;
}

/// Returns the start of a gzip stream (RFC 1952) with many stored deflate blocks.
fn bomb() -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    for _ in 0..16 {
        bytes.extend([0, 0xff, 0xff, 0, 0]);
        bytes.extend(vec![b' '; 0xffff]);
    }
    bytes
}

#[tokio::test]
async fn a_large_schema_of_small_values_is_accepted() {
    let scene = Scene::start().await;
    scene.upstream.set_default(Reply::words(1));
    // 500,000 small values stay below the limit on the number of values.
    let schema: Value = json!({"type": "object", "enum": vec![0; 500_000]});
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": schema}});
    let response = scene.chat(&hello(json!({"tools": [tool]}))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    scene.finish().await;
}
