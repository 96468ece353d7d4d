//! Tests of the adapter against a scripted upstream on loopback.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_formats::anthropic_messages::splice_response;
use tollgate_testkit::upstream::{Answer, FAULTS, FakeUpstream, Outcome, Reply, Usage as Reported};
use tollgate_types::generate::{GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Format, RequestId, Retry, Unit, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, Permit, Provider, TextCall, TextReply, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

const KEY: &str = "sk-upstream-0123456789abcdef";
const MAX_CHUNKS: usize = 5_000;

async fn started() -> (FakeUpstream, Arc<dyn Provider>) {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let provider = provider("main", &upstream.base_url());
    (upstream, provider)
}

fn provider(name: &str, base_url: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        preset: Some("anthropic".to_owned()),
        base_url: Some(base_url.to_owned()),
        api_key: Some(SecretString::from(KEY)),
        ..ProviderConfig::named(name)
    };
    let settings = HttpSettings {
        body_limit: 4 << 20,
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    };
    registry::build(&config, &HttpClient::new(settings)).unwrap()
}

fn context(timeout: Duration) -> CallContext {
    CallContext {
        request: RequestId::from_u128(1_790_000_000_000 << 80),
        permit: Permit::Free("test"),
        header_timeout: timeout,
        idle_timeout: timeout,
        inspected: false,
    }
}

fn context_with_long_timeout() -> CallContext {
    context(Duration::from_secs(20))
}

fn call(format: Format, body: &Value) -> TextCall {
    TextCall {
        upstream_model: "claude-x".into(),
        stream: body["stream"] == true,
        output_cap: 4_096,
        ..TextCall::new(format, "maker/public".into(), Bytes::from(body.to_string()))
    }
}

fn message(members: Value) -> TextCall {
    let mut body =
        json!({"model": "maker/public", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]});
    merge(&mut body, members);
    call(Format::Messages, &body)
}

fn chat(members: Value) -> TextCall {
    let mut body = json!({"model": "maker/public", "messages": [{"role": "user", "content": "hi"}]});
    merge(&mut body, members);
    call(Format::ChatCompletions, &body)
}

fn merge(body: &mut Value, members: Value) {
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
}

/// Response of one call: chunk kinds, content and usage.
#[derive(Debug, Default)]
struct Collected {
    kinds: Vec<ChunkKind>,
    /// Text that a caller of the same format receives.
    raw: String,
    common: Option<GenerateResponse>,
    events: Vec<StreamEvent>,
    usage: Option<Usage>,
    output_bytes: u64,
    is_endless: bool,
}

async fn ask(
    provider: &dyn Provider,
    ctx: &CallContext,
    call: &TextCall,
) -> Result<Collected, UpstreamError> {
    let mut collected = Collected::default();
    match provider.text().unwrap().generate(ctx, call).await? {
        TextReply::Whole(answer) => {
            (collected.usage, collected.output_bytes) = (answer.usage, answer.output_bytes);
            match answer.payload {
                Payload::Raw(format, bytes) => {
                    assert_eq!(format, call.format);
                    // The test edits the response as the API crate does.
                    let head = answer.outline.as_ref().and_then(|outline| outline.get());
                    let sent = splice_response(&bytes, head.unwrap(), &call.public_model, None);
                    collected.raw = String::from_utf8(sent.to_vec()).unwrap();
                }
                Payload::Common(response) => collected.common = Some(*response),
            }
        }
        TextReply::Stream(mut stream) => {
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                collected.kinds.push(chunk.kind);
                collected.usage = chunk.usage.or(collected.usage);
                collected.output_bytes += chunk.output_bytes;
                match chunk.payload {
                    Some(Payload::Raw(_, bytes)) => {
                        collected.raw.push_str(std::str::from_utf8(&bytes).unwrap())
                    }
                    Some(Payload::Common(event)) => collected.events.push(*event),
                    None => {}
                }
                if collected.kinds.len() == MAX_CHUNKS {
                    collected.is_endless = true;
                    return Ok(collected);
                }
            }
            assert_eq!(collected.kinds.last(), Some(&ChunkKind::End));
        }
    }
    Ok(collected)
}

fn rich() -> Reply {
    let answer = Answer::words(3)
        .reasoning(2)
        .tool_call("f", &json!({"x": 12345678901234567890123_f64}))
        .usage(Reported::Fixed {
            prompt: 100,
            completion: 50,
        });
    Reply::answer(answer.cached_tokens(30).cache_write_tokens(20))
}

fn rich_usage() -> Usage {
    Usage::ZERO
        .with(Unit::Input, 50)
        .with(Unit::CacheRead, 30)
        .with(Unit::CacheWrite, 20)
        .with(Unit::Output, 48)
        .with(Unit::Reasoning, 2)
}

