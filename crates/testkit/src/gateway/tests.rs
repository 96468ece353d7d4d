//! Tests of the HTTP client, with the scripted upstream as its server, and of the unit conversions.

use serde_json::json;

use super::http::{Client, End, Request};
use super::nanos;
use crate::upstream::{At, FakeUpstream, Framing, Gate, How, Reply};

fn chat(members: serde_json::Value) -> Request {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi there"}]});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    Request::json("/v1/chat/completions", &body)
}

#[test]
fn amounts_are_exact() {
    for (text, expected) in [
        ("0", 0),
        ("1.5", 1_500_000_000),
        ("0.000000001", 1),
        ("-0.25", -250_000_000),
        ("9223372036.854775807", i64::MAX),
    ] {
        assert_eq!(nanos(&json!(text)), expected, "{text}");
    }
}

#[tokio::test]
async fn reads_every_framing() {
    let upstream = FakeUpstream::start().await;
    let client = Client::new(upstream.address());
    for framing in [Framing::ContentLength, Framing::Chunked, Framing::UntilClose] {
        upstream.push(Reply::words(3).framing(framing));
        let response = client.send(&chat(json!({}))).await;
        assert_eq!(
            response.json()["choices"][0]["message"]["content"],
            "w1 w2 w3",
            "{framing:?}"
        );
        assert!(response.whole);
    }
    let chunked = client.send(&chat(json!({})).chunked(7)).await;
    assert_eq!(
        chunked.json()["choices"][0]["message"]["content"],
        "You said: Hi there"
    );
    assert_eq!(client.get("/v1/models", "k").await.status, 200);
}

#[tokio::test]
async fn reads_a_stream_event_by_event_as_it_comes() {
    let upstream = FakeUpstream::start().await;
    let gate = Gate::new();
    upstream.push(Reply::words(2).hold_event(2, &gate));
    let mut answer = Client::new(upstream.address())
        .open(&chat(json!({"stream": true})))
        .await;
    assert_eq!(answer.head.status, 200);
    assert_eq!(
        answer.next_json().await["choices"][0]["delta"]["role"],
        "assistant"
    );
    assert_eq!(answer.next_json().await["choices"][0]["delta"]["content"], "w1");
    gate.open();
    let rest = answer.rest().await;
    let events = rest.events();
    assert_eq!(events.len(), 3);
    assert!(events[2].is_done() && rest.whole);
}

#[tokio::test]
async fn knows_a_cut_from_an_end() {
    let upstream = FakeUpstream::start().await;
    let client = Client::new(upstream.address());
    for how in [How::Close, How::Reset] {
        upstream.push(Reply::words(9).cut(At::Events(2), how));
        let mut answer = client.open(&chat(json!({"stream": true}))).await;
        while answer.next_chunk().await.is_some() {}
        assert_eq!(answer.end(), Some(End::Cut), "{how:?}");
    }
}

#[tokio::test]
async fn a_reset_reaches_the_other_side() {
    let upstream = FakeUpstream::start().await;
    upstream.push(Reply::words(1).endless());
    let mut answer = Client::new(upstream.address())
        .open(&chat(json!({"stream": true})))
        .await;
    answer.next_json().await;
    answer.into_connection().reset();
    upstream
        .wait_until("the client is gone", |upstream| upstream.open_connections() == 0)
        .await;
}
