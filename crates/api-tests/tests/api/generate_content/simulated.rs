//! The simulator in this format, with the requests that clients usually make first.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::{ask, assert_refused, assert_status, chunks_of, parts_of, saying};
use crate::scene::{Scene, assert_error};

const SIM: &str = "sim/chat";

#[tokio::test]
async fn four_places_for_keys_and_two_spellings_of_models_work() {
    let scene = Scene::start().await;
    let body = saying("Hi there", json!({}));
    let key = scene.key.secret.as_str();
    let client = scene.client();
    for (path, header) in [
        (
            "/v1/models/sim/chat:generateContent".to_owned(),
            Some("authorization"),
        ),
        (
            "/v1beta/models/sim%2Fchat:generateContent".to_owned(),
            Some("x-api-key"),
        ),
        (
            "/v1/models/sim/chat%3AgenerateContent".to_owned(),
            Some("x-goog-api-key"),
        ),
        (format!("/v1beta/models/sim/chat:generateContent?key={key}"), None),
    ] {
        let mut request = Request::json(&path, &body);
        if let Some(name) = header {
            let value = if name == "authorization" {
                format!("Bearer {key}")
            } else {
                key.to_owned()
            };
            request = request.header(name, value);
        }
        let response = client.send(&request).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        let answer = response.json();
        let candidate = &answer["candidates"][0];
        assert_eq!(
            candidate["content"],
            json!({"role": "model", "parts": [{"text": "Hi there"}]})
        );
        assert_eq!(
            (&candidate["finishReason"], &candidate["index"]),
            (&json!("STOP"), &json!(0))
        );
        assert_eq!(answer["modelVersion"], SIM);
        assert_eq!(
            answer["usageMetadata"]["cost"].as_str(),
            response.header("x-tollgate-cost")
        );
    }
    let path = "/v1/models/sim/chat:generateContent";
    let none = client.send(&Request::json(path, &body)).await;
    assert_error("no key", &none, "missing_api_key", None);
    let signed = Request::json(path, &body).header("x-goog-api-client", "genai-py/3.4");
    assert_refused("no key", &client.send(&signed).await, "missing_api_key", None);
    let wrong = client
        .send(&Request::json(&format!("{path}?key=sk-service-nobody"), &body))
        .await;
    assert_refused("a wrong key", &wrong, "invalid_api_key", None);
    let elsewhere = format!("/v1/chat/completions?key={key}");
    let response = client.send(&Request::json(&elsewhere, &json!({}))).await;
    assert_error("the query of another path", &response, "missing_api_key", None);
    assert!(!scene.gateway.log().contains(key), "no key is logged");
    scene.finish().await;
}