#[tokio::test]
async fn a_message_is_forwarded_and_its_answer_relayed() {
    let (upstream, provider) = started().await;
    for stream in [false, true] {
        upstream.push(rich());
        let asked =
            message(json!({"stream": stream, "top_k": 4, "metadata": {"user_id": "u"}, "betas": ["x"]}));
        let collected = ask(&*provider, &context_with_long_timeout(), &asked)
            .await
            .unwrap();
        assert_eq!(collected.usage, Some(rich_usage()), "{collected:?}");
        assert!(collected.output_bytes > 10);
        assert!(
            collected.raw.contains("\"maker/public\"") && !collected.raw.contains("claude-x"),
            "{}",
            collected.raw
        );
        assert!(
            collected.raw.contains("gw1.") && collected.raw.contains("tool_use"),
            "{}",
            collected.raw
        );
        assert!(!collected.raw.contains("ping"));
        let received = upstream.requests().pop().unwrap();
        assert_eq!(received.path, "/v1/messages");
        assert_eq!(received.header("x-api-key"), Some(KEY));
        assert_eq!(received.header("authorization"), None);
        assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
        let sent = received.json().unwrap();
        assert_eq!((&sent["model"], &sent["top_k"]), (&json!("claude-x"), &json!(4)));
        assert_eq!(sent["metadata"], json!({"user_id": "u"}));
        assert_eq!(sent.get("betas"), None);
    }
}

#[tokio::test]
async fn a_chat_completion_is_written_as_a_message() {
    let (upstream, provider) = started().await;
    let asked = json!({
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
            ]},
            {"role": "assistant", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1.50}"}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": ""}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "and?"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "tool_choice": "required", "parallel_tool_calls": false, "stop": "END", "user": "u", "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    });
    let collected = ask(&*provider, &context_with_long_timeout(), &chat(asked))
        .await
        .unwrap();
    assert!(collected.common.is_some());
    let sent = upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(
        sent,
        json!({
            "model": "claude-x", "max_tokens": 4_096, "system": "be brief",
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1.5}},
                    {"type": "tool_use", "id": "b", "name": "f", "input": {}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                    {"type": "text", "text": "and?"},
                ]},
            ],
            "stop_sequences": ["END"],
            "tools": [{"name": "f", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
            "metadata": {"user_id": "u"},
        })
    );
}

#[tokio::test]
async fn answers_reach_callers_of_another_format() {
    let (upstream, provider) = started().await;
    upstream.push(rich());
    let collected = ask(&*provider, &context_with_long_timeout(), &chat(json!({})))
        .await
        .unwrap();
    assert_eq!(collected.usage, Some(rich_usage()));
    let answer = collected.common.unwrap();
    assert_eq!(answer.created, 1_790_000_000, "the time is that of the request");
    let [choice] = &*answer.choices else {
        panic!("{answer:?}")
    };
    let Part::Reasoning(reasoning) = &choice.parts[0] else {
        panic!("{choice:?}")
    };
    let seal = reasoning.seal.as_ref().unwrap();
    assert!(
        seal.data.starts_with("sig-") && seal.origin.len() == 16,
        "{seal:?}"
    );
    assert_eq!(choice.tool_calls[0].name, "f");

    upstream.push(rich());
    let collected = ask(
        &*provider,
        &context_with_long_timeout(),
        &chat(json!({"stream": true})),
    )
    .await
    .unwrap();
    assert_eq!(collected.usage, Some(rich_usage()), "{collected:?}");
    let text: String = collected
        .events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "w1 w2 w3");
    let seals = collected
        .events
        .iter()
        .filter(|event| matches!(event, StreamEvent::ReasoningSeal { .. }));
    assert_eq!(seals.count(), 1);
    assert!(matches!(
        collected.events.first(),
        Some(StreamEvent::Start { .. })
    ));
    assert!(
        matches!(collected.events.last(), Some(StreamEvent::Usage(_))),
        "{:?}",
        collected.events.last()
    );
}

#[tokio::test]
async fn reasoning_returns_only_to_its_provider() {
    let (upstream, provider_here) = started().await;
    let elsewhere = provider("backup", &upstream.base_url());
    upstream.push(rich());
    let collected = ask(&*provider_here, &context_with_long_timeout(), &message(json!({})))
        .await
        .unwrap();
    let answer: Value = serde_json::from_str(&collected.raw).unwrap();
    let wrapped = answer["content"][0]["signature"].as_str().unwrap();
    let next = message(json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "r1 r2 ", "signature": wrapped},
            {"type": "text", "text": "w1"},
        ]},
        {"role": "user", "content": "go on"},
    ]}));
    ask(&*provider_here, &context_with_long_timeout(), &next)
        .await
        .unwrap();
    let sent = upstream.requests().pop().unwrap().json().unwrap();
    let signature = sent["messages"][1]["content"][0]["signature"].as_str().unwrap();
    assert!(signature.starts_with("sig-"), "{signature}");
    ask(&*elsewhere, &context_with_long_timeout(), &next)
        .await
        .unwrap();
    let sent = upstream.requests().pop().unwrap();
    assert_eq!(
        sent.json().unwrap()["messages"][1]["content"],
        json!([{"type": "text", "text": "w1"}])
    );
}

