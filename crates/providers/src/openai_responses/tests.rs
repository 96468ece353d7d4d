//! Tests of the adapter against a scripted upstream on loopback.

mod reports;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_formats::openai_responses::{Identity, splice_response};
use tollgate_testkit::upstream::{Answer, FAULTS, FakeUpstream, Outcome, Reply, Usage as Reported};
use tollgate_types::generate::{GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Abilities, Credits, Format, RequestId, Retry, Unit, Usage};
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
        preset: Some("openai-responses".to_owned()),
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
        upstream_model: "gpt-x".into(),
        stream: body["stream"] == true,
        output_cap: 4_096,
        ..TextCall::new(format, "maker/public".into(), Bytes::from(body.to_string()))
    }
}

fn response(members: Value) -> TextCall {
    let mut body = json!({"model": "maker/public", "input": "hi"});
    merge(&mut body, members);
    call(Format::Responses, &body)
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
                    let identity = Identity {
                        number: 7,
                        created_at: 7,
                        model: call.public_model.to_string(),
                        store: false,
                        background: false,
                        previous_response_id: None,
                    };
                    let sent = splice_response(&bytes, head.unwrap(), &identity, &Usage::ZERO, Credits::ZERO);
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
async fn a_request_is_forwarded_and_its_answer_relayed() {
    let (upstream, provider) = started().await;
    for stream in [false, true] {
        upstream.push(rich());
        let asked = response(json!({
            "stream": stream, "store": true, "truncation": "auto", "reasoning": {"effort": "low"},
            "metadata": {"a": "b"}, "betas": ["x"],
        }));
        let collected = ask(&*provider, &context_with_long_timeout(), &asked)
            .await
            .unwrap();
        assert_eq!(collected.usage, Some(rich_usage()), "{collected:?}");
        assert!(collected.output_bytes > 10);
        assert!(
            collected.raw.contains("gw1.") && collected.raw.contains("function_call"),
            "{}",
            collected.raw
        );
        assert!(!collected.raw.contains("\"enc-"), "{}", collected.raw);
        let received = upstream.requests().pop().unwrap();
        assert_eq!(received.path, "/v1/responses");
        assert_eq!(received.header("authorization"), Some(&*format!("Bearer {KEY}")));
        assert_eq!(
            received.json().unwrap(),
            json!({
                "model": "gpt-x", "input": "hi", "stream": stream, "truncation": "auto",
                "reasoning": {"effort": "low"}, "metadata": {"a": "b"},
                "include": ["reasoning.encrypted_content"], "store": false,
            })
        );
    }
}

#[tokio::test]
async fn a_chat_completion_is_written_as_a_request_for_a_response() {
    let (upstream, provider) = started().await;
    let asked = json!({
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}},
            ]},
            {"role": "assistant", "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1.50}"}},
                {"id": "b", "type": "custom", "custom": {"name": "c", "input": "free"}},
            ]},
            {"role": "tool", "tool_call_id": "a", "content": "1"},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "and?"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false, "user": "u",
        "reasoning_effort": "low", "max_completion_tokens": 64, "verbosity": "low", "seed": 7,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    });
    let asked = chat(asked);
    let request = tollgate_formats::to_common::decode_request(asked.format, &asked.body).unwrap();
    assert_eq!(
        provider
            .text()
            .unwrap()
            .check_compatible(&request, &Default::default())
            .unwrap(),
        ["seed"]
    );
    let collected = ask(&*provider, &context_with_long_timeout(), &asked)
        .await
        .unwrap();
    assert!(collected.common.is_some());
    let sent = upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(
        sent,
        json!({
            "model": "gpt-x", "instructions": "be brief",
            "input": [
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "look"},
                    {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
                ]},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{\"x\":1.50}"},
                {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "free"},
                {"type": "function_call_output", "call_id": "a", "output": "1"},
                {"type": "custom_tool_call_output", "call_id": "b", "output": "2"},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "and?"}]},
            ],
            "max_output_tokens": 64,
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": false}],
            "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false,
            "text": {
                "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}, "verbosity": "low",
            },
            "reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"], "user": "u",
            "stream": false, "store": false,
        })
    );
}

