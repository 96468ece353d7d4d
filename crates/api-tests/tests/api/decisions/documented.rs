//! Requests and answers of every dialect are valid against the OpenAPI document.

use jsonschema::Validator;
use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;

use super::DECISIONS;
use crate::scene::{Scene, with};

/// Returns a validator for a named schema of the OpenAPI document.
fn validator(document: &Value, name: &str) -> Validator {
    let schema = json!({
        "$ref": format!("#/components/schemas/{name}"),
        "components": document["components"],
    });
    jsonschema::validator_for(&schema).unwrap()
}

/// Requests of all dialects, with every type of question.
fn requests() -> Vec<Value> {
    let tool = json!({"type": "function", "function": {"name": "refund", "parameters": {"type": "object",
        "properties": {"notify": {"type": "boolean"}}}}});
    let native = json!({
        "refund": {"type": "noul", "instructions": "Is money asked for?", "criteria": {"true": "yes"}, "abstain": true},
        "team": {"type": "choice", "instructions": "Who answers?", "criteria": {"billing": "Payments", "tech": null}},
        "flag": {"type": "choice", "instructions": "Which?", "choices": [{"value": true}, {"value": "maybe"}]},
        "level": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "high"]},
        "next": {"type": "tool", "instructions": "What next?", "tools": [tool]},
    });
    let listed: Vec<Value> = native
        .as_object()
        .unwrap()
        .iter()
        .map(|(id, question)| with(question.clone(), json!({"id": id})))
        .collect();
    let openai = json!([
        {"type": "predicate", "name": "refund", "instructions": "Is money asked for?"},
        {"type": "predicate", "instructions": "Without a name?"},
        {"type": "choice", "name": "flag", "instructions": "Which?", "choices": [{"value": true, "description": "x"}, {"value": "no"}]},
        {"type": "score", "name": "level", "instructions": "How urgent?", "levels": [{"label": "low"}, {"label": "high"}]},
    ]);
    let messages =
        json!([{"role": "user", "content": [{"type": "input_text", "text": "I was charged twice!"}]}]);
    vec![
        json!({"model": "sim/decide", "state": {"message": "I was charged twice!"}, "questions": native}),
        json!({"model": "sim/decide", "state": "I was charged twice!", "questions": listed, "options": {"seed": 1}}),
        json!({"model": "sim/decide", "input": "I was charged twice!", "questions": openai}),
        json!({"model": "sim/decide", "input": messages, "questions": openai}),
        json!({"model": "models/sim/decide", "input": "I was charged twice!", "questions": {
            "refund": {"type": "noul", "instructions": "Is money asked for?"},
            "level": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "high"]},
        }}),
    ]
}

#[tokio::test]
async fn requests_and_answers_of_every_dialect_match_the_openapi_document() {
    let scene = Scene::start().await;
    let document = scene.client().send(&Request::get("/openapi.json")).await.json();
    let (request, answer) = (
        validator(&document, "CreateDecisions"),
        validator(&document, "Decisions"),
    );
    let fits = |validator: &Validator, value: &Value| {
        let faults: Vec<String> = validator
            .iter_errors(value)
            .map(|fault| fault.to_string())
            .collect();
        assert!(faults.is_empty(), "{value}: {faults:?}");
    };
    for body in requests() {
        fits(&request, &body);
        let response = scene.post(DECISIONS, &body).await;
        assert_eq!(response.status, 200, "{body}: {}", response.text());
        let answered = response.json();
        fits(&answer, &answered);
        let answers: Vec<&Value> = match &answered["answers"] {
            Value::Array(answers) => answers.iter().collect(),
            answers => answers.as_object().unwrap().values().collect(),
        };
        for answer in answers {
            assert!(answer["confidence"].is_number(), "{answer}");
            assert!(answer["method"]["calls"].is_number(), "{answer}");
        }
    }
    // Both sides of the question limit, and a request without a state.
    for (count, is_valid) in [(0, false), (128, true), (129, false)] {
        let question = json!({"type": "noul", "instructions": "Yes?"});
        let questions = vec![question; count];
        let body = json!({"model": "sim/decide", "state": "x", "questions": questions});
        assert_eq!(request.is_valid(&body), is_valid, "{count}");
        let response = scene.post(DECISIONS, &body).await;
        assert_eq!(response.status == 200, is_valid, "{count}: {}", response.text());
    }
    let neither =
        json!({"model": "sim/decide", "questions": {"a": {"type": "noul", "instructions": "Yes?"}}});
    assert!(!request.is_valid(&neither));
    scene.finish().await;
}
