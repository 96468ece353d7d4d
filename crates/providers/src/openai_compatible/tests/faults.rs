//! Tests of faults of the upstream and of the connection.

use tollgate_testkit::upstream::{FAULTS, FakeUpstream, Outcome, Reply, refusing_base_url};
use tollgate_types::{Retry, usage::MAX_QUANTITY};
use tollgate_upstream::{ChunkKind, UpstreamCause, UpstreamErrorKind};

use super::{
    Collected, ask, chat, chat_with_usage, context, context_with_short_timeout, provider_at, started,
};

/// Whether the caller received content. Returns true for a call without a stream.
fn has_content(collected: &Collected, stream: bool) -> bool {
    !stream || collected.kinds.contains(&ChunkKind::Content)
}

#[tokio::test]
async fn upstream_faults_map_to_errors() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    for fault in FAULTS {
        for stream in [false, true] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let asked = if stream { chat_with_usage() } else { chat(false) };
            let ctx = match fault.outcome {
                Outcome::Endless => context_with_short_timeout(),
                _ => context(),
            };
            let result = ask(&*provider, &ctx, &asked).await;
            let name = format!("{} streamed: {stream}: {result:?}", fault.name);
            // A stream with another content type is not parsed.
            let is_disguised = stream && fault.name == "wrong-content-type";
            match (fault.outcome, result) {
                (Outcome::Answer, Ok(collected)) => {
                    assert!(
                        has_content(&collected, stream) && !collected.is_endless && !is_disguised,
                        "{name}"
                    );
                    for (_, quantity) in collected.usage.unwrap_or_default().iter() {
                        assert!(quantity <= MAX_QUANTITY, "{name}");
                    }
                }
                (Outcome::Answer, Err(_)) => assert!(is_disguised, "{name}"),
                (Outcome::Failure, Ok(collected)) => {
                    // A fault after the end event has no effect.
                    let has_done_event = collected.raw_events.last().is_some_and(|data| data == "[DONE]");
                    let is_late = fault.name.starts_with("close-") && has_done_event;
                    assert!(is_late || !has_content(&collected, stream), "{name}");
                }
                (Outcome::Endless, Ok(collected)) => assert!(collected.is_endless, "{name}"),
                (Outcome::Failure | Outcome::Endless, Err(error)) => {
                    // The upstream has received the request, so a retry could be billed twice.
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
async fn faults_report_their_cause() {
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
            let ctx = if cause == Timeout {
                context_with_short_timeout()
            } else {
                context()
            };
            let error = ask(&*provider, &ctx, &chat(stream)).await.unwrap_err();
            assert_eq!(error.cause, cause, "{name} streamed: {stream}: {error}");
            assert_eq!(error.kind, UpstreamErrorKind::Unavailable, "{name}");
        }
    }
}

#[tokio::test]
async fn connection_failures_send_nothing() {
    let provider = provider_at("openai-compatible", &refusing_base_url());
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert_eq!((error.cause, error.retry), (UpstreamCause::Connect, Retry::Safe));
    assert_eq!(error.status, None);
}

#[tokio::test]
async fn an_upstream_that_is_gone_refuses_connections() {
    let (mut upstream, provider) = started().await;
    ask(&*provider, &context(), &chat(false)).await.unwrap();
    upstream.stop().await;
    // The first call may still use the closed connection. The second call detects that it is
    // closed.
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
        // Without trusted certificates, this machine cannot run the test.
        return;
    }
    let provider = provider_at("openai-compatible", &base);
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert_eq!(error.cause, UpstreamCause::Connect, "{error}");
    assert_eq!(upstream.requests().len(), 0);
}

#[tokio::test]
async fn answers_beyond_the_limit_are_refused() {
    let (upstream, provider) = started().await;
    let length = super::settings().body_limit + 1;
    upstream.push(Reply::body(200, "application/json", vec![b' '; length]));
    let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
    assert!(error.detail.contains("exceeds"), "{error}");
}

#[tokio::test]
async fn pings_keep_a_stream_alive_without_content() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::words(2).comments().event_lines());
    let collected = ask(&*provider, &context(), &chat(true)).await.unwrap();
    assert_eq!(collected.text(), "w1 w2");
    assert!(
        !collected.raw_events.concat().contains(": "),
        "comments are dropped: {:?}",
        collected.raw_events
    );
}
