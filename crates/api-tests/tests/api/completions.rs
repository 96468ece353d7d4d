//! `POST /v1/completions`: providers with the endpoint, providers with chat only, and the
//! simulator.

mod bad_input;
mod crossing;
mod native;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;
use tollgate_testkit::gateway::{Gateway, Key, Storage};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, MODEL, PROVIDER_KEY, Scene, with};

const COMPLETIONS: &str = "/v1/completions";
/// A model whose provider has the endpoint; it has the prices of [`MODEL`].
const NATIVE: &str = "acme/texts";

/// Starts a scene with a second provider, which has the endpoint.
async fn scene() -> Scene {
    scene_on(Storage::Sqlite).await
}

async fn scene_on(storage: Storage) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = format!(
        r#"
[providers.eastwind]
preset = "vllm"
base_url = "{}"
api_key_env = "PROVIDER_KEY"

[models."{NATIVE}"]
targets = ["eastwind/texts-v1"]
prices = {{ input = "1", cache_read = "0.1", cache_write = "1.5", output = "2", reasoning = "3" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}

[models."acme/either"]
targets = ["northwind/chat-v1", "eastwind/texts-v1"]
prices = {{ input = "1", output = "1" }}
structured_output = "none"
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
"#,
        upstream.base_url()
    );
    let gateway = Gateway::start(BINARY, Scene::options(&upstream, storage, &config)).await;
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

/// Builds a request to continue `Once upon`, with additional members.
fn continuing(model: &str, members: Value) -> Value {
    with(json!({"model": model, "prompt": "Once upon"}), members)
}

async fn send(scene: &Scene, body: &Value) -> Response {
    scene
        .client()
        .post_json(COMPLETIONS, &scene.key.secret, body)
        .await
}

/// A model of a provider with the endpoint, and one of a provider with chat only.
const BOTH: [&str; 2] = [NATIVE, MODEL];

/// Returns the text of a response, whole or streamed. Asserts the other members of the format.
fn text_of(what: &str, response: &Response, model: &str) -> String {
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    let chunks: Vec<Value> = match response.header("content-type") {
        Some("application/json") => vec![response.json()],
        _ => {
            let events = response.events();
            assert!(events.last().unwrap().is_done(), "{what}");
            events[..events.len() - 1]
                .iter()
                .map(|event| event.json())
                .collect()
        }
    };
    let mut text = String::new();
    for chunk in &chunks {
        assert_eq!(
            (&chunk["object"], &chunk["model"]),
            (&json!("text_completion"), &json!(model)),
            "{what}: {chunk}"
        );
        assert_eq!(
            (&chunk["id"], &chunk["created"]),
            (&chunks[0]["id"], &chunks[0]["created"]),
            "{what}"
        );
        for choice in chunk["choices"].as_array().unwrap() {
            let members = choice.as_object().unwrap();
            assert_eq!(members.len(), 4, "{what}: {choice}");
            text.push_str(choice["text"].as_str().unwrap());
        }
    }
    text
}
