//! `POST /v1/moderations` with the policy, with a provider, and with neither.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;
use tollgate_testkit::upstream::Reply;

use super::{RULES, post, scene};
use crate::scene::{GRANTED, MODEL, PROVIDER, Scene, assert_error};

const MODERATIONS: &str = "/v1/moderations";

/// Returns the settings of a provider's moderation model.
fn model(id: &str) -> String {
    format!(
        "\n[models.\"{id}\"]\ntype = \"moderation\"\ntargets = [\"{PROVIDER}/judge-2\"]\nprices = {{ input = \"0\" }}\n"
    )
}

const CLASSIFIER: &str = "
[policy.classifier]
url = \"UPSTREAM/moderations\"
api_key_env = \"PROVIDER_KEY\"
thresholds = { harassment = 0.005 }
";

async fn moderate(scene: &Scene, body: Value) -> Response {
    post(scene, MODERATIONS, &body).await
}

fn assert_whole(body: &Value, model: &str, results: usize) {
    assert!(
        body["id"].as_str().is_some_and(|id| id.starts_with("modr-")),
        "{body}"
    );
    assert_eq!(body["model"], model, "{body}");
    assert_eq!(body["results"].as_array().unwrap().len(), results, "{body}");
}

#[tokio::test]
async fn rules_answer_with_their_categories() {
    let scene = scene(RULES).await;
    let texts = json!({"input": ["key-123456", "forbidden thermite", "nothing"]});
    let response = moderate(&scene, texts).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    assert_whole(&body, "policy", 3);
    let expected = [
        (
            true,
            json!({"secrets": true, "going-in": false, "coming-out": false}),
        ),
        (
            true,
            json!({"secrets": false, "going-in": true, "coming-out": true}),
        ),
        (
            false,
            json!({"secrets": false, "going-in": false, "coming-out": false}),
        ),
    ];
    for (result, (flagged, categories)) in body["results"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(
            (&result["flagged"], &result["categories"]),
            (&json!(flagged), &categories)
        );
        for (name, found) in categories.as_object().unwrap() {
            assert_eq!(
                result["category_scores"][name],
                if *found == json!(true) { 1.0 } else { 0.0 }
            );
            assert_eq!(result["category_applied_input_types"][name], json!(["text"]));
        }
    }
    let named = json!({"model": "omni-moderation-latest", "input": [{"type": "text", "text": "thermite"}]});
    let body = moderate(&scene, named).await.json();
    assert_whole(&body, "omni-moderation-latest", 1);
    assert_eq!(body["results"][0]["flagged"], true);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn rules_and_classifier_answer_together() {
    let scene = scene(&format!("{RULES}{CLASSIFIER}")).await;
    let body = moderate(&scene, json!({"input": "violent thermite"}))
        .await
        .json();
    assert_whole(&body, "policy", 1);
    let result = &body["results"][0];
    // The thresholds decide, not the classifier's flag.
    for (category, flagged) in [("violence", false), ("harassment", true), ("going-in", true)] {
        assert_eq!(result["categories"][category], flagged, "{body}");
    }
    assert_eq!(result["category_scores"]["violence"], 0.9);
    assert_eq!(
        result["category_applied_input_types"]["violence"],
        json!(["text", "image"])
    );
    scene
        .upstream
        .push_for_moderations(Reply::error(500, "server_error", "fake"));
    let response = moderate(&scene, json!({"input": "violent"})).await;
    assert_error("the classifier failed", &response, "overloaded", None);
    scene.finish().await;
}

#[tokio::test]
async fn a_provider_answers_for_its_model() {
    let scene = scene(&format!("{}{RULES}", model("acme/judge"))).await;
    let parts = json!([{"type": "text", "text": "violent thermite"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]);
    let response = moderate(&scene, json!({"model": "acme/judge", "input": parts})).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    assert_whole(&body, "acme/judge", 1);
    assert_eq!(
        body["results"][0]["categories"],
        json!({"violence": true, "harassment": false}),
        "{body}"
    );
    assert_eq!(response.header("x-tollgate-cost"), Some("0"));
    let sent = scene.upstream.requests().pop().unwrap();
    assert_eq!(sent.json().unwrap(), json!({"model": "judge-2", "input": parts}));
    let row = scene.row(response.request_id()).await;
    assert_eq!(
        (&row["model"], &row["outcome"]),
        (&json!("acme/judge"), &json!("ok")),
        "{row}"
    );
    assert_eq!(scene.settled().await.credits, GRANTED);

    scene.upstream.push_for_moderations(Reply::html(200));
    let response = moderate(&scene, json!({"model": "acme/judge", "input": "a"})).await;
    assert_error("a page", &response, "upstream_error", None);
    for (model, code) in [(MODEL, "unsupported_endpoint"), ("acme/none", "model_not_found")] {
        let response = moderate(&scene, json!({"model": model, "input": "a"})).await;
        assert_error(model, &response, code, Some("model"));
    }
    let response = moderate(&scene, json!({"input": ["a", 1]})).await;
    assert_error("no text", &response, "invalid_parameter", Some("input[1]"));
    let response = post(
        &scene,
        crate::scene::CHAT,
        &json!({"model": "acme/judge", "messages": [{"role": "user", "content": "Hi"}]}),
    )
    .await;
    assert_error(
        "it does not generate",
        &response,
        "unsupported_endpoint",
        Some("model"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn without_a_model_in_the_request_the_usual_one_answers() {
    let scene = scene(&model("openai/omni-moderation-latest")).await;
    for body in [
        json!({"input": "violent"}),
        json!({"input": "violent", "model": "omni-moderation-latest"}),
        json!({"input": "violent", "model": "openai/omni-moderation-latest"}),
    ] {
        let response = moderate(&scene, body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.json()["results"][0]["flagged"], true);
    }
    scene.finish().await;
}

#[tokio::test]
async fn without_policy_and_model_the_error_names_the_setting() {
    let scene = scene("").await;
    for body in [
        json!({"input": "a"}),
        json!({"input": "a", "model": "omni-moderation-latest"}),
    ] {
        let error = assert_error(
            "nobody",
            &moderate(&scene, body).await,
            "unsupported_endpoint",
            None,
        );
        assert!(error.message.contains("[policy]"), "{error:?}");
    }
    scene.nothing_happened().await;
    scene.finish().await;
}