#[tokio::test]
async fn upstream_faults_map_to_errors() {
    let (upstream, provider) = started().await;
    for fault in FAULTS {
        for (stream, format) in [
            (false, Format::Messages),
            (true, Format::Messages),
            (true, Format::ChatCompletions),
        ] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let members = json!({"stream": stream});
            let asked = match format {
                Format::Messages => message(members),
                _ => chat(members),
            };
            let ctx = match fault.outcome {
                Outcome::Endless => context(Duration::from_millis(300)),
                _ => context_with_long_timeout(),
            };
            let result = ask(&*provider, &ctx, &asked).await;
            let name = format!("{} streamed: {stream} {format:?}: {result:?}", fault.name);
            let is_disguised = stream && fault.name == "wrong-content-type";
            match (fault.outcome, result) {
                (Outcome::Answer, Ok(collected)) => {
                    assert!(!collected.is_endless && !is_disguised, "{name}");
                    assert!(!stream || collected.kinds.contains(&ChunkKind::Content), "{name}");
                }
                (Outcome::Answer, Err(_)) => assert!(is_disguised || is_of_chat(fault.name), "{name}"),
                (Outcome::Failure, Ok(_)) => {
                    // A fault after the end event has no effect.
                    assert!(stream && fault.name.starts_with("close-"), "{name}");
                }
                (Outcome::Endless, Ok(collected)) => assert!(collected.is_endless, "{name}"),
                (Outcome::Failure | Outcome::Endless, Err(error)) => {
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

/// Whether a fault is specific to the format of chat completions.
fn is_of_chat(fault: &str) -> bool {
    fault.starts_with("unknown-") || fault.starts_with("chat-")
}

#[tokio::test]
async fn refusals_map_to_error_kinds() {
    use UpstreamErrorKind::{ContextLength, Credentials, RateLimited, Rejected, Unavailable};
    let cases = [
        (400, "invalid_request_error", Rejected, Retry::Never),
        (401, "authentication_error", Credentials, Retry::Never),
        (402, "billing_error", Credentials, Retry::Never),
        (403, "permission_error", Credentials, Retry::Never),
        (404, "not_found_error", Unavailable, Retry::Never),
        (413, "request_too_large", Rejected, Retry::Never),
        (
            429,
            "rate_limit_error",
            RateLimited,
            Retry::After(Duration::from_secs(7)),
        ),
        (
            500,
            "api_error",
            Unavailable,
            Retry::After(Duration::from_secs(7)),
        ),
        (504, "timeout_error", Unavailable, Retry::Unknown),
        (
            529,
            "overloaded_error",
            Unavailable,
            Retry::After(Duration::from_secs(7)),
        ),
    ];
    let (upstream, provider) = started().await;
    for (status, kind, meaning, retry) in cases {
        for stream in [false, true] {
            let body =
                json!({"type": "error", "error": {"type": kind, "message": "sk-secret"}, "request_id": "r"});
            upstream
                .push(Reply::body(status, "application/json", body.to_string()).header("retry-after", "7"));
            let asked = message(json!({"stream": stream}));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind, error.retry),
                (meaning, retry),
                "{status} {kind}: {error}"
            );
            assert!(
                error.detail.contains(kind) && !error.detail.contains("secret"),
                "{error}"
            );
        }
    }
    let details = json!({"error_code": "context_length_exceeded"});
    let body = json!({"type": "error", "error": {"type": "invalid_request_error", "message": "m", "details": details}});
    upstream.push(Reply::body(400, "application/json", body.to_string()));
    let error = ask(&*provider, &context_with_long_timeout(), &message(json!({})))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ContextLength);
}

#[tokio::test]
async fn overload_in_a_stream_ends_the_call() {
    let (upstream, provider) = started().await;
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}});
    let overload = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    upstream.push(Reply::events([start.to_string(), overload.to_string()]));
    let error = ask(
        &*provider,
        &context_with_long_timeout(),
        &message(json!({"stream": true})),
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.kind, error.cause),
        (UpstreamErrorKind::Unavailable, UpstreamCause::Protocol)
    );
}

#[tokio::test]
async fn models_are_listed() {
    let (upstream, provider) = started().await;
    let page = json!({"data": [{"type": "model", "id": "claude-x", "max_input_tokens": 200_000}, {"id": "claude-y"}], "has_more": false});
    upstream.push_for_models(Reply::body(200, "application/json", page.to_string()));
    let models = provider.list_models(Duration::from_secs(20)).await.unwrap();
    let shown: Vec<_> = models
        .iter()
        .map(|model| (model.name.as_str(), model.context_window))
        .collect();
    assert_eq!(shown, [("claude-x", Some(200_000)), ("claude-y", None)]);
    assert_eq!(
        upstream.requests()[0].header("anthropic-version"),
        Some("2023-06-01")
    );
}
