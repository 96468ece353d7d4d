//! `/v1/responses`: any model for callers of this format, and a provider of this format for any
//! caller.

mod background;
mod background_streams;
mod bad_input;
mod conversion;
mod native;
mod sessions;
mod simulated;
mod stored;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Key};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, PROVIDER_KEY, Scene, with};

const RESPONSES: &str = "/v1/responses";
/// A model whose provider uses the format. Every class of tokens has a different price.
const NATIVE: &str = "acme/native";
const SIM: &str = "sim/chat";

/// Returns the settings of a provider that uses the format.
fn native_settings(upstream: &FakeUpstream) -> String {
    format!(
        r#"
[providers.southwind]
preset = "openai-responses"
base_url = "{}"
api_key_env = "PROVIDER_KEY"

[models."{NATIVE}"]
targets = ["southwind/native-v1"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
input = ["text", "image", "audio", "file"]
structured_output = "json_schema"
tools = true
reasoning = true
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

/// Builds a request with this input and these additional members.
fn saying(model: &str, text: &str, members: Value) -> Value {
    with(json!({"model": model, "input": text}), members)
}

async fn send(scene: &Scene, body: &Value) -> Response {
    scene
        .client()
        .send(&Request::json(RESPONSES, body).key(&scene.key.secret))
        .await
}

/// Members that Open Responses requires in every response.
const REQUIRED: &[&str] = &[
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

/// Returns the response object, which must have all members and the request's id.
fn whole(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    assert_object(&body, response.request_id());
    body
}

fn assert_object(object: &Value, request_id: &str) {
    for name in REQUIRED {
        assert!(object.get(name).is_some(), "{name} in {object}");
    }
    assert_is_ours(object, request_id);
}

fn assert_is_ours(object: &Value, request_id: &str) {
    let number = request_id.strip_prefix("req_").unwrap();
    assert_eq!(object["id"], format!("resp_{number}"));
    assert!(object["store"].is_boolean(), "{object}");
}

/// Parses the events and asserts that they are well formed, named, numbered in order, and sent one
/// in each write.
fn events_of(response: &Response) -> Vec<Value> {
    assert_eq!(
        response.header("content-type"),
        Some("text/event-stream; charset=utf-8"),
        "{}",
        response.text()
    );
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
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{text}");
    }
    events
}

/// Asserts the order of a stream's events and that all items were streamed. Returns the final
/// response.
fn ended(events: &[Value]) -> Value {
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let kinds: Vec<String> = events.iter().map(kind).collect();
    assert_eq!(
        kinds[..2],
        ["response.created", "response.in_progress"],
        "{kinds:?}"
    );
    let (mut items, mut open, mut said) = (Vec::new(), false, String::new());
    for event in &events[2..events.len() - 1] {
        let kind = kind(event);
        match &*kind {
            "response.output_item.added" => {
                assert!(!std::mem::replace(&mut open, true), "{kinds:?}");
                assert_eq!(event["output_index"], items.len());
            }
            "response.output_item.done" => {
                assert!(std::mem::take(&mut open), "{kinds:?}");
                items.push(event["item"].clone());
                let item = event["item"].to_string();
                assert!(
                    said.is_empty() || item.contains(&json!(said).to_string()),
                    "{said} in {item}"
                );
                said.clear();
            }
            _ => {
                assert!(open && event["output_index"] == items.len(), "{kinds:?}");
                if kind.ends_with("part.added") {
                    said.clear();
                }
                if kind.ends_with(".delta") {
                    said.push_str(event["delta"].as_str().unwrap());
                }
            }
        }
    }
    assert!(!open, "{kinds:?}");
    let last = events.last().unwrap();
    let response = last["response"].clone();
    assert_eq!(
        kind(last),
        format!("response.{}", response["status"].as_str().unwrap())
    );
    assert_eq!(response["output"], json!(items));
    assert_eq!(response["id"], events[0]["response"]["id"]);
    response
}
