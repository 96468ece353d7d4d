//! The upstream's record: requests, connections, and served answers.

use serde_json::json;

use super::super::{Answer, At, End, Gate, How, Reply, Usage, UsagePosition};
use super::{Client, FakeUpstream, request};

#[tokio::test]
async fn records_requests_in_order() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    client.get("/v1/models?limit=2").await;
    client.send(b"POST /v1/chat/completions?v=1 HTTP/1.1\r\nHost: h\r\nX-Mark: A\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    client.send(b"5;ext=1\r\n{\"mod\r\n").await;
    client
        .send(b"3\r\nel\"\r\n1\r\n}\r\n0\r\ntrailer: 1\r\n\r\n")
        .await;
    assert_eq!(client.read().await.status, 400);
    let requests = upstream.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("GET", "/v1/models?limit=2")
    );
    assert_eq!((requests[1].sequence, requests[1].connection), (2, 1));
    assert_eq!(requests[1].header("x-mark"), Some("A"));
    assert_eq!(&requests[1].body[..], b"{\"model\"}");
    assert_eq!(requests[1].json(), None);
    assert_eq!((upstream.request_count(), upstream.connection_count()), (2, 1));
}

#[tokio::test]
async fn lets_the_client_continue() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    let body = request(json!({})).to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).await;
    client.read_until("HTTP/1.1 100 Continue\r\n\r\n").await;
    client.send(body.as_bytes()).await;
    client.read_until("You said: Hi there").await;
}

#[tokio::test]
async fn keeps_connections_alive() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    for _ in 0..3 {
        assert_eq!(client.chat(&request(json!({}))).await.status, 200);
        assert_eq!(client.chat(&request(json!({"stream": true}))).await.status, 200);
    }
    assert_eq!((upstream.connection_count(), upstream.open_connections()), (1, 1));
    upstream.push(Reply::text("bye").close());
    assert_eq!(
        client.chat(&request(json!({}))).await.header("connection"),
        Some("close")
    );
    assert!(client.closed().await);
    drop(client);
    upstream
        .wait_until("the connection is closed", |upstream| {
            upstream.open_connections() == 0
        })
        .await;
}

#[tokio::test]
async fn answers_pipelined_requests() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    client.send_chat(&request(json!({}))).await;
    client.send_chat(&request(json!({"n": 2}))).await;
    assert_eq!(client.read().await.json()["choices"].as_array().unwrap().len(), 1);
    assert_eq!(client.read().await.json()["choices"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn used_and_reported_tokens_are_recorded() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    upstream.push(Reply::words(5));
    let body = client.chat(&request(json!({}))).await.json();
    upstream.push(Reply::answer(Answer::words(5).reasoning(2)));
    client
        .chat(&request(json!({"stream": true, "model": "other"})))
        .await;
    upstream.push(Reply::answer(Answer::words(5).usage(Usage::Fixed {
        prompt: 70,
        completion: 80,
    })));
    client
        .chat(&request(
            json!({"stream": true, "stream_options": {"include_usage": true}}),
        ))
        .await;
    upstream.push(Reply::error(500, "server_error", "x"));
    client.chat(&request(json!({}))).await;

    let served = upstream.served();
    assert_eq!(served.len(), 3, "an error is no answer");
    assert_eq!(body["id"], served[0].id.as_str());
    assert_ne!(served[0].id, served[1].id);
    assert!(served.iter().all(|served| served.end == End::Complete));
    assert_eq!((served[0].used.prompt, served[0].used.completion), (2, 5));
    assert_eq!(served[0].reported_tokens(), Some((2, 5)));
    assert_eq!(
        (served[1].model.as_str(), served[1].streamed, served[1].request),
        ("other", true, 2)
    );
    assert_eq!((served[1].used.completion, served[1].used.reasoning), (7, 2));
    assert_eq!(served[1].reported, None, "the usage was not asked for");
    assert_eq!((served[2].used.prompt, served[2].used.completion), (70, 80));
    assert_eq!(served[2].reported_tokens(), Some((70, 80)));

    let shown = client.get("/_served").await.json();
    assert_eq!(
        shown["totals"],
        json!({"answers": 3, "complete": 3, "prompt_tokens": 74, "completion_tokens": 92})
    );
    assert_eq!(shown["served"][2]["id"], served[2].id.as_str());
    assert_eq!(shown["served"][1]["end"], "complete");
    assert_eq!(
        (&shown["requests"], &shown["open_connections"]),
        (&json!(5), &json!(1))
    );
}

#[tokio::test]
async fn partial_answers_count_as_far_as_they_were_written() {
    let upstream = FakeUpstream::start().await;
    let members = json!({"stream": true, "stream_options": {"include_usage": true}});
    let cases = [
        (Reply::words(5).cut(At::Events(3), How::Close), 2),
        (Reply::words(5).cut(At::InsideEvent(3), How::Reset), 2),
        (Reply::words(5).error_after(4, "server_error", "x"), 3),
        (Reply::words(5).cut(At::Head, How::Reset), 0),
    ];
    for (position, (reply, sent)) in cases.into_iter().enumerate() {
        upstream.push(reply);
        Client::to(&upstream).await.chat(&request(members.clone())).await;
        upstream
            .wait_until("the answer ends", |upstream| {
                upstream.served()[position].end != End::Open
            })
            .await;
        let served = &upstream.served()[position];
        assert_eq!(
            (served.end, served.used.completion, served.used.prompt),
            (End::Cut, sent, 2)
        );
        assert_eq!(served.reported, None);
    }
}

#[tokio::test]
async fn notices_when_the_client_leaves() {
    let upstream = FakeUpstream::start().await;
    let gate = Gate::new();
    let cases = [
        (Reply::hang(), ""),
        (Reply::words(5).hold_event(3, &gate), "w2"),
        (Reply::words(5).endless(), " more"),
    ];
    for (before, (reply, text)) in cases.into_iter().enumerate() {
        upstream.push(reply);
        let mut client = Client::to(&upstream).await;
        client.send_chat(&request(json!({"stream": true}))).await;
        upstream
            .wait_until("the answer begins", |upstream| upstream.served_count() > before)
            .await;
        client.read_until(text).await;
        assert_eq!(upstream.served()[before].end, End::Open);
        drop(client);
        let gone = |upstream: &FakeUpstream| upstream.served()[before].end == End::ClientGone;
        upstream.wait_until("the leave is noticed", gone).await;
    }
    assert_eq!(upstream.served()[1].used.completion, 2, "as far as the gate");
    assert!(upstream.served()[2].reported.is_none());
}

#[tokio::test]
async fn gates_hold_a_reply_until_they_are_opened() {
    let upstream = FakeUpstream::start().await;
    let (head, event) = (Gate::new(), Gate::new());
    upstream.push(
        Reply::answer(Answer::words(4).usage_position(UsagePosition::Always))
            .hold_head(&head)
            .hold_event(2, &event),
    );
    let mut client = Client::to(&upstream).await;
    client.send_chat(&request(json!({"stream": true}))).await;
    upstream
        .wait_until("the answer begins", |upstream| upstream.served_count() == 1)
        .await;
    assert_eq!(upstream.served()[0].used.completion, 0);
    head.open();
    client.read_until("w1").await;
    assert_eq!(
        (upstream.served()[0].used.completion, upstream.served()[0].end),
        (1, End::Open)
    );
    event.open();
    let response = client.read().await;
    assert_eq!(super::streamed_text(&response.chunks()), "w1 w2 w3 w4");
    assert_eq!(upstream.served()[0].reported_tokens(), Some((2, 4)));
}
