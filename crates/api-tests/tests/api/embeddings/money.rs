//! Charges exact to the nano-credit, holds, limits, and usage rows.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Balance, Storage, nanos};
use tollgate_testkit::upstream::{Answer, Gate, Reply, Usage};

use super::{EMBEDDINGS, PRICE, VECTORS, ask, embed, scene, scene_on};
use crate::scene::{Classes, GRANTED, Scene, assert_error, credits, with};

/// Returns the maximum cost of a request in nano-credits: one token for each byte, and eight for
/// each input.
fn bound(texts: &[&str]) -> i64 {
    let bytes: usize = texts.iter().map(|text| text.len() + 8).sum();
    i64::try_from(bytes).unwrap() * PRICE
}

/// Builds a reply that reports this number of prompt tokens.
fn reporting(prompt: u64) -> Reply {
    Reply::answer(Answer::words(1).usage(Usage::Fixed {
        prompt,
        completion: 0,
    }))
}

#[tokio::test]
async fn only_input_is_charged_and_it_is_reported_consistently() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        let mut paid = 0;
        for (number, encoding) in ["float", "base64"].into_iter().enumerate() {
            scene.upstream.push(reporting(17));
            let body = embed(json!(["x".repeat(40), "y"]), json!({"encoding_format": encoding}));
            let response = ask(&scene, &body).await;
            paid += 17 * PRICE;
            let usage = response.json()["usage"].clone();
            assert_eq!(
                usage,
                json!({"prompt_tokens": 17, "total_tokens": 17, "cost": "0.000017"})
            );
            assert_eq!(response.header("x-tollgate-cost"), Some("0.000017"));
            let row = scene.row(response.request_id()).await;
            let expected = Classes {
                input: 17,
                ..Classes::default()
            };
            assert_eq!(Classes::of_row(&row), expected, "{row}");
            assert_eq!(nanos(&row["cost"]), 17 * PRICE, "{row}");
            assert_eq!(
                (
                    &row["endpoint"],
                    &row["model"],
                    &row["outcome"],
                    &row["estimated"]
                ),
                (&json!(EMBEDDINGS), &json!(VECTORS), &json!("ok"), &json!(false)),
                "{row}"
            );
            let balance = Balance {
                credits: GRANTED - paid,
                held: 0,
            };
            assert_eq!(scene.balance().await, balance, "{number}");
        }
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue, check.overrun), (2, paid, 0));
    }
}

