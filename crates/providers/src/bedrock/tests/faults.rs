//! Tests of upstream faults and of the resulting errors.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::upstream::event_stream::{EVENT_STREAM, event, exception, frame};
use tollgate_testkit::upstream::{At, FakeUpstream, How, Reply};
use tollgate_types::Retry;
use tollgate_upstream::{Provider, TextCall, UpstreamCause, UpstreamError, UpstreamErrorKind};

use super::{ask, chat, context, frames, signing, streamed, whole};

use UpstreamCause::{Protocol, Status, Timeout};
use UpstreamErrorKind::{Credentials, RateLimited, Rejected, Unavailable};

const LONG_TIMEOUT: Duration = Duration::from_secs(20);

async fn failed(reply: Reply, call: &TextCall, timeout: Duration) -> UpstreamError {
    let upstream = FakeUpstream::start().await;
    upstream.push(reply.clone());
    let provider: &dyn Provider = &*signing(&upstream.base_url(), None);
    match ask(provider, &context(timeout), call).await {
        Err(error) => error,
        Ok(collected) => panic!("{reply:?}: {collected:?}"),
    }
}

fn refusal(status: u16, exception: &str) -> Reply {
    Reply::body(
        status,
        "application/json",
        r#"{"message":"secret words of the prompt"}"#,
    )
    .header(
        "x-amzn-errortype",
        &format!("{exception}:http://internal.amazon.com/"),
    )
}

#[tokio::test]
async fn refusal_statuses_map_to_error_kinds() {
    for (reply, kind, cause, retry) in [
        (
            refusal(429, "ThrottlingException"),
            RateLimited,
            Status,
            Retry::Safe,
        ),
        (
            refusal(400, "ServiceQuotaExceededException"),
            RateLimited,
            Status,
            Retry::Never,
        ),
        (
            refusal(400, "ValidationException"),
            Rejected,
            Status,
            Retry::Never,
        ),
        (
            refusal(403, "AccessDeniedException"),
            Credentials,
            Status,
            Retry::Never,
        ),
        (
            refusal(403, "ExpiredTokenException"),
            Credentials,
            Status,
            Retry::Never,
        ),
        (
            refusal(404, "ResourceNotFoundException"),
            Unavailable,
            Status,
            Retry::Never,
        ),
        (
            refusal(408, "ModelTimeoutException"),
            Unavailable,
            Status,
            Retry::Unknown,
        ),
        (
            refusal(500, "InternalServerException"),
            Unavailable,
            Status,
            Retry::Safe,
        ),
        (
            refusal(503, "ServiceUnavailableException"),
            Unavailable,
            Status,
            Retry::Safe,
        ),
        (Reply::html(502), Unavailable, Status, Retry::Safe),
        (Reply::reset(), Unavailable, Protocol, Retry::Unknown),
        (
            Reply::raw("garbage\r\n\r\n"),
            Unavailable,
            Protocol,
            Retry::Unknown,
        ),
    ] {
        for stream in [false, true] {
            let what = format!("{reply:?} stream {stream}");
            let error = failed(reply.clone(), &chat(json!({"stream": stream})), LONG_TIMEOUT).await;
            assert_eq!(
                (error.kind, error.cause, error.retry),
                (kind, cause, retry),
                "{what}: {error}"
            );
            assert!(!error.detail.contains("secret"), "{what}: {error}");
        }
    }
}

#[tokio::test]
async fn silent_upstreams_time_out() {
    let brief = Duration::from_millis(200);
    let middle = whole().cut(At::Bytes(20), How::Hang);
    let started_stream = streamed(&frames()).cut(At::Bytes(frames()[0].len() + 5), How::Hang);
    for (reply, stream) in [
        (Reply::hang(), false),
        (Reply::hang(), true),
        (middle, false),
        (started_stream, true),
    ] {
        let error = failed(reply.clone(), &chat(json!({"stream": stream})), brief).await;
        assert_eq!(error.cause, Timeout, "{reply:?}: {error}");
    }
}

#[tokio::test]
async fn invalid_whole_answers_are_failures() {
    for reply in [
        Reply::html(200),
        Reply::body(200, "application/json", ""),
        Reply::body(200, "application/json", "{\"output\":"),
        Reply::body(200, "application/json", "{}"),
        Reply::body(
            200,
            "application/json",
            r#"{"output":{"message":{"content":[]}},"stopReason":"end_turn"}"#,
        ),
        whole().cut(At::End, How::Close),
        whole().cut(At::Bytes(30), How::Reset),
        whole().gzip(),
    ] {
        let error = failed(reply.clone(), &chat(json!({})), LONG_TIMEOUT).await;
        assert_eq!(
            (error.kind, error.cause),
            (Unavailable, Protocol),
            "{reply:?}: {error}"
        );
    }
}

