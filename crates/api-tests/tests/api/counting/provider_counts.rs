//! Token counts by providers, for callers of every format, and upper bounds where providers fail.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Balance, Gateway};
use tollgate_testkit::upstream::{At, FakeUpstream, How, ReceivedRequest, Reply, fault};

use super::{HELLO, MESSAGES, RESPONSES, ask, counted, messages};
use crate::scene::{BINARY, GRANTED, PLAIN, PROVIDER_KEY, Scene, credits, with};

/// Model, preset of its provider, name of the model there, and upstream path of its counts.
const PROVIDERS: [(&str, &str, &str, &str); 4] = [
    ("acme/messages", "anthropic", "m-v1", "/v1/messages/count_tokens"),
    (
        "acme/responses",
        "openai-responses",
        "r-v1",
        "/v1/responses/input_tokens",
    ),
    ("acme/content", "gemini", "c-v1", "/v1/models/c-v1:countTokens"),
    (
        "acme/converse",
        "bedrock",
        "us.anthropic.b-v1:0",
        "/v1/model/anthropic.b-v1%3A0/count-tokens",
    ),
];
const NATIVE: &str = "acme/messages";
const PDF: &[u8] = b"%PDF-1.7";

/// Starts a scene with all [`PROVIDERS`]. Its callers may reference the upstream's files by URL.
async fn scene(more: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    upstream.set_file("/a.pdf", Reply::body(200, "application/pdf", PDF));
    let mut config = format!("[egress]\nallow = [\"{}\"]\n{more}", upstream.address());
    for (model, preset, name, _) in PROVIDERS {
        let region = if preset == "bedrock" {
            "region = \"us-east-1\""
        } else {
            ""
        };
        config += &format!(
            r#"
[providers.{preset}-wind]
preset = "{preset}"
base_url = "{}"
api_key_env = "PROVIDER_KEY"
error_text = "hide"
{region}

[models."{model}"]
targets = ["{preset}-wind/{name}"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
input = ["text", "image", "file"]
tools = true
"#,
            upstream.base_url()
        );
    }
    let options = Scene::options(&upstream, Default::default(), &config);
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

/// Returns the same request in every format: instructions, a tool, and an output cap that does not
/// affect counts.
fn requests(model: &str) -> [(String, Value); 4] {
    let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
    let content = json!({
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [{"role": "user", "parts": [{"text": HELLO}]}],
        "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": schema}]}],
        "generationConfig": {"maxOutputTokens": 99, "temperature": 0.5},
    });
    [
        (
            MESSAGES.to_owned(),
            messages(
                model,
                json!({
                    "system": "Be brief.", "max_tokens": 99, "temperature": 0.5,
                    "tools": [{"name": "f", "input_schema": schema}],
                }),
            ),
        ),
        (
            RESPONSES.to_owned(),
            json!({
                "model": model, "instructions": "Be brief.", "input": HELLO, "max_output_tokens": 99, "temperature": 0.5,
                "tools": [{"type": "function", "name": "f", "parameters": schema, "strict": false}],
            }),
        ),
        (format!("/v1/models/{model}:countTokens"), content.clone()),
        (
            format!("/v1beta/models/{model}:countTokens"),
            json!({ "generateContentRequest": content }),
        ),
    ]
}

fn sent(scene: &Scene) -> ReceivedRequest {
    scene.upstream.requests().pop().unwrap()
}

/// Asserts that nothing was charged or recorded, and ends the scene.
async fn finish(scene: Scene) {
    let free = Balance {
        credits: GRANTED,
        held: 0,
    };
    assert_eq!(scene.balance().await, free);
    assert_eq!(scene.rows().await, Vec::<Value>::new());
    let check = scene.finish().await;
    assert_eq!((check.revenue, check.overrun), (0, 0));
}

#[tokio::test]
async fn every_provider_counts_for_callers_of_every_format() {
    let scene = scene("").await;
    for (model, _, name, path) in PROVIDERS {
        for (asked, body) in requests(model) {
            let (tokens, how) = counted(&scene, &asked, &body).await;
            let request = sent(&scene);
            assert_eq!(request.path, path, "{asked}");
            // The scripted upstream returns the number of received bytes as the count.
            assert_eq!(
                (tokens, how.as_str()),
                (request.body.len() as u64, "exact"),
                "{asked} {model}"
            );
            let text = String::from_utf8(request.body.to_vec()).unwrap();
            for part in [HELLO, "Be brief.", "\"x\""] {
                assert!(text.contains(part), "{asked} {model}: {part} in {text}");
            }
            let is_named =
                text.contains(&format!("\"{name}\"")) || text.contains(&format!("\"models/{name}\""));
            assert_eq!(is_named, model != "acme/converse", "{asked}: {text}");
        }
    }
    assert_eq!(scene.upstream.request_count(), 16);
    finish(scene).await;
}

