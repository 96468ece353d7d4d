//! Tests of the adapter at Vertex AI: tokens, paths, and differences of the bodies.

use tollgate_testkit::upstream::{At, How};

use super::*;
use crate::tokens::Identity;

const FOLDER: &str = "/v1/projects/acme-project/locations/us-central1";

pub(super) fn config(base_url: &str, key: &str) -> ProviderConfig {
    ProviderConfig {
        preset: Some("vertex".to_owned()),
        base_url: Some(base_url.to_owned()),
        region: Some("us-central1".to_owned()),
        identity: Some(Identity::ServiceAccount(SecretString::from(key))),
        ..ProviderConfig::named("main")
    }
}

pub(super) fn built(config: &ProviderConfig) -> Arc<dyn Provider> {
    let settings = HttpSettings {
        body_limit: 4 << 20,
        error_body_timeout: Duration::from_millis(300),
        ..HttpSettings::default()
    };
    registry::build(config, &HttpClient::new(settings)).unwrap()
}

async fn started() -> (FakeUpstream, Arc<dyn Provider>) {
    let upstream = FakeUpstream::start().await;
    let key = upstream.issue_tokens();
    let provider = built(&config(&upstream.base_url(), &key));
    (upstream, provider)
}

/// Returns the received requests except those for tokens.
fn calls(upstream: &FakeUpstream) -> Vec<ReceivedRequest> {
    let all = upstream.requests().into_iter();
    all.filter(|request| request.path != "/token").collect()
}

#[tokio::test]
async fn calls_send_only_the_access_token() {
    let (upstream, provider) = started().await;
    for (stream, format) in [
        (false, Format::GenerateContent),
        (true, Format::GenerateContent),
        (false, Format::ChatCompletions),
        (true, Format::ChatCompletions),
    ] {
        upstream.push(Reply::answer(thoughtful()));
        let asked = match format {
            Format::GenerateContent => content(stream, json!({})),
            _ => chat(stream, json!({})),
        };
        let collected = ask(&*provider, &context_with_long_timeout(), &asked)
            .await
            .unwrap();
        assert_eq!(collected.usage.unwrap().get(Unit::Reasoning), 2);
        let request = last(&upstream);
        let action = match stream {
            true => "streamGenerateContent?alt=sse",
            false => "generateContent",
        };
        assert_eq!(
            request.path,
            format!("{FOLDER}/publishers/google/models/gemini-3-x:{action}")
        );
        assert_eq!(request.header("authorization"), Some("Bearer ya29.c4n4ry-1"));
        assert_eq!(request.header("x-goog-api-key"), None);
    }
    assert_eq!(upstream.token_count(), 1, "it is kept");
}

/// Returns a conversation with two calls of one function, in the given format. The results are in
/// reverse order.
fn history(format: Format) -> TextCall {
    match format {
        Format::GenerateContent => content(
            false,
            json!({"contents": [
                {"parts": [{"text": "hi"}]},
                {"role": "model", "parts": [
                    {"functionCall": {"id": "a", "name": "f", "args": {"n": 1}}, "thoughtSignature": "c2lnbmVk"},
                    {"functionCall": {"id": "b", "name": "f", "args": {"n": 2}}},
                ]},
                {"role": "function", "parts": [
                    {"functionResponse": {"id": "b", "name": "f", "response": {"is": 2}}},
                    {"functionResponse": {"id": "a", "name": "f", "response": {"is": 1}}},
                ]},
            ], "labels": {"a": "b"}, "store": false, "serviceTier": "STANDARD",
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF", "method": "SEVERITY"}]}),
        ),
        _ => {
            let call = |id: &str, n: u32| {
                let arguments = format!("{{\"n\":{n}}}");
                json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}})
            };
            let result = |id: &str, is: u32| json!({"role": "tool", "tool_call_id": id, "content": format!("{{\"is\":{is}}}")});
            chat(
                false,
                json!({"messages": [
                    {"role": "user", "content": "hi"},
                    {"role": "assistant", "tool_calls": [call("a", 1), call("b", 2)]},
                    result("b", 2), result("a", 1),
                ]}),
            )
        }
    }
}