#[tokio::test]
async fn streams_that_break_are_failures() {
    let all = frames();
    let until = |count: usize| all[..count].concat();
    let with = |count: usize, last: Vec<u8>| Reply::body(200, EVENT_STREAM, [until(count), last].concat());
    let mut malformed = all[4].clone();
    let middle = malformed.len() / 2;
    malformed[middle] ^= 1;
    let long = [&0x7fff_ffff_u32.to_be_bytes()[..], &[0; 8]].concat();
    let no_json = frame(
        &[(":event-type", "contentBlockDelta"), (":message-type", "event")],
        b"{",
    );
    let error = frame(
        &[(":error-code", "InternalError"), (":message-type", "error")],
        b"",
    );
    for (reply, kind) in [
        (Reply::html(200), Unavailable),
        (whole(), Unavailable),
        (streamed(&[]), Unavailable),
        (streamed(&all[..4]), Unavailable),
        (with(4, all[4][..20].to_vec()), Unavailable),
        (with(7, all[7][..20].to_vec()), Unavailable),
        (with(4, malformed), Unavailable),
        (with(4, long), Unavailable),
        (with(4, no_json), Unavailable),
        (with(4, b"data: {}\n\n\n\n\n\n\n".to_vec()), Unavailable),
        (with(4, error), Unavailable),
        // Before any content, then after some content.
        (with(0, exception("throttlingException")), RateLimited),
        (with(1, exception("validationException")), Rejected),
        (with(1, exception("internalServerException")), Unavailable),
        (with(4, exception("throttlingException")), RateLimited),
        (with(4, exception("modelStreamErrorException")), Unavailable),
        (with(4, exception("serviceUnavailableException")), Unavailable),
        (
            streamed(&all).cut(At::Bytes(until(4).len()), How::Close),
            Unavailable,
        ),
        (
            streamed(&all).cut(At::Bytes(until(4).len()), How::Reset),
            Unavailable,
        ),
    ] {
        let error = failed(reply.clone(), &chat(json!({"stream": true})), LONG_TIMEOUT).await;
        assert_eq!((error.kind, error.cause), (kind, Protocol), "{reply:?}: {error}");
    }
}

#[tokio::test]
async fn answers_without_usage_are_accepted() {
    let upstream = FakeUpstream::start().await;
    let provider = signing(&upstream.base_url(), None);
    let mut all = frames();
    all.pop();
    upstream.push(streamed(&all));
    let collected = ask(&*provider, &context(LONG_TIMEOUT), &chat(json!({"stream": true})))
        .await
        .unwrap();
    assert_eq!((collected.usage, collected.output_bytes), (None, 10));
    all.push(event("metadata", &json!({"usage": {"inputTokens": "many"}})));
    upstream.push(streamed(&all));
    let collected = ask(&*provider, &context(LONG_TIMEOUT), &chat(json!({"stream": true})))
        .await
        .unwrap();
    assert_eq!((collected.usage, collected.output_bytes), (None, 10));
    let body = r#"{"output":{"message":{"content":[{"text":"Hi"}]}},"stopReason":"end_turn"}"#;
    upstream.push(Reply::body(200, "application/json", body));
    let collected = ask(&*provider, &context(LONG_TIMEOUT), &chat(json!({})))
        .await
        .unwrap();
    assert_eq!((collected.usage, collected.output_bytes), (None, 2));
}

#[tokio::test]
async fn reasoning_parameters_of_unknown_model_families_are_refused() {
    let unknown = |members| TextCall {
        upstream_model: "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc".into(),
        ..chat(members)
    };
    let error = failed(
        whole(),
        &unknown(json!({"reasoning_effort": "high"})),
        LONG_TIMEOUT,
    )
    .await;
    assert_eq!(
        (error.kind, error.param.as_deref()),
        (Rejected, Some("reasoning_effort"))
    );
    let upstream = FakeUpstream::start().await;
    upstream.set_default(whole());
    let provider = signing(&upstream.base_url(), None);
    for fine in [
        unknown(json!({"reasoning_effort": "none"})),
        chat(json!({"reasoning_effort": "high"})),
    ] {
        ask(&*provider, &context(LONG_TIMEOUT), &fine).await.unwrap();
    }
}
