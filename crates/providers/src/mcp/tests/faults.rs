//! Tests of servers that fail or that callers may not reach.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_testkit::upstream::{At, FakeUpstream, Framing, How, Reply, refusing_base_url};
use tollgate_upstream::UpstreamErrorKind::{Credentials, RateLimited, Unavailable};
use tollgate_upstream::{SearchBackend, UpstreamCause, UpstreamErrorKind};

use super::{Fixture, Server, context, mcp_at, query, text_result};

fn json_reply(status: u16, body: &Value) -> Reply {
    Reply::body(status, "application/json", body.to_string())
}

#[tokio::test]
async fn failures_of_calls_are_errors_of_the_right_kind() {
    let error = |code: i64| {
        json_reply(
            200,
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": "long pier"}}),
        )
    };
    let result = |value: Value| json_reply(200, &json!({"jsonrpc": "2.0", "id": 2, "result": value}));
    let endless: Vec<u8> = vec![b' '; (16 << 20) + 1];
    let cases: Vec<(Reply, UpstreamErrorKind, &str)> = vec![
        (error(-32_602), Unavailable, "has the tool `search`"),
        (error(-32_601), Unavailable, "has no tools"),
        (error(-32_603), Unavailable, "error -32603"),
        (
            result(json!({"content": [{"type": "text", "text": "Unknown tool: search"}], "isError": true})),
            Unavailable,
            "reports an error",
        ),
        (
            result(json!({"content": [{"type": "text", "text": "no JSON"}]})),
            Unavailable,
            "did not return a JSON object",
        ),
        (
            result(json!({"content": [{"type": "image", "data": ""}]})),
            Unavailable,
            "did not return",
        ),
        (result(json!(5)), Unavailable, "did not return"),
        (
            result(text_result(&json!({"hits": []}))),
            Unavailable,
            "no array `results`",
        ),
        (
            json_reply(200, &json!({"hello": "world"})),
            Unavailable,
            "no JSON-RPC response",
        ),
        (
            json_reply(200, &json!({"jsonrpc": "2.0", "id": 77, "result": {}})),
            Unavailable,
            "no JSON-RPC response",
        ),
        (Reply::html(200), Unavailable, "no JSON-RPC response"),
        (
            Reply::body(202, "application/json", ""),
            Unavailable,
            "no JSON-RPC response",
        ),
        (
            Reply::events(["{}", "not json"]),
            Unavailable,
            "no JSON-RPC response",
        ),
        (json_reply(401, &json!({})), Credentials, "401"),
        (json_reply(403, &json!({})), Credentials, "403"),
        (
            json_reply(429, &json!({})).header("retry-after", "7"),
            RateLimited,
            "429",
        ),
        (Reply::html(502), Unavailable, "502"),
        (
            json_reply(200, &json!({})).gzip(),
            Unavailable,
            "cannot be reached",
        ),
        (Reply::reset(), Unavailable, "cannot be reached"),
        (
            json_reply(200, &json!({"jsonrpc": "2.0"})).cut(At::Bytes(5), How::Close),
            Unavailable,
            "broke off",
        ),
        (
            Reply::body(200, "application/json", endless.clone()),
            Unavailable,
            "too large",
        ),
        (
            Reply::body(200, "text/event-stream", endless.clone()),
            Unavailable,
            "too large",
        ),
        (
            Reply::body(200, "application/json", endless).framing(Framing::Chunked),
            Unavailable,
            "too large",
        ),
    ];
    for (fault, kind, part) in cases {
        let fixture = Fixture::new(Server {
            fault: Some(fault.clone()),
            ..Server::returning(&json!({}))
        })
        .await;
        let error = fixture.mcp.search(&context(), &query()).await.unwrap_err();
        let shown = format!("{error} {error:?}");
        assert_eq!(error.kind, kind, "{fault:?}: {shown}");
        assert!(error.to_string().contains(part), "{fault:?}: {shown}");
        assert!(
            !shown.contains("canary") && !shown.contains("long pier"),
            "{shown}"
        );
        if kind == RateLimited {
            assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
        }
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let inner = FakeUpstream::start().await;
    for status in [301, 302, 307, 308] {
        let location = format!("http://{}/secrets", inner.address());
        let fixture = Fixture::new(Server {
            fault: Some(Reply::body(status, "text/plain", "").header("location", &location)),
            ..Server::returning(&json!({}))
        })
        .await;
        let error = fixture.mcp.search(&context(), &query()).await.unwrap_err();
        assert!(error.detail.contains("use the final URL"), "{error}");
    }
    assert_eq!(inner.request_count(), 0);
}

#[tokio::test]
async fn endless_streams_time_out() {
    let ping = json!({"jsonrpc": "2.0", "method": "notifications/progress"}).to_string();
    for fault in [
        Reply::hang(),
        Reply::events([&ping, &ping]).cut(At::Events(2), How::Hang),
        Reply::body(200, "application/json", "{\"jsonrpc\"").cut(At::Bytes(5), How::Hang),
    ] {
        let behavior = Server {
            fault: Some(fault),
            ..Server::returning(&json!({}))
        };
        let fixture = Fixture::with_timeout(behavior, Duration::from_millis(500)).await;
        let error = fixture.mcp.search(&context(), &query()).await.unwrap_err();
        assert_eq!(error.cause, UpstreamCause::Timeout, "{error}");
    }
}

#[tokio::test]
async fn a_response_in_an_open_stream_is_enough() {
    let ping = json!({"jsonrpc": "2.0", "method": "notifications/progress"}).to_string();
    let response = json!({"jsonrpc": "2.0", "id": 2, "result": text_result(&json!({"results": []}))});
    let stream = Reply::events([ping.clone(), response.to_string(), ping]).cut(At::Events(2), How::Hang);
    let fixture = Fixture::new(Server {
        fault: Some(stream),
        ..Server::returning(&json!({}))
    })
    .await;
    assert_eq!(fixture.mcp.search(&context(), &query()).await.unwrap(), []);
}

#[tokio::test]
async fn addresses_that_callers_may_not_reach_are_refused() {
    let timeout = Duration::from_secs(20);
    for url in [
        "http://169.254.169.254/mcp",
        "http://127.0.0.1/mcp",
        "http://[::1]/mcp",
        "http://10.0.0.1/mcp",
        "https://example.com:8443/mcp",
        "file:///etc/passwd",
        "http://user:pw@example.com/mcp",
        "example.com",
    ] {
        let error = mcp_at(url, &[], timeout).err().unwrap().to_string();
        assert!(error.starts_with("the URL of the MCP server "), "{url}: {error}");
    }
    // A name is resolved with each request.
    let inner = FakeUpstream::start().await;
    let url = format!("http://localhost:{}/mcp", inner.address().port());
    let rule = format!("10.0.0.1:{}", inner.address().port());
    let mcp = mcp_at(&url, &[&rule], timeout).unwrap();
    assert_eq!(
        mcp.search(&context(), &query()).await.unwrap_err().kind,
        Unavailable
    );
    assert_eq!(inner.request_count(), 0);
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error() {
    let down = refusing_base_url();
    let rule = down.trim_start_matches("http://").trim_end_matches("/v1");
    let mcp = mcp_at(&down, &[rule], Duration::from_secs(20)).unwrap();
    let error = mcp.search(&context(), &query()).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Unavailable);
}
