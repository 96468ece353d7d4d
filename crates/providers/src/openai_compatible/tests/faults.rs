//! Everything that can go wrong on the other side.

use tollgate_testkit::upstream::{FAULTS, FakeUpstream, Outcome, Reply, refusing_base_url};
use tollgate_types::{Retry, usage::MAX_QUANTITY};
use tollgate_upstream::{ChunkKind, UpstreamCause, UpstreamErrorKind};

use super::{Got, ask, chat, chat_with_usage, context, impatient, provider_at, started};

/// A stream without content is a failure to whoever waits for content.
fn has_content(got: &Got, stream: bool) -> bool {
    !stream || got.kinds.contains(&ChunkKind::Content)
}

#[tokio::test]
async fn every_fault_ends_as_it_should() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    for fault in FAULTS {
        for stream in [false, true] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let asked = if stream { chat_with_usage() } else { chat(false) };
            let ctx = match fault.outcome {
                Outcome::Endless => impatient(),
                _ => context(),
            };
            let result = ask(&*provider, &ctx, &asked).await;
            let name = format!("{} streamed: {stream}: {result:?}", fault.name);
            // A stream in the guise of something else is not looked into.
            let is_disguised = stream && fault.name == "wrong-content-type";
            match (fault.outcome, result) {
                (Outcome::Answer, Ok(got)) => {
                    assert!(
                        has_content(&got, stream) && !got.is_endless && !is_disguised,
                        "{name}"
                    );
                    for (_, quantity) in got.usage.unwrap_or_default().iter() {
                        assert!(quantity <= MAX_QUANTITY, "{name}");
                    }
                }
                (Outcome::Answer, Err(_)) => assert!(is_disguised, "{name}"),
                (Outcome::Failure, Ok(got)) => {
                    // What breaks after the end was told breaks nothing.
                    let is_told = got.seen.last().is_some_and(|data| data == "[DONE]");
                    let is_late = fault.name.starts_with("close-") && is_told;
                    assert!(is_late || !has_content(&got, stream), "{name}");
                }
                (Outcome::Endless, Ok(got)) => assert!(got.is_endless, "{name}"),
                (Outcome::Failure | Outcome::Endless, Err(error)) => {
                    // The upstream has the request: sending it again could be paid for twice.
                    let may_have_run =
                        matches!(error.cause, UpstreamCause::Protocol | UpstreamCause::Timeout);
                    assert!(!may_have_run || error.retry != Retry::Safe, "{name}");
                    assert!(error.detail.len() < 500, "{name}");
                }
            }
            assert_eq!(upstream.request_count(), before + 1, "{name}");
        }
    }
    assert_eq!(upstream.queued(), 0);
}

#[tokio::test]
async fn the_cause_of_a_fault_is_known() {
    use UpstreamCause::{Protocol, Status, Timeout};
    let cases = [
        ("hang", Timeout),
        ("hang-after-headers", Timeout),
        ("hang-mid-body", Timeout),
        ("reset", Protocol),
        ("reset-mid-body", Protocol),
        ("close", Protocol),
        ("close-inside-headers", Protocol),
        ("close-mid-body", Protocol),
        ("garbage", Protocol),
        ("bad-chunk-size", Protocol),
        ("endless-header", Protocol),
        ("many-headers", Protocol),
        ("redirect", Protocol),
        ("empty", Protocol),
        ("html", Protocol),
        ("no-choices", Protocol),
        ("other-json", Protocol),
        ("error-body-200", Protocol),
        ("gzip", Protocol),
        ("500", Status),
        ("html-503", Status),
    ];
    for (name, cause) in cases {
        for stream in [false, true] {
            let (upstream, provider) = started().await;
            upstream.push(tollgate_testkit::upstream::fault(name).unwrap().reply());
            let ctx = if cause == Timeout { impatient() } else { context() };
            let error = ask(&*provider, &ctx, &chat(stream)).await.unwrap_err();
            assert_eq!(error.cause, cause, "{name} streamed: {stream}: {error}");
            assert_eq!(error.kind, UpstreamErrorKind::Unavailable, "{name}");
        }
    }
}

#[tokio::test]
async fn nothing_is_sent_where_nobody_listens() {
    let provider = provider_at("openai-compatible", &refusing_base_url().await);
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert_eq!((error.cause, error.retry), (UpstreamCause::Connect, Retry::Safe));
    assert_eq!(error.status, None);
}

#[tokio::test]
async fn an_upstream_that_is_gone_refuses_connections() {
    let (mut upstream, provider) = started().await;
    ask(&*provider, &context(), &chat(false)).await.unwrap();
    upstream.stop().await;
    // The first call may still meet the dead connection; then it is known to be dead.
    let first = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    let second = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert!(
        matches!(first.cause, UpstreamCause::Connect | UpstreamCause::Protocol),
        "{first}"
    );
    assert_eq!(second.cause, UpstreamCause::Connect, "{second}");
}

#[tokio::test]
async fn tls_with_a_server_that_speaks_none_is_a_failed_connection() {
    let upstream = FakeUpstream::start().await;
    let base = upstream.base_url().replace("http://", "https://");
    if crate::http::HttpClient::new(super::settings())
        .check_tls()
        .is_err()
    {
        // This machine trusts no certificates, and says so.
        return;
    }
    let provider = provider_at("openai-compatible", &base);
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert_eq!(error.cause, UpstreamCause::Connect, "{error}");
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_kept() {
    let (upstream, provider) = started().await;
    let length = super::settings().body_limit + 1;
    upstream.push(Reply::body(200, "application/json", vec![b' '; length]));
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert!(error.detail.contains("larger than"), "{error}");
}

#[tokio::test]
async fn a_stream_that_only_pings_is_not_silent_and_says_nothing() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::words(2).comments().event_lines());
    let got = ask(&*provider, &context(), &chat(true)).await.unwrap();
    assert_eq!(got.text(), "w1 w2");
    assert!(
        !got.seen.concat().contains(": "),
        "comments are dropped: {:?}",
        got.seen
    );
}
