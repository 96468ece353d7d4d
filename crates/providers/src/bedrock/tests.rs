//! Tests of the adapter against a scripted upstream on loopback.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tollgate_testkit::upstream::event_stream::{EVENT_STREAM, event};
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest, Reply};
use tollgate_types::generate::{GenerateResponse, Part};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Format, RequestId, Unit, Usage};
use tollgate_upstream::{
    CallContext, ChunkKind, Payload, Permit, Provider, TextCall, TextReply, UpstreamError,
};

use crate::bedrock::AccessKeys;
use crate::http::{HttpClient, HttpSettings};
use crate::registry::{self, ProviderConfig};

const SECRET: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const TOKEN: &str = "FwoGZXIvYXdzEXAMPLETOKEN==";
const MODEL: &str = "us.anthropic.claude-x-20260101-v1:0";

fn config(base_url: &str) -> ProviderConfig {
    ProviderConfig {
        preset: Some("bedrock".to_owned()),
        base_url: Some(base_url.to_owned()),
        region: Some("eu-central-1".to_owned()),
        ..ProviderConfig::named("main")
    }
}

fn signing(base_url: &str, session_token: Option<&str>) -> Arc<dyn Provider> {
    built(&ProviderConfig {
        access_keys: Some(AccessKeys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: SecretString::from(SECRET),
            session_token: session_token.map(SecretString::from),
        }),
        ..config(base_url)
    })
}

fn built(config: &ProviderConfig) -> Arc<dyn Provider> {
    let settings = HttpSettings {
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    };
    registry::build(config, &HttpClient::new(settings)).unwrap()
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

fn chat(members: Value) -> TextCall {
    let mut body = json!({"model": "maker/public", "messages": [{"role": "user", "content": "hi"}]});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    TextCall {
        upstream_model: MODEL.into(),
        stream: body["stream"] == true,
        output_cap: 4_096,
        ..TextCall::new(
            Format::ChatCompletions,
            "maker/public".into(),
            Bytes::from(body.to_string()),
        )
    }
}

/// Response of one call: chunk kinds, content and usage.
#[derive(Debug, Default)]
struct Collected {
    kinds: Vec<ChunkKind>,
    common: Option<GenerateResponse>,
    events: Vec<StreamEvent>,
    usage: Option<Usage>,
    output_bytes: u64,
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
            let Payload::Common(response) = answer.payload else {
                panic!("unexpected format");
            };
            collected.common = Some(*response);
        }
        TextReply::Stream(mut stream) => {
            while let Some(chunk) = stream.next().await {
                let chunk = chunk?;
                collected.kinds.push(chunk.kind);
                collected.usage = chunk.usage.or(collected.usage);
                collected.output_bytes += chunk.output_bytes;
                if let Some(Payload::Common(event)) = chunk.payload {
                    collected.events.push(*event);
                }
            }
            assert_eq!(collected.kinds.last(), Some(&ChunkKind::End));
        }
    }
    Ok(collected)
}

fn usage() -> Value {
    json!({"inputTokens": 9, "outputTokens": 3, "totalTokens": 1_012, "cacheReadInputTokens": 1_000})
}

fn whole() -> Reply {
    let content = json!([
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
        {"text": "Hi there"},
    ]);
    let body = json!({
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "end_turn", "usage": usage(), "metrics": {"latencyMs": 7},
    });
    Reply::body(200, "application/json", body.to_string())
}

fn frames() -> Vec<Vec<u8>> {
    let delta = |delta: Value| {
        event(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 0, "delta": delta, "p": "ab"}),
        )
    };
    vec![
        event("messageStart", &json!({"role": "assistant"})),
        delta(json!({"reasoningContent": {"text": "hm"}})),
        delta(json!({"reasoningContent": {"signature": "c2ln"}})),
        delta(json!({"text": "Hi"})),
        delta(json!({"text": " there"})),
        event("contentBlockStop", &json!({"contentBlockIndex": 0})),
        event("messageStop", &json!({"stopReason": "end_turn"})),
        event(
            "metadata",
            &json!({"usage": usage(), "metrics": {"latencyMs": 7}}),
        ),
    ]
}

fn streamed(frames: &[Vec<u8>]) -> Reply {
    Reply::body(200, EVENT_STREAM, frames.concat())
}

