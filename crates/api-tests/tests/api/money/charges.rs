//! Charges are exact to the nano-credit, and callers can read them in several places.

use serde_json::json;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, Reply, Usage, UsagePosition};

use crate::scene::{Classes, FREE, GRANTED, PRICES, PROVIDER, Scene, hello, saying};

/// Builds an answer whose report has tokens of every class.
fn every_class() -> Reply {
    let answer = Answer::words(3).reasoning(7).usage(Usage::Fixed {
        prompt: 1_234,
        completion: 567,
    });
    Reply::answer(answer.cached_tokens(234).cache_write_tokens(100))
}

const EVERY_CLASS: Classes = Classes {
    input: 900,
    cache_read: 234,
    cache_write: 100,
    output: 560,
    reasoning: 7,
};

#[tokio::test]
async fn every_class_is_charged_at_its_price() {
    let scene = Scene::start().await;
    let cost = EVERY_CLASS.at(PRICES);
    assert_eq!(
        cost,
        900 * 1_000 + 234 * 100 + 100 * 1_500 + 560 * 2_000 + 7 * 3_000
    );
    let mut paid = 0;
    for stream in [false, true] {
        // The hold for the input is its size in bytes, which must be at least the reported tokens.
        let text = "x".repeat(2_000);
        scene.upstream.push(every_class());
        let response = scene.chat(&saying(&text, stream)).await;
        paid += cost;
        let row = scene.row(response.request_id()).await;
        assert_eq!(Classes::of_row(&row), EVERY_CLASS, "{row}");
        assert_eq!(row["usage"]["total_tokens"], 1_234 + 567);
        assert_eq!((nanos(&row["cost"]), &row["estimated"]), (cost, &json!(false)));
        assert_eq!(scene.balance().await.credits, GRANTED - paid);
        if !stream {
            let body = response.json();
            assert_eq!(nanos(&body["usage"]["cost"]), cost);
            assert_eq!(body["usage"]["cost"], "0.0022144");
            assert_eq!(response.header("x-tollgate-cost"), Some("0.0022144"));
            assert_eq!(body["usage"]["prompt_tokens"], 1_234, "the report is unchanged");
            assert_eq!(body["usage"]["prompt_tokens_details"]["cached_tokens"], 234);
        }
    }
    assert_eq!(scene.finish().await.revenue, paid);
}

#[tokio::test]
async fn a_stream_reports_its_cost_if_usage_is_requested() {
    let scene = Scene::start().await;
    let text = "x".repeat(2_000);
    scene.upstream.push(every_class());
    let body = crate::scene::with(
        saying(&text, true),
        json!({"stream_options": {"include_usage": true}}),
    );
    let response = scene.chat(&body).await;
    assert_eq!(
        response.header("x-tollgate-cost"),
        None,
        "the cost is unknown when headers are sent"
    );
    let events = response.events();
    let usage = events[events.len() - 2].json();
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["cost"], "0.0022144");
    assert_eq!(usage["usage"]["completion_tokens"], 567);
    let row = scene.row(response.request_id()).await;
    assert_eq!(
        row["cost"], usage["usage"]["cost"],
        "the reported cost is the charge"
    );
    for event in &events[..events.len() - 2] {
        assert_eq!(event.json()["usage"], json!(null));
    }

    scene.upstream.push(every_class());
    let silent = scene.chat(&saying(&text, true)).await;
    assert!(
        !silent.text().contains("usage") && !silent.text().contains("cost"),
        "{}",
        silent.text()
    );
    assert_eq!(
        nanos(&scene.row(silent.request_id()).await["cost"]),
        EVERY_CLASS.at(PRICES)
    );
    scene.finish().await;
}

