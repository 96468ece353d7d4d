//! Faults of upstreams: the response to the caller, its charge, and a ledger that stays clean.

mod failover;
mod table;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{ErrorObject, Response};
use tollgate_testkit::upstream::{
    Answer, At, FakeUpstream, Framing, Gate, How, Reply, Usage, UsagePosition, refusing_base_url,
};

use crate::scene::{
    Classes, GRANTED, PRICES, Scene, assert_error, assert_hides_provider, hello, meaning, until_metric,
};

/// A caller's view of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Received {
    /// A complete answer.
    Answer,
    /// An error with this code instead of an answer.
    Refused(&'static str),
    /// The start of an answer, then an error with this code, and no regular end.
    Broken(&'static str),
}

/// Asserts the outcome of a call and returns the text that its caller received.
fn assert_received(what: &str, response: &Response, streamed: bool, received: Received) -> String {
    match received {
        Received::Refused(code) => {
            let param = (code == "context_length_exceeded").then_some("messages");
            assert_error(what, response, code, param);
            String::new()
        }
        Received::Answer if !streamed => {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            let body = response.json();
            assert_eq!(body["model"], crate::scene::MODEL, "{what}");
            body["choices"][0]["message"]["content"]
                .as_str()
                .unwrap()
                .to_owned()
        }
        Received::Answer | Received::Broken(_) => {
            assert_eq!(response.status, 200, "{what}: {}", response.text());
            assert!(response.whole, "{what}: the body is framed to its end");
            // Parsing asserts that every event is spelled as clients expect it.
            let mut events = response.events();
            let last = events.pop().unwrap_or_else(|| panic!("{what}: no events"));
            match received {
                Received::Broken(code) => assert_error_event(what, &last.json(), code),
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
            let parts = chunks
                .iter()
                .filter_map(|chunk| chunk.pointer("/choices/0/delta/content")?.as_str());
            parts.collect()
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
    assert_hides_provider(what, &error.message);
}

/// Returns the estimate for a call without a report: a token for each four bytes.
fn estimate(body: &Value, output: &str) -> Classes {
    let quarter = |bytes: usize| i64::try_from(bytes.div_ceil(4)).unwrap();
    Classes {
        input: quarter(body.to_string().len()),
        output: quarter(output.len()),
        ..Classes::default()
    }
}

#[tokio::test]
async fn a_failure_costs_nothing_although_usage_was_reported() {
    let scene = Scene::start().await;
    let cumulative = Answer::words(10).usage_position(UsagePosition::EveryChunk);
    scene.upstream.push(
        Reply::answer(cumulative)
            .cut(At::Events(6), How::Close)
            .framing(Framing::UntilClose),
    );
    let response = scene.chat(&hello(json!({"stream": true}))).await;
    assert_received("cut", &response, true, Received::Broken("upstream_error"));
    let row = scene.row(response.request_id()).await;
    assert_eq!(Classes::of_row(&row), Classes::default());
    assert_eq!(
        (&row["outcome"], &row["estimated"]),
        (&json!("upstream_error"), &json!(false))
    );
    assert_eq!(scene.settled().await.credits, GRANTED);
    // Metrics report the uncharged tokens to the operator: the role and five words had arrived, and
    // `Hi there` is two tokens.
    for line in [
        "tollgate_uncharged_tokens_total{direction=\"input\"} 2",
        "tollgate_uncharged_tokens_total{direction=\"output\"} 5",
    ] {
        until_metric(&scene.gateway, line).await;
    }
    assert_eq!(scene.finish().await.revenue, 0);
}

#[tokio::test]
async fn an_answer_that_ended_and_was_reported_is_whole_although_its_stream_broke() {
    let scene = Scene::start().await;
    let mut paid = 0;
    // The role, three words, and the finish with the report. Then the connection breaks.
    for (events, received) in [(5, Received::Answer), (4, Received::Broken("upstream_error"))] {
        let answer = Answer::words(3).usage_position(UsagePosition::WithFinish);
        scene
            .upstream
            .push(Reply::answer(answer).cut(At::Events(events), How::Reset));
        let response = scene.chat(&hello(json!({"stream": true}))).await;
        assert_received("reset", &response, true, received);
        let row = scene.row(response.request_id()).await;
        let expected = match received {
            Received::Answer => Classes {
                input: 2,
                output: 3,
                ..Classes::default()
            },
            _ => Classes::default(),
        };
        assert_eq!(Classes::of_row(&row), expected, "{row}");
        paid += expected.at(PRICES);
        assert_eq!(scene.settled().await.credits, GRANTED - paid);
    }
    scene.finish().await;
}

#[tokio::test]
async fn usage_beyond_the_hold_is_the_operators_loss() {
    let scene = Scene::start().await;
    // A provider that ignores the cap reports far more than the hold.
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
        "never more than the hold"
    );
    let check = scene.finish().await;
    assert_eq!(check.revenue, bound);
    assert_eq!(
        check.overrun,
        900_000_000 * (PRICES.input + PRICES.output) - bound
    );
}

#[tokio::test]
async fn an_oversized_answer_is_aborted() {
    let scene = Scene::start().await;
    scene.upstream.push(Reply::words(3).endless());
    let response = scene.chat(&hello(json!({}))).await;
    assert_received(
        "endless at full speed",
        &response,
        false,
        Received::Refused("upstream_error"),
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
async fn no_data_of_the_upstream_reaches_the_caller() {
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
    // The upstream receives only the content of the request, and no other data of the caller.
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
async fn many_failures_leave_no_open_holds() {
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
    // Retries are bounded: 20 % of the calls and three a second.
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
async fn an_unreachable_upstream_is_an_error() {
    let upstream = FakeUpstream::start().await;
    let mut options = Scene::options(&upstream, Default::default(), "[retries]\nextra_attempts = 0\n");
    options.config = options.config.replace(&upstream.base_url(), &refusing_base_url());
    let gateway = tollgate_testkit::gateway::Gateway::start(crate::scene::BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await.secret;
    gateway.grant(&account, "1").await;
    for stream in [false, true] {
        let response = gateway
            .client()
            .post_json(crate::scene::CHAT, &key, &hello(json!({"stream": stream})))
            .await;
        assert_error("connection refused", &response, "model_unavailable", None);
        assert!(
            response
                .header("retry-after")
                .is_some_and(|seconds| seconds.parse::<u32>().unwrap() >= 1)
        );
    }
    assert_eq!(gateway.balance(&account).await.credits, 1_000_000_000);
    gateway.finish().await;
}
