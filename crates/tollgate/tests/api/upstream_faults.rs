//! What upstreams get wrong: what the caller is told, what it pays, and that the books stay clean.

mod failover;
mod table;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{ErrorObject, Response};
use tollgate_testkit::upstream::{Answer, At, FakeUpstream, Framing, Gate, How, Reply, Usage, UsagePlace};

use crate::scene::{Classes, GRANTED, PRICES, Scene, assert_error, assert_names_nobody, hello, meaning};

/// What a caller gets to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    /// A whole answer.
    Answer,
    /// A failure with this code instead of an answer.
    Refused(&'static str),
    /// The beginning of an answer, then an error with this code, and no end.
    Broken(&'static str),
}

/// Asserts what the caller was told, and answers the text that it read.
fn assert_told(what: &str, response: &Response, streamed: bool, told: Told) -> String {
    match told {
        Told::Refused(code) => {
            let param = (code == "context_length_exceeded").then_some("messages");
            assert_error(what, response, code, param);
            String::new()
        }
        Told::Answer if !streamed => {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            let body = response.json();
            assert_eq!(body["model"], crate::scene::MODEL, "{what}");
            body["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned()
        }
        Told::Answer | Told::Broken(_) => {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            assert!(response.whole, "{what}: the body is framed to its end");
            // Parsing asserts that every event is spelled as clients expect it.
            let mut events = response.events();
            let last = events.pop().unwrap_or_else(|| panic!("{what}: no events"));
            match told {
                Told::Broken(code) => assert_error_event(what, &last.json(), code),
                _ => assert!(last.is_done(), "{what}: {last:?}"),
            }
            let chunks: Vec<Value> = events
                .iter()
                .filter(|event| event.data.is_some())
                .map(|event| event.json())
                .collect();
            assert!(
                chunks.iter().all(|chunk| chunk.get("error").is_none()),
                "{what}: {chunks:?}"
            );
            let pieces = chunks
                .iter()
                .filter_map(|chunk| chunk.pointer("/choices/0/delta/content")?.as_str());
            pieces.collect()
        }
    }
}

fn assert_error_event(what: &str, event: &Value, code: &str) {
    let error = ErrorObject::of(event);
    assert_eq!(
        (error.code.as_str(), error.kind.as_str()),
        (code, meaning(code).1),
        "{what}: {error:?}"
    );
    assert_names_nobody(what, &error.message);
}

/// The estimate for a call of which no report came: a token for each four bytes.
fn estimate(body: &Value, output: &str) -> Classes {
    let quarter = |bytes: usize| i64::try_from(bytes.div_ceil(4)).unwrap();
    Classes {
        input: quarter(body.to_string().len()),
        output: quarter(output.len()),
        ..Classes::default()
    }
}

#[tokio::test]
async fn a_report_is_charged_although_the_answer_broke_off() {
    let scene = Scene::start().await;
    let cumulative = Answer::words(10).usage_place(UsagePlace::EveryChunk);
    scene.upstream.push(
        Reply::answer(cumulative)
            .cut(At::Events(6), How::Close)
            .framing(Framing::UntilClose),
    );
    let response = scene.chat(&hello(json!({"stream": true}))).await;
    assert_told("cut", &response, true, Told::Broken("upstream_error"));
    let row = scene.row(response.request_id()).await;
    // The role and five words had come; `Hi there` is two tokens.
    assert_eq!(
        Classes::of_row(&row),
        Classes {
            input: 2,
            output: 5,
            ..Classes::default()
        }
    );
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("upstream_error"), &json!(false))
    );
    assert_eq!(
        scene.settled().await.credits,
        GRANTED - 2 * PRICES.input - 5 * PRICES.output
    );
    scene.finish().await;
}

#[tokio::test]
async fn an_answer_without_output_costs_nothing() {
    let scene = Scene::start().await;
    for stream in [false, true] {
        let silent = Answer::deltas::<&str>([]).usage(Usage::Fixed {
            prompt: 500,
            completion: 0,
        });
        scene
            .upstream
            .push(Reply::answer(silent.usage_place(UsagePlace::Always)));
        let response = scene.chat(&hello(json!({"stream": stream}))).await;
        let row = scene.row(response.request_id()).await;
        assert_eq!(row["cost"], "0", "{stream}: {row}");
        assert_eq!(scene.settled().await.credits, GRANTED);
    }
    scene.finish().await;
}