#[tokio::test]
async fn unsupported_parameters_are_refused() {
    let (_, provider) = started().await;
    for (members, param) in [
        (json!({"n": 2}), "n"),
        (json!({"stop": "END"}), "stop"),
        (json!({"frequency_penalty": 0.5}), "frequency_penalty"),
        (json!({"presence_penalty": 0.5}), "presence_penalty"),
        (json!({"logit_bias": {"1": 2}}), "logit_bias"),
        (
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}),
            "messages[1]",
        ),
    ] {
        let asked = chat(members);
        let request = tollgate_formats::to_common::decode_request(asked.format, &asked.body).unwrap();
        let error = provider
            .text()
            .unwrap()
            .check_compatible(&request, &Default::default())
            .unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param));
    }
    for members in [
        json!({"max_completion_tokens": 1}),
        json!({"frequency_penalty": 0, "logit_bias": {}, "modalities": ["text"], "max_completion_tokens": 16}),
        json!({"stream": true, "stream_options": {"include_obfuscation": false}}),
    ] {
        let asked = chat(members);
        let request = tollgate_formats::to_common::decode_request(asked.format, &asked.body).unwrap();
        assert_eq!(
            provider
                .text()
                .unwrap()
                .check_compatible(&request, &Default::default())
                .unwrap(),
            [""; 0]
        );
    }
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
    let [choice] = &*answer.choices else {
        panic!("{answer:?}")
    };
    let Part::Reasoning(reasoning) = &choice.parts[0] else {
        panic!("{choice:?}")
    };
    let seal = reasoning.seal.as_ref().unwrap();
    assert!(
        seal.data.starts_with("enc-") && seal.origin.len() == 16,
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
    let collected = ask(
        &*provider_here,
        &context_with_long_timeout(),
        &response(json!({})),
    )
    .await
    .unwrap();
    let answer: Value = serde_json::from_str(&collected.raw).unwrap();
    let mut input = vec![json!({"role": "user", "content": "hi"})];
    input.extend(answer["output"].as_array().unwrap().iter().take(2).cloned());
    assert!(
        input[1]["encrypted_content"]
            .as_str()
            .unwrap()
            .starts_with("gw1."),
        "{input:?}"
    );
    input.push(json!({"role": "user", "content": "go on"}));
    let next = response(json!({ "input": input }));
    ask(&*provider_here, &context_with_long_timeout(), &next)
        .await
        .unwrap();
    let sent = upstream.requests().pop().unwrap().json().unwrap();
    let seal = sent["input"][1]["encrypted_content"].as_str().unwrap();
    assert!(seal.starts_with("enc-"), "{seal}");
    ask(&*elsewhere, &context_with_long_timeout(), &next)
        .await
        .unwrap();
    let sent = upstream.requests().pop().unwrap().json().unwrap();
    assert_eq!(sent["input"].as_array().unwrap().len(), 3);
    assert_eq!(sent["input"][1]["type"], "message");
}

