//! Tests of responses with an error status, and of errors under a status of 200.

use std::time::Duration;

use serde_json::json;
use tollgate_testkit::upstream::Reply;
use tollgate_types::Retry;
use tollgate_upstream::UpstreamErrorKind::{
    self, ContentBlocked, ContextLength, Credentials, RateLimited, Rejected, Unavailable,
};

use super::{ask, chat, context, started};

fn coded(status: u16, code: &str) -> Reply {
    Reply::error(status, code, "a message without a known phrase")
}

fn json_body(status: u16, body: serde_json::Value) -> Reply {
    Reply::body(status, "application/json", body.to_string())
}

#[tokio::test]
async fn status_and_code_map_to_error_kinds() {
    let cases: Vec<(&str, Reply, UpstreamErrorKind, Retry)> = vec![
        ("400", coded(400, "invalid_value"), Rejected, Retry::Never),
        ("401", coded(401, "invalid_api_key"), Credentials, Retry::Never),
        ("402", coded(402, "x"), Credentials, Retry::Never),
        (
            "403",
            coded(403, "unsupported_country"),
            Credentials,
            Retry::Never,
        ),
        (
            "403 model",
            coded(403, "model_not_found"),
            Unavailable,
            Retry::Never,
        ),
        ("404", coded(404, "model_not_found"), Unavailable, Retry::Never),
        ("404 page", Reply::html(404), Unavailable, Retry::Never),
        ("405", coded(405, "x"), Unavailable, Retry::Never),
        ("408", coded(408, "x"), Unavailable, Retry::Safe),
        ("409", coded(409, "x"), Unavailable, Retry::Safe),
        ("413", coded(413, "x"), Rejected, Retry::Never),
        (
            "413 tokens",
            coded(413, "rate_limit_exceeded"),
            RateLimited,
            Retry::Safe,
        ),
        ("422", coded(422, "x"), Rejected, Retry::Never),
        ("429", coded(429, "rate_limit_exceeded"), RateLimited, Retry::Safe),
        (
            "429 quota",
            coded(429, "insufficient_quota"),
            Credentials,
            Retry::Never,
        ),
        ("429 page", Reply::html(429), RateLimited, Retry::Safe),
        ("500", coded(500, "server_error"), Unavailable, Retry::Safe),
        ("502", Reply::html(502), Unavailable, Retry::Safe),
        ("503", coded(503, "overloaded"), Unavailable, Retry::Safe),
        ("504", coded(504, "x"), Unavailable, Retry::Unknown),
        ("529", coded(529, "overloaded"), Unavailable, Retry::Safe),
        (
            "302",
            Reply::body(302, "text/plain", ""),
            Unavailable,
            Retry::Never,
        ),
        (
            "context",
            coded(400, "context_length_exceeded"),
            ContextLength,
            Retry::Never,
        ),
        (
            "content",
            coded(400, "content_policy_violation"),
            ContentBlocked,
            Retry::Never,
        ),
        (
            "llama.cpp's context",
            json_body(
                400,
                json!({"error": {"code": 400, "type": "exceed_context_size_error", "message": "no"}}),
            ),
            ContextLength,
            Retry::Never,
        ),
        (
            "Azure's filter",
            json_body(
                400,
                json!({"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
            ),
            ContentBlocked,
            Retry::Never,
        ),
        (
            "OpenRouter's moderation",
            json_body(
                403,
                json!({"error": {"code": 403, "metadata": {"flagged_input": "secret words"}}}),
            ),
            ContentBlocked,
            Retry::Never,
        ),
        (
            "vLLM's bare object",
            json_body(
                400,
                json!({"object": "error", "message": "no", "type": "BadRequestError", "code": 400}),
            ),
            Rejected,
            Retry::Never,
        ),
        (
            "prose",
            coded(400, "the context length was exceeded"),
            Rejected,
            Retry::Never,
        ),
    ];
    for (name, reply, kind, retry) in cases {
        let (upstream, provider) = started().await;
        upstream.push(reply);
        let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
        assert_eq!((error.kind, error.retry), (kind, retry), "{name}: {error}");
        assert!(error.status.is_some(), "{name}");
        assert!(
            !error.detail.contains("prose") && !error.detail.contains("secret"),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn invalid_parameters_are_named() {
    let cases = [
        (
            json!({"error": {"message": "no", "param": "messages[1].content"}}),
            Some("messages[1].content"),
        ),
        (
            json!({"error": {"message": "no", "param": "your prompt was bad"}}),
            None,
        ),
        (json!({"error": {"message": "no", "param": null}}), None),
        (
            json!({"detail": [{"loc": ["body", "temperature"], "msg": "no", "input": "x"}]}),
            Some("temperature"),
        ),
        (
            json!({"message": {"detail": [{"loc": ["body", "messages", 0, "role"]}]}, "type": "invalid_request_error"}),
            Some("messages[0].role"),
        ),
        (json!({"detail": "Not here"}), None),
    ];
    for (body, param) in cases {
        let (upstream, provider) = started().await;
        upstream.push(json_body(422, body.clone()));
        let error = ask(&*provider, &context(), &chat(false)).await.unwrap_err();
        assert_eq!(error.param.as_deref(), param, "{body}");
        assert_eq!(error.kind, Rejected, "{body}");
    }
}

#[tokio::test]
async fn retry_after_is_read_from_every_header() {
    let long = Duration::from_secs(24 * 60 * 60);
    let cases = [
        (vec![("retry-after", "7")], Some(Duration::from_secs(7))),
        (vec![("retry-after", "1.5")], Some(Duration::from_millis(1500))),
        (
            vec![("retry-after", "9"), ("retry-after-ms", "250")],
            Some(Duration::from_millis(250)),
        ),
        (
            vec![
                ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
            ],
            Some(Duration::from_secs(30)),
        ),
        (vec![("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")], None),
        (vec![("retry-after", "-3")], Some(Duration::ZERO)),
        (vec![("retry-after", "1e300")], None),
        (vec![("retry-after", "99999999")], Some(long)),
        (vec![("retry-after", "NaN")], Some(Duration::ZERO)),
        (vec![("retry-after", "soon")], None),
        (vec![], None),
    ];
    for (headers, expected) in cases {
        let (upstream, provider) = started().await;
        let reply = headers
            .iter()
            .fold(coded(429, "rate_limit_exceeded"), |reply, (name, value)| {
                reply.header(name, value)
            });
        upstream.push(reply);
        let error = ask(&*provider, &context(), &chat(true)).await.unwrap_err();
        assert_eq!(error.retry_after, expected, "{headers:?}");
        let retry = expected.map_or(Retry::Safe, Retry::After);
        assert_eq!(error.retry, retry, "{headers:?}");
    }
}

#[tokio::test]
async fn errors_with_status_200_are_errors() {
    let cases = [
        (
            json!({"error": {"code": "server_error", "message": "no"}}),
            Unavailable,
        ),
        (
            json!({"error": {"code": 502, "message": "no"}, "choices": [{"index": 0}]}),
            Unavailable,
        ),
        (json!({"error": {"code": 429, "message": "no"}}), RateLimited),
        (json!({"error": {"code": "content_filter"}}), ContentBlocked),
        (
            json!({"error": {"code": "context_length_exceeded"}}),
            ContextLength,
        ),
        (json!({"error": "no"}), Unavailable),
    ];
    for (body, kind) in cases {
        let (upstream, provider) = started().await;
        upstream.push(json_body(200, body.clone()));
        upstream.push(json_body(200, body.clone()));
        upstream.push(Reply::events([body.to_string()]));
        for stream in [false, true, true] {
            let error = ask(&*provider, &context(), &chat(stream)).await.unwrap_err();
            assert_eq!(error.kind, kind, "{body} streamed: {stream}: {error}");
            assert_ne!(error.retry, Retry::Safe, "{body}");
        }
    }
}

#[tokio::test]
async fn stream_errors_follow_earlier_content() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::words(10).error_after(4, "server_error", "no"));
    let ctx = context();
    let reply = provider
        .text()
        .unwrap()
        .generate(&ctx, &chat(true))
        .await
        .unwrap();
    let tollgate_upstream::TextReply::Stream(stream) = reply else {
        panic!("a stream was asked for");
    };
    let items: Vec<bool> = futures_util::StreamExt::collect::<Vec<_>>(stream)
        .await
        .iter()
        .map(Result::is_ok)
        .collect();
    assert_eq!(items, [true, true, true, true, false]);
}
