//! Paths, methods, queries, and malformed HTTP.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;

use crate::scene::{CHAT, MODEL, Scene, assert_any_error, assert_error, hello};

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_refused() {
    let scene = Scene::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/chat/completions",
        "/v1/chat",
        "/v1/chat/completions/",
        "/v1/chat/completions/x",
        "/%00",
        "/../v1/models",
        "//v1/models",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let response = scene
                .client()
                .send(&Request::new(method, path).key(&scene.key.secret))
                .await;
            assert_error(&format!("{method} {path}"), &response, "not_found", None);
        }
    }
    let model = format!("/v1/models/{MODEL}");
    for (path, allowed) in [
        (CHAT, "POST"),
        ("/v1/models", "GET,HEAD"),
        (model.as_str(), "POST,GET,HEAD"),
        ("/v1/account/usage", "GET,HEAD"),
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"] {
            if allowed.split(',').any(|other| other == method) {
                continue;
            }
            let what = format!("{method} {path}");
            let response = scene
                .client()
                .send(&Request::new(method, path).key(&scene.key.secret))
                .await;
            assert_error(&what, &response, "method_not_allowed", None);
            assert_eq!(response.header("allow"), Some(allowed), "{what}");
        }
    }
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn usage_query_parameters_are_validated() {
    let scene = Scene::start().await;
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=ten", "limit"),
        ("limit=-1", "limit"),
        ("limit=99999999999", "limit"),
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("key_id=sk-service-x", "key_id"),
        ("after=1", "after"),
        ("request_id=abc", "request_id"),
        ("group_by=colour", "group_by"),
        ("page=2", "page"),
    ] {
        let response = scene
            .client()
            .get(&format!("/v1/account/usage?{query}"), &scene.key.secret)
            .await;
        assert_error(query, &response, "invalid_parameter", Some(param));
    }
    for query in [
        "limit=1",
        "limit=100",
        "from=2026-01-01&to=2026-01-02T03:04:05Z",
        "model=%F0%9F%98%80",
        "",
    ] {
        let response = scene
            .client()
            .get(&format!("/v1/account/usage?{query}"), &scene.key.secret)
            .await;
        assert_eq!(response.status, 200, "{query}: {}", response.text());
    }
    scene.finish().await;
}

#[tokio::test]
async fn malformed_http_is_refused() {
    let scene = Scene::start().await;
    let body = hello(json!({})).to_string();
    let head = |headers: &str| {
        let key = &scene.key.secret;
        let fixed =
            format!("host: gateway\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n");
        format!("POST {CHAT} HTTP/1.1\r\n{fixed}{headers}\r\n").into_bytes()
    };
    let long = format!("x-long: {}\r\n", "a".repeat(128 << 10));
    let many: String = (0..500).map(|number| format!("x-{number}: 1\r\n")).collect();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        (
            "no HTTP at all",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n".to_vec(),
        ),
        ("no request line", b"hello\r\n\r\n".to_vec()),
        ("a blank in a header's name", head("bad name: 1\r\n")),
        ("a folded header", head("x-a: 1\r\n folded\r\n")),
        ("a length that is none", head("content-length: ten\r\n")),
        ("a negative length", head("content-length: -1\r\n")),
        ("two lengths", head("content-length: 5\r\ncontent-length: 6\r\n")),
        (
            "a chunk size that is none",
            [
                head("transfer-encoding: chunked\r\n"),
                b"zz\r\n{}\r\n0\r\n\r\n".to_vec(),
            ]
            .concat(),
        ),
        ("an unknown coding", head("transfer-encoding: gzip\r\n")),
        ("a header beyond the largest", head(&long)),
        ("too many headers", head(&many)),
        (
            "a target beyond the largest",
            format!("GET /{} HTTP/1.1\r\nhost: g\r\n\r\n", "a".repeat(100_000)).into_bytes(),
        ),
    ];
    for (what, bytes) in cases {
        let mut connection = scene.client().connect().await;
        // The write may fail, because the gateway may refuse the request before it has read all of
        // it.
        let _ = connection.write(&bytes).await;
        let response = connection.read().await;
        assert!(
            (400..500).contains(&response.status),
            "{what}: {}",
            response.status
        );
        assert_any_error(what, &response);
    }
    // Requests with a length and a transfer coding can smuggle other requests. The gateway refuses
    // them, or it uses the coding and closes the connection.
    let both = head(&format!(
        "content-length: {}\r\ntransfer-encoding: chunked\r\n",
        body.len()
    ));
    let mut connection = scene.client().connect().await;
    let smuggled = b"0\r\n\r\nGET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n";
    let _ = connection.write(&[both, smuggled.to_vec()].concat()).await;
    assert_any_error("length and coding", &connection.read().await);
    scene.nothing_happened().await;
    scene.finish().await;
}

/// Builds a request head of exactly this size, padded by a header.
fn head_of(bytes: usize, first: &str, headers: &str) -> Vec<u8> {
    let mut head = format!("{first} HTTP/1.1\r\nhost: g\r\n{headers}x-pad: ").into_bytes();
    head.resize(bytes - 4, b'a');
    head.extend_from_slice(b"\r\n\r\n");
    head
}

