//! The model catalog for clients of this format and of the Messages API, at the same paths.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::assert_refused;
use crate::scene::{MODEL, Scene};

async fn get(scene: &Scene, path: &str, header: &str) -> Value {
    let key = scene.key.secret.as_str();
    let request = match header {
        "x-goog-api-key" => Request::get(path).header(header, key),
        "" => Request::get(path).key(key),
        other => Request::get(path).key(key).header(other, "2023-06-01"),
    };
    let response = scene.client().send(&request).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.json()
}

#[tokio::test]
async fn the_catalog_has_the_format_of_its_client() {
    let scene = Scene::start().await;
    let usual = get(&scene, "/v1/models", "").await;
    let ids: Vec<&str> = usual["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    for (path, header) in [
        ("/v1/models?pageSize=1000", "x-goog-api-key"),
        ("/v1beta/models?pageSize=1000", ""),
        ("/v1/models?pageSize=1000", "x-goog-api-client"),
    ] {
        let list = get(&scene, path, header).await;
        let names: Vec<&str> = list["models"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["name"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = ids.iter().map(|id| format!("models/{id}")).collect();
        assert_eq!(names, expected, "{path} {header}");
        assert!(list.get("nextPageToken").is_none());
    }
    let list = get(&scene, "/v1/models", "anthropic-version").await;
    assert_eq!(
        (&list["has_more"], &list["first_id"]),
        (&json!(false), &json!(ids[0]))
    );
    for (model, plain) in list["data"]
        .as_array()
        .unwrap()
        .iter()
        .zip(usual["data"].as_array().unwrap())
    {
        assert_eq!((&model["type"], &model["id"]), (&json!("model"), &plain["id"]));
        assert_eq!(model["max_tokens"], plain["max_output_tokens"]);
        assert_eq!(model["object"], "model");
        assert!(
            model["created_at"].as_str().unwrap().ends_with("T00:00:00Z"),
            "{model}"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn catalog_pages_contain_every_model() {
    let scene = Scene::start().await;
    let all = get(&scene, "/v1beta/models?pageSize=1000", "").await["models"].clone();
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1beta/models?pageSize=2&pageToken={token}");
        let page = get(&scene, &path, "x-goog-api-key").await;
        seen.extend(page["models"].as_array().unwrap().clone());
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(json!(seen), all);
    for (name, bad) in [
        ("pageSize", "x"),
        ("pageSize", "-1"),
        ("pageToken", "x"),
        ("pageToken", "100000"),
    ] {
        let path = format!("/v1beta/models?{name}={bad}");
        let request = Request::get(&path).header("x-goog-api-key", scene.key.secret.as_str());
        let response = scene.client().send(&request).await;
        assert_refused(&path, &response, "invalid_parameter", Some(name));
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_single_model_has_the_format_of_its_client() {
    let scene = Scene::start().await;
    let record = get(&scene, &format!("/v1beta/models/{MODEL}"), "").await;
    assert_eq!(record["name"], format!("models/{MODEL}"));
    assert_eq!(record["supportedGenerationMethods"][0], "generateContent");
    assert!(record["outputTokenLimit"].is_u64(), "{record}");
    for (model, methods) in [
        ("sim/embeddings", json!(["embedContent", "batchEmbedContents"])),
        ("sim/image", json!([])),
        ("sim/transcribe", json!([])),
    ] {
        let record = get(&scene, &format!("/v1beta/models/{model}"), "").await;
        assert_eq!(record["supportedGenerationMethods"], methods, "{model}");
    }
    let same = get(&scene, &format!("/v1/models/{MODEL}"), "x-goog-api-key").await;
    assert_eq!(same, record);
    let union = get(&scene, &format!("/v1/models/{MODEL}"), "anthropic-version").await;
    assert_eq!(
        (&union["type"], &union["object"]),
        (&json!("model"), &json!("model"))
    );
    let request = Request::get("/v1beta/models/none").header("x-goog-api-key", scene.key.secret.as_str());
    assert_refused(
        "no such model",
        &scene.client().send(&request).await,
        "model_not_found",
        Some("model"),
    );
    scene.finish().await;
}
