//! Token counting endpoints: counts by the gateway's tokenizers and by providers.

mod provider_counts;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};

use crate::scene::{PLAIN, PROVIDER, Scene, with};

/// A model with a known tokenizer and a known message framing.
const EXACT: &str = "acme/exact";
/// A model with a known tokenizer, but an unknown framing.
const BOUNDED: &str = "acme/bounded";

const MESSAGES: &str = "/v1/messages/count_tokens";
const RESPONSES: &str = "/v1/responses/input_tokens";

/// A text of two tokens.
const HELLO: &str = "hello world";

async fn scene() -> Scene {
    let model = |name: &str, more: &str| {
        format!(
            "[models.\"{name}\"]\ntargets = [\"{PROVIDER}/{name}\"]\nprices = {{ input = \"1\", output = \"1\" }}\n{more}\n"
        )
    };
    let exact = model(EXACT, "tokenizer = \"o200k_base\"\nframing = \"chatml\"");
    Scene::start_with(&(exact + &model(BOUNDED, "tokenizer = \"o200k_base\""))).await
}

async fn ask(scene: &Scene, path: &str, body: &Value) -> Response {
    let response = scene
        .client()
        .send(&Request::json(path, body).key(&scene.key.secret))
        .await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response
}

/// Returns the token count and its method, which the header repeats.
async fn counted(scene: &Scene, path: &str, body: &Value) -> (u64, String) {
    let response = ask(scene, path, body).await;
    let answer = response.json();
    let how = answer["counting"].as_str().unwrap();
    assert_eq!(response.header("x-tollgate-counting"), Some(how));
    let tokens = ["input_tokens", "totalTokens"]
        .iter()
        .find_map(|name| answer[name].as_u64());
    (tokens.unwrap(), how.to_owned())
}

fn messages(model: &str, members: Value) -> Value {
    with(
        json!({"model": model, "messages": [{"role": "user", "content": HELLO}]}),
        members,
    )
}

#[tokio::test]
async fn text_conversations_are_exact_with_a_known_framing() {
    let scene = scene().await;
    let turns = json!([
        {"role": "user", "content": HELLO},
        {"role": "assistant", "content": [{"type": "text", "text": HELLO}]},
        {"role": "user", "content": "お誕生日おめでとう 👍"}
    ]);
    // Each turn adds three tokens and its role, and the answer adds three. The last turn has nine
    // tokens.
    for (members, expected) in [
        (json!({}), 2 + 4 + 3),
        (json!({"system": HELLO}), 2 * (2 + 4) + 3),
        (json!({"messages": turns.clone()}), 2 + 2 + 9 + 3 * 4 + 3),
        (
            json!({"max_tokens": 9, "temperature": 0.5, "stop_sequences": ["x"], "stream": true}),
            2 + 4 + 3,
        ),
    ] {
        let body = messages(EXACT, members);
        assert_eq!(
            counted(&scene, MESSAGES, &body).await,
            (expected, "exact".to_owned()),
            "{body}"
        );
    }
    let response = json!({"model": EXACT, "instructions": HELLO, "input": HELLO});
    assert_eq!(
        counted(&scene, RESPONSES, &response).await,
        (2 * (2 + 4) + 3, "exact".to_owned())
    );
    let contents = json!({"contents": [{"role": "user", "parts": [{"text": HELLO}]}]});
    let path = format!("/v1/models/{EXACT}:countTokens");
    assert_eq!(
        counted(&scene, &path, &contents).await,
        (2 + 4 + 3, "exact".to_owned())
    );
    assert_eq!(scene.upstream.request_count(), 0);
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn content_of_unknown_length_makes_a_count_an_upper_bound() {
    let scene = scene().await;
    let long = "word ".repeat(400);
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}});
    let parts = |parts: Value| json!({"messages": [{"role": "user", "content": parts}]});
    let text = |text: &str| json!({"type": "text", "text": text});
    for (members, min) in [
        (json!({"tools": [tool]}), 2),
        (parts(json!([text(HELLO), text(HELLO)])), 4),
        (parts(json!([text(HELLO), image])), 50_000),
        (
            parts(json!([{"type": "text", "text": long.clone()}, text("")])),
            401,
        ),
    ] {
        let body = messages(EXACT, members);
        let (tokens, how) = counted(&scene, MESSAGES, &body).await;
        assert_eq!(how, "upper_bound", "{body}");
        assert!((min..=min + 400).contains(&tokens), "{tokens} of {body}");
    }
    // Without a tokenizer, the bound counts bytes. With a tokenizer but no framing, it counts the
    // tokens of texts and the bytes of the rest.
    let body = |model: &str| messages(model, parts(json!(long)));
    let (by_bytes, how) = counted(&scene, MESSAGES, &body(PLAIN)).await;
    assert_eq!(how, "upper_bound");
    assert!(by_bytes > 2_000);
    let (by_tokens, how) = counted(&scene, MESSAGES, &body(BOUNDED)).await;
    assert_eq!(how, "upper_bound");
    assert!((401..600).contains(&by_tokens), "{by_tokens}");
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn very_long_texts_are_bounded_by_their_bytes() {
    const MAX_BYTES: usize = 4 << 20;
    let scene = scene().await;
    for (bytes, how) in [(MAX_BYTES, "exact"), (MAX_BYTES + 1, "upper_bound")] {
        let body = messages(
            EXACT,
            json!({"messages": [{"role": "user", "content": "a".repeat(bytes)}]}),
        );
        let (tokens, said) = counted(&scene, MESSAGES, &body).await;
        assert_eq!(said, how);
        assert_eq!(tokens >= MAX_BYTES as u64, how == "upper_bound", "{tokens}");
    }
    scene.finish().await;
}

/// Models of the default catalog have the tokenizers that their providers publish.
#[tokio::test]
async fn catalog_models_have_tokenizers() {
    let openai = "[providers.openai]\napi_key_env = \"PROVIDER_KEY\"\n";
    let scene = Scene::start_with(openai).await;
    for (model, how) in [
        ("openai/gpt-4o", "exact"),
        ("gpt-4o-mini", "exact"),
        ("openai/gpt-5", "upper_bound"),
        ("openai/gpt-6-sol", "upper_bound"),
    ] {
        let (_, said) = counted(&scene, MESSAGES, &messages(model, json!({}))).await;
        assert_eq!(said, how, "{model}");
    }
    scene.finish().await;
}
