//! Tests of sessions, searches and documents.

use serde_json::{Value, json};
use tollgate_testkit::upstream::Reply;
use tollgate_types::Date;
use tollgate_upstream::{SearchBackend, SearchDocument, SearchHit};

use super::{Fixture, SESSION, Server, context, query, text_result};

fn two_results() -> Value {
    json!({"results": [
        {"id": "doc/1 ü", "title": "The <b>pier</b>", "text": "It is long.\nIt is old.",
         "url": "https://example.com/pier"},
        {"id": 2, "title": null, "url": "https://example.org/"},
        {"title": "without id"},
        {"id": "", "title": "empty id"},
        {"id": "x".repeat(1_025), "title": "long id"}
    ]})
}

fn expected_hits() -> Vec<SearchHit> {
    let first = SearchHit {
        url: "mcp://docs/doc%2F1%20%C3%BC".to_owned(),
        title: "The pier".to_owned(),
        snippet: "It is long. It is old.".to_owned(),
        is_readable: true,
        ..SearchHit::default()
    };
    let second = SearchHit {
        url: "mcp://docs/2".to_owned(),
        is_readable: true,
        ..SearchHit::default()
    };
    vec![first, second]
}

#[tokio::test]
async fn a_session_is_started_and_used_again() {
    for (streams, session) in [
        (false, Some(SESSION)),
        (true, Some(SESSION)),
        (false, None),
        (true, None),
    ] {
        let fixture = Fixture::new(Server {
            streams,
            session,
            ..Server::returning(&two_results())
        })
        .await;
        assert_eq!(fixture.mcp.name(), "docs");
        for _ in 0..2 {
            let hits = fixture.mcp.search(&context(), &query()).await.unwrap();
            assert_eq!(hits, expected_hits());
        }
        let methods = fixture.methods();
        assert_eq!(
            methods,
            [
                "initialize",
                "notifications/initialized",
                "tools/call",
                "tools/call"
            ]
        );
        let requests = fixture.server.requests();
        assert!(
            requests
                .iter()
                .all(|request| request.method == "POST" && request.path == "/mcp")
        );
        let initialize = requests[0].json().unwrap();
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
        assert_eq!(initialize["params"]["clientInfo"]["name"], "tollgate");
        assert_eq!(requests[0].header("mcp-session-id"), None);
        let call = requests[2].json().unwrap();
        assert_eq!(
            call["params"],
            json!({"name": "search", "arguments": {"query": "long pier"}})
        );
        assert_eq!(requests[2].header("mcp-protocol-version"), Some("2025-06-18"));
        assert_eq!(requests[2].header("mcp-session-id"), session);
        assert_ne!(call["id"], requests[3].json().unwrap()["id"]);
    }
}

