//! Every input form and both encodings, for every encoding that an upstream may return.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{Reply, vector};

use super::{LONGEST, VECTORS, ask, embed, scene, scene_on, vectors};
use crate::scene::{PROVIDER_KEY, assert_error, assert_request_id, hello};

/// Inputs with the number of their vectors.
fn forms() -> Vec<(Value, usize)> {
    vec![
        (json!("Hi there"), 1),
        (json!(["Hi there"]), 1),
        (json!(["Hi", "Hëllo \"wörld\" 🌍\n", " "]), 3),
        (json!([1, 2, 3]), 1),
        (json!([[1, 2, 3], [4_294_967_295_u64]]), 2),
        (json!([[0]]), 1),
    ]
}

#[tokio::test]
async fn every_input_form_works_in_both_encodings() {
    let scene = scene().await;
    for (input, count) in forms() {
        for (encoding, members) in [
            ("float", json!({})),
            ("float", json!({"encoding_format": "float"})),
            (
                "float",
                json!({"encoding_format": null, "dimensions": null, "user": null}),
            ),
            ("base64", json!({"encoding_format": "base64", "user": "u"})),
        ] {
            let body = embed(input.clone(), members);
            let what = body.to_string();
            let response = ask(&scene, &body).await;
            let expected: Vec<Vec<f32>> = (0..count).map(|index| vector(index, 8)).collect();
            assert_eq!(vectors(&what, &response, encoding), expected, "{what}");
            assert_eq!(response.json()["model"], VECTORS, "{what}");
            assert_request_id(&what, &response);
            // Only the name of the model was changed.
            let sent = scene.upstream.requests().pop().unwrap();
            assert_eq!(sent.path, "/v1/embeddings");
            assert_eq!(
                sent.header("authorization"),
                Some(&*format!("Bearer {PROVIDER_KEY}"))
            );
            assert_eq!(
                String::from_utf8_lossy(&sent.body),
                what.replace(VECTORS, "vectors-v1"),
                "byte for byte"
            );
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn vectors_have_the_requested_length() {
    let scene = scene().await;
    for dimensions in [1, 2, 33, LONGEST] {
        for encoding in ["float", "base64"] {
            let members = json!({"dimensions": dimensions, "encoding_format": encoding});
            let response = ask(&scene, &embed(json!(["a", "b"]), members)).await;
            let expected = [vector(0, dimensions), vector(1, dimensions)];
            assert_eq!(vectors(encoding, &response, encoding), expected);
        }
    }
    let longer = ask(&scene, &embed(json!("a"), json!({"dimensions": LONGEST + 1}))).await;
    assert_error("longer", &longer, "parameter_out_of_range", Some("dimensions"));
    scene.finish().await;
}

#[tokio::test]
async fn a_request_is_limited_to_2048_inputs() {
    let scene = scene().await;
    let texts = |count: usize| Value::from((0..count).map(|n| format!("input {n}")).collect::<Vec<_>>());
    let tokens = |count: usize| Value::from(vec![json!([7, 8]); count]);
    for input in [texts(2_048), tokens(2_048)] {
        let response = ask(&scene, &embed(input, json!({"dimensions": 2}))).await;
        let found = vectors("2,048 inputs", &response, "float");
        assert_eq!(found.len(), 2_048);
        assert_eq!(found.last(), Some(&vector(2_047, 2)));
    }
    for input in [texts(2_049), tokens(2_049)] {
        let response = ask(&scene, &embed(input, json!({}))).await;
        assert_error("2,049 inputs", &response, "invalid_parameter", Some("input"));
    }
    assert_eq!(scene.upstream.request_count(), 2);
    scene.finish().await;
}

#[tokio::test]
async fn responses_in_the_other_encoding_are_converted_exactly() {
    let scene = scene().await;
    // Numbers in the notation of servers with 64-bit floats, with exponents and in another order.
    let numbers = r#"{"object":"list","model":"m","data":[
        {"object":"embedding","index":1,"embedding":[1e-3, -0.0, 3.4028234663852886e38, 1]},
        {"object":"embedding","index":0,"embedding":[0.10000000149011612, 0.1, -1.17549435e-38, 1e-45]}
    ],"usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let expected: [[f32; 4]; 2] = [
        [0.1, 0.1, -f32::MIN_POSITIVE, f32::from_bits(1)],
        [0.001, -0.0, f32::MAX, 1.0],
    ];
    let base64 = r#"{"data":[{"embedding":"zczMPc3MzL0AAIA\/AQAAAA=="}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let body = |text: &str| Reply::body(200, "application/json", text.to_owned());

    scene.upstream.push(body(numbers));
    let response = ask(
        &scene,
        &embed(json!(["a", "b"]), json!({"encoding_format": "base64"})),
    )
    .await;
    let bits = |vectors: &[Vec<f32>]| -> Vec<Vec<u32>> {
        vectors
            .iter()
            .map(|vector| vector.iter().map(|value| value.to_bits()).collect())
            .collect()
    };
    let expected: Vec<Vec<f32>> = expected.iter().map(|vector| vector.to_vec()).collect();
    assert_eq!(bits(&vectors("to base64", &response, "base64")), bits(&expected));

    scene.upstream.push(body(base64));
    let response = ask(&scene, &embed(json!("a"), json!({}))).await;
    let expected = vec![vec![0.1, -0.1, 1.0, f32::from_bits(1)]];
    assert_eq!(bits(&vectors("to numbers", &response, "float")), bits(&expected));
    assert!(
        response.text().contains("[0.1,-0.1,1.0,1e-45]"),
        "{}",
        response.text()
    );
    scene.finish().await;
}

#[tokio::test]
async fn models_serve_only_their_own_endpoints() {
    let scene = scene_on(
        Default::default(),
        "[providers.fast]\npreset = \"groq\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_env = \"PROVIDER_KEY\"\n\
         [models.\"acme/nowhere\"]\ntype = \"embedding\"\ntargets = [\"fast/x\"]\nprices = { input = \"1\" }\n",
    )
    .await;
    let chat = ask(&scene, &embed(json!("a"), json!({"model": "acme/large"}))).await;
    assert_error("a chat model", &chat, "unsupported_endpoint", Some("model"));
    let vectors = scene.chat(&hello(json!({"model": VECTORS}))).await;
    assert_error(
        "an embedding model",
        &vectors,
        "unsupported_endpoint",
        Some("model"),
    );
    let nowhere = ask(&scene, &embed(json!("a"), json!({"model": "acme/nowhere"}))).await;
    assert_error("no capability", &nowhere, "unsupported_endpoint", Some("model"));
    scene.nothing_happened().await;

    for (model, dimensions) in [(VECTORS, LONGEST), ("sim/embeddings", 1_536)] {
        let path = format!("/v1/models/{model}");
        let record = scene.client().get(&path, &scene.key.secret).await.json();
        assert_eq!(record["type"], "embedding", "{record}");
        assert_eq!(
            record["endpoints"],
            json!(["/v1/embeddings", "/v1/models/{model}:embedContent"]),
            "{record}"
        );
        assert_eq!(
            record["modalities"],
            json!({"input": ["text"], "output": []}),
            "{record}"
        );
        assert_eq!(record["limits"], json!({"dimensions": dimensions}), "{record}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_simulator_returns_unit_vectors() {
    let scene = scene().await;
    let simulated = |input: Value, members: Value| {
        crate::scene::with(embed(input, members), json!({"model": "sim/embeddings"}))
    };
    let first = ask(&scene, &simulated(json!(["red", "blue", "red"]), json!({}))).await;
    let found = vectors("simulated", &first, "float");
    assert_eq!(found[0], found[2], "the same input has the same vector");
    let dot = |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
    for vector in &found {
        assert_eq!(vector.len(), 1_536);
        assert!((dot(vector, vector) - 1.0).abs() < 1e-5);
    }
    assert!(dot(&found[0], &found[1]).abs() < 0.2, "others are far away");
    let short = ask(
        &scene,
        &simulated(
            json!("red"),
            json!({"dimensions": 3, "encoding_format": "base64"}),
        ),
    )
    .await;
    let short = vectors("short", &short, "base64");
    assert_eq!(short[0].len(), 3);
    assert!((dot(&short[0], &short[0]) - 1.0).abs() < 1e-6);
    // Scripted errors.
    for (code, param) in [
        ("rate_limit_exceeded", None),
        ("upstream_error", None),
        ("overloaded", None),
    ] {
        let response = ask(
            &scene,
            &simulated(json!(["a", format!("[[sim error={code}]]")]), json!({})),
        )
        .await;
        assert_error(code, &response, code, param);
    }
    let bad = ask(&scene, &simulated(json!("[[sim colour=red]]"), json!({}))).await;
    assert_error("a bad script", &bad, "invalid_parameter", Some("input"));
    let long = ask(&scene, &simulated(json!([vec![1; 8_193]]), json!({}))).await;
    assert_error("too long", &long, "context_length_exceeded", Some("input"));
    scene.finish().await;
}