#[tokio::test]
async fn the_cost_of_the_upstream_is_hidden_from_callers() {
    let scene = Scene::start().await;
    let report =
        r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"cost":123.45,"is_byok":true}"#;
    for stream in [false, true] {
        let answer = Answer::words(5)
            .usage(Usage::Raw(report.to_owned()))
            .usage_position(UsagePosition::Always);
        scene.upstream.push(Reply::answer(answer));
        let mut body = hello(json!({"stream": stream}));
        if stream {
            body["stream_options"] = json!({"include_usage": true});
        }
        let response = scene.chat(&body).await;
        assert!(
            !response.text().contains("123.45") && !response.text().contains("is_byok"),
            "{}",
            response.text()
        );
        assert!(
            response.text().contains(r#""cost":"0.00002""#),
            "{}",
            response.text()
        );
        assert_eq!(
            nanos(&scene.row(response.request_id()).await["cost"]),
            10 * 1_000 + 5 * 2_000
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_sum_is_rounded_up_once() {
    let model = |name: &str, prices: &str| {
        format!(
            "[models.\"acme/{name}\"]\ntargets = [\"{PROVIDER}/x\"]\nprices = {prices}\nlimits = {{ max_output_tokens = 5000 }}\n"
        )
    };
    // A price of 0.000001 credits per million tokens is 1,000 nano-credits per million, or 0.001
    // per token.
    let config = model("tiny", r#"{ input = "0.000001", output = "0.000003" }"#)
        + &model("odd", r#"{ input = "0.123456789", output = "9.87654321" }"#)
        + &model(
            "long",
            r#"{ input = "1", output = "2", "input>1000" = "2", "output>1000" = "3" }"#,
        );
    let scene = Scene::start_with(&config).await;
    for (model, prompt, completion, cost) in [
        ("acme/tiny", 1, 1, 1),
        ("acme/tiny", 500, 500, 2),
        ("acme/tiny", 1_000, 1_000, 4),
        ("acme/tiny", 1_001, 1_000, 5),
        ("acme/odd", 1, 1, 10_000),
        ("acme/odd", 1_000, 777, 123_457 + 7_674_074),
        ("acme/odd", 3, 0, 371),
        ("acme/long", 1_000, 10, 1_000 * 1_000 + 10 * 2_000),
        ("acme/long", 1_001, 10, 1_001 * 2_000 + 10 * 3_000),
    ] {
        let answer = Answer::words(usize::from(completion > 0)).usage(Usage::Fixed { prompt, completion });
        scene.upstream.push(Reply::answer(answer));
        let text = "x".repeat(2_000);
        let response = scene
            .chat(&crate::scene::with(saying(&text, false), json!({"model": model})))
            .await;
        let row = scene.row(response.request_id()).await;
        assert_eq!(nanos(&row["cost"]), cost, "{model} {prompt} {completion}: {row}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn free_models_need_no_credits() {
    let scene = Scene::start().await;
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await.secret;
    let before = scene.gateway.ledger_check().await;
    for stream in [false, true] {
        let body = hello(json!({"model": FREE, "stream": stream}));
        let response = scene.client().post_json(crate::scene::CHAT, &key, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        if !stream {
            assert_eq!(response.header("x-tollgate-cost"), Some("0"));
        }
    }
    let usage = scene.gateway.usage(&key, "").await;
    assert_eq!(usage["totals"]["requests"], 2);
    assert_eq!(
        (&usage["totals"]["cost"], &usage["balance"]["credits"]),
        (&json!("0"), &json!("0"))
    );
    assert!(
        usage["totals"]["usage"]["total_tokens"].as_u64().unwrap() > 0,
        "usage is recorded all the same"
    );
    let after = scene.finish().await;
    assert_eq!(
        (after.transfers, after.usage_rows),
        (before.transfers, before.usage_rows + 2)
    );
}

#[tokio::test]
async fn the_simulator_is_paid_like_any_model() {
    let scene = Scene::start().await;
    let body = hello(
        json!({"model": "sim/chat", "messages": [{"role": "user", "content": "[[sim tokens=20 reason=5]]"}]}),
    );
    let response = scene.chat(&body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let usage = &response.json()["usage"];
    assert_eq!(usage["completion_tokens"], 25);
    let prompt = usage["prompt_tokens"].as_i64().unwrap();
    // Credits per million tokens: 0.10 for input and 0.40 for output.
    let cost = prompt * 100 + 25 * 400;
    assert_eq!(nanos(&usage["cost"]), cost);
    assert_eq!(scene.balance().await.credits, GRANTED - cost);
    assert_eq!(scene.upstream.request_count(), 0);
    scene.finish().await;
}
