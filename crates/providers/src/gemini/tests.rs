//! Tests of the adapter against a scripted upstream on loopback.

mod live;
mod media;
mod reports;
mod vertex;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use secrecy::SecretString;
use serde_json::{Value, json};
use tollgate_formats::gemini::splice_response;
use tollgate_testkit::upstream::{
    Answer, FAULTS, FakeUpstream, Outcome, ReceivedRequest, Reply, Usage as Reported,
};
use tollgate_types::generate::{FinishReason, GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Format, RequestId, Retry, Unit, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, EmbedCall, EmbedPayload, Payload, Permit, Provider, TextCall, TextReply,
    UpstreamCause, UpstreamError, UpstreamErrorKind,
};

use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

const KEY: &str = "upstream-0123456789abcdef";
const MAX_CHUNKS: usize = 5_000;

async fn started() -> (FakeUpstream, Arc<dyn Provider>) {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let provider = provider("main", &upstream.base_url());
    (upstream, provider)
}

fn provider(name: &str, base_url: &str) -> Arc<dyn Provider> {
    let config = ProviderConfig {
        preset: Some("gemini".to_owned()),
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

fn call(format: Format, stream: bool, body: &Value) -> TextCall {
    TextCall {
        upstream_model: "gemini-3-x".into(),
        stream,
        output_cap: 4_096,
        ..TextCall::new(format, "maker/public".into(), Bytes::from(body.to_string()))
    }
}

fn content(stream: bool, members: Value) -> TextCall {
    let mut body = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]});
    merge(&mut body, members);
    call(Format::GenerateContent, stream, &body)
}

fn chat(stream: bool, members: Value) -> TextCall {
    let mut body =
        json!({"model": "maker/public", "stream": stream, "messages": [{"role": "user", "content": "hi"}]});
    merge(&mut body, members);
    call(Format::ChatCompletions, stream, &body)
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

fn last(upstream: &FakeUpstream) -> ReceivedRequest {
    upstream.requests().pop().unwrap()
}

fn thoughtful() -> Answer {
    Answer::text("so it is")
        .reasoning(2)
        .tool_call("look", &json!({"at": "it"}))
        .cached_tokens(1)
}

#[tokio::test]
async fn the_callers_own_format_is_passed_on() {
    let (upstream, provider) = started().await;
    for stream in [false, true] {
        upstream.push(Reply::answer(thoughtful()));
        let asked = content(
            stream,
            json!({"labels": {"a": "b"}, "system_instruction": {"parts": [{"text": "s"}]}}),
        );
        let collected = ask(&*provider, &context_with_long_timeout(), &asked)
            .await
            .unwrap();
        assert!(
            collected.raw.contains("maker/public") && !collected.raw.contains("gemini-3-x"),
            "{}",
            collected.raw
        );
        assert!(
            collected.raw.contains("\"thought\":true") && collected.raw.contains("functionCall"),
            "{}",
            collected.raw
        );
        assert!(
            !collected.raw.contains("\"sig-"),
            "signatures are wrapped: {}",
            collected.raw
        );
        let usage = collected.usage.unwrap();
        assert_eq!(usage.get(Unit::CacheRead), 1);
        assert_eq!(usage.get(Unit::Reasoning), 2);
        assert!(collected.output_bytes > 0);
        let received = last(&upstream);
        let action = if stream {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        assert_eq!(received.path, format!("/v1/models/gemini-3-x:{action}"));
        assert_eq!(received.header("x-goog-api-key"), Some(KEY));
        let sent: Value = serde_json::from_slice(&received.body).unwrap();
        assert_eq!(sent["systemInstruction"]["parts"][0]["text"], "s");
        assert!(
            sent.get("labels").is_none() && sent.get("model").is_none(),
            "{sent}"
        );
    }
}

#[tokio::test]
async fn missing_output_cap_is_added() {
    let (upstream, provider) = started().await;
    for (members, expected) in [
        (json!({}), 7),
        (json!({"generationConfig": {}}), 7),
        (json!({"generation_config": {"top_p": 1}}), 7),
        (json!({"generationConfig": {"maxOutputTokens": 5}}), 5),
    ] {
        let mut asked = content(false, members);
        asked.clamp_output = Some(7);
        ask(&*provider, &context_with_long_timeout(), &asked)
            .await
            .unwrap();
        let sent: Value = serde_json::from_slice(&last(&upstream).body).unwrap();
        assert_eq!(sent["generationConfig"]["maxOutputTokens"], expected, "{sent}");
    }
}

#[tokio::test]
async fn other_formats_are_converted() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::answer(thoughtful()));
    let collected = ask(&*provider, &context_with_long_timeout(), &chat(false, json!({})))
        .await
        .unwrap();
    let answer = collected.common.unwrap();
    let choice = &answer.choices[0];
    assert_eq!(choice.finish, FinishReason::ToolCalls);
    assert_eq!(choice.tool_calls[0].arguments, r#"{"at":"it"}"#);
    assert!(
        choice.tool_calls[0].id.starts_with("call_"),
        "{:?}",
        choice.tool_calls
    );
    let seals: Vec<_> = choice
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Reasoning(reasoning) => reasoning.seal.clone(),
            _ => None,
        })
        .collect();
    assert_eq!(
        seals.len(),
        2,
        "the thought, and the signature behind it: {:?}",
        choice.parts
    );
    assert!(seals.iter().all(|seal| seal.origin.len() == 16));
    assert!(seals[1].data.starts_with("sig-"));

    upstream.push(Reply::answer(thoughtful()));
    let collected = ask(&*provider, &context_with_long_timeout(), &chat(true, json!({})))
        .await
        .unwrap();
    let names: Vec<&str> = collected
        .events
        .iter()
        .map(|event| match event {
            StreamEvent::Start { .. } => "start",
            StreamEvent::Reasoning { .. } => "reasoning",
            StreamEvent::ReasoningSeal { hidden: true, .. } => "hidden",
            StreamEvent::ReasoningSeal { .. } => "seal",
            StreamEvent::Text { .. } => "text",
            StreamEvent::ToolCallStart { .. } => "call",
            StreamEvent::ToolCallArguments { .. } => "arguments",
            StreamEvent::Finish { .. } => "finish",
            StreamEvent::Usage(_) => "usage",
            StreamEvent::Refusal { .. } => "refusal",
        })
        .collect();
    let mut steps = names.clone();
    steps.dedup();
    assert_eq!(
        steps,
        [
            "start",
            "reasoning",
            "seal",
            "hidden",
            "text",
            "call",
            "arguments",
            "finish",
            "usage"
        ],
        "{names:?}"
    );
    assert_eq!(collected.usage.unwrap().get(Unit::Reasoning), 2);
}

