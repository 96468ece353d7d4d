//! Near the end of the credits, the text of a request is counted in tokens if the balance does not
//! cover its bytes.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Balance, Storage};
use tollgate_testkit::upstream::{Answer, Reply, Usage};

use super::holds::account_with;
use crate::scene::{CHAT, PROVIDER, Scene, assert_error, flat_bound, with};

/// A model with a known tokenizer. Input and output cost [`PRICE`] a token.
const COUNTED: &str = "acme/counted";
/// The same model without a known tokenizer.
const UNCOUNTED: &str = "acme/uncounted";
/// An embedding model with a known tokenizer.
const VECTORS: &str = "acme/vectors";
const PRICE: i64 = 1_000;
/// A sentence of ten tokens in `o200k_base` and `cl100k_base`, also after a space.
const SENTENCE: &str = "The quick brown fox jumps over the lazy dog.";
const SENTENCES: i64 = 100;

fn settings() -> String {
    let model = |name: &str, more: &str| {
        format!(
            "[models.\"{name}\"]\ntargets = [\"{PROVIDER}/{name}\"]\n{more}\nlimits = {{ max_output_tokens = 4096 }}\n"
        )
    };
    let prices = "prices = { input = \"1\", output = \"1\" }";
    model(COUNTED, &format!("{prices}\ntokenizer = \"o200k_base\""))
        + &model(UNCOUNTED, prices)
        + &model(
            VECTORS,
            "type = \"embedding\"\nprices = { input = \"1\" }\ntokenizer = \"cl100k_base\"",
        )
}

fn text() -> String {
    vec![SENTENCE; SENTENCES as usize].join(" ")
}

fn chat(model: &str, members: Value) -> Value {
    let body = json!({"model": model, "messages": [{"role": "user", "content": text()}], "max_tokens": 50});
    with(body, members)
}

/// Returns the hold for counted text: its tokens, a sixteenth of them, eight more, and the bytes of
/// the rest.
fn counted_bound(bound: i64) -> i64 {
    let tokens = 10 * SENTENCES;
    let bytes = i64::try_from(text().len()).unwrap();
    bound - PRICE * (bytes - (tokens + tokens / 16 + 8))
}

#[tokio::test]
async fn a_balance_that_covers_the_tokens_and_not_the_bytes_is_enough() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, &settings()).await;
        let body = chat(COUNTED, json!({}));
        let bound = counted_bound(flat_bound(&body, PRICE, 50));
        assert!(bound * 3 < flat_bound(&body, PRICE, 50));

        let (poor, key) = account_with(&scene, bound - 1).await;
        let before = scene.gateway.ledger_check().await;
        let refused = scene.client().post_json(CHAT, &key, &body).await;
        assert_error("covers neither", &refused, "insufficient_credits", None);
        assert_eq!(scene.upstream.request_count(), 0);
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");

        scene.gateway.grant(&poor, "0.000000001").await;
        // The same balance does not suffice for a model without a known tokenizer.
        let uncounted = chat(UNCOUNTED, json!({}));
        let refused = scene.client().post_json(CHAT, &key, &uncounted).await;
        assert_error("bytes", &refused, "insufficient_credits", None);
        // The provider counts the same tokens, plus seven around the turn.
        let reported = Usage::Fixed {
            prompt: 10 * SENTENCES as u64 + 7,
            completion: 50,
        };
        scene
            .upstream
            .push(Reply::answer(Answer::words(50).usage(reported)));
        let served = scene.client().post_json(CHAT, &key, &body).await;
        assert_eq!(served.status, 200, "{}", served.text());
        let sent = scene.upstream.requests().last().unwrap().json().unwrap();
        assert_eq!(sent["max_tokens"], 50, "the caller's cap is unchanged");
        let left = Balance {
            credits: bound - PRICE * (10 * SENTENCES + 57),
            held: 0,
        };
        assert_eq!(scene.gateway.balance(&poor).await, left);
        scene.finish().await;
    }
}

