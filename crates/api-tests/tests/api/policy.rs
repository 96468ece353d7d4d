//! The content policy: refused input, withheld output, and their charges.

mod classifier;
mod input;
mod moderations;
mod output;

use serde_json::{Value, json};
use tollgate_testkit::gateway::Gateway;
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::upstream::FakeUpstream;

use crate::messages::events_of;
use crate::scene::{BINARY, PROVIDER_KEY, Scene, with};

const MESSAGES: &str = "/v1/messages";
const EMBEDDINGS: &str = "/v1/embeddings";
/// A model whose provider uses the Messages format.
const NATIVE: &str = "acme/native";
/// An embedding model of the scripted provider.
const VECTORS: &str = "acme/vectors";

/// A rule for input, one for output, and one for both.
const RULES: &str = r#"
[policy.rules.going-in]
apply = "input"
words = ["thermite", "two words"]

[policy.rules.coming-out]
apply = "output"
words = ["forbidden", "quite bad"]

[policy.rules.both]
category = "secrets"
patterns = ['\bkey-[0-9]{6}\b']
"#;

/// Returns settings of models of every kind that a policy checks, besides those of every scene.
fn more_models(upstream: &FakeUpstream) -> String {
    format!(
        r#"
[providers.southwind]
preset = "anthropic"
base_url = "{}"
api_key_env = "PROVIDER_KEY"

[models."{NATIVE}"]
targets = ["southwind/native-v1"]
prices = {{ input = "1", output = "2" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}

[models."{VECTORS}"]
type = "embedding"
targets = ["northwind/vectors-v1"]
prices = {{ input = "1" }}
"#,
        upstream.base_url()
    )
}

/// Starts a scene with this policy, in which `UPSTREAM` stands for the address of the upstream.
pub async fn scene(policy: &str) -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = more_models(&upstream) + &policy.replace("UPSTREAM", &upstream.base_url());
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

async fn post(scene: &Scene, path: &str, body: &Value) -> Response {
    let request = Request::json(path, body).key(&scene.key.secret);
    scene.client().send(&request).await
}

/// Builds a message request with this text and these additional members.
fn message(model: &str, text: &str, members: Value) -> Value {
    with(
        json!({"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": text}]}),
        members,
    )
}

/// Returns the chunks of a chat stream, which must end without an error.
fn chunks(response: &Response) -> Vec<Value> {
    assert_eq!(response.status, 200, "{}", response.text());
    let mut events = response.events();
    let last = events.pop();
    assert!(last.is_some_and(|last| last.is_done()), "{}", response.text());
    events
        .iter()
        .filter(|event| event.data.is_some())
        .map(|event| event.json())
        .collect()
}

/// Returns the text of a chat stream and its finish reason.
fn stream_text(chunks: &[Value]) -> (String, String) {
    let (mut text, mut reasons) = (String::new(), Vec::new());
    for choice in chunks
        .iter()
        .flat_map(|chunk| chunk["choices"].as_array().unwrap())
    {
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        reasons.extend(choice["finish_reason"].as_str().map(str::to_owned));
    }
    assert_eq!(reasons.len(), 1, "an answer ends once: {reasons:?}");
    (text, reasons.remove(0))
}

/// Returns the text of a message stream, its stop reason and stop details.
fn message_stream_text(response: &Response) -> (String, Value) {
    let events = events_of(response);
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let text = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    let [.., delta, stop] = events.as_slice() else {
        panic!("{}", response.text());
    };
    assert_eq!(
        (kind(delta), kind(stop)),
        ("message_delta".to_owned(), "message_stop".to_owned())
    );
    (text, delta["delta"].clone())
}
