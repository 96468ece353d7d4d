//! `POST /v1/embeddings`: forms of input, encodings, and what it costs to the nano-credit.

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

/// The endpoint.
const EMBEDDINGS: &str = "/v1/embeddings";
/// The model of most tests.
const VECTORS: &str = "acme/vectors";
/// Nano-credits for a token of it.
const PRICE: i64 = 1_000;
/// Length of its longest vectors.
const LONGEST: usize = 64;

/// A scene with an embedding model besides.
async fn scene() -> Scene {
    scene_on(Storage::Sqlite, "").await
}

/// The same on this engine, with these settings more.
async fn scene_on(storage: Storage, config: &str) -> Scene {
    let target = format!("\"{PROVIDER}/vectors-v1\"");
    Scene::start_on(storage, &(model(VECTORS, &target) + config)).await
}

/// The block of an embedding model with these targets.
fn model(name: &str, targets: &str) -> String {
    format!(
        "[models.\"{name}\"]\ntype = \"embedding\"\ntargets = [{targets}]\n\
         prices = {{ input = \"1\" }}\nlimits = {{ dimensions = {LONGEST} }}\n"
    )
}

/// A request for the vectors of this input, with these members besides.
fn embed(input: Value, members: Value) -> Value {
    with(json!({"model": VECTORS, "input": input}), members)
}

/// The whole answer.
async fn ask(scene: &Scene, body: &Value) -> Response {
    scene
        .client()
        .post_json(EMBEDDINGS, &scene.key.secret, body)
        .await
}

/// The vectors of an answer, whose other members are as the format has them.
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