#[tokio::test]
async fn seals_return_only_to_their_provider() {
    let (upstream, provider) = started().await;
    upstream.push(Reply::answer(thoughtful()));
    let collected = ask(
        &*provider,
        &context_with_long_timeout(),
        &content(false, json!({})),
    )
    .await
    .unwrap();
    let turn = serde_json::from_str::<Value>(&collected.raw).unwrap()["candidates"][0]["content"].clone();
    let contents = json!([
        {"parts": [{"text": "hi"}]}, turn,
        {"parts": [{"function_response": {"name": "look", "response": {"seen": 1}}}]},
    ]);
    ask(
        &*provider,
        &context_with_long_timeout(),
        &content(false, json!({"contents": contents})),
    )
    .await
    .unwrap();
    let sent: Value = serde_json::from_slice(&last(&upstream).body).unwrap();
    let signature = sent.pointer("/contents/1/parts/1/thoughtSignature").unwrap();
    assert!(signature.as_str().unwrap().starts_with("sig-"), "{sent}");

    let other = self::provider("other", &upstream.base_url());
    ask(
        &*other,
        &context_with_long_timeout(),
        &content(false, json!({"contents": contents})),
    )
    .await
    .unwrap();
    let sent: Value = serde_json::from_slice(&last(&upstream).body).unwrap();
    assert!(!sent.to_string().contains("thoughtSignature"), "{sent}");
    assert_eq!(
        sent.pointer("/contents/2/parts/0/function_response/name"),
        Some(&json!("look"))
    );
}

#[tokio::test]
async fn blocked_prompts_and_malformed_answers_are_errors() {
    let (upstream, provider) = started().await;
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}});
    let malformed = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "index": 0}]});
    for (body, kind) in [
        (&blocked, UpstreamErrorKind::ContentBlocked),
        (&malformed, UpstreamErrorKind::Unavailable),
    ] {
        for asked in [content(false, json!({})), chat(false, json!({}))] {
            upstream.push(Reply::body(200, "application/json", body.to_string()));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
        }
        for asked in [content(true, json!({})), chat(true, json!({}))] {
            upstream.push(Reply::events([body.to_string()]));
            let error = ask(&*provider, &context_with_long_timeout(), &asked)
                .await
                .unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
        }
    }
}

#[tokio::test]
async fn a_stream_without_its_end_was_cut() {
    let (upstream, provider) = started().await;
    let chunk = json!({"candidates": [{"content": {"parts": [{"text": "a"}]}, "index": 0}],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1}});
    upstream.push(Reply::events([chunk.to_string()]));
    let asked = content(true, json!({}));
    let mut stream = match provider
        .text()
        .unwrap()
        .generate(&context_with_long_timeout(), &asked)
        .await
        .unwrap()
    {
        TextReply::Stream(stream) => stream,
        TextReply::Whole(_) => panic!("expected a stream"),
    };
    let first = stream.next().await.unwrap().unwrap();
    assert!(first.usage.is_none(), "a report of a part is none");
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(
        (error.cause, error.retry),
        (UpstreamCause::Protocol, Retry::Unknown)
    );
}

