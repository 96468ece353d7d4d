//! Sampled answers: their bounds, their certainty, and the tokens that the operator's server uses.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::nanos;
use tollgate_testkit::upstream::{Answer, FakeUpstream, Gate, Reply, Usage};

use super::DECISIONS;
use crate::scene::{Scene, assert_error, until_metric};

const MODEL: &str = "acme/drawn";
/// Number of samples for one question.
const DRAWS: u64 = 20;

/// Starts a scene with a model whose upstream returns only labels and accepts a seed.
async fn drawn(upstream: &FakeUpstream) -> Scene {
    let config = format!(
        r#"
[providers.drawn]
preset = "lm-studio"
base_url = "{}"

[models."{MODEL}"]
targets = ["drawn/drawn-v1"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = 4096 }}
"#,
        upstream.base_url()
    );
    Scene::start_with(&config).await
}

fn noul(instructions: &str) -> Value {
    json!({"model": MODEL, "state": "It is.", "questions": {"q": {"type": "noul", "instructions": instructions}}})
}

/// Returns the bodies of the chat requests, one for each sample.
fn bodies(upstream: &FakeUpstream) -> Vec<Value> {
    let requests = upstream.requests();
    let drawn = requests
        .iter()
        .filter(|request| request.path.ends_with("/chat/completions"));
    drawn.map(|request| request.json().unwrap()).collect()
}

#[tokio::test]
async fn a_model_that_returns_no_label_is_sampled_once() {
    let upstream = FakeUpstream::start().await;
    upstream.set_default(Reply::text("I would rather not say."));
    let scene = drawn(&upstream).await;
    let response = scene.post(DECISIONS, &noul("Is it?")).await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json()["answers"]["q"], json!({"type": "refusal"}));
    let bodies = bodies(&upstream);
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(bodies[0]["max_tokens"], 16);
    scene.finish().await;
}

#[tokio::test]
async fn equal_samples_give_certainty_only_after_the_server_has_varied() {
    let upstream = FakeUpstream::start().await;
    let scene = drawn(&upstream).await;
    let mut found = Vec::new();
    for truth in ["yes=1 no=0", "yes=0.5 no=0.5", "yes=1 no=0"] {
        let asked = noul(&format!("[[decide * {truth}]] Is it?"));
        let answer = scene.post(DECISIONS, &asked).await.json()["answers"]["q"].clone();
        assert_eq!(answer["method"]["calls"], DRAWS, "{answer}");
        found.push(answer["noul"].as_f64().unwrap());
    }
    // The first estimate is based on one answer for each of two orders, the last one on all twenty
    // answers.
    assert!((found[0] - 3.0 / 4.0).abs() < 1e-9, "{found:?}");
    assert!((found[2] - 21.0 / 22.0).abs() < 1e-9, "{found:?}");
    let bodies = bodies(&upstream);
    assert_eq!(bodies.len() as u64, 3 * DRAWS);
    let mut seeds: Vec<i64> = bodies[..DRAWS as usize]
        .iter()
        .filter_map(|body| body["seed"].as_i64())
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len() as u64, DRAWS, "each sample has its own seed");
    scene.finish().await;
}

#[tokio::test]
async fn a_reasoning_model_gets_a_larger_cap_from_then_on() {
    let upstream = FakeUpstream::start().await;
    let scene = drawn(&upstream).await;
    let thinking = Answer::text("").reasoning(16).finish_reason("length");
    upstream.push(Reply::answer(thinking));
    upstream.set_default(Reply::text("A"));
    for expected in [&[16_u64, 4_096][..], &[4_096]] {
        let before = bodies(&upstream).len();
        let response = scene.post(DECISIONS, &noul("Is it?")).await;
        assert_eq!(
            response.json()["answers"]["q"]["type"],
            "noul",
            "{}",
            response.text()
        );
        let caps: Vec<u64> = bodies(&upstream)[before..]
            .iter()
            .filter_map(|body| body["max_tokens"].as_u64())
            .collect();
        assert_eq!(&caps[..expected.len()], expected);
        assert!(caps[expected.len()..].iter().all(|cap| *cap > 16), "{caps:?}");
    }
    scene.finish().await;
}

/// A server that ignores the cap uses up the question's tokens with its first answer.
#[tokio::test]
async fn sampling_stops_at_the_token_limit_of_a_question() {
    // Reported tokens of each answer, expected number of samples.
    for (completion, draws) in [(819, DRAWS), (16_384, 1), (1_000_000, 1)] {
        let upstream = FakeUpstream::start().await;
        let scene = drawn(&upstream).await;
        let usage = Usage::Fixed {
            prompt: 9,
            completion,
        };
        upstream.set_default(Reply::answer(Answer::text("A").usage(usage)));
        let response = scene.post(DECISIONS, &noul("Is it?")).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let body = response.json();
        assert_eq!(body["answers"]["q"]["method"]["calls"], draws, "{body}");
        assert_eq!(bodies(&upstream).len() as u64, draws);
        let row = scene.row(response.request_id()).await;
        assert_eq!(row["usage"]["output_tokens"], 0, "{row}");
        let charged = row["usage"]["input_tokens"].as_u64().unwrap();
        assert_eq!(nanos(&row["cost"]), i64::try_from(charged).unwrap() * 1_000);
        for (kind, tokens) in [
            ("charged_input", charged),
            ("upstream_input", 9 * draws),
            ("upstream_output", completion * draws),
        ] {
            let line =
                format!("tollgate_decision_tokens_total{{provider=\"drawn\",kind=\"{kind}\"}} {tokens}");
            until_metric(&scene.gateway, &line).await;
        }
        scene.finish().await;
    }
}

/// Running samples finish, and no others start. The question is charged for the finished samples.
#[tokio::test]
async fn sampling_stops_when_the_caller_disconnects() {
    let upstream = FakeUpstream::start().await;
    let scene = drawn(&upstream).await;
    let gate = Gate::new();
    upstream.push(Reply::text("A"));
    upstream.set_default(Reply::text("A").hold_head(&gate));
    let asked = noul("Is it?");
    let mut connection = scene.client().connect().await;
    let request = Request::json(DECISIONS, &asked).key(&scene.key.secret);
    connection.write(&request.bytes()).await.unwrap();
    upstream.wait_for_requests(9).await;
    drop(connection);
    gate.open();
    scene.settled().await;
    assert_eq!(bodies(&upstream).len(), 9);
    let rows = scene.rows().await;
    assert_eq!(
        (rows.len(), &rows[0]["outcome"]),
        (1, &json!("client_gone")),
        "{rows:?}"
    );
    assert!(nanos(&rows[0]["cost"]) > 0, "{rows:?}");
    scene.finish().await;
}

#[tokio::test]
async fn a_question_fails_if_its_server_fails() {
    let upstream = FakeUpstream::start().await;
    let scene = drawn(&upstream).await;
    upstream.set_default(Reply::error(500, "server_error", "no"));
    let response = scene.post(DECISIONS, &noul("Is it?")).await;
    assert_error("a failing server", &response, "upstream_error", None);
    scene.finish().await;
}
