//! `/v1/models/{model}:generateContent` and related methods: any model for callers of this format,
//! and this format's provider for callers of any format.

mod bad_input;
mod models;
mod native;
mod simulated;

use serde_json::{Value, json};
use tollgate_testkit::gateway::Gateway;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, PROVIDER_KEY, Scene, assert_hides_provider, assert_request_id, meaning, with};

/// A model whose provider uses this format. Every token class has its own price.
const NATIVE: &str = "acme/content";
/// An embedding model of the same provider.
const VECTORS: &str = "acme/content-vectors";

/// Starts a scene with a second provider, which uses this format.
async fn scene() -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = format!(
        r#"
[providers.eastwind]
preset = "gemini"
base_url = "{}"
api_key_env = "PROVIDER_KEY"

[models."{NATIVE}"]
targets = ["eastwind/content-v1"]
prices = {{ input = "1", cache_read = "0.1", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
input = ["text", "image", "file"]
structured_output = "json_schema"
tools = true
reasoning = true

[models."{VECTORS}"]
type = "embedding"
targets = ["eastwind/vectors-v1"]
prices = {{ input = "1" }}
limits = {{ dimensions = 8 }}
"#,
        upstream.base_url()
    );
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

/// Builds the body of a request with this user text and additional members.
fn saying(text: &str, members: Value) -> Value {
    with(
        json!({"contents": [{"role": "user", "parts": [{"text": text}]}]}),
        members,
    )
}

/// Sends a request as Google's official clients do.
async fn ask(scene: &Scene, target: &str, body: &Value) -> Response {
    let request = Request::json(&format!("/v1beta/models/{target}"), body);
    scene
        .client()
        .send(&request.header("x-goog-api-key", scene.key.secret.as_str()))
        .await
}

/// Returns the format's name of an HTTP status.
fn word_of(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        402 | 429 => "RESOURCE_EXHAUSTED",
        404 => "NOT_FOUND",
        422 => "FAILED_PRECONDITION",
        500 => "INTERNAL",
        502 | 503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INVALID_ARGUMENT",
    }
}

/// Asserts every part of an error that clients of this format rely on.
fn assert_status(what: &str, body: &Value, code: &str, param: Option<&str>) {
    let (status, kind) = meaning(code);
    let error = &body["error"];
    assert_eq!(error["code"], status, "{what}: {body}");
    assert_eq!(
        (&error["status"], &error["type"]),
        (&json!(word_of(status)), &json!(kind)),
        "{what}: {body}"
    );
    assert_eq!(error["param"].as_str(), param, "{what}: {body}");
    assert_eq!(error["details"][0]["reason"], code, "{what}: {body}");
    let violation = body.pointer("/error/details/2/fieldViolations/0/field");
    assert_eq!(violation.and_then(Value::as_str), param, "{what}: {body}");
    assert_hides_provider(what, error["message"].as_str().unwrap());
}

fn assert_refused(what: &str, response: &Response, code: &str, param: Option<&str>) {
    assert_eq!(response.status, meaning(code).0, "{what}: {}", response.text());
    assert_status(what, &response.json(), code, param);
    assert_request_id(what, response);
}

/// Returns the chunks of a streamed response, which are server-sent events without names.
fn chunks_of(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    let text = response.text();
    let chunks = text.split_terminator("\n\n");
    chunks
        .map(|chunk| serde_json::from_str(chunk.strip_prefix("data: ").unwrap()).unwrap())
        .collect()
}

/// Returns the parts of the first candidate. Adjacent texts of one kind are joined as in a whole
/// response.
fn parts_of(chunks: &[Value]) -> Vec<Value> {
    let mut parts: Vec<Value> = Vec::new();
    for chunk in chunks {
        for part in chunk["candidates"][0]["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let is_text = |part: &Value| part.get("text").is_some();
            match parts.last_mut() {
                Some(last) if is_text(last) && is_text(part) && last["thought"] == part["thought"] => {
                    let text = last["text"].as_str().unwrap().to_owned() + part["text"].as_str().unwrap();
                    last["text"] = json!(text);
                }
                _ => parts.push(part.clone()),
            }
        }
    }
    parts.retain(|part| part["text"] != "");
    parts
}
