//! Tests that an answer stays the same in every spelling and with every split of the bytes.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::super::chat_request::{ChatRequest, Shape};
use super::super::composed::Composed;
use super::super::plan::Plan;
use super::super::{Answer, Framing, LineEnd, Reply, Writes};
use super::{Client, Ended, FakeUpstream, request, respond, streamed_text};

#[tokio::test]
async fn spells_events_in_every_way() {
    let cases: [(Reply, &str); 8] = [
        (Reply::words(3), "\n\ndata: {\"id\""),
        (Reply::words(3).line_end(LineEnd::CrLf), "\r\n\r\ndata: {\"id\""),
        (Reply::words(3).line_end(LineEnd::Cr), "\r\rdata: {\"id\""),
        (Reply::words(3).comments(), ": keep-alive 2\n\ndata: {\"id\""),
        (
            Reply::words(3).event_lines(),
            "event: message\nid: 2\nretry: 1000\ndata: {\"id\"",
        ),
        (Reply::words(3).no_space(), "\n\ndata:{\"id\""),
        (Reply::words(3).several_lines(), "\n\ndata: {\ndata:   \"id\""),
        (Reply::words(3).byte_order_mark(), "\u{feff}data: {\"id\""),
    ];
    for (reply, bytes) in cases {
        let response = respond(reply, json!({"stream": true})).await;
        assert!(response.text().contains(bytes), "{}", response.text());
        assert_eq!(response.events().last().map(String::as_str), Some("[DONE]"));
        assert_eq!(streamed_text(&response.chunks()), "w1 w2 w3");
    }
}

#[tokio::test]
async fn a_split_at_any_byte_changes_nothing() {
    let upstream = FakeUpstream::start().await;
    let mut client = Client::to(&upstream).await;
    let split = |offset| {
        Reply::words(2).writes(Writes::SplitAt {
            offset,
            pause: Duration::ZERO,
        })
    };
    upstream.push(split(0));
    let length = client.chat(&request(json!({"stream": true}))).await.body.len();
    for offset in 0..length + 64 {
        upstream.push(split(offset));
        let response = client.chat(&request(json!({"stream": true}))).await;
        assert_eq!(response.ended, Ended::Whole);
        assert_eq!(streamed_text(&response.chunks()), "w1 w2", "{offset}");
    }
    assert_eq!(upstream.connection_count(), 1);
}

#[tokio::test]
async fn framings_end_in_their_own_way() {
    for (framing, name) in [
        (Framing::Chunked, "transfer-encoding"),
        (Framing::ContentLength, "content-length"),
        (Framing::UntilClose, "connection"),
    ] {
        for stream in [false, true] {
            let response = respond(Reply::words(3).framing(framing), json!({"stream": stream})).await;
            assert_eq!(response.ended, Ended::Whole);
            assert!(response.header(name).is_some(), "{framing:?}");
            assert!(response.text().contains("w1"));
        }
    }
}

/// Returns the writes of a reply.
fn writes(reply: &Reply) -> Vec<Vec<u8>> {
    let chat = ChatRequest::parse(
        request(json!({"stream": true})).to_string().as_bytes(),
        Shape::Chat,
    )
    .unwrap();
    let composed = Composed::new(&Answer::words(3), &chat, "id".into(), 1);
    let plan = Plan::new(reply, Some((&chat, &composed)), 1);
    plan.chunks
        .into_iter()
        .map(|chunk| chunk.bytes.to_vec())
        .collect()
}

#[test]
fn writes_are_grouped_as_requested() {
    let usual = writes(&Reply::words(3));
    assert_eq!(
        usual.len(),
        1 + (1 + 3 + 1 + 1) + 1,
        "head, events with [DONE], last chunk"
    );
    assert!(usual[1..7].iter().all(|write| write.ends_with(b"\n\n\r\n")));
    let all = usual.concat();

    let whole = writes(&Reply::words(3).writes(Writes::Whole));
    assert_eq!(whole, vec![all.clone()]);

    let bytes = writes(&Reply::words(3).writes(Writes::Chunks {
        bytes: 1,
        pause: Duration::ZERO,
    }));
    assert!(bytes.iter().all(|write| write.len() == 1));
    assert_eq!(bytes.concat(), all);

    let split = writes(&Reply::words(3).writes(Writes::SplitAt {
        offset: 5,
        pause: Duration::ZERO,
    }));
    assert_eq!((split.len(), split[1].len()), (3, 5));
    assert_eq!(split.concat(), all);
}

#[tokio::test]
async fn one_event_may_be_very_long() {
    let response = respond(
        Reply::answer(Answer::long_token(1 << 20)),
        json!({"stream": true}),
    )
    .await;
    assert_eq!(streamed_text(&response.chunks()).len(), 1 << 20);
    assert_eq!(response.events().len(), 4);
}

/// Decompresses with the program `gzip`. Without the program, the test fails.
#[tokio::test]
async fn compresses_unasked_in_a_form_that_gzip_reads() {
    for (text, stream) in [("short".to_owned(), true), ("long ".repeat(40_000), false)] {
        let response = respond(Reply::text(&text).gzip(), json!({"stream": stream})).await;
        assert_eq!(response.header("content-encoding"), Some("gzip"));
        let mut child = Command::new("gzip")
            .arg("-dc")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let body = response.body.clone();
        let writer = std::thread::spawn(move || stdin.write_all(&body).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .contains(text.get(..5).unwrap())
        );
    }
}

#[tokio::test]
async fn provider_headers_are_sent() {
    let response = respond(Reply::words(1), json!({})).await;
    for name in [
        "x-request-id",
        "set-cookie",
        "server",
        "openai-organization",
        "x-ratelimit-limit-requests",
    ] {
        assert!(response.header(name).is_some(), "{name}");
    }
}
