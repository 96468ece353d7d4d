//! Context windows: input that certainly does not fit is refused before any hold, and a hold covers
//! at most the window.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Response;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::Reply;

use crate::scene::{CHAT, PROVIDER, Scene};

/// A model with a known tokenizer.
const COUNTED: &str = "acme/narrow";
/// A model without a known tokenizer.
const UNCOUNTED: &str = "acme/unknown";
/// A model of the simulator, which counts exactly.
const SIMULATED: &str = "acme/toy";
const VECTORS: &str = "acme/vectors";
const WINDOW: u64 = 1_000;

fn settings() -> String {
    let model = |name: &str, target: &str, more: &str| {
        format!(
            "[models.\"{name}\"]\ntargets = [\"{target}\"]\nprices = {{ input = \"1\", output = \"1\" }}\n{more}\n\
             limits = {{ context_window = {WINDOW}, max_output_tokens = 20 }}\n"
        )
    };
    let provided = format!("{PROVIDER}/any");
    [
        model(COUNTED, &provided, "tokenizer = \"o200k_base\""),
        model(UNCOUNTED, &provided, ""),
        model(SIMULATED, "sim/chat", ""),
        model(
            VECTORS,
            &provided,
            "type = \"embedding\"\ntokenizer = \"cl100k_base\"",
        )
        .replace(", output = \"1\"", "")
        .replace(", max_output_tokens = 20", ""),
    ]
    .concat()
}

/// Returns text of this many words, each of one token in `o200k_base` and `cl100k_base`.
fn words(count: usize) -> String {
    vec!["hello"; count].join(" ")
}

/// Asserts that the context window is exceeded, in the error body of any format.
fn assert_exceeds(what: &str, response: &Response, param: &str) {
    let error = &response.json()["error"];
    assert_eq!(
        (response.status, &error["code"], &error["param"]),
        (400, &json!("context_length_exceeded"), &json!(param)),
        "{what}: {}",
        response.text()
    );
}

#[tokio::test]
async fn input_beyond_the_window_is_refused() {
    let scene = Scene::start_with(&settings()).await;
    let chat = |model: &str, count: usize| json!({"model": model, "messages": [{"role": "user", "content": words(count)}], "max_tokens": 10});
    let text = |count: usize| words(count);
    // Requests beyond the window, by the tokenizer less its margin or by the simulator.
    let refused: [(&str, Value, &str); 8] = [
        (CHAT, chat(COUNTED, 1_100), "messages"),
        (CHAT, chat(SIMULATED, 1_001), "messages"),
        ("/v1/messages", chat(COUNTED, 1_100), "messages"),
        (
            "/v1/responses",
            json!({"model": COUNTED, "input": text(1_100)}),
            "input",
        ),
        (
            "/v1/completions",
            json!({"model": COUNTED, "prompt": text(1_100)}),
            "prompt",
        ),
        (
            "/v1/embeddings",
            json!({"model": VECTORS, "input": vec![7; 1_001]}),
            "input",
        ),
        (
            "/v1/embeddings",
            json!({"model": VECTORS, "input": text(1_100)}),
            "input",
        ),
        (
            "/v1/embeddings",
            json!({"model": VECTORS, "input": [text(1_200), text(1_200)]}),
            "input",
        ),
    ];
    for (path, body, param) in refused {
        let response = scene.post(path, &body).await;
        assert_exceeds(path, &response, param);
    }
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": text(1_100)}]}]});
    let response = scene
        .post("/v1/models/acme/narrow:generateContent", &contents)
        .await;
    assert_exceeds("contents", &response, "contents");
    scene.nothing_happened().await;

    // Requests that fit or may fit.
    for (model, count) in [(COUNTED, 1_000), (UNCOUNTED, 1_100), (COUNTED, 3)] {
        scene.upstream.push(Reply::words(2));
        let response = scene.chat(&chat(model, count)).await;
        assert_eq!(response.status, 200, "{model} {count}: {}", response.text());
    }
    let response = scene.chat(&chat(SIMULATED, 900)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    // A provider may truncate the input if the request allows it.
    scene.upstream.push(Reply::words(2));
    let shortened = json!({"model": COUNTED, "input": text(1_100), "truncation": "auto", "store": false});
    let response = scene.post("/v1/responses", &shortened).await;
    assert_ne!(
        response.json()["error"]["code"],
        "context_length_exceeded",
        "{}",
        response.text()
    );
    scene.finish().await;
}

#[tokio::test]
async fn no_more_than_the_window_is_held() {
    let scene = Scene::start_with(&settings()).await;
    for (count, input) in [(100, None), (900, Some(WINDOW))] {
        let request = json!({"model": UNCOUNTED, "messages": [{"role": "user", "content": words(count)}], "max_tokens": 10});
        let bytes = request.to_string().len() as u64;
        let body = json!({"endpoint": CHAT, "request": request});
        let quote = scene.post("/v1/quote", &body).await;
        assert_eq!(quote.status, 200, "{}", quote.text());
        let held = nanos(&quote.json()["most"]);
        // A token costs 1,000 nano-credits, in and out.
        let expected = (input.unwrap_or(bytes + 8) + 10) * 1_000;
        assert_eq!(held, i64::try_from(expected).unwrap(), "{}", quote.text());
    }
    scene.finish().await;
}
