//! Tests of requests to the upstream.

use serde_json::{Value, json};
use tollgate_testkit::upstream::FakeUpstream;
use tollgate_upstream::TextCall;

use super::{KEY, ask, call, context, provider_at};

async fn sent(preset: &str, call: &TextCall) -> Value {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(preset, &upstream.base_url());
    ask(&*provider, &context(), call).await.unwrap();
    upstream.requests()[0].json().unwrap()
}

fn body(extra: Value) -> Value {
    let mut body = json!({"model": "maker/public", "messages": [{"role": "user", "content": "hello"}]});
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn caller_bytes_are_sent_with_the_upstream_model() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let mut asked = call(&body(json!({})));
    asked.body =
        r#"{ "seed":7 , "model" : "maker\/public","messages":[{"role":"user","content":"ä \u00e4"}] }"#
            .into();
    ask(&*provider, &context(), &asked).await.unwrap();
    let request = &upstream.requests()[0];
    let expected =
        r#"{ "seed":7 , "model" : "upstream-model","messages":[{"role":"user","content":"ä \u00e4"}] }"#;
    assert_eq!(request.body, expected);
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/v1/chat/completions")
    );
}

#[tokio::test]
async fn quirks_of_the_presets() {
    let developer =
        json!([{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hello"}]);
    let cases = [
        (
            "openai",
            json!({"max_tokens": 5, "store": true, "messages": developer}),
            json!({"max_completion_tokens": 5, "store": true, "messages": developer}),
        ),
        (
            "mistral",
            json!({"max_completion_tokens": 5, "store": true, "user": "u", "random_seed": 3, "stream": true}),
            json!({"max_tokens": 5, "random_seed": 3, "stream": true}),
        ),
        (
            "groq",
            json!({"messages": developer, "reasoning_format": "parsed", "metadata": {}}),
            json!({
                "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
                "reasoning_format": "parsed",
            }),
        ),
        (
            "vllm",
            json!({"top_k": 3, "chat_template": "{{ x }}", "max_tokens": 4}),
            json!({"top_k": 3, "max_tokens": 4}),
        ),
        (
            "openrouter",
            json!({"models": ["a"], "provider": {"zdr": true}}),
            json!({"provider": {"zdr": true}}),
        ),
    ];
    for (preset, extra, expected) in cases {
        let mut expected = body(expected);
        expected["model"] = json!("upstream-model");
        assert_eq!(sent(preset, &call(&body(extra))).await, expected, "{preset}");
    }
}

#[tokio::test]
async fn output_clamp_is_set_only_without_a_caller_cap() {
    for (preset, extra, field, cap) in [
        ("openai", json!({}), "max_completion_tokens", 1_024),
        ("ollama", json!({}), "max_tokens", 1_024),
        ("ollama", json!({"max_tokens": 9}), "max_tokens", 9),
    ] {
        let mut asked = call(&body(extra));
        asked.clamp_output = Some(1_024);
        assert_eq!(sent(preset, &asked).await[field], cap, "{preset}");
    }
}

#[tokio::test]
async fn request_headers_are_minimal() {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(KEY);
    let host = upstream.address().to_string();
    let bearer = format!("Bearer {KEY}");
    for (preset, name, key) in [
        ("openai-compatible", "authorization", bearer.as_str()),
        ("azure-openai", "api-key", KEY),
    ] {
        let base = format!("{}?api-version=preview", upstream.base_url());
        let provider = provider_at(preset, &base);
        ask(&*provider, &context(), &call(&body(json!({}))))
            .await
            .unwrap();
        let requests = upstream.requests();
        let request = requests.last().unwrap();
        let mut headers: Vec<(&str, &str)> = request
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        headers.sort_unstable();
        let length = request.body.len().to_string();
        let mut expected = vec![
            ("accept", "application/json, text/event-stream"),
            ("accept-encoding", "identity"),
            ("content-length", length.as_str()),
            ("content-type", "application/json"),
            ("host", host.as_str()),
            ("user-agent", concat!("tollgate/", env!("CARGO_PKG_VERSION"))),
            (name, key),
        ];
        expected.sort_unstable();
        assert_eq!(headers, expected);
        assert_eq!(request.path, "/v1/chat/completions?api-version=preview");
    }
}

#[tokio::test]
async fn a_body_that_is_not_in_the_format_is_not_sent() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at("openai-compatible", &upstream.base_url());
    let mut asked = call(&body(json!({})));
    asked.body = "{\"model\":1}".into();
    let error = ask(&*provider, &context(), &asked).await.unwrap_err();
    assert_eq!(error.kind, tollgate_upstream::UpstreamErrorKind::Rejected);
    assert_eq!(error.param.as_deref(), Some("model"));
    assert_eq!(upstream.request_count(), 0);
}
