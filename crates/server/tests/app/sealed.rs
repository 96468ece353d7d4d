//! Encrypted reasoning is requested if the caller's format can return it.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_storage::NoFiles;

use crate::app::{MODELS, Scene, THINKING};

#[tokio::test]
async fn of_models_that_reason_for_formats_that_can_carry_it() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(1_000).await;
    let turn = json!([{"role": "user", "content": "hello"}]);
    let seal = json!(["reasoning.encrypted_content"]);
    let logprobs = json!(["message.output_text.logprobs"]);
    let with_both = json!(["reasoning.encrypted_content", "message.output_text.logprobs"]);
    let responses = |model: &str| json!({"model": model, "max_output_tokens": 100, "input": "hello"});
    let messages = |model: &str| json!({"model": model, "max_tokens": 100, "messages": turn});
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]});
    let contents_path = |model: &str| format!("/v1beta/models/{model}:generateContent");
    let including = |model: &str| {
        let mut body = responses(model);
        body["include"] = logprobs.clone();
        body
    };
    let plain = MODELS[2];
    let cases: Vec<(String, Value, Value)> = vec![
        ("/v1/responses".to_owned(), responses(THINKING), seal.clone()),
        ("/v1/responses".to_owned(), including(THINKING), with_both),
        ("/v1/messages".to_owned(), messages(THINKING), seal.clone()),
        (contents_path(THINKING), contents.clone(), seal),
        // Chat Completions cannot return encrypted reasoning.
        ("/v1/chat/completions".to_owned(), messages(THINKING), Value::Null),
        ("/v1/responses".to_owned(), responses(plain), Value::Null),
        ("/v1/responses".to_owned(), including(plain), logprobs.clone()),
        ("/v1/messages".to_owned(), messages(plain), Value::Null),
        (contents_path(plain), contents, Value::Null),
    ];
    for (path, body, include) in cases {
        let answer = scene.post(&tenant, &path, &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(scene.sent().unwrap()["include"], include, "{path} {body}");
    }
}