#[tokio::test]
async fn upstream_faults_map_to_errors() {
    let (upstream, provider) = started().await;
    for fault in FAULTS {
        for (stream, format) in [
            (false, Format::Responses),
            (true, Format::Responses),
            (true, Format::ChatCompletions),
        ] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let members = json!({"stream": stream});
            let asked = match format {
                Format::Responses => response(members),
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
                (Outcome::Answer, Err(_)) => {
                    assert!(is_disguised || needs_the_end(fault.name), "{name}");
                }
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

/// Whether a fault is specific to the format of chat completions, or omits the final event, which
/// contains the usage report and the complete response.
fn needs_the_end(fault: &str) -> bool {
    fault.starts_with("unknown-") || fault.starts_with("chat-") || fault == "no-done"
}

#[tokio::test]
async fn refusals_map_to_error_kinds() {
    use UpstreamErrorKind::{ContentBlocked, ContextLength, Credentials, RateLimited, Rejected, Unavailable};
    let wait = Retry::After(Duration::from_secs(7));
    let cases = [
        (400, "invalid_value", Rejected, Retry::Never),
        (400, "context_length_exceeded", ContextLength, Retry::Never),
        (400, "content_policy_violation", ContentBlocked, Retry::Never),
        (401, "invalid_api_key", Credentials, Retry::Never),
        (403, "unsupported_country", Credentials, Retry::Never),
        (404, "model_not_found", Unavailable, Retry::Never),
        (429, "rate_limit_exceeded", RateLimited, wait),
        (429, "insufficient_quota", Credentials, Retry::Never),
        (500, "server_error", Unavailable, wait),
        (503, "server_error", Unavailable, wait),
        (504, "timeout", Unavailable, Retry::Unknown),
    ];
    let (upstream, provider) = started().await;
    for (status, code, meaning, retry) in cases {
        for stream in [false, true] {
            let body = json!({"error": {"type": "t", "code": code, "message": "sk-secret", "param": null}});
            upstream
                .push(Reply::body(status, "application/json", body.to_string()).header("retry-after", "7"));
            let asked = response(json!({"stream": stream}));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind, error.retry),
                (meaning, retry),
                "{status} {code}: {error}"
            );
            assert!(
                error.detail.contains(code) && !error.detail.contains("secret"),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn failures_in_a_stream_or_body_end_the_call() {
    let (upstream, provider) = started().await;
    let failed = json!({"id": "resp_1", "status": "failed", "output": [], "usage": null,
        "error": {"code": "rate_limit_exceeded", "message": "m"}});
    let created = json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}});
    for event in [
        json!({"type": "response.failed", "response": failed}),
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "m", "param": null}),
        json!({"type": "error", "error": {"type": "t", "code": "rate_limit_exceeded", "message": "m"}}),
    ] {
        for asked in [response(json!({"stream": true})), chat(json!({"stream": true}))] {
            upstream.push(Reply::events([created.to_string(), event.to_string()]));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(
                (error.kind, error.cause),
                (UpstreamErrorKind::RateLimited, UpstreamCause::Protocol),
                "{event}"
            );
        }
    }
    for (body, kind) in [
        (failed.to_string(), UpstreamErrorKind::RateLimited),
        (json!({"id": "x"}).to_string(), UpstreamErrorKind::Unavailable),
        (
            json!({"status": "cancelled", "output": []}).to_string(),
            UpstreamErrorKind::Unavailable,
        ),
        ("<html>".to_owned(), UpstreamErrorKind::Unavailable),
    ] {
        for asked in [response(json!({})), response(json!({"stream": true}))] {
            upstream.push(Reply::body(200, "application/json", body.clone()));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(error.kind, kind, "{body} {error:?}");
            assert_ne!(error.retry, Retry::Safe);
        }
    }
}

#[tokio::test]
async fn models_are_listed() {
    let (upstream, provider) = started().await;
    let page = json!({"data": [{"object": "model", "id": "gpt-x"}, {"id": "gpt-y"}], "has_more": false});
    upstream.push_for_models(Reply::body(200, "application/json", page.to_string()));
    let models = provider.list_models(Duration::from_secs(20)).await.unwrap();
    let shown: Vec<_> = models
        .iter()
        .map(|model| (model.name.as_str(), model.context_window))
        .collect();
    assert_eq!(shown, [("gpt-x", None), ("gpt-y", None)]);
}

/// OpenAI rejects output caps below 16; other servers of the format accept them.
#[test]
fn min_output_cap_depends_on_the_server() {
    for (base_url, takes_less) in [
        ("https://api.openai.com/v1", false),
        ("https://name.openai.azure.com/openai/v1", false),
        ("https://notopenai.com/v1", true),
        ("http://127.0.0.1:9/v1", true),
    ] {
        let provider = provider("x", base_url);
        for (cap, is_taken) in [(15, takes_less), (16, true)] {
            let asked = chat(json!({"max_completion_tokens": cap}));
            let request = tollgate_formats::to_common::decode_request(asked.format, &asked.body).unwrap();
            let carried = provider
                .text()
                .unwrap()
                .check_compatible(&request, &Abilities::default());
            assert_eq!(carried.is_ok(), is_taken, "{base_url} {cap}");
        }
    }
}