#[tokio::test]
async fn vertex_bodies_drop_unsupported_fields() {
    let (upstream, provider) = started().await;
    for format in [Format::GenerateContent, Format::ChatCompletions] {
        // The upstream rejects turns without a role, ids, and unknown fields.
        ask(&*provider, &context_with_long_timeout(), &history(format))
            .await
            .unwrap();
        let sent: Value = serde_json::from_slice(&last(&upstream).body).unwrap();
        let roles: Vec<&str> = (0..3)
            .map(|turn| sent["contents"][turn]["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["user", "model", "user"], "{sent}");
        for (part, n) in [(0, 1), (1, 2)] {
            let call = &sent["contents"][1]["parts"][part]["functionCall"];
            let result = &sent["contents"][2]["parts"][part]["functionResponse"];
            assert_eq!(*call, json!({"name": "f", "args": {"n": n}}), "{sent}");
            assert_eq!(*result, json!({"name": "f", "response": {"is": n}}), "{sent}");
        }
        let expected: &[&str] = match format {
            Format::GenerateContent => &["contents", "safetySettings"],
            _ => &["contents"],
        };
        let fields: Vec<&String> = sent.as_object().unwrap().keys().collect();
        assert_eq!(fields, expected, "{sent}");
    }
}

#[tokio::test]
async fn a_refused_token_is_renewed_and_the_call_repeated_once() {
    let (upstream, provider) = started().await;
    for (stream, expected) in [(false, 1), (true, 1)] {
        ask(
            &*provider,
            &context_with_long_timeout(),
            &content(stream, json!({})),
        )
        .await
        .unwrap();
        assert_eq!(upstream.token_count(), expected);
    }
    upstream.revoke_tokens();
    let collected = ask(
        &*provider,
        &context_with_long_timeout(),
        &content(true, json!({})),
    )
    .await
    .unwrap();
    assert!(collected.usage.is_some());
    assert_eq!((upstream.token_count(), calls(&upstream).len()), (2, 4));
    assert_eq!(
        last(&upstream).header("authorization"),
        Some("Bearer ya29.c4n4ry-2")
    );
}

#[tokio::test]
async fn a_call_that_is_refused_whatever_the_token_fails() {
    let (upstream, provider) = started().await;
    upstream.set_default(Reply::html(401));
    // The first call renews the token. Later calls do not, because the renewal did not help.
    for (tokens, requests) in [(2, 2), (2, 3), (2, 4)] {
        let error = ask(
            &*provider,
            &context_with_long_timeout(),
            &content(false, json!({})),
        )
        .await
        .unwrap_err();
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (
                UpstreamErrorKind::Credentials,
                UpstreamCause::Status,
                Retry::Never
            )
        );
        assert_eq!(
            (upstream.token_count(), calls(&upstream).len()),
            (tokens, requests)
        );
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let (upstream, provider) = started().await;
    for (reply, kind, retry) in [
        (Reply::html(500), UpstreamErrorKind::Unavailable, Retry::Safe),
        (Reply::html(200), UpstreamErrorKind::Unavailable, Retry::Safe),
        (Reply::hang(), UpstreamErrorKind::Unavailable, Retry::Safe),
        (Reply::html(400), UpstreamErrorKind::Credentials, Retry::Never),
    ] {
        upstream.push_for_tokens(reply);
        let ctx = context(Duration::from_millis(300));
        let error = ask(&*provider, &ctx, &content(true, json!({})))
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind, error.cause, error.retry),
            (kind, UpstreamCause::Connect, retry),
            "{error}"
        );
        assert!(error.detail.contains("the token server at"), "{error}");
    }
    upstream.push_for_tokens(Reply::hang());
    let listed = provider.list_models(Duration::from_millis(300)).await;
    let error = listed.unwrap_err();
    assert!(error.detail.contains("the token server at"), "{error}");
    assert_eq!(calls(&upstream).len(), 0);
}

#[tokio::test]
async fn upstream_faults_map_to_errors_at_vertex() {
    let (upstream, provider) = started().await;
    ask(
        &*provider,
        &context_with_long_timeout(),
        &content(false, json!({})),
    )
    .await
    .unwrap();
    for fault in FAULTS {
        for stream in [false, true] {
            upstream.push(fault.reply());
            let before = upstream.request_count();
            let ctx = match fault.outcome {
                Outcome::Endless => context(Duration::from_millis(300)),
                _ => context_with_long_timeout(),
            };
            let result = ask(&*provider, &ctx, &content(stream, json!({}))).await;
            let name = format!("{} streamed: {stream}: {result:?}", fault.name);
            if let Err(error) = &result {
                let may_have_run = matches!(error.cause, UpstreamCause::Protocol | UpstreamCause::Timeout);
                assert!(!may_have_run || error.retry != Retry::Safe, "{name}");
                assert!(!error.detail.contains("ya29"), "{name}");
            }
            match (fault.outcome, &result) {
                // A new token fixes the first 401.
                (Outcome::Failure, Ok(_)) => assert!(
                    fault.name == "401" && !stream || stream && fault.name.starts_with("close-"),
                    "{name}"
                ),
                (Outcome::Endless, Ok(collected)) => assert!(collected.is_endless, "{name}"),
                (Outcome::Answer, Err(_)) => assert!(
                    is_of_chat(fault.name) || (stream && fault.name == "wrong-content-type"),
                    "{name}"
                ),
                _ => {}
            }
            let sent = upstream.request_count() - before;
            assert_eq!(sent, if fault.name == "401" && !stream { 3 } else { 1 }, "{name}");
        }
    }
    // A cut stream is not repeated, and no token is renewed.
    upstream.push(Reply::words(9).cut(At::Events(3), How::Close));
    let before = upstream.request_count();
    let error = ask(
        &*provider,
        &context_with_long_timeout(),
        &content(true, json!({})),
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.cause, error.retry),
        (UpstreamCause::Protocol, Retry::Unknown)
    );
    assert_eq!(upstream.request_count(), before + 1);
}

