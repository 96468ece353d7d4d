//! Azure OpenAI: both API versions, both kinds of credentials, and content filter results.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Gateway, Key};
use tollgate_testkit::upstream::{Answer, FakeUpstream, Reply};

use crate::scene::{BINARY, CHAT, GRANTED, Scene, assert_error, with};

/// The API key of a resource. [`TOKEN`] is an access token of the identity provider.
const KEY: &str = "84chars0f1etters";
const TOKEN: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.e30.c2ln";
/// A model on the newer v1 API, and one on the older deployments API.
const MODELS: [&str; 2] = ["acme/new", "acme/old"];

async fn scene(key: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(key);
    let host = upstream.base_url();
    let host = host.trim_end_matches("/v1");
    let config = format!(
        r#"
[providers.new]
preset = "azure-openai"
base_url = "{host}"
api_key_env = "AZURE_KEY"

[providers.old]
preset = "azure-openai"
base_url = "{host}/openai/deployments/{{model}}?api-version=2024-10-21"
api_key_env = "AZURE_KEY"

[models."acme/new"]
targets = ["new/our-gpt"]
prices = {{ input = "1", output = "2" }}
limits = {{ max_output_tokens = 4096 }}

[models."acme/old"]
targets = ["old/our gpt/4"]
prices = {{ input = "1", output = "2" }}
limits = {{ max_output_tokens = 4096 }}
"#
    );
    let mut options = Scene::options(&upstream, Default::default(), &config);
    options.env.push(("AZURE_KEY".to_owned(), key.to_owned()));
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key: Key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

fn hello(model: &str, members: Value) -> Value {
    with(
        json!({"model": model, "messages": [{"role": "user", "content": "Hi"}]}),
        members,
    )
}

#[tokio::test]
async fn both_api_versions_accept_keys_and_tokens() {
    for key in [KEY, TOKEN] {
        let scene = scene(key).await;
        for (model, path) in MODELS.into_iter().zip([
            "/openai/v1/chat/completions",
            "/openai/deployments/our%20gpt%2F4/chat/completions?api-version=2024-10-21",
        ]) {
            for stream in [false, true] {
                let response = scene
                    .chat(&hello(model, json!({"stream": stream, "max_tokens": 9})))
                    .await;
                assert_eq!(response.status, 200, "{model}: {}", response.text());
                let request = scene.upstream.requests().pop().unwrap();
                assert_eq!(request.path, path);
                let bearer = format!("Bearer {key}");
                let (api_key, authorization) = match key {
                    TOKEN => (None, Some(bearer.as_str())),
                    _ => (Some(key), None),
                };
                assert_eq!(request.header("api-key"), api_key);
                assert_eq!(request.header("authorization"), authorization);
                assert_eq!(request.json().unwrap()["max_completion_tokens"], 9);
            }
        }
        scene.finish().await;
    }
}

/// Returns the content filter results of a text that passed.
fn passed() -> Value {
    let safe = json!({"filtered": false, "severity": "safe"});
    json!({"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe})
}

fn blocked() -> Reply {
    let inner = json!({"code": "ResponsibleAIPolicyViolation", "content_filter_result": passed()});
    let error = json!({
        "message": "The response was filtered due to the prompt triggering Azure OpenAI's policy.",
        "type": null, "param": "prompt", "code": "content_filter", "status": 400, "innererror": inner,
    });
    Reply::body(400, "application/json", json!({ "error": error }).to_string())
}

#[tokio::test]
async fn blocked_prompts_cost_nothing_and_return_a_policy_error() {
    let scene = scene(KEY).await;
    let inner_only =
        json!({"error": {"code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicyViolation"}}});
    for reply in [
        blocked(),
        Reply::body(400, "application/json", inner_only.to_string()),
    ] {
        for model in MODELS {
            for stream in [false, true] {
                scene.upstream.push(reply.clone());
                let response = scene.chat(&hello(model, json!({"stream": stream}))).await;
                let error = assert_error(model, &response, "content_policy_violation", None);
                assert!(!error.message.contains("Azure"), "{error:?}");
            }
        }
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn filter_results_in_responses_are_tolerated() {
    let scene = scene(KEY).await;
    let results = json!([{"prompt_index": 0, "content_filter_results": passed()}]);
    let chunk = |choices: Value, members: Value| {
        let chunk = json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "gpt", "choices": choices,
        });
        with(chunk, members).to_string()
    };
    let choice = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish, "content_filter_results": passed()}]);
    let about_prompt = json!({
        "choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": results,
    });
    let usage = json!({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7});
    let events = |reports: bool| {
        let mut events = vec![
            about_prompt.to_string(),
            chunk(
                choice(json!({"role": "assistant", "content": ""}), Value::Null),
                json!({}),
            ),
            chunk(choice(json!({"content": "Hello"}), Value::Null), json!({})),
            chunk(choice(json!({}), json!("content_filter")), json!({})),
        ];
        if reports {
            events.push(chunk(json!([]), json!({ "usage": usage })));
        }
        events.push("[DONE]".to_owned());
        Reply::events(events)
    };
    let mut charged = 0;
    for (reports, path) in [(true, CHAT), (false, CHAT), (true, "/v1/messages")] {
        scene.upstream.push(events(reports));
        let members = json!({"stream": true, "max_tokens": 100});
        let mut body = hello(MODELS[0], members);
        if path == CHAT {
            body["stream_options"] = json!({"include_usage": true});
        }
        let response = scene.client().post_json(path, &scene.key.secret, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let text = response.text();
        assert!(text.contains("Hello"), "{text}");
        let word = if path == CHAT { "content_filter" } else { "refusal" };
        assert!(text.contains(word), "{text}");
        let row = scene.row(response.request_id()).await;
        assert_eq!(
            (&row["outcome"], &row["estimated"]),
            (&json!("ok"), &json!(!reports)),
            "{row}"
        );
        charged += tollgate_testkit::gateway::nanos(&row["cost"]);
        if path == CHAT {
            let events = response.events();
            let report = events[events.len() - 2].json();
            assert!(report["usage"]["cost"].is_string(), "{report}");
            assert_eq!(report["id"], "chatcmpl-1", "a chunk of this answer");
        }
    }
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "gpt", "usage": usage,
        "prompt_filter_results": results,
        "choices": [{"index": 0, "finish_reason": "content_filter", "content_filter_results": passed(),
            "message": {"role": "assistant", "content": "He"}}],
    });
    scene
        .upstream
        .push(Reply::body(200, "application/json", body.to_string()));
    let response = scene.chat(&hello(MODELS[1], json!({}))).await;
    assert_eq!(response.json()["choices"][0]["finish_reason"], "content_filter");
    charged += 5 * 1_000 + 2 * 2_000;
    assert_eq!(
        scene.settled().await.credits,
        GRANTED - charged,
        "a filtered output is paid"
    );
    scene.finish().await;
}

#[tokio::test]
async fn azure_errors_map_to_the_common_codes() {
    let scene = scene(KEY).await;
    let of = |status: u16, code: &str| {
        let body = json!({"error": {"code": code, "message": "The server had an error"}});
        Reply::body(status, "application/json", body.to_string())
    };
    for (reply, code) in [
        (of(404, "DeploymentNotFound"), "upstream_error"),
        (of(429, "429"), "model_unavailable"),
        (of(401, "401"), "upstream_error"),
        (of(500, "InternalServerError"), "upstream_error"),
        (of(400, "context_length_exceeded"), "context_length_exceeded"),
        (Reply::html(200), "upstream_error"),
        (
            Reply::words(2).error_after(0, "content_filter", "filtered"),
            "content_policy_violation",
        ),
    ] {
        for model in MODELS {
            scene.upstream.set_default(reply.clone());
            let response = scene.chat(&hello(model, json!({"stream": true}))).await;
            let param = (code == "context_length_exceeded").then_some("messages");
            assert_error(&format!("{reply:?}"), &response, code, param);
        }
    }
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.upstream.set_default(Reply::answer(Answer::words(1)));
    scene.finish().await;
}