#[tokio::test]
async fn a_higher_count_of_the_provider_is_charged_up_to_the_hold() {
    let scene = Scene::start_with(&settings()).await;
    let body = chat(COUNTED, json!({}));
    let bound = counted_bound(flat_bound(&body, PRICE, 50));
    for (prompt, charged) in [
        // A sixteenth more than the gateway's count.
        (1_062, PRICE * 1_112),
        // The report is far above the hold: the operator bears the difference.
        (9_000, bound),
    ] {
        let (account, key) = account_with(&scene, bound).await;
        let reported = Usage::Fixed {
            prompt,
            completion: 50,
        };
        scene
            .upstream
            .push(Reply::answer(Answer::words(50).usage(reported)));
        let served = scene.client().post_json(CHAT, &key, &body).await;
        assert_eq!(served.status, 200, "{}", served.text());
        let left = Balance {
            credits: bound - charged,
            held: 0,
        };
        assert_eq!(scene.gateway.balance(&account).await, left, "{prompt}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_default_cap_is_what_the_counted_text_leaves() {
    let scene = Scene::start_with(&settings()).await;
    let mut body = chat(COUNTED, json!({}));
    body.as_object_mut().unwrap().remove("max_tokens");
    let input = counted_bound(flat_bound(&body, PRICE, 0));
    let (_, key) = account_with(&scene, input + 2_000 * PRICE + 1).await;
    let served = scene.client().post_json(CHAT, &key, &body).await;
    assert_eq!(served.status, 200, "{}", served.text());
    let sent = scene.upstream.requests().last().unwrap().json().unwrap();
    assert_eq!(sent["max_tokens"], 2_000);
    let (_, key) = account_with(&scene, input + 1_023 * PRICE + 1).await;
    let refused = scene.client().post_json(CHAT, &key, &body).await;
    assert_error("too little", &refused, "insufficient_credits", None);
    scene.finish().await;
}

#[tokio::test]
async fn every_endpoint_counts_its_texts() {
    let scene = Scene::start_with(&settings()).await;
    let said = text();
    let turns = json!([{"role": "user", "content": said.clone()}]);
    let contents = json!([{"role": "user", "parts": [{"text": said.clone()}]}]);
    for (path, body) in [
        (
            CHAT,
            json!({"model": COUNTED, "max_tokens": 1, "messages": turns}),
        ),
        (
            CHAT,
            json!({"model": COUNTED, "max_tokens": 1, "messages": turns, "stream": true}),
        ),
        (
            "/v1/messages",
            json!({"model": COUNTED, "max_tokens": 1, "messages": turns}),
        ),
        (
            "/v1/responses",
            json!({"model": COUNTED, "max_output_tokens": 16, "input": said, "store": false}),
        ),
        (
            "/v1/completions",
            json!({"model": COUNTED, "max_tokens": 1, "prompt": said}),
        ),
        (
            "/v1/models/acme/counted:generateContent",
            json!({"contents": contents, "generationConfig": {"maxOutputTokens": 1}}),
        ),
    ] {
        // The balance is a fifth of the hold for the bytes of the text.
        let (_, key) = account_with(&scene, 1_300 * PRICE).await;
        let served = scene.client().post_json(path, &key, &body).await;
        assert_eq!(served.status, 200, "{path}: {}", served.text());
        let (_, key) = account_with(&scene, 1_070 * PRICE).await;
        let refused = scene.client().post_json(path, &key, &body).await;
        assert_eq!(refused.status, 402, "{path}: {}", refused.text());
    }
    scene.finish().await;
}

#[tokio::test]
async fn embeddings_count_text_and_input_tokens() {
    let scene = Scene::start_with(&settings()).await;
    let tokens = 10 * SENTENCES;
    let counted = tokens + tokens / 16 + 8 + 8;
    for (input, bound) in [
        (json!(text()), counted),
        (json!([text(), text()]), 2 * tokens + 2 * tokens / 16 + 2 * 16),
        // Input tokens are counted directly.
        (json!(vec![7; 30]), 30 + 8),
    ] {
        let body = json!({"model": VECTORS, "input": input});
        let (account, key) = account_with(&scene, bound * PRICE - 1).await;
        let refused = scene.client().post_json("/v1/embeddings", &key, &body).await;
        assert_error("embeddings", &refused, "insufficient_credits", None);
        scene.gateway.grant(&account, "0.000000001").await;
        let served = scene.client().post_json("/v1/embeddings", &key, &body).await;
        assert_eq!(served.status, 200, "{}", served.text());
    }
    scene.finish().await;
}

/// The hold for tools, schemas and images is their size in bytes.
#[tokio::test]
async fn input_other_than_text_is_held_by_its_bytes() {
    let scene = Scene::start_with(&settings()).await;
    let tool = json!({"type": "function", "function": {"name": "f", "description": "word ".repeat(400)}});
    let body = chat(COUNTED, json!({"tools": [tool]}));
    let bound = counted_bound(flat_bound(&body, PRICE, 50));
    assert!(bound > 2_000 * PRICE);
    let (account, key) = account_with(&scene, bound - 1).await;
    let refused = scene.client().post_json(CHAT, &key, &body).await;
    assert_error("tools", &refused, "insufficient_credits", None);
    scene.gateway.grant(&account, "0.000000001").await;
    let served = scene.client().post_json(CHAT, &key, &body).await;
    assert_eq!(served.status, 200, "{}", served.text());
    scene.finish().await;
}