#[tokio::test]
async fn vectors_come_from_predict() {
    let (upstream, provider) = started().await;
    let embed = |input: Value| EmbedCall {
        body: Bytes::from(
            json!({"model": "m", "input": input, "dimensions": 3, "task_type": "RETRIEVAL_QUERY"})
                .to_string(),
        ),
        outline: None,
        upstream_model: "text-embedding-005".into(),
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
        format!("{FOLDER}/publishers/google/models/text-embedding-005:predict")
    );
    let sent: Value = serde_json::from_slice(&received.body).unwrap();
    assert_eq!(
        sent,
        json!({
            "instances": [
                {"content": "four", "task_type": "RETRIEVAL_QUERY"},
                {"content": "eight ch", "task_type": "RETRIEVAL_QUERY"},
            ],
            "parameters": {"autoTruncate": false, "outputDimensionality": 3},
        })
    );
    for (body, expected) in [
        ("{}", "no valid vectors"),
        (
            r#"{"predictions":[{"embeddings":{"values":[1]}}]}"#,
            "received 1 vectors for 2 inputs",
        ),
    ] {
        upstream.push(Reply::body(200, "application/json", body));
        let error = embeddings
            .embed(&context_with_long_timeout(), &embed(json!(["a", "b"])))
            .await
            .unwrap_err();
        assert!(error.detail.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn models_are_listed_where_no_project_is() {
    let (upstream, provider) = started().await;
    let page = |name: &str, next: &str| {
        let name = format!("publishers/google/models/{name}");
        let body = json!({"publisherModels": [{"name": name}], "nextPageToken": next});
        Reply::body(200, "application/json", body.to_string())
    };
    upstream.push_for_models(page("gemini-3-x", "t"));
    upstream.push_for_models(page("gemini-embedding-001", ""));
    let models = provider.list_models(Duration::from_secs(20)).await.unwrap();
    let names: Vec<&str> = models.iter().map(|model| &*model.name).collect();
    assert_eq!(names, ["gemini-3-x", "gemini-embedding-001"]);
    assert_eq!(
        last(&upstream).path,
        "/v1beta1/publishers/google/models?pageSize=100&pageToken=t"
    );
    assert_eq!(
        last(&upstream).header("authorization"),
        Some("Bearer ya29.c4n4ry-1")
    );
}

#[tokio::test]
async fn machine_identity_needs_no_key() {
    let upstream = FakeUpstream::start().await;
    upstream.issue_tokens();
    let host = upstream.address().to_string();
    let provider = built(&ProviderConfig {
        identity: Some(Identity::Machine(host)),
        project: Some("other".to_owned()),
        ..config(&upstream.base_url(), "")
    });
    ask(
        &*provider,
        &context_with_long_timeout(),
        &content(false, json!({})),
    )
    .await
    .unwrap();
    assert!(last(&upstream).path.starts_with("/v1/projects/other/locations/"));
    assert_eq!(upstream.token_count(), 1);
}

#[tokio::test]
async fn missing_settings_are_named() {
    let key = FakeUpstream::start().await.issue_tokens();
    let whole = || ProviderConfig {
        base_url: None,
        ..config("", &key)
    };
    for (config, part) in [
        (
            ProviderConfig {
                region: None,
                ..whole()
            },
            "GOOGLE_CLOUD_LOCATION",
        ),
        (
            ProviderConfig {
                identity: None,
                ..whole()
            },
            "GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            ProviderConfig {
                identity: Some(Identity::Machine("metadata.test".to_owned())),
                ..whole()
            },
            "GOOGLE_CLOUD_PROJECT",
        ),
        (
            ProviderConfig {
                identity: Some(Identity::ServiceAccount(SecretString::from("{"))),
                ..whole()
            },
            "invalid JSON",
        ),
        (
            ProviderConfig {
                region: Some("a.b/".to_owned()),
                ..whole()
            },
            "the location is invalid",
        ),
        (
            ProviderConfig {
                project: Some("a/b".to_owned()),
                ..whole()
            },
            "the project is invalid",
        ),
        (
            ProviderConfig {
                api_key: Some(SecretString::from("k")),
                ..whole()
            },
            "`api_key` is not a setting of the preset `vertex`",
        ),
        (
            ProviderConfig {
                preset: Some("gemini".to_owned()),
                region: None,
                ..whole()
            },
            "`credentials` is not a setting of the preset `gemini`",
        ),
        (
            ProviderConfig {
                preset: Some("gemini".to_owned()),
                region: None,
                identity: None,
                project: Some("p".to_owned()),
                ..whole()
            },
            "`project` is not a setting of the preset `gemini`",
        ),
    ] {
        let built = registry::build(&config, &HttpClient::new(HttpSettings::default()));
        let message = built.err().unwrap().to_string();
        assert!(message.contains(part), "{message} lacks {part}");
        assert!(message.starts_with("[providers.main] "), "{message}");
    }
}