#[tokio::test]
async fn more_than_the_bound_is_the_operators_loss() {
    let scene = Scene::start().await;
    // A provider that ignores the cap reports far more than any hold covers.
    let answer = Answer::words(3).usage(Usage::Fixed {
        prompt: 900_000_000,
        completion: 900_000_000,
    });
    scene.upstream.push(Reply::answer(answer));
    let body = hello(json!({"max_tokens": 10}));
    let bytes = i64::try_from(body.to_string().len()).unwrap();
    let bound = (bytes + 8) * PRICES.cache_write + 10 * PRICES.reasoning;
    let response = scene.chat(&body).await;
    assert_eq!(response.status, 200);
    assert_eq!(
        scene.settled().await.credits,
        GRANTED - bound,
        "never more than what was held"
    );
    let check = scene.finish().await;
    assert_eq!(check.revenue, bound);
    assert_eq!(
        check.overrun,
        900_000_000 * (PRICES.input + PRICES.output) - bound
    );
}

#[tokio::test]
async fn an_answer_larger_than_any_is_given_up() {
    let scene = Scene::start().await;
    scene.upstream.push(Reply::words(3).endless());
    let response = scene.chat(&hello(json!({}))).await;
    assert_told(
        "endless at full speed",
        &response,
        false,
        Told::Refused("upstream_error"),
    );
    scene
        .upstream
        .wait_until("the upstream is left", |upstream| {
            upstream.open_connections() == 0
        })
        .await;
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

#[tokio::test]
async fn nothing_of_the_upstreams_own_reaches_the_caller() {
    let scene = Scene::start().await;
    scene.gateway.set_limits(&scene.account, 77, 7_000_000).await;
    for (stream, status) in [(false, 200), (true, 200), (false, 500), (false, 429)] {
        scene.upstream.push(match status {
            200 => Reply::words(3)
                .header("x-internal", "1")
                .header("x-should-retry", "true"),
            _ => Reply::error(
                status,
                "x",
                "Your organization org-fake at fake-upstream is to blame.",
            )
            .header("retry-after", "7"),
        });
        let response = scene.chat(&hello(json!({"stream": stream}))).await;
        for name in [
            "set-cookie",
            "server",
            "openai-organization",
            "openai-processing-ms",
            "x-internal",
            "x-should-retry",
        ] {
            assert_eq!(response.header(name), None, "{name}");
        }
        assert_eq!(response.header("x-ratelimit-limit-requests"), Some("77"));
        assert!(!response.text().contains("org-fake"), "{}", response.text());
        assert!(!response.request_id().contains("fake"));
    }
    // And nothing of the caller's own reaches the upstream but what it is asked.
    for received in scene.upstream.requests() {
        let shown = format!(
            "{:?} {}",
            received.headers,
            String::from_utf8_lossy(&received.body)
        );
        assert!(
            !shown.contains(&scene.key.secret) && !shown.contains(&scene.account),
            "{shown}"
        );
        assert_eq!(
            received.header("authorization"),
            Some("Bearer sk-northwind-c4n4ry")
        );
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_storm_of_failures_leaves_nothing_behind() {
    let scene = Scene::start().await;
    let storm = [("500", 500), ("429", 429), ("503", 503), ("html-502", 502)];
    let gate = Gate::new();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..120 {
        let (fault, stream) = (storm[number % storm.len()].0, number % 2 == 0);
        let (client, request) = (
            scene.client(),
            scene.request(&crate::scene::saying(&format!("[[fault={fault}]]"), stream)),
        );
        let gate = gate.clone();
        calls.spawn(async move {
            gate.passed().await;
            client.send(&request).await
        });
    }
    gate.open();
    for response in calls.join_all().await {
        let error = crate::scene::assert_any_error("storm", &response);
        assert!(
            matches!(error.code.as_str(), "upstream_error" | "model_unavailable"),
            "{error:?}"
        );
    }
    // Retries are a part of the calls, not a multiple: 20 % and three a second.
    assert!(
        scene.upstream.request_count() <= 120 + 24 + 60,
        "{}",
        scene.upstream.request_count()
    );
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert_eq!(
        scene.chat(&hello(json!({}))).await.status,
        200,
        "the last candidate is always tried"
    );
    scene.finish().await;
}

#[tokio::test]
async fn an_upstream_that_is_not_there() {
    let mut upstream = FakeUpstream::start().await;
    let options = Scene::options(&upstream, Default::default(), "[retries]\nextra_attempts = 0\n");
    upstream.stop().await;
    let gateway = tollgate_testkit::gateway::Gateway::start(crate::scene::BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await.secret;
    gateway.grant(&account, "1").await;
    for stream in [false, true] {
        let response = gateway
            .client()
            .post_json(crate::scene::CHAT, &key, &hello(json!({"stream": stream})))
            .await;
        assert_error("nobody listens", &response, "model_unavailable", None);
        assert!(
            response
                .header("retry-after")
                .is_some_and(|seconds| seconds.parse::<u32>().unwrap() >= 1)
        );
    }
    assert_eq!(gateway.balance(&account).await.credits, 1_000_000_000);
    gateway.finish().await;
}
