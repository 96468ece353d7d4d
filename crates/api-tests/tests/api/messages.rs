//! `/v1/messages`: any model for callers of this format, and a provider of this format for any
//! caller.

mod bad_input;
mod conversion;
mod native;
mod simulated;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{ErrorObject, Request, Response};
use tollgate_testkit::gateway::{Gateway, Key};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, PROVIDER_KEY, Scene, assert_hides_provider, assert_request_id, meaning, with};

const MESSAGES: &str = "/v1/messages";
/// A model whose provider uses the format. Every class of tokens has a different price.
const NATIVE: &str = "acme/native";

/// Returns the settings of a provider that uses the format.
fn native_settings(upstream: &FakeUpstream) -> String {
    format!(
        r#"
[providers.southwind]
preset = "anthropic"
base_url = "{}"
api_key_env = "PROVIDER_KEY"

[models."{NATIVE}"]
targets = ["southwind/native-v1"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
input = ["text", "image", "file"]
structured_output = "json_schema"
tools = true
reasoning = true
system_turns = true
"#,
        upstream.base_url()
    )
}

/// Starts a scene with a second provider, which uses the format.
async fn scene() -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = native_settings(&upstream);
    let options = Scene::options(&upstream, Default::default(), &config);
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

/// Builds a message request with this text and these additional members.
fn saying(model: &str, text: &str, members: Value) -> Value {
    with(
        json!({"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": text}]}),
        members,
    )
}

async fn send(scene: &Scene, body: &Value) -> Response {
    scene
        .client()
        .send(&Request::json(MESSAGES, body).key(&scene.key.secret))
        .await
}

/// Returns the error `type` of a status on this path.
fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        503 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

fn assert_refused(what: &str, response: &Response, code: &str, param: Option<&str>) -> ErrorObject {
    assert!(
        response.status >= 400,
        "{what}: {} {}",
        response.status,
        response.text()
    );
    let error = response.message_error();
    let (status, _) = meaning(code);
    assert_eq!(
        (response.status, error.code.as_str()),
        (status, code),
        "{what}: {error:?}"
    );
    assert_eq!(error.kind, kind_of(status), "{what}");
    assert_eq!(error.param.as_deref(), param, "{what}: {error:?}");
    assert_hides_provider(what, &error.message);
    assert_request_id(what, response);
    error
}

/// Parses the events and asserts that they are well formed and in order.
pub(crate) fn events_of(response: &Response) -> Vec<Value> {
    let text = response.text();
    let events: Vec<Value> = text
        .split_terminator("\n\n")
        .map(|block| {
            let (name, data) = block.split_once('\n').unwrap();
            let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(
                name,
                format!("event: {}", event["type"].as_str().unwrap()),
                "{text}"
            );
            event
        })
        .collect();
    assert_eq!(
        response.chunks.len(),
        events.len(),
        "each event is a write of its own"
    );
    events
}

/// Asserts the order of a whole stream and returns its content as in a response without streaming.
fn content_of(events: &[Value]) -> Vec<Value> {
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.first(), Some(&"message_start"), "{kinds:?}");
    assert_eq!(
        kinds[kinds.len() - 2..],
        ["message_delta", "message_stop"],
        "{kinds:?}"
    );
    let mut blocks: Vec<Value> = Vec::new();
    let mut open = false;
    for event in &events[1..events.len() - 2] {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert!(!open, "{kinds:?}");
                assert_eq!(event["index"], blocks.len());
                blocks.push(event["content_block"].clone());
                open = true;
            }
            "content_block_delta" => {
                assert!(open, "{kinds:?}");
                assert_eq!(event["index"], blocks.len() - 1);
                add(blocks.last_mut().unwrap(), &event["delta"]);
            }
            "content_block_stop" => {
                assert!(std::mem::take(&mut open), "{kinds:?}");
                assert_eq!(event["index"], blocks.len() - 1);
            }
            "ping" => {}
            other => panic!("{other} in {kinds:?}"),
        }
    }
    assert!(!open, "{kinds:?}");
    for block in &mut blocks {
        if let Some(partial) = block.get("partial").and_then(Value::as_str) {
            block["input"] = serde_json::from_str(partial).unwrap();
            block.as_object_mut().unwrap().remove("partial");
        }
    }
    blocks
}

fn add(block: &mut Value, delta: &Value) {
    let (field, from) = match delta["type"].as_str().unwrap() {
        "text_delta" => ("text", "text"),
        "thinking_delta" => ("thinking", "thinking"),
        "signature_delta" => ("signature", "signature"),
        "input_json_delta" => ("partial", "partial_json"),
        other => panic!("{other}"),
    };
    let before = block.get(field).and_then(Value::as_str).unwrap_or_default();
    block[field] = json!(format!("{before}{}", delta[from].as_str().unwrap()));
}