#[tokio::test]
async fn unknown_actions_and_models_are_refused() {
    let scene = Scene::start().await;
    let body = saying("hi", json!({}));
    let response = ask(&scene, "sim/chat:predict", &body).await;
    assert_refused("an unknown action", &response, "not_found", None);
    let response = ask(&scene, "sim/chat", &body).await;
    assert_refused("no action", &response, "method_not_allowed", None);
    assert_eq!(response.header("allow"), Some("GET,HEAD"));
    let response = ask(&scene, "sim/none:generateContent", &body).await;
    assert_refused("an unknown model", &response, "model_not_found", Some("model"));
    let response = ask(&scene, "sim/embeddings:generateContent", &body).await;
    assert_refused(
        "another kind of model",
        &response,
        "unsupported_endpoint",
        Some("model"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn streams_and_whole_responses_agree() {
    let scene = Scene::start().await;
    let tools =
        json!([{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]);
    for (text, reason) in [
        ("one two three", "STOP"),
        ("[[sim tokens=5 reason=3]]", "STOP"),
        ("[[sim tokens=3 tool=f:{\"x\":[1,2]} tool=f:{}]]", "STOP"),
        ("[[sim tokens=300]]", "MAX_TOKENS"),
        ("go END on", "STOP"),
    ] {
        let config = json!({"maxOutputTokens": 200, "stop_sequences": ["END"], "thinkingConfig": {"includeThoughts": true}});
        let body = saying(text, json!({"tools": tools, "generationConfig": config}));
        let whole = ask(&scene, "sim/chat:generateContent", &body).await;
        assert_eq!(whole.status, 200, "{text}: {}", whole.text());
        let whole = whole.json();
        let stream = ask(&scene, "sim/chat:streamGenerateContent?alt=sse", &body).await;
        let chunks = chunks_of(&stream);
        let last = chunks.last().unwrap();
        assert_eq!(
            parts_of(&chunks),
            parts_of(std::slice::from_ref(&whole)),
            "{text}"
        );
        assert_eq!(last["candidates"][0]["finishReason"], reason, "{text}");
        assert_eq!(whole["candidates"][0]["finishReason"], reason, "{text}");
        assert_eq!(last["usageMetadata"], whole["usageMetadata"], "{text}");
        let ends = chunks
            .iter()
            .filter(|chunk| chunk["candidates"][0].get("finishReason").is_some());
        assert_eq!(ends.count(), 1, "{text}");
        // Without `alt=sse`, the same chunks are the elements of one JSON array.
        let array = ask(&scene, "sim/chat:streamGenerateContent", &body).await;
        assert_eq!(array.header("content-type"), Some("application/json"));
        let elements: Vec<Value> = serde_json::from_str(&array.text()).unwrap();
        assert_eq!(elements, chunks, "{text}");
    }
    let response = ask(
        &scene,
        "sim/chat:streamGenerateContent?alt=media",
        &saying("a", json!({})),
    )
    .await;
    assert_refused("another alt", &response, "invalid_parameter", Some("alt"));
    scene.finish().await;
}

#[tokio::test]
async fn thoughts_are_returned_on_request() {
    let scene = Scene::start().await;
    for shown in [true, false] {
        let config = json!({"thinkingConfig": {"includeThoughts": shown}});
        let body = saying("[[sim tokens=2 reason=4]]", json!({"generationConfig": config}));
        let answer = ask(&scene, "sim/chat:generateContent", &body).await.json();
        let parts = parts_of(std::slice::from_ref(&answer));
        assert_eq!(
            parts.iter().any(|part| part["thought"] == true),
            shown,
            "{answer}"
        );
        assert_eq!(answer["usageMetadata"]["thoughtsTokenCount"], 4);
        assert_eq!(
            answer["usageMetadata"]["candidatesTokenCount"], 2,
            "without the thoughts"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn tool_calls_and_results_make_a_round_trip() {
    let scene = Scene::start().await;
    let tools = json!([{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]);
    let first = json!({"role": "user", "parts": [{"text": "[[sim tool=f:{\"n\":1} tool=f:{\"n\":2}]]"}]});
    let body = json!({"contents": [first], "tools": tools});
    let answer = ask(&scene, "sim/chat:generateContent", &body).await.json();
    let turn = answer["candidates"][0]["content"].clone();
    let calls: Vec<&Value> = turn["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| &part["functionCall"])
        .collect();
    assert_eq!(calls.len(), 2, "{turn}");
    assert_eq!(
        (&calls[0]["args"], &calls[1]["args"]),
        (&json!({"n": 1}), &json!({"n": 2}))
    );
    let result = |call: &Value, named: bool| {
        let mut result = json!({"name": call["name"], "response": {"result": "done"}});
        if named {
            result["id"] = call["id"].clone();
        }
        json!({"functionResponse": result})
    };
    for named in [true, false] {
        let results = json!({"role": "user", "parts": [result(calls[0], named), result(calls[1], named)]});
        let next = json!({"role": "user", "parts": [{"text": "thanks"}]});
        let body = json!({"contents": [first, turn, results, next], "tools": tools});
        let response = ask(&scene, "sim/chat:generateContent", &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(
            response.json()["candidates"][0]["content"]["parts"][0]["text"],
            "thanks"
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn responses_follow_the_requested_schema() {
    let scene = Scene::start().await;
    let openapi = json!({"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]});
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    for asked in [
        json!({"responseSchema": openapi}),
        json!({"response_json_schema": schema}),
        json!({}),
    ] {
        let mut config = asked;
        config["responseMimeType"] = json!("application/json");
        let body = saying("a number", json!({"generationConfig": config}));
        let answer = ask(&scene, "sim/chat:generateContent", &body).await.json();
        let text = answer["candidates"][0]["content"]["parts"][0]["text"]
            .as_str()
            .unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert!(value.is_object(), "{text}");
        if config.as_object().unwrap().len() > 1 {
            assert!(value["n"].is_i64(), "{text}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn several_candidates_and_logprobs_are_returned() {
    let scene = Scene::start().await;
    let config = json!({"candidateCount": 2, "responseLogprobs": true, "logprobs": 1});
    let body = saying("one two", json!({"generationConfig": config}));
    let answer = ask(&scene, "sim/chat:generateContent", &body).await.json();
    let candidates = answer["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 2);
    let chosen = candidates[1]["logprobsResult"]["chosenCandidates"]
        .as_array()
        .unwrap();
    assert!(
        !chosen.is_empty() && chosen[0]["logProbability"].is_number(),
        "{answer}"
    );
    let chunks = chunks_of(&ask(&scene, "sim/chat:streamGenerateContent?alt=sse", &body).await);
    assert_eq!(chunks.last().unwrap()["candidates"].as_array().unwrap().len(), 2);
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_stream_has_no_finish_reason() {
    let scene = Scene::start().await;
    let body = saying("[[sim tokens=9 cut=4 error=upstream_error]]", json!({}));
    let stream = ask(&scene, "sim/chat:streamGenerateContent?alt=sse", &body).await;
    let chunks = chunks_of(&stream);
    assert_status("an event", chunks.last().unwrap(), "upstream_error", None);
    assert!(!stream.text().contains("finishReason"), "{}", stream.text());
    let array = ask(&scene, "sim/chat:streamGenerateContent", &body).await;
    let elements: Vec<Value> = serde_json::from_str(&array.text()).unwrap();
    assert_status("an element", elements.last().unwrap(), "upstream_error", None);
    // Callers without Google's headers receive errors in the gateway's format.
    let path = "/v1/models/sim/chat:streamGenerateContent?alt=sse";
    let plain = scene.client().post_json(path, &scene.key.secret, &body).await;
    let error = &chunks_of(&plain).pop().unwrap()["error"];
    assert_eq!(
        (&error["code"], &error["type"]),
        (&json!("upstream_error"), &json!("upstream_error"))
    );
    let early = saying("[[sim error=rate_limit_exceeded]]", json!({}));
    let response = ask(&scene, "sim/chat:streamGenerateContent?alt=sse", &early).await;
    assert_eq!(
        response.json()["error"]["code"],
        response.status,
        "{}",
        response.text()
    );
    scene.finish().await;
}

#[tokio::test]
async fn tokens_are_counted_without_generation() {
    let scene = Scene::start().await;
    let body = saying("count these words", json!({}));
    let answer = ask(&scene, "sim/chat:generateContent", &body).await.json();
    for asked in [
        body.clone(),
        json!({"generateContentRequest": {"model": "models/sim/chat", "contents": body["contents"]}}),
    ] {
        let counted = ask(&scene, "sim/chat:countTokens", &asked).await;
        assert_eq!(counted.status, 200, "{}", counted.text());
        assert_eq!(
            counted.json()["totalTokens"],
            answer["usageMetadata"]["promptTokenCount"]
        );
        assert_eq!(counted.header("x-tollgate-counting"), Some("exact"));
    }
    scene.finish().await;
}

#[tokio::test]
async fn embeddings_work_in_this_format() {
    let scene = Scene::start().await;
    let content = |text: &str| json!({"content": {"parts": [{"text": text}]}});
    let one = ask(&scene, "sim/embeddings:embedContent", &content("a")).await;
    assert_eq!(one.status, 200, "{}", one.text());
    let vector = one.json()["embedding"]["values"].clone();
    assert!(vector.as_array().unwrap().len() > 8);
    assert_eq!(
        one.json()["usageMetadata"]["cost"].as_str(),
        one.header("x-tollgate-cost")
    );
    let requests = json!({"requests": [content("a"), content("b")]});
    let several = ask(&scene, "sim/embeddings:batchEmbedContents", &requests)
        .await
        .json();
    assert_eq!(several["embeddings"][0]["values"], vector);
    assert_eq!(several["embeddings"].as_array().unwrap().len(), 2);
    let mut shorter = content("a");
    shorter["outputDimensionality"] = json!(4);
    let short = ask(&scene, "sim/embeddings:embedContent", &shorter).await.json();
    assert_eq!(short["embedding"]["values"].as_array().unwrap().len(), 4);
    scene.finish().await;
}
