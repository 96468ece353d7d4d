//! Every named fault has the outcome of its row, streamed and not.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::{At, FAULTS, How, Outcome, Reply, fault};
use super::{Client, Ended, FakeUpstream, Response, respond, streamed_text};

/// Classifies the response as a correct reader would.
fn outcome(response: &Response, stream: bool) -> Outcome {
    if response.ended == Ended::Endless {
        return Outcome::Endless;
    }
    let answered = response.ended == Ended::Whole
        && response.status == 200
        && response.header("content-encoding").is_none()
        && if stream {
            is_streamed_answer(response)
        } else {
            is_answer(&response.body)
        };
    if answered {
        Outcome::Answer
    } else {
        Outcome::Failure
    }
}

fn is_answer(body: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(body) else {
        return false;
    };
    // JSON allows numbers of any size, so the reader must accept any number in the usage.
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    value
        .pointer("/choices/0/message/content")
        .is_some_and(|content| content.as_str().is_some())
}

fn is_streamed_answer(response: &Response) -> bool {
    let events = response.events();
    let chunks: Vec<Value> = events
        .iter()
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect();
    let finished = chunks
        .iter()
        .any(|chunk| chunk["choices"][0]["finish_reason"] == "stop");
    let failed = chunks.iter().any(|chunk| chunk.get("error").is_some());
    !streamed_text(&chunks).is_empty() && finished && !failed
}

#[tokio::test]
async fn faults_do_what_their_rows_say() {
    let mut checks = JoinSet::new();
    for fault in FAULTS {
        for stream in [false, true] {
            checks.spawn(async move {
                let response = respond(fault.reply(), json!({"stream": stream})).await;
                (fault, stream, outcome(&response, stream), response)
            });
        }
    }
    while let Some(check) = checks.join_next().await {
        let (fault, stream, outcome, response) = check.unwrap();
        assert_eq!(
            outcome, fault.outcome,
            "{} (stream: {stream}) {response:?}",
            fault.name
        );
    }
}

#[test]
fn fault_names_are_unique() {
    let mut names: Vec<_> = FAULTS.iter().map(|fault| fault.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FAULTS.len());
    assert!(fault("hang").is_some() && fault("nothing-of-the-kind").is_none());
}

/// Returns the response to the named fault.
async fn play(name: &str, stream: bool) -> Response {
    respond(fault(name).unwrap().reply(), json!({"stream": stream})).await
}

#[tokio::test]
async fn broken_connections_break_where_they_should() {
    let cases = [
        ("reset", Ended::Reset, 0),
        ("reset-after-headers", Ended::Reset, 200),
        ("reset-mid-body", Ended::Reset, 200),
        ("close", Ended::Short, 0),
        ("close-inside-headers", Ended::Short, 0),
        ("close-after-headers", Ended::Short, 200),
        ("close-mid-body", Ended::Short, 200),
        ("close-short-of-content-length", Ended::Short, 200),
        ("close-without-last-chunk", Ended::Short, 200),
        ("hang", Ended::Endless, 0),
        ("hang-after-headers", Ended::Endless, 200),
        ("hang-mid-body", Ended::Endless, 200),
        ("garbage", Ended::NotHttp, 0),
        ("bad-status-line", Ended::NotHttp, 0),
        ("bad-chunk-size", Ended::NotHttp, 200),
    ];
    let mut checks = JoinSet::new();
    for (name, ended, status) in cases {
        checks.spawn(async move {
            let response = play(name, true).await;
            assert_eq!((&response.ended, response.status), (&ended, status), "{name}");
            if name.contains("mid-body") {
                assert!(!response.body.is_empty(), "{name}");
            }
        });
    }
    checks.join_all().await;
}

#[tokio::test]
async fn streams_break_in_the_middle_of_an_event() {
    let response = play("sse-cut-mid-event", true).await;
    assert_eq!(response.ended, Ended::Whole);
    assert_eq!(streamed_text(&response.chunks()), "w1 w2 w3 w4");
    assert!(!response.text().ends_with("\n\n"), "half an event is left over");

    let text = play("role-then-error", true).await.text();
    assert!(text.contains("\"role\":\"assistant\"") && text.contains("data: {\"error\":{\"message\":"));
    assert!(!text.contains("w1") && !text.contains("[DONE]"));

    let body = play("error-body-200", false).await.json();
    assert_eq!(body["error"]["code"], "server_error");
    assert!(play("no-done", true).await.text().ends_with("\n\n"));
    assert!(play("empty-stream", true).await.body.is_empty());
    assert_eq!(play("empty", false).await.header("content-length"), Some("0"));
}

#[tokio::test]
async fn statuses_have_the_bodies_of_their_senders() {
    for status in [
        "400", "401", "403", "404", "408", "429", "500", "502", "503", "529",
    ] {
        let response = play(status, true).await;
        assert_eq!(response.status.to_string(), status);
        let error = &response.json()["error"];
        assert!(error["message"].is_string() && error["type"].is_string() && error["code"].is_string());
    }
    assert_eq!(play("429", false).await.header("retry-after"), Some("1"));
    let page = play("html-502", false).await;
    assert_eq!(
        (page.status, page.header("content-type")),
        (502, Some("text/html; charset=UTF-8"))
    );
    assert!(page.text().starts_with("<!DOCTYPE html>"));
}

#[tokio::test]
async fn replies_before_the_body_is_read() {
    let upstream = FakeUpstream::start().await;
    upstream.push(Reply::error(413, "too_large", "Too large.").before_body());
    let mut client = Client::to(&upstream).await;
    client
        .send(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n{")
        .await;
    let response = client.read().await;
    assert_eq!((response.status, response.ended), (413, Ended::Whole));
    assert!(client.closed().await);
    assert!(upstream.requests()[0].body.is_empty());
}

#[tokio::test]
async fn an_endless_stream_says_content_without_end() {
    let response = respond(Reply::words(2).endless(), json!({"stream": true})).await;
    assert_eq!(response.ended, Ended::Endless);
    let text = response.text();
    assert!(text.matches(" more").count() > 1_000 && !text.contains("finish_reason\":\"stop"));
}

#[tokio::test]
async fn a_position_beyond_the_answer_is_in_its_last_event() {
    for at in [At::Events(50), At::InsideEvent(50)] {
        let response = respond(Reply::words(2).cut(at, How::Close), json!({})).await;
        assert_eq!(response.ended, Ended::Short);
        assert!(!response.body.is_empty() && !is_answer(&response.body));
    }
}