#[tokio::test]
async fn usage_may_be_missing() {
    let (upstream, provider) = started().await;
    for stream in [false, true] {
        upstream.push(Reply::answer(Answer::text("a").usage(Reported::Missing)));
        let collected = ask(
            &*provider,
            &context_with_long_timeout(),
            &content(stream, json!({})),
        )
        .await
        .unwrap();
        assert_eq!(collected.usage, None);
        assert!(collected.output_bytes > 0);
    }
}

#[tokio::test]
async fn upstream_faults_map_to_errors() {
    let (upstream, provider) = started().await;
    for fault in FAULTS {
        for (stream, format) in [
            (false, Format::GenerateContent),
            (true, Format::GenerateContent),
            (true, Format::ChatCompletions),
        ] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let asked = match format {
                Format::GenerateContent => content(stream, json!({})),
                _ => chat(stream, json!({})),
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
    let (upstream, provider) = started().await;
    let status = |code: u16, status: &str, details: Value| {
        let body = json!({"error": {"code": code, "message": "words", "status": status, "details": details}});
        Reply::body(code, "application/json", body.to_string())
    };
    let reason = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]);
    let field = json!([{"fieldViolations": [{"field": "contents[0].parts"}]}]);
    for (reply, kind, param) in [
        (
            status(400, "INVALID_ARGUMENT", reason),
            UpstreamErrorKind::Credentials,
            None,
        ),
        (
            status(400, "INVALID_ARGUMENT", field),
            UpstreamErrorKind::Rejected,
            Some("contents[0].parts"),
        ),
        (
            status(400, "FAILED_PRECONDITION", json!([])),
            UpstreamErrorKind::Credentials,
            None,
        ),
        (
            status(403, "PERMISSION_DENIED", json!([])),
            UpstreamErrorKind::Credentials,
            None,
        ),
        (
            status(404, "NOT_FOUND", json!([])),
            UpstreamErrorKind::Unavailable,
            None,
        ),
        (
            status(429, "RESOURCE_EXHAUSTED", json!([{"retryDelay": "34.5s"}])),
            UpstreamErrorKind::RateLimited,
            None,
        ),
        (
            status(500, "INTERNAL", json!([])),
            UpstreamErrorKind::Unavailable,
            None,
        ),
        (
            status(503, "UNAVAILABLE", json!([])),
            UpstreamErrorKind::Unavailable,
            None,
        ),
    ] {
        upstream.push(reply);
        let error = ask(
            &*provider,
            &context_with_long_timeout(),
            &content(false, json!({})),
        )
        .await
        .unwrap_err();
        assert_eq!((error.kind, error.param.as_deref()), (kind, param), "{error}");
        assert!(!error.detail.contains("words"), "{error}");
        let wait = (kind == UpstreamErrorKind::RateLimited).then(|| Duration::from_millis(34_500));
        assert_eq!(error.retry_after, wait, "{error}");
    }
}

#[tokio::test]
async fn vectors_come_in_one_batch() {
    let (upstream, provider) = started().await;
    let embed = |input: Value| EmbedCall {
        body: Bytes::from(
            json!({"model": "m", "input": input, "dimensions": 3, "task_type": "RETRIEVAL_QUERY"})
                .to_string(),
        ),
        outline: None,
        upstream_model: "gemini-embedding-001".into(),
    };
    let embeddings = provider.embeddings().unwrap();
    let answer = embeddings
        .embed(&context_with_long_timeout(), &embed(json!(["four", "eight ch"])))
        .await
        .unwrap();
    let EmbedPayload::Common(vectors) = answer.payload else {
        panic!("the format is another one");
    };
    assert_eq!(vectors.vectors, [[0.5, -0.25, 4.0], [0.5, -0.25, 8.0]]);
    assert_eq!(answer.usage, Some(Usage::tokens(3, 0)));
    let received = last(&upstream);
    assert_eq!(
        received.path,
        "/v1/models/gemini-embedding-001:batchEmbedContents"
    );
    let sent: Value = serde_json::from_slice(&received.body).unwrap();
    let expected = json!({
        "model": "models/gemini-embedding-001", "content": {"parts": [{"text": "four"}]},
        "outputDimensionality": 3, "taskType": "RETRIEVAL_QUERY",
    });
    assert_eq!(sent["requests"][0], expected);
    let error = embeddings
        .embed(&context_with_long_timeout(), &embed(json!([1, 2])))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.param.as_deref()),
        (UpstreamErrorKind::Rejected, Some("input"))
    );
    assert_eq!(upstream.request_count(), 1, "tokens are not sent");
}

#[tokio::test]
async fn models_are_listed_page_by_page() {
    let (upstream, provider) = started().await;
    let page = |name: &str, next: &str| {
        let body = json!({"models": [{"name": format!("models/{name}"), "inputTokenLimit": 9}], "nextPageToken": next});
        Reply::body(200, "application/json", body.to_string())
    };
    upstream.push_for_models(page("a", "t"));
    upstream.push_for_models(page("b", ""));
    let models = provider.list_models(Duration::from_secs(20)).await.unwrap();
    let names: Vec<&str> = models.iter().map(|model| &*model.name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(last(&upstream).path, "/v1/models?pageSize=1000&pageToken=t");
}