#[tokio::test]
async fn servers_without_a_handshake_are_called_directly() {
    let fixture = Fixture::new(Server {
        is_stateless: true,
        ..Server::returning(&two_results())
    })
    .await;
    for _ in 0..2 {
        let hits = fixture.mcp.search(&context(), &query()).await.unwrap();
        assert_eq!(hits, expected_hits());
    }
    assert_eq!(fixture.methods(), ["initialize", "tools/call", "tools/call"]);
    let request = &fixture.server.requests()[1];
    assert_eq!(request.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(request.header("mcp-method"), Some("tools/call"));
    assert_eq!(request.header("mcp-name"), Some("search"));
    let meta = &request.json().unwrap()["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({}));
}

#[tokio::test]
async fn a_session_that_the_server_has_ended_is_replaced() {
    for lost_status in [400, 404] {
        let fixture = Fixture::new(Server {
            lost_status,
            ..Server::returning(&two_results())
        })
        .await;
        fixture.mcp.search(&context(), &query()).await.unwrap();
        fixture.change(|server| server.session = Some("session-2"));
        let hits = fixture.mcp.search(&context(), &query()).await.unwrap();
        assert_eq!(hits, expected_hits());
        let requests = fixture.server.requests();
        let sessions: Vec<Option<&str>> = requests
            .iter()
            .map(|request| request.header("mcp-session-id"))
            .collect();
        let (first, second) = (Some(SESSION), Some("session-2"));
        assert_eq!(sessions, [None, first, first, first, None, second, second]);
    }
}

#[tokio::test]
async fn a_failed_handshake_is_repeated() {
    let fixture = Fixture::new(Server {
        is_stateless: true,
        fault: Some(Reply::body(400, "application/json", "{}")),
        ..Server::returning(&two_results())
    })
    .await;
    fixture.mcp.search(&context(), &query()).await.unwrap_err();
    fixture.change(|server| {
        server.is_stateless = false;
        server.fault = None;
    });
    let hits = fixture.mcp.search(&context(), &query()).await.unwrap();
    assert_eq!(hits, expected_hits());
}

#[tokio::test]
async fn hits_are_read_by_their_addresses() {
    let document = json!({
        "id": "doc/1 ü", "title": "The pier", "text": "It is long.\r\n\u{200b}It is old.\n",
        "url": "https://example.com/pier",
        "metadata": {"author": "Ann", "date": "March 1, 2026", "pages": 3}
    });
    let fixture = Fixture::new(Server::returning(&document)).await;
    let address = "mcp://docs/doc%2F1%20%C3%BC";
    let read = fixture.mcp.read(&context(), address).await.unwrap().unwrap();
    let expected = SearchDocument {
        url: "https://example.com/pier".to_owned(),
        title: "The pier".to_owned(),
        author: Some("Ann".to_owned()),
        date: Date::parse("2026-03-01"),
        text: "It is long.\nIt is old.".to_owned(),
    };
    assert_eq!(read, expected);
    let call = fixture.server.requests().pop().unwrap().json().unwrap();
    assert_eq!(
        call["params"],
        json!({"name": "fetch", "arguments": {"id": "doc/1 ü"}})
    );
    for (url, expected) in [
        ("javascript:alert(1)", address),
        ("", address),
        ("https://x.example/", "https://x.example/"),
    ] {
        let plain = json!({"id": "1", "title": "", "text": "x", "url": url, "metadata": null});
        fixture.change(|server| server.result = text_result(&plain));
        let read = fixture.mcp.read(&context(), address).await.unwrap().unwrap();
        assert_eq!(read.url, expected);
        assert_eq!((read.author, read.date), (None, None));
    }
}

#[tokio::test]
async fn addresses_of_other_backends_are_not_read() {
    let fixture = Fixture::new(Server::returning(&json!({}))).await;
    for address in [
        "mcp://other/1",
        "mcp://docs",
        "mcp://docsx/1",
        "https://docs/1",
        "mcp://docs/%",
        "mcp://docs/%FF",
        "mcp://docs/%zz",
        &format!("mcp://docs/{}", "x".repeat(1_025)),
    ] {
        assert_eq!(
            fixture.mcp.read(&context(), address).await.unwrap(),
            None,
            "{address}"
        );
    }
    assert_eq!(fixture.server.request_count(), 0);
}

#[tokio::test]
async fn structured_content_precedes_text() {
    let mut result = text_result(&json!({"results": []}));
    result["structuredContent"] = two_results();
    let fixture = Fixture::new(Server {
        result,
        ..Server::returning(&json!({}))
    })
    .await;
    let hits = fixture.mcp.search(&context(), &query()).await.unwrap();
    assert_eq!(hits, expected_hits());
    let mut one = query();
    one.max_hits = 1;
    let hits = fixture.mcp.search(&context(), &one).await.unwrap();
    assert_eq!(hits, expected_hits()[..1]);
    one.max_hits = 0;
    assert_eq!(fixture.mcp.search(&context(), &one).await.unwrap(), []);
}
