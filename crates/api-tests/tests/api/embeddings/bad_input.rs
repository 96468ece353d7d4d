//! Invalid embeddings requests: the documented error, no upstream request, no charge.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;

use super::{EMBEDDINGS, VECTORS, embed, model, scene};
use crate::scene::{assert_error, with};

const INVALID: &str = "invalid_parameter";
const MISSING: &str = "missing_required_parameter";
const UNKNOWN: &str = "unknown_parameter";

#[tokio::test]
async fn invalid_embeddings_requests_are_refused() {
    let scene = scene().await;
    let whole = embed(json!("a"), json!({})).to_string();
    let many_tokens = format!(r#"{{"model":"{VECTORS}","input":[{}0]}}"#, "0,".repeat(1_000_000));
    let mut cases: Vec<(String, &str, Option<&str>)> = vec![
        (String::new(), "invalid_json", None),
        (whole[..whole.len() - 1].to_owned(), "invalid_json", None),
        (format!("{whole} x"), "invalid_json", None),
        (many_tokens, "invalid_json", None),
        (
            r#"{"model":"acme/vectors","input":"a","input":"b"}"#.to_owned(),
            INVALID,
            Some("input"),
        ),
        (
            r#"{"model":"acme/vectors","input":"a","top":1,"top":2}"#.to_owned(),
            INVALID,
            Some("top"),
        ),
    ];
    for (body, code, param) in [
        (json!([]), INVALID, None),
        (json!("a"), INVALID, None),
        (json!({}), MISSING, Some("model")),
        (json!({"input": "a"}), MISSING, Some("model")),
        (json!({"model": VECTORS}), MISSING, Some("input")),
        (embed(json!("a"), json!({"model": null})), INVALID, Some("model")),
        (embed(json!("a"), json!({"model": ""})), INVALID, Some("model")),
        (embed(json!("a"), json!({"model": 5})), INVALID, Some("model")),
        (
            embed(json!("a"), json!({"model": "acme/none"})),
            "model_not_found",
            Some("model"),
        ),
        // The input and its bounds.
        (embed(json!(null), json!({})), INVALID, Some("input")),
        (embed(json!(5), json!({})), INVALID, Some("input")),
        (embed(json!({"text": "a"}), json!({})), INVALID, Some("input")),
        (embed(json!(true), json!({})), INVALID, Some("input")),
        (embed(json!(""), json!({})), INVALID, Some("input")),
        (embed(json!([]), json!({})), INVALID, Some("input")),
        (embed(json!([""]), json!({})), INVALID, Some("input[0]")),
        (
            embed(json!(["a", "b", "c", ""]), json!({})),
            INVALID,
            Some("input[3]"),
        ),
        (embed(json!([[]]), json!({})), INVALID, Some("input[0]")),
        (embed(json!([[1], []]), json!({})), INVALID, Some("input[1]")),
        (embed(json!([null]), json!({})), INVALID, Some("input[0]")),
        (
            embed(json!([{"type": "text"}]), json!({})),
            INVALID,
            Some("input[0]"),
        ),
        (embed(json!(["a", 1]), json!({})), INVALID, Some("input[1]")),
        (embed(json!(["a", ["b"]]), json!({})), INVALID, Some("input[1]")),
        (embed(json!([1, "a"]), json!({})), INVALID, Some("input[1]")),
        (embed(json!([1, [2]]), json!({})), INVALID, Some("input[1]")),
        (embed(json!([[1], 2]), json!({})), INVALID, Some("input[1]")),
        (
            embed(json!([[1], ["a"]]), json!({})),
            INVALID,
            Some("input[1][0]"),
        ),
        (embed(json!([1, 2, -1]), json!({})), INVALID, Some("input[2]")),
        (embed(json!([1.5]), json!({})), INVALID, Some("input[0]")),
        (
            embed(json!([[1, 4_294_967_296_u64]]), json!({})),
            INVALID,
            Some("input[0][1]"),
        ),
        // Options.
        (
            embed(json!("a"), json!({"encoding_format": "int8"})),
            INVALID,
            Some("encoding_format"),
        ),
        (
            embed(json!("a"), json!({"encoding_format": 1})),
            INVALID,
            Some("encoding_format"),
        ),
        (
            embed(json!("a"), json!({"dimensions": 0})),
            INVALID,
            Some("dimensions"),
        ),
        (
            embed(json!("a"), json!({"dimensions": -1})),
            INVALID,
            Some("dimensions"),
        ),
        (
            embed(json!("a"), json!({"dimensions": 1.5})),
            INVALID,
            Some("dimensions"),
        ),
        (
            embed(json!("a"), json!({"dimensions": "8"})),
            INVALID,
            Some("dimensions"),
        ),
        (
            embed(json!("a"), json!({"dimensions": 65})),
            "parameter_out_of_range",
            Some("dimensions"),
        ),
        (embed(json!("a"), json!({"user": 7})), INVALID, Some("user")),
        (
            embed(json!("a"), json!({"colour": "red"})),
            UNKNOWN,
            Some("colour"),
        ),
        (
            embed(json!("a"), json!({"stream": true})),
            UNKNOWN,
            Some("stream"),
        ),
        (
            embed(json!("a"), json!({"messages": []})),
            UNKNOWN,
            Some("messages"),
        ),
        (embed(json!("a"), json!({"Input": "a"})), UNKNOWN, Some("Input")),
    ] {
        cases.push((body.to_string(), code, param));
    }
    for (body, code, param) in cases {
        let what: String = body.chars().take(100).collect();
        let request = Request::post(EMBEDDINGS, body)
            .header("content-type", "application/json")
            .key(&scene.key.secret);
        assert_error(&what, &scene.client().send(&request).await, code, param);
    }
    let large = Request::post(EMBEDDINGS, vec![b' '; 8 * 1024 * 1024 + 1])
        .header("content-type", "application/json")
        .key(&scene.key.secret);
    assert_error(
        "too large",
        &scene.client().send(&large).await,
        "request_too_large",
        None,
    );
    let no_key = Request::json(EMBEDDINGS, &embed(json!("a"), json!({})));
    assert_error(
        "no key",
        &scene.client().send(&no_key).await,
        "missing_api_key",
        None,
    );
    scene.nothing_happened().await;
    scene.finish().await;
}

#[tokio::test]
async fn provider_specific_fields_are_mapped_dropped_or_refused() {
    let mut scene = scene().await;
    let base = scene.upstream.base_url();
    let block = |name: &str, preset: &str| {
        let block = format!(
            "[providers.{name}]\npreset = \"{preset}\"\nbase_url = \"{base}\"\napi_key_env = \"PROVIDER_KEY\"\n"
        );
        block + &model(&format!("acme/{name}"), &format!("\"{name}/x\""))
    };
    let blocks = [
        block("fixed", "together"),
        block("renamed", "mistral"),
        block("house", "openai-compatible"),
    ];
    scene.gateway.stop().await;
    scene
        .gateway
        .change_config(&(crate::scene::settings(&scene.upstream) + &blocks.concat()));
    scene.gateway.restart().await;
    let ask = async |model: &str, members: serde_json::Value| {
        let body = with(embed(json!("a"), members), json!({"model": model}));
        super::ask(&scene, &body).await
    };
    let sent = || scene.upstream.requests().pop().unwrap().json().unwrap();

    let refused = ask("acme/fixed", json!({"dimensions": 8})).await;
    assert_error(
        "fixed length",
        &refused,
        "unsupported_parameter",
        Some("dimensions"),
    );

    let dropped = ask("acme/fixed", json!({"encoding_format": "base64", "user": "u"})).await;
    assert_eq!(super::vectors("dropped", &dropped, "base64").len(), 1);
    assert_eq!(sent(), json!({"model": "x", "input": "a"}));
    assert_eq!(dropped.header("x-tollgate-ignored"), Some("user"));

    let renamed = ask(
        "acme/renamed",
        json!({"dimensions": 5, "metadata": {"a": "b"}, "store": false}),
    )
    .await;
    assert_eq!(super::vectors("renamed", &renamed, "float")[0].len(), 5);
    assert_eq!(sent(), json!({"model": "x", "input": "a", "output_dimension": 5}));
    assert_eq!(renamed.header("x-tollgate-ignored"), Some("metadata,store"));

    let own = ask("acme/house", json!({"input_type": "query"})).await;
    assert_eq!(own.status, 200, "{}", own.text());
    assert_eq!(sent(), json!({"model": "x", "input": "a", "input_type": "query"}));
    let unknown = ask("acme/fixed", json!({"input_type": "query"})).await;
    assert_error("not supported", &unknown, UNKNOWN, Some("input_type"));
    scene.finish().await;
}
