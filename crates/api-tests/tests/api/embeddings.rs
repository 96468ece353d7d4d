//! `POST /v1/embeddings`: input forms, encodings, and charges exact to the nano-credit.

mod bad_input;
mod faults;
mod forms;
mod money;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::Response;

use crate::scene::{PROVIDER, Scene, with};

const EMBEDDINGS: &str = "/v1/embeddings";
/// Embedding model of most tests.
const VECTORS: &str = "acme/vectors";
/// Price of [`VECTORS`], in nano-credits per token.
const PRICE: i64 = 1_000;
/// Maximum number of dimensions of [`VECTORS`].
const LONGEST: usize = 64;

/// Starts a scene with an embedding model.
async fn scene() -> Scene {
    scene_on(Storage::Sqlite, "").await
}

/// Starts a scene with an embedding model on this engine, with additional settings.
async fn scene_on(storage: Storage, config: &str) -> Scene {
    let target = format!("\"{PROVIDER}/vectors-v1\"");
    Scene::start_on(storage, &(model(VECTORS, &target) + config)).await
}

/// Returns the settings of an embedding model with these targets.
fn model(name: &str, targets: &str) -> String {
    format!(
        "[models.\"{name}\"]\ntype = \"embedding\"\ntargets = [{targets}]\n\
         prices = {{ input = \"1\" }}\nlimits = {{ dimensions = {LONGEST} }}\n"
    )
}

/// Builds the body of an embeddings request, with additional members.
fn embed(input: Value, members: Value) -> Value {
    with(json!({"model": VECTORS, "input": input}), members)
}

async fn ask(scene: &Scene, body: &Value) -> Response {
    scene
        .client()
        .post_json(EMBEDDINGS, &scene.key.secret, body)
        .await
}

/// Returns the vectors of a response. Asserts the other members of the format.
fn vectors(what: &str, response: &Response, encoding: &str) -> Vec<Vec<f32>> {
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    let body = response.json();
    assert_eq!(body["object"], "list", "{what}");
    let data = body["data"].as_array().unwrap();
    let read = |(index, item): (usize, &Value)| {
        assert_eq!(item["object"], "embedding", "{what}");
        assert_eq!(item["index"], index, "{what}");
        let embedding = &item["embedding"];
        match encoding {
            "base64" => {
                let bytes = STANDARD.decode(embedding.as_str().unwrap()).unwrap();
                let (floats, rest) = bytes.as_chunks();
                assert!(rest.is_empty(), "{what}");
                floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            _ => {
                let numbers = embedding.as_array().unwrap();
                numbers
                    .iter()
                    .map(|number| number.as_f64().unwrap() as f32)
                    .collect()
            }
        }
    };
    data.iter().enumerate().map(read).collect()
}