#[tokio::test]
async fn images_and_beta_headers_reach_the_provider() {
    let scene = scene("").await;
    let image_part = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgphYmM="}});
    let body = |model| {
        messages(
            model,
            json!({"messages": [{"role": "user", "content": [image_part]}]}),
        )
    };
    for (model, ..) in PROVIDERS {
        let (tokens, how) = counted(&scene, MESSAGES, &body(model)).await;
        assert_eq!(how, "exact", "{model}");
        let request = sent(&scene);
        assert_eq!(tokens, request.body.len() as u64);
        assert!(
            String::from_utf8_lossy(&request.body).contains("iVBORw0KGgphYmM="),
            "{model}"
        );
    }
    let preview = "token-efficient-tools-2025-02-19";
    let request = Request::json(MESSAGES, &messages(NATIVE, json!({})));
    let request = request.header("anthropic-beta", preview).key(&scene.key.secret);
    assert_eq!(scene.client().send(&request).await.status, 200);
    assert_eq!(sent(&scene).header("anthropic-beta"), Some(preview));
    finish(scene).await;
}

/// Returns upstream replies without a usable number of tokens.
fn faults() -> Vec<Reply> {
    let body = |text: &str| Reply::body(200, "application/json", text.to_owned());
    let answer = || body(r#"{"input_tokens":7,"totalTokens":7,"inputTokens":7}"#);
    let mut replies = vec![answer().gzip()];
    for how in [How::Hang, How::Reset, How::Close] {
        let places = [At::Start, At::Head, At::Bytes(5)];
        replies.extend(places.map(|at| answer().cut(at, how)));
    }
    for name in [
        "garbage",
        "bad-status-line",
        "redirect",
        "empty",
        "html",
        "truncated-json",
        "json-array",
    ] {
        replies.push(fault(name).unwrap().reply());
    }
    for status in [400, 401, 403, 404, 413, 500, 503, 529] {
        replies.push(Reply::error(status, "no", "secret words"));
        replies.push(Reply::html(status));
    }
    for tokens in [
        "0",
        "-5",
        "1.5",
        "\"7\"",
        "null",
        "1000000001",
        "1e300",
        "99999999999999999999",
    ] {
        let names = ["input_tokens", "totalTokens", "inputTokens"];
        let members = names.map(|name| format!("\"{name}\":{tokens}"));
        replies.push(body(&format!("{{{}}}", members.join(","))));
    }
    let large = format!("{{\"pad\":\"{}\",\"input_tokens\":7}}", "x".repeat(64 << 10));
    replies.push(body(&large));
    replies
}

/// Returns a separate model for each fault, so that one failure does not affect the next case. The
/// name is as long as [`PLAIN`].
fn faulty(number: usize) -> String {
    format!("acme/f{number:04}")
}

#[tokio::test]
async fn every_provider_fault_gives_an_upper_bound() {
    for (_, preset, ..) in PROVIDERS {
        let model = |number: usize| {
            format!(
                "[models.\"{}\"]\ntargets = [\"{preset}-wind/f{number}\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
                 limits = {{ context_window = 200000, max_output_tokens = 4096 }}\n",
                faulty(number)
            )
        };
        let models: String = (0..faults().len()).map(model).collect();
        let scene = scene(&format!("[timeouts]\nheaders_ms = 300\n{models}")).await;
        let (bound, _) = counted(&scene, MESSAGES, &messages(PLAIN, json!({}))).await;
        for (number, reply) in faults().into_iter().enumerate() {
            let what = format!("{preset}: {reply:?}");
            scene.upstream.push_for_counts(reply);
            let count = counted(&scene, MESSAGES, &messages(&faulty(number), json!({}))).await;
            assert_eq!(count, (bound, "upper_bound".to_owned()), "{what}");
            assert_eq!(scene.upstream.request_count(), number as u64 + 1, "{what}");
        }
        assert!(!scene.gateway.log().contains("secret words"));
        finish(scene).await;
    }
}

#[tokio::test]
async fn failing_counts_pause_only_further_counts() {
    let scene = scene("[retries]\nbreaker_consecutive = 2\nbreaker_open_ms = 600000\n").await;
    let other = "acme/responses";
    // One provider fails, and the other is rate limited for ten minutes.
    for _ in 0..2 {
        scene.upstream.push_for_counts(Reply::error(502, "no", "no"));
        let (_, how) = counted(&scene, MESSAGES, &messages(NATIVE, json!({}))).await;
        assert_eq!(how, "upper_bound");
    }
    let busy = Reply::error(429, "rate_limit_exceeded", "no").header("retry-after", "600");
    scene.upstream.push_for_counts(busy);
    counted(&scene, MESSAGES, &messages(other, json!({}))).await;
    assert_eq!(scene.upstream.request_count(), 3);
    for model in [NATIVE, other] {
        let (_, how) = counted(&scene, MESSAGES, &messages(model, json!({}))).await;
        assert_eq!(how, "upper_bound", "{model}");
        assert_eq!(scene.upstream.request_count(), 3, "{model} received no request");
    }
    // Chat requests to both providers and counts by other providers are not affected.
    for (index, model) in [NATIVE, other].into_iter().enumerate() {
        let body = messages(model, json!({"max_tokens": 100}));
        let response = scene
            .client()
            .post_json("/v1/messages", &scene.key.secret, &body)
            .await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(scene.upstream.request_count(), 4 + index as u64);
        scene.settled().await;
    }
    let (_, how) = counted(&scene, MESSAGES, &messages("acme/content", json!({}))).await;
    assert_eq!(how, "exact");
    scene.finish().await;
}

fn assert_refused(response: &Response, status: u16, code: &str, param: Option<&str>) {
    let error = &response.json()["error"];
    assert_eq!(
        (response.status, error["code"].as_str(), error["param"].as_str()),
        (status, Some(code), param),
        "{}",
        response.text()
    );
}

#[tokio::test]
async fn requests_with_unsupported_parameters_are_not_counted() {
    let scene = scene("").await;
    let post = async |path: &str, body: &Value| scene.client().post_json(path, &scene.key.secret, body).await;
    let body = messages("acme/responses", json!({"top_k": 5}));
    assert_refused(
        &post(MESSAGES, &body).await,
        400,
        "unsupported_parameter",
        Some("top_k"),
    );
    let body = json!({"model": NATIVE, "input": HELLO, "top_logprobs": 2});
    assert_refused(
        &post(RESPONSES, &body).await,
        400,
        "unsupported_parameter",
        Some("top_logprobs"),
    );
    let path = format!("/v1/models/{NATIVE}:countTokens");
    let body = json!({
        "contents": [{"parts": [{"text": HELLO}]}], "generationConfig": {"candidateCount": 2},
    });
    let param = Some("generationConfig.candidateCount");
    assert_refused(&post(&path, &body).await, 400, "unsupported_parameter", param);
    // Ignored fields are reported, as in a chat response.
    let body = messages("acme/content", json!({"metadata": {"user_id": "u"}}));
    let response = ask(&scene, MESSAGES, &body).await;
    assert!(
        response.header("x-tollgate-ignored").is_some(),
        "{:?}",
        response.text()
    );
    assert_eq!(scene.upstream.request_count(), 1);
    finish(scene).await;
}

#[tokio::test]
async fn documents_by_url_are_fetched_and_counted() {
    let scene = scene("").await;
    let at = |path: &str| format!("http://{}{path}", scene.upstream.address());
    let naming = |model: &str, url: &str| {
        let document = json!({"type": "document", "source": {"type": "url", "url": url}});
        messages(
            model,
            json!({"messages": [{"role": "user", "content": [document]}]}),
        )
    };
    for (model, ..) in PROVIDERS {
        let before = scene.upstream.request_count();
        let (tokens, how) = counted(&scene, MESSAGES, &naming(model, &at("/a.pdf"))).await;
        let request = sent(&scene);
        assert_eq!(
            (tokens, how.as_str()),
            (request.body.len() as u64, "exact"),
            "{model}"
        );
        assert!(
            String::from_utf8_lossy(&request.body).contains("JVBERi0xLjc="),
            "{model}"
        );
        assert_eq!(scene.upstream.request_count(), before + 2);
    }
    // An upper bound includes the bytes of the document, too.
    scene.upstream.set_file(
        "/b.pdf",
        Reply::body(200, "application/pdf", [PDF, &[b'x'; 3_000]].concat()),
    );
    let mut bounds = Vec::new();
    for path in ["/a.pdf", "/b.pdf"] {
        scene.upstream.push_for_counts(Reply::html(400));
        let (tokens, how) = counted(&scene, MESSAGES, &naming(NATIVE, &at(path))).await;
        assert_eq!(how, "upper_bound");
        bounds.push(tokens);
    }
    assert_eq!(bounds[1] - bounds[0], 4_000, "in base64");
    // A request with a document that cannot be fetched is refused. The error names the position of
    // the document. Nothing is fetched for an account that could not pay for the call.
    let count = async |key: &str, url: &str| {
        let body = naming(NATIVE, url);
        scene.client().post_json(MESSAGES, key, &body).await
    };
    let before = scene.upstream.request_count();
    let place = Some("messages[0].content[0]");
    let response = count(&scene.key.secret, &at("/missing.pdf")).await;
    assert_refused(&response, 400, "invalid_parameter", place);
    let response = count(&scene.key.secret, "http://127.0.0.1:9/a.pdf").await;
    assert_refused(&response, 400, "invalid_parameter", place);
    assert_eq!(scene.upstream.request_count(), before + 1);
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await;
    scene.gateway.grant(&poor, &credits(1_000)).await;
    let response = count(&key.secret, &at("/a.pdf")).await;
    assert_refused(&response, 402, "insufficient_credits", None);
    assert_eq!(scene.upstream.request_count(), before + 1);
    // An account that could not pay for the call can count a request without URLs.
    let response = scene
        .client()
        .post_json(MESSAGES, &key.secret, &messages(NATIVE, json!({})))
        .await;
    assert_eq!(
        (response.status, &response.json()["counting"]),
        (200, &json!("exact"))
    );
    finish(scene).await;
}

#[tokio::test]
async fn blocked_content_is_not_sent_to_be_counted() {
    let scene = scene("[policy.rules.names]\napply = \"input\"\nwords = [\"hello\"]\n").await;
    let (_, how) = counted(&scene, MESSAGES, &messages(NATIVE, json!({}))).await;
    assert_eq!((how.as_str(), scene.upstream.request_count()), ("upper_bound", 0));
    let body = with(
        messages(NATIVE, json!({})),
        json!({"messages": [{"role": "user", "content": "Good day"}]}),
    );
    let (_, how) = counted(&scene, MESSAGES, &body).await;
    assert_eq!((how.as_str(), scene.upstream.request_count()), ("exact", 1));
    finish(scene).await;
}

/// vLLM and llama.cpp count the request after applying their chat template, without media.
#[tokio::test]
async fn model_servers_count_with_their_tokenizers() {
    let own = FakeUpstream::start().await;
    let mut config = String::new();
    for preset in ["vllm", "llama.cpp"] {
        config += &format!(
            "[providers.own-{preset}]\npreset = \"{preset}\"\nbase_url = \"{}\"\n\
             [models.\"own/{preset}\"]\ntargets = [\"own-{preset}/m\"]\nprices = {{ input = \"1\", output = \"1\" }}\n\
             limits = {{ context_window = 200000, max_output_tokens = 4096 }}\ninput = [\"text\", \"image\"]\n",
            own.base_url()
        )
        .replace("own-llama.cpp", "own-llama");
    }
    let scene = Scene::start_with(&config).await;
    let mut found = Vec::new();
    for model in ["own/vllm", "own/llama.cpp"] {
        let (tokens, how) = counted(&scene, MESSAGES, &messages(model, json!({}))).await;
        assert_ne!(how, "upper_bound", "{model}");
        let asked = own.requests().pop().unwrap();
        assert_eq!(asked.path, "/tokenize", "{model}");
        assert!(String::from_utf8_lossy(&asked.body).contains(HELLO), "{model}");
        found.push(tokens);
        let mut with_image = messages(model, json!({}));
        with_image["messages"][0]["content"] = json!([
            {"type": "text", "text": HELLO},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        ]);
        let (_, how) = counted(&scene, MESSAGES, &with_image).await;
        assert_eq!(how, "upper_bound", "{model}");
    }
    assert!(found[0] > 1 && found[0] == found[1], "{found:?}");
    scene.finish().await;
}