#[tokio::test]
async fn request_heads_are_accepted_up_to_their_limits() {
    const MAX_HEAD: usize = 32 << 10;
    const MAX_HEADERS: usize = 100;
    const MAX_URI: usize = 8 << 10;
    let scene = Scene::start().await;
    let key = format!("authorization: Bearer {}\r\n", scene.key.secret);
    let models = |bytes: usize| head_of(bytes, "GET /v1/models", &key);
    let counted = |count: usize| {
        // The host and the key are two of the headers.
        let more: String = (2..count).map(|number| format!("x-{number}: 1\r\n")).collect();
        format!("GET /v1/models HTTP/1.1\r\nhost: g\r\n{key}{more}\r\n").into_bytes()
    };
    let target = |start: &str, bytes: usize| {
        let target = format!("{start}{}", "a".repeat(bytes - start.len()));
        format!("GET {target} HTTP/1.1\r\nhost: g\r\n{key}\r\n").into_bytes()
    };
    let refused = ("request_too_large", 413);
    let cases = [
        ("a whole head", models(MAX_HEAD), models(MAX_HEAD + 1), ("", 200)),
        (
            "headers",
            counted(MAX_HEADERS),
            counted(MAX_HEADERS + 1),
            ("", 200),
        ),
        (
            "a path",
            target("/", MAX_URI),
            target("/", MAX_URI + 1),
            ("not_found", 404),
        ),
        (
            "a query",
            target("/v1/none?", MAX_URI),
            target("/v1/none?", MAX_URI + 1),
            ("not_found", 404),
        ),
        (
            "an address with its server",
            target("http://g/none?", MAX_URI),
            target("http://g/none?", MAX_URI + 1),
            ("not_found", 404),
        ),
    ];
    for (what, at, beyond, taken) in cases {
        for (bytes, (code, status)) in [(at, taken), (beyond, refused)] {
            let what = format!("{what}, {} bytes", bytes.len());
            let mut connection = scene.client().connect().await;
            let _ = connection.write(&bytes).await;
            let response = connection.read().await;
            assert_eq!(response.status, status, "{what}: {}", response.text());
            if status != 200 {
                assert_error(&what, &response, code, None);
            }
        }
    }
    // An endless head is refused as soon as it exceeds the limit.
    let mut connection = scene.client().connect().await;
    let endless = models(2 * MAX_HEAD);
    connection.write(&endless[..MAX_HEAD]).await.unwrap();
    assert_error("endless", &connection.read().await, refused.0, None);
    // The limit does not include the body.
    let body = hello(json!({"messages": [{"role": "user", "content": "x".repeat(100_000)}]})).to_string();
    let headers = format!(
        "{key}content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    let mut connection = scene.client().connect().await;
    let head = head_of(MAX_HEAD, &format!("POST {CHAT}"), &headers);
    connection
        .write(&[head, body.into_bytes()].concat())
        .await
        .unwrap();
    let response = connection.read().await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(scene.upstream.request_count(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn truncated_bodies_cost_nothing() {
    let scene = Scene::start().await;
    let whole = scene.request(&hello(json!({}))).bytes();
    for (what, keep) in [
        ("in the body", whole.len() - 10),
        (
            "before the body",
            whole.len() - hello(json!({})).to_string().len(),
        ),
    ] {
        let mut connection = scene.client().connect().await;
        connection.write(&whole[..keep]).await.unwrap();
        connection.end_writing().await.unwrap();
        // A caller that is still reading may receive an error. No caller is charged.
        if let Some(head) = connection.read_head().await {
            assert_eq!(head.status, 400, "{what}");
        }
    }
    let mut connection = scene.client().connect().await;
    connection.write(&whole[..whole.len() - 1]).await.unwrap();
    connection.reset();
    // The next connection is served normally.
    scene.nothing_happened().await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let scene = Scene::start().await;
    let mut connection = scene.client().connect().await;
    let bad = Request::post(CHAT, "{")
        .header("content-type", "application/json")
        .key(&scene.key.secret);
    for _ in 0..3 {
        assert_eq!(
            connection.respond(&scene.request(&hello(json!({})))).await.status,
            200
        );
        assert_error("between", &connection.respond(&bad).await, "invalid_json", None);
        let streamed = connection
            .respond(&scene.request(&hello(json!({"stream": true}))))
            .await;
        assert!(streamed.events().last().unwrap().is_done());
    }
    // Both requests are sent before the first response arrives.
    let twice = [
        scene.request(&hello(json!({}))).bytes(),
        scene.request(&hello(json!({"stream": true}))).bytes(),
    ];
    connection.write(&twice.concat()).await.unwrap();
    assert_eq!(connection.read().await.json()["object"], "chat.completion");
    assert!(connection.read().await.events().last().unwrap().is_done());
    assert_eq!(scene.rows().await.len(), 8);
    scene.finish().await;
}

/// Python's `http.client` sends the head and the body in separate packets.
#[tokio::test]
async fn errors_before_the_body_keep_the_connection_or_announce_its_end() {
    let scene = Scene::start_with("[limits]\nrpm = 3\n").await;
    let whole = scene.request(&hello(json!({}))).bytes();
    let head = whole.len() - hello(json!({})).to_string().len();
    let mut connection = scene.client().connect().await;
    for number in 0..30 {
        connection.write(&whole[..head]).await.unwrap();
        tokio::task::yield_now().await;
        connection.write(&whole[head..]).await.unwrap();
        let response = connection.read().await;
        let expected = if number < 3 { 200 } else { 429 };
        assert_eq!(response.status, expected, "{number}: {}", response.text());
        assert_eq!(response.header("connection"), None, "{number}");
    }
    let unknown = |headers: &str| {
        let fixed = "host: g\r\nauthorization: Bearer none\r\ncontent-type: application/json\r\n";
        format!("POST {CHAT} HTTP/1.1\r\n{fixed}{headers}\r\n").into_bytes()
    };
    for (what, headers) in [
        ("the body does not arrive", "content-length: 9\r\n"),
        ("the chunks do not arrive", "transfer-encoding: chunked\r\n"),
        ("the body is large", "content-length: 262145\r\n"),
        (
            "the caller waits for permission",
            "content-length: 9\r\nexpect: 100-continue\r\n",
        ),
    ] {
        let mut connection = scene.client().connect().await;
        connection.write(&unknown(headers)).await.unwrap();
        let response = connection.read().await;
        assert_error(what, &response, "invalid_api_key", None);
        assert_eq!(response.header("connection"), Some("close"), "{what}");
        assert!(connection.closes().await, "{what}");
    }
    // A body of the maximum size is read.
    let mut connection = scene.client().connect().await;
    for _ in 0..2 {
        let (head, body) = (unknown("content-length: 262144\r\n"), vec![b' '; 262_144]);
        connection.write(&head).await.unwrap();
        connection.write(&body).await.unwrap();
        let response = connection.read().await;
        assert_error("maximum", &response, "invalid_api_key", None);
        assert_eq!(response.header("connection"), None);
    }
    scene.finish().await;
}

/// A proxy in front could parse the same bytes as different requests.
#[tokio::test]
async fn ambiguous_framing_is_refused() {
    let scene = Scene::start().await;
    let body = hello(json!({})).to_string();
    let length = format!("content-length: {}\r\n", body.len());
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let key = &scene.key.secret;
    let request = |headers: &str, body: &str| {
        let fixed = format!("authorization: Bearer {key}\r\ncontent-type: application/json\r\n");
        format!("POST {CHAT} HTTP/1.1\r\n{fixed}{headers}\r\n{body}").into_bytes()
    };
    let (host, chunked) = ("host: g\r\n", "transfer-encoding: chunked\r\n");
    let cases = [
        (format!("{host}{length}{chunked}"), &chunks, 400),
        (format!("{host}{chunked}{length}"), &chunks, 400),
        (format!("{host}{length}{length}"), &body, 400),
        (
            format!("{host}transfer-encoding: gzip, chunked\r\n"),
            &chunks,
            400,
        ),
        (
            format!("{host}transfer-encoding: identity\r\n{chunked}"),
            &chunks,
            400,
        ),
        (length.clone(), &body, 400),
        (format!("{host}{host}{length}"), &body, 400),
        (
            format!("{host}transfer-encoding: zstd, chunked\r\n"),
            &chunks,
            501,
        ),
        (format!("{host}transfer-encoding: zstd\r\n"), &chunks, 501),
    ];
    let good = scene.request(&hello(json!({}))).bytes();
    for (number, (headers, body, status)) in cases.iter().enumerate() {
        for first in [false, true] {
            let mut connection = scene.client().connect().await;
            if !first {
                connection.write(&good).await.unwrap();
                assert_eq!(connection.read().await.status, 200);
            }
            connection.write(&request(headers, body)).await.unwrap();
            let response = connection.read().await;
            assert_eq!(
                response.status,
                *status,
                "{number}, first: {first}: {}",
                response.text()
            );
            assert_eq!(response.json()["error"]["code"], "invalid_parameter");
            assert!(response.header("x-request-id").is_some());
            assert!(connection.closes().await, "{headers:?}");
        }
    }
    assert_eq!(
        scene.upstream.request_count(),
        cases.len() as u64,
        "only unambiguous requests reach it"
    );
    // One framing header is enough, and HTTP/1.0 needs no host.
    for (headers, body) in [
        (format!("{host}{length}"), &body),
        (format!("{host}{chunked}"), &chunks),
    ] {
        let mut connection = scene.client().connect().await;
        connection.write(&request(&headers, body)).await.unwrap();
        assert_eq!(connection.read().await.status, 200, "{headers:?}");
    }
    let mut connection = scene.client().connect().await;
    let old = format!("GET /v1/models HTTP/1.0\r\nauthorization: Bearer {key}\r\n\r\n");
    connection.write(old.as_bytes()).await.unwrap();
    assert_eq!(connection.read().await.status, 200);
    scene.finish().await;
}