#[tokio::test]
async fn reported_tokens_are_charged() {
    let scene = scene().await;
    let raw = |text: &str| Usage::Raw(text.to_owned());
    // The reported usage, the charged tokens, and whether the gateway estimated them at four bytes
    // per token.
    let cases = [
        (Usage::Counted, 10, false),
        (
            Usage::Fixed {
                prompt: 0,
                completion: 0,
            },
            0,
            false,
        ),
        (Usage::Missing, 10, true),
        (Usage::Null, 10, true),
        (raw(r#"{"prompt_tokens":9}"#), 9, false),
        (raw(r#"{"total_tokens":8}"#), 8, false),
        (
            raw(r#"{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7,"cost":12.5,"is_byok":true}"#),
            7,
            false,
        ),
        (raw(r#"{"prompt_tokens":"7","total_tokens":7}"#), 10, true),
        (raw(r#"{"prompt_tokens":-7,"total_tokens":7}"#), 10, true),
        (raw(r#"{"prompt_tokens":18446744073709551615}"#), 10, true),
        (raw(r#"[7]"#), 10, true),
    ];
    let mut paid = 0;
    for encoding in ["float", "base64"] {
        for (report, tokens, estimated) in &cases {
            let what = format!("{report:?} {encoding}");
            scene
                .upstream
                .push(Reply::answer(Answer::words(1).usage(report.clone())));
            let body = embed(json!("x".repeat(40)), json!({"encoding_format": encoding}));
            let response = ask(&scene, &body).await;
            paid += tokens * PRICE;
            let usage = &response.json()["usage"];
            assert_eq!(nanos(&usage["cost"]), tokens * PRICE, "{what}: {usage}");
            assert!(
                !response.text().contains("12.5") && !response.text().contains("byok"),
                "{what}"
            );
            let row = scene.row(response.request_id()).await;
            assert_eq!(
                Classes::of_row(&row).at(crate::scene::PRICES),
                tokens * PRICE,
                "{what}: {row}"
            );
            assert_eq!(row["usage"]["output_tokens"], 0, "{what}: {row}");
            assert_eq!(row["estimated"], *estimated, "{what}: {row}");
            assert_eq!(scene.balance().await.credits, GRANTED - paid, "{what}");
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_charge_never_exceeds_the_hold() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        let gate = Gate::new();
        scene.upstream.push(reporting(900_000_000).hold_head(&gate));
        let body = embed(json!(["hello", "wörld"]), json!({}));
        let held = bound(&["hello", "wörld"]);
        let (client, key) = (scene.client(), scene.key.secret.clone());
        let call = tokio::spawn(async move { client.post_json(EMBEDDINGS, &key, &body).await });
        scene.upstream.wait_for_requests(1).await;
        let running = Balance {
            credits: GRANTED - held,
            held,
        };
        assert_eq!(scene.balance().await, running);
        gate.open();
        let response = call.await.unwrap();
        assert_eq!(response.header("x-tollgate-cost"), Some(&*cost_text(held)));
        assert_eq!(
            scene.balance().await.credits,
            GRANTED - held,
            "never more than what was held"
        );
        let check = scene.finish().await;
        assert_eq!((check.revenue, check.overrun), (held, 900_000_000 * PRICE - held));
    }
}

/// Formats nano-credits as responses do, without trailing zeros.
fn cost_text(nanos: i64) -> String {
    credits(nanos)
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[tokio::test]
async fn a_402_writes_nothing_and_sends_nothing() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        let poor = scene.gateway.account().await;
        scene.gateway.grant(&poor, &credits(bound(&["hello"]) - 1)).await;
        let key = scene.gateway.key(&poor).await.secret;
        let before = scene.gateway.ledger_check().await;
        let body = embed(json!("hello"), json!({}));
        let response = scene.client().post_json(EMBEDDINGS, &key, &body).await;
        let error = assert_error("one too little", &response, "insufficient_credits", None);
        assert!(!error.message.contains("output"), "{}", error.message);
        assert_eq!(response.header("x-should-retry"), Some("false"));
        assert_eq!(scene.upstream.request_count(), 0);
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
        scene.gateway.grant(&poor, "0.000000001").await;
        assert_eq!(
            scene.client().post_json(EMBEDDINGS, &key, &body).await.status,
            200
        );
        scene.finish().await;
    }
}

#[tokio::test]
async fn the_simulator_is_charged_exactly_per_token() {
    let scene = scene().await;
    // One token for each word or twelve letters of it. Inputs of tokens are counted directly.
    for (input, tokens) in [
        (json!("one two three"), 3),
        (json!(["one", "two three", "x".repeat(25)]), 1 + 2 + 3),
        (json!([5, 6, 7, 8]), 4),
        (json!([[5], [6, 7]]), 3),
    ] {
        let body = with(embed(input, json!({})), json!({"model": "sim/embeddings"}));
        let response = ask(&scene, &body).await;
        let usage = response.json()["usage"].clone();
        // The price is 0.02 credits per million tokens.
        assert_eq!(
            (&usage["prompt_tokens"], nanos(&usage["cost"])),
            (&json!(tokens), tokens * 20),
            "{body}"
        );
        assert_eq!(
            nanos(&scene.row(response.request_id()).await["cost"]),
            tokens * 20
        );
    }
    // A failed request costs nothing.
    let before = scene.balance().await;
    let body = with(
        embed(json!("[[sim error=overloaded]]"), json!({})),
        json!({"model": "sim/embeddings"}),
    );
    let response = ask(&scene, &body).await;
    assert_error("asked for", &response, "overloaded", None);
    assert_eq!(scene.settled().await, before);
    assert_eq!(scene.upstream.request_count(), 0);
    scene.finish().await;
}

#[tokio::test]
async fn tokens_and_requests_count_against_the_limits() {
    let scene = scene().await;
    let remaining = |response: &tollgate_testkit::gateway::http::Response, of: &str| -> u64 {
        let name = format!("x-ratelimit-remaining-{of}");
        response.header(&name).unwrap().parse().unwrap()
    };
    scene.gateway.set_limits(&scene.account, 4, 1_000).await;
    // A running call reserves its estimate. Afterwards, its actual usage counts.
    scene.upstream.push(reporting(300));
    let first = ask(&scene, &embed(json!("x".repeat(400)), json!({}))).await;
    assert_eq!(
        (remaining(&first, "requests"), remaining(&first, "tokens")),
        (3, 900)
    );
    let second = ask(&scene, &embed(json!([1, 2, 3]), json!({}))).await;
    assert_eq!(
        (remaining(&second, "requests"), remaining(&second, "tokens")),
        (2, 697)
    );
    let third = ask(&scene, &embed(json!(vec![1; 698]), json!({}))).await;
    assert_error("too many tokens", &third, "rate_limit_exceeded", None);
    assert!(third.header("retry-after").is_some());
    assert_eq!(ask(&scene, &embed(json!([1]), json!({}))).await.status, 200);
    let fifth = ask(&scene, &embed(json!([1]), json!({}))).await;
    assert_error("too many requests", &fifth, "rate_limit_exceeded", None);
    assert_eq!(scene.upstream.request_count(), 3);
    scene.finish().await;
}

#[tokio::test]
async fn usage_rows_and_totals_agree() {
    let scene: Scene = scene().await;
    for _ in 0..3 {
        scene.upstream.push(reporting(5));
        assert_eq!(ask(&scene, &embed(json!("hello"), json!({}))).await.status, 200);
    }
    let usage = scene
        .gateway
        .usage(&scene.key.secret, &format!("?model={VECTORS}"))
        .await;
    assert_eq!(usage["totals"]["requests"], 3, "{usage}");
    assert_eq!(usage["totals"]["usage"]["total_tokens"], 15, "{usage}");
    assert_eq!(nanos(&usage["totals"]["cost"]), 15 * PRICE);
    let rows: &Vec<Value> = usage["data"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["endpoint"] == EMBEDDINGS), "{usage}");
    scene.finish().await;
}