#[tokio::test]
async fn whole_and_streamed_answers_are_equal() {
    let upstream = FakeUpstream::start().await;
    let provider = signing(&upstream.base_url(), None);
    let ctx = context(Duration::from_secs(20));
    let expected = Usage::tokens(9, 3).with(Unit::CacheRead, 1_000);

    upstream.push(whole());
    let collected = ask(&*provider, &ctx, &chat(json!({}))).await.unwrap();
    assert_eq!((collected.usage, collected.output_bytes), (Some(expected), 10));
    let choice = &collected.common.unwrap().choices[0];
    let Part::Reasoning(reasoning) = &choice.parts[0] else {
        panic!("{:?}", choice.parts);
    };
    let seal = reasoning.seal.as_ref().unwrap();
    assert_eq!(
        (seal.data.as_str(), seal.origin.len()),
        ("c2ln", 16),
        "it is this provider's"
    );

    upstream.push(streamed(&frames()));
    let collected = ask(&*provider, &ctx, &chat(json!({"stream": true})))
        .await
        .unwrap();
    assert_eq!((collected.usage, collected.output_bytes), (Some(expected), 10));
    let text: String = collected
        .events
        .iter()
        .filter_map(|event| match event {
            StreamEvent::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, "Hi there");
    let sealed = collected
        .events
        .iter()
        .any(|event| matches!(event, StreamEvent::ReasoningSeal { seal: found, .. } if found == seal));
    assert!(sealed, "{:?}", collected.events);

    let paths: Vec<String> = upstream
        .requests()
        .into_iter()
        .map(|request| request.path)
        .collect();
    let model = "us.anthropic.claude-x-20260101-v1%3A0";
    assert_eq!(
        paths,
        [
            format!("/v1/model/{model}/converse"),
            format!("/v1/model/{model}/converse-stream")
        ]
    );
}

#[tokio::test]
async fn streamed_frames_are_read_from_any_chunk_sizes() {
    let upstream = FakeUpstream::start().await;
    let provider = signing(&upstream.base_url(), None);
    for bytes in [1, 13, 100] {
        let writes = tollgate_testkit::upstream::Writes::Chunks {
            bytes,
            pause: Duration::ZERO,
        };
        upstream.push(streamed(&frames()).writes(writes));
        let collected = ask(
            &*provider,
            &context(Duration::from_secs(20)),
            &chat(json!({"stream": true})),
        )
        .await;
        assert_eq!(collected.unwrap().output_bytes, 10, "{bytes}");
    }
}

/// Returns the signature that AWS computes from the received request, by the steps in the AWS
/// documentation.
fn expected_signature(request: &ReceivedRequest) -> (String, String) {
    let authorization = request.header("authorization").unwrap();
    let rest = authorization
        .strip_prefix("AWS4-HMAC-SHA256 Credential=")
        .unwrap();
    let (credential, rest) = rest.split_once(", SignedHeaders=").unwrap();
    let (names, signature) = rest.split_once(", Signature=").unwrap();
    let (id, scope) = credential.split_once('/').unwrap();
    assert_eq!(id, "AKIDEXAMPLE");
    let digest = |bytes: &[u8]| -> String {
        Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let mut path = String::new();
    for c in request.path.chars() {
        match c {
            '/' | '-' | '.' | '_' | '~' => path.push(c),
            c if c.is_ascii_alphanumeric() => path.push(c),
            c => path.push_str(&format!("%{:02X}", c as u32)),
        }
    }
    let headers: String = names
        .split(';')
        .map(|name| format!("{name}:{}\n", request.header(name).unwrap().trim()))
        .collect();
    let canonical = format!(
        "{}\n{path}\n\n{headers}\n{names}\n{}",
        request.method,
        digest(&request.body)
    );
    let date = request.header("x-amz-date").unwrap();
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        digest(canonical.as_bytes())
    );
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    assert_eq!(scope, format!("{}/eu-central-1/bedrock/aws4_request", &date[..8]));
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for step in scope.split('/') {
        key = mac(&key, step);
    }
    let expected = mac(&key, &text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    (signature.to_owned(), expected)
}

#[tokio::test]
async fn request_signatures_match_the_service() {
    let upstream = FakeUpstream::start().await;
    let models = [
        MODEL,
        "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2",
        "a model/with ümlaut~1",
    ];
    for (model, token) in models.iter().zip([None, Some(TOKEN), None]) {
        let provider = signing(&upstream.base_url(), token);
        upstream.push(whole());
        let call = TextCall {
            upstream_model: (*model).into(),
            ..chat(json!({}))
        };
        ask(&*provider, &context(Duration::from_secs(20)), &call)
            .await
            .unwrap();
        let request = upstream.requests().pop().unwrap();
        assert_eq!(
            request.path.matches('/').count(),
            4,
            "a name is one segment: {}",
            request.path
        );
        let (found, expected) = expected_signature(&request);
        assert_eq!(found, expected, "{model}");
        assert_eq!(request.header("x-amz-security-token"), token);
        let signed = request.header("authorization").unwrap();
        assert_eq!(signed.contains("x-amz-security-token"), token.is_some());
        assert!(signed.contains("content-type;host;x-amz-date"), "{signed}");
    }
    let provider = signing(&upstream.base_url(), None);
    upstream.push_for_models(Reply::body(
        200,
        "application/json",
        json!({"modelSummaries": [
            {"modelId": "a", "outputModalities": ["TEXT"], "inferenceTypesSupported": ["ON_DEMAND"]},
            {"modelId": "b", "outputModalities": ["IMAGE"], "inferenceTypesSupported": ["ON_DEMAND"]},
            {"modelId": "c", "outputModalities": ["TEXT"], "inferenceTypesSupported": ["INFERENCE_PROFILE"]},
        ]})
        .to_string(),
    ));
    let listed = provider.list_models(Duration::from_secs(20)).await.unwrap();
    assert_eq!(listed.iter().map(|model| &*model.name).collect::<Vec<_>>(), ["a"]);
    let request = upstream.requests().pop().unwrap();
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("GET", "/v1/foundation-models")
    );
    let (found, expected) = expected_signature(&request);
    assert_eq!(found, expected);
}

#[tokio::test]
async fn api_key_is_sent_as_bearer_token_without_signature() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key("ABSKexample");
    upstream.push(whole());
    let provider = built(&ProviderConfig {
        api_key: Some(SecretString::from("ABSKexample")),
        ..config(&upstream.base_url())
    });
    ask(&*provider, &context(Duration::from_secs(20)), &chat(json!({})))
        .await
        .unwrap();
    let request = upstream.requests().pop().unwrap();
    assert_eq!(request.header("authorization"), Some("Bearer ABSKexample"));
    assert_eq!(request.header("x-amz-date"), None);
}
